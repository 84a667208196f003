// Package memory keeps jobs in this process's memory: the store of tests, of
// the crash harness and of programs whose work may die with them. It keeps
// every promise of the store but durability.
package memory

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory/internal/fault"
)

// Config is what a store is made of. The zero value is ready for use.
type Config struct {
	// Clock is what Now tells and what a zero now means; nil = the machine's.
	Clock clock.Clock
	// Faults breaks promises on purpose. Its type is internal: only the tests
	// below this directory can set it.
	Faults fault.Set
}

// Store is a store.Store in memory, safe for concurrent use. One lock guards
// everything: each call is one transaction.
type Store struct {
	clock  clock.Clock
	faults fault.Set

	mu          sync.Mutex
	lastSeq     int64
	rows        map[int64]*row
	order       []*row // by sequence; what was dropped stays, marked, until compacted
	dropped     int    // rows of order that are gone
	queues      map[string]*queue
	uniques     map[string]*row        // live jobs by their unique key
	reserved    map[string]reservation // unique keys that stay taken after their job's end
	keys        map[keyName]*keyLine
	gates       map[string]*store.Gate
	waiting     map[string]map[int64]*row // queued jobs by target
	pausedKinds map[string]bool
	periodics   map[string]store.Periodic
	records     records
	limits      heap // queued jobs with a deadline, by deadline
	done        heap // succeeded and cancelled, by end
	dead        heap // failed, by end
	processes   map[int64]*process
	lastID      int64 // of processes
	redrives    []store.Redrive
	audit       []store.AuditRow
	wakes       map[chan struct{}]struct{}
	asOf        time.Time // the running call's now, cut; zero where it has none
	settles     int       // applied so far; fault.Set counts by it
	cursor      int64     // highest sequence ever claimed; used by fault.SkipLate
	untold      store.UntoldEnds
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Flow  = (*Store)(nil)
)

// row is one job with its ledger and its places in the ordered structures.
type row struct {
	job       job.Job
	attempts  []job.Attempt
	ordered   bool          // a cancel order waits for this lease
	gone      bool          // dropped by retention
	uniqueFor time.Duration // how long its unique key stays taken at least
	pending   bool          // of an open transaction: it takes its place in its key, and is seen by nobody
	shelf     *shelf        // where it waits; nil = nowhere
	place     int           // in the heap of its state
	limit     int           // in limits
}

// process is a registered process with the leases it holds.
type process struct {
	store.Process
	leases map[int64]*row
}

// New returns an empty store.
func New(c Config) *Store {
	if c.Clock == nil {
		c.Clock = clock.System{}
	}
	byEnd := func(a, b *row) bool {
		if !a.job.EndedAt.Equal(b.job.EndedAt) {
			return a.job.EndedAt.Before(b.job.EndedAt)
		}
		return a.job.Seq < b.job.Seq
	}
	byDeadline := func(a, b *row) bool {
		if !a.job.DeadlineAt.Equal(b.job.DeadlineAt) {
			return a.job.DeadlineAt.Before(b.job.DeadlineAt)
		}
		return a.job.Seq < b.job.Seq
	}
	return &Store{
		clock: c.Clock, faults: c.Faults,
		rows: map[int64]*row{}, queues: map[string]*queue{}, uniques: map[string]*row{},
		reserved: map[string]reservation{}, keys: map[keyName]*keyLine{}, gates: map[string]*store.Gate{}, waiting: map[string]map[int64]*row{},
		pausedKinds: map[string]bool{}, periodics: map[string]store.Periodic{},
		limits:    heap{less: byDeadline, place: func(r *row) *int { return &r.limit }},
		done:      heap{less: byEnd, place: place},
		dead:      heap{less: byEnd, place: place},
		processes: map[int64]*process{}, wakes: map[chan struct{}]struct{}{},
	}
}

func place(r *row) *int { return &r.place }

// Now returns the clock's time.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	return store.Instant(s.clock.Now()), ctx.Err()
}

// Close ends the wakes. What was kept is gone with the last reference.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch := range s.wakes {
		s.unwake(ch)
	}
	return nil
}

