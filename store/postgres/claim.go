package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// claiming is one claim of a turn.
type claiming struct {
	store.Claim
	strict bool // taken to be of a strict queue
	scan   *scanned
	jobs   []job.Job
}

// claim queues the claims in their order.
func (w *turning) claim(claims []store.Claim) {
	s := w.store
	var lock []string
	s.mu.Lock()
	for _, c := range claims {
		w.claims = append(w.claims, &claiming{Claim: c, strict: s.strict[c.Queue], scan: everything()})
		if s.strict[c.Queue] {
			lock = append(lock, c.Queue)
		}
	}
	s.mu.Unlock()
	if len(lock) > 0 {
		w.batch.Queue(statement("lock_strict"), lock)
	}
	for _, c := range w.claims {
		w.claimOne(c)
	}
}

// claimOne queues one claim.
func (w *turning) claimOne(c *claiming) {
	if c.Limit <= 0 || len(c.Kinds) == 0 {
		return
	}
	if c.strict {
		w.query("claim_strict", []any{w.process, c.Queue, c.Kinds, c.Limit, nullable(w.now)}, w.claimed(c))
		return
	}
	s := w.store
	if w.now.IsZero() {
		c.scan = s.scans.begin(c.Queue, c.Kinds)
	}
	if c.scan.beside {
		s.lookBeside(c)
	}
	r := &c.scan.ranges
	args := []any{
		w.process, c.Queue, c.Kinds, c.Limit, nullable(w.now), r.priorities, r.lowAt, r.lowSeq, r.highAt, r.highSeqs,
	}
	looks := c.scan.lane != nil && (c.scan.whole || c.scan.behind)
	began := &w.entered
	if looks && (w.late || w.batch.Len() > 1) { // more than entering came before it
		began = w.time()
	}
	w.query("claim", args, w.claimed(c))
	ended := began
	if looks {
		ended = w.time()
	}
	w.then = append(w.then, func() {
		if slices.Contains(w.strict, c.Queue) {
			return // it was not let in, and saw nothing
		}
		c.jobs = ordered(c.jobs)
		s.lastClaim.Store(int64(len(c.jobs)))
		if again := s.scans.end(c.scan, c.jobs, len(c.jobs) >= c.Limit, w.clock, ended.Sub(*began)); again > 0 {
			s.wakes.localAfter(again)
		}
	})
}

// time asks for the database's clock at this place of the batch. Ours would not
// do: answers come together when the last statement is done.
func (w *turning) time() *time.Time {
	at := new(time.Time)
	w.batch.Queue(statement("clock")).QueryRow(func(r pgx.Row) error { return r.Scan(at) })
	return at
}

// ordered returns the jobs in the order of claims. They come by where their
// rows lie, which mostly is that order.
func ordered(jobs []job.Job) []job.Job {
	sorted := true
	for i := 1; i < len(jobs) && sorted; i++ {
		sorted = compareJobs(&jobs[i-1], &jobs[i]) < 0
	}
	if sorted {
		return jobs
	}
	places := make([]int, len(jobs)) // a job is big: it is moved once
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(a, b int) int { return compareJobs(&jobs[a], &jobs[b]) })
	list := make([]job.Job, len(jobs))
	for i, at := range places {
		list[i] = jobs[at]
	}
	return list
}

// compareJobs is the order of claims.
func compareJobs(a, b *job.Job) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.DueAt.Compare(b.DueAt), cmp.Compare(a.Seq, b.Seq))
}

// claimed reads a row that was claimed.
func (w *turning) claimed(c *claiming) func(r *row) error {
	leasedAt := w.now
	return func(r *row) error {
		if leasedAt.IsZero() {
			leasedAt = w.clock
		}
		if c.jobs == nil { // about as many as the last time
			c.jobs = make([]job.Job, 0, min(c.Limit, int(w.store.lastClaim.Load())+8))
		}
		c.jobs = append(c.jobs, job.Job{State: job.Running, Process: w.process, LeasedAt: leasedAt})
		j := &c.jobs[len(c.jobs)-1]
		if err := r.moved(j); err != nil {
			return err
		}
		j.Begun = r.flag()
		w.store.leasedKey(j)
		return nil
	}
}

// claimAgain repeats claims that took a queue for strict that is not, or the
// other way round: such a claim took nothing. It happens once when a queue is
// declared by another process.
func (w *turning) claimAgain(ctx context.Context) error {
	s := w.store
	var again []*claiming
	s.mu.Lock()
	for _, c := range w.claims {
		strict := slices.Contains(w.strict, c.Queue)
		s.strict[c.Queue] = strict
		if strict != c.strict {
			again = append(again, c)
		}
	}
	s.mu.Unlock()
	if len(again) == 0 {
		return nil
	}
	next := s.turning(w.process, w.now)
	claims := make([]store.Claim, len(again))
	for i, c := range again {
		claims[i] = c.Claim
	}
	next.enter(claims)
	next.claim(claims)
	if err := s.send(ctx, next.batch); err != nil {
		return err
	}
	next.ended()
	for i, c := range again {
		c.jobs = next.claims[i].jobs
	}
	return nil
}