// Wakes receives after anything became queued.
func (s *Store) Wakes(ctx context.Context) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := make(chan struct{}, 1)
	s.wakes[ch] = struct{}{}
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unwake(ch)
	})
	return ch, ctx.Err()
}

func (s *Store) unwake(ch chan struct{}) {
	if _, open := s.wakes[ch]; open {
		delete(s.wakes, ch)
		close(ch)
	}
}

func (s *Store) wake() {
	for ch := range s.wakes {
		select {
		case ch <- struct{}{}:
		default: // one wake says it all
		}
	}
}

// begin opens the one transaction that every call is. The caller unlocks.
func (s *Store) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	s.asOf = time.Time{}
	return nil
}

// at returns now, or the clock's time for zero, and remembers it for looks.
func (s *Store) at(now time.Time) time.Time {
	if now.IsZero() {
		now = s.clock.Now()
	}
	s.asOf = store.Instant(now)
	return now
}

// find returns the row or ErrNotFound.
func (s *Store) find(seq int64) (*row, error) {
	r := s.rows[seq]
	if r == nil {
		return nil, store.ErrNotFound
	}
	return r, nil
}

// add brings a new row in. Sequence numbers come in order but for those that
// a transaction held back.
func (s *Store) add(r *row) {
	r.place, r.limit, r.pending = absent, absent, false
	s.rows[r.job.Seq] = r
	if n := len(s.order); n == 0 || s.order[n-1].job.Seq < r.job.Seq {
		s.order = append(s.order, r)
	} else {
		s.order = slices.Insert(s.order, s.search(r.job.Seq), r)
	}
	s.enter(r)
	s.promote(keyOf(r))
}

// search returns where the first row at or above the sequence stands.
func (s *Store) search(seq int64) int {
	i, _ := slices.BinarySearchFunc(s.order, seq, func(r *row, seq int64) int { return cmp.Compare(r.job.Seq, seq) })
	return i
}

// change moves a row from what it was to what f makes of it: the one place
// where indexes and counts follow a job.
func (s *Store) change(r *row, f func(j *job.Job)) {
	s.leave(r)
	f(&r.job)
	s.enter(r)
	s.promote(keyOf(r))
}

func (s *Store) enter(r *row) {
	j := &r.job
	q := s.queue(j.Queue)
	q.counts[j.State]++
	if j.Unique != "" && j.State.Live() {
		s.uniques[j.Unique] = r
	}
	s.lineUp(r)
	switch j.State {
	case job.Queued:
		if j.Blocked = j.Key != "" && !s.faults.BlockedClaimable; !j.Blocked {
			s.shelve(r)
		} // else by promote
		if !j.DeadlineAt.IsZero() {
			s.limits.push(r)
		}
		if j.Target != "" {
			s.await(r)
		}
	case job.Running:
		if p := s.processes[j.Process]; p != nil {
			p.leases[j.Seq] = r
		}
	case job.Succeeded, job.Cancelled:
		s.done.push(r)
	case job.Failed:
		s.dead.push(r)
	}
}

func (s *Store) leave(r *row) {
	j := &r.job
	q := s.queue(j.Queue)
	q.counts[j.State]--
	if s.uniques[j.Unique] == r {
		delete(s.uniques, j.Unique)
	}
	s.stepOut(r)
	switch j.State {
	case job.Queued:
		s.unshelve(r)
		s.limits.remove(r)
		if j.Blocked = false; j.Target != "" {
			s.forget(r)
		}
	case job.Running:
		if p := s.processes[j.Process]; p != nil {
			delete(p.leases, j.Seq)
		}
	case job.Succeeded, job.Cancelled:
		s.done.remove(r)
	case job.Failed:
		s.dead.remove(r)
	}
}

// drop forgets a row for good.
func (s *Store) drop(r *row) {
	s.leave(r)
	s.promote(keyOf(r))
	delete(s.rows, r.job.Seq)
	r.gone = true
	if s.dropped++; s.dropped > len(s.order)/2 {
		s.order = slices.DeleteFunc(s.order, func(r *row) bool { return r.gone })
		s.dropped = 0
	}
}
