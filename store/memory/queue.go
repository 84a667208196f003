package memory

import (
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory/internal/fault"
)

// queue holds the waiting jobs of one queue in the order of claims: a shelf
// for each kind, so that a claim touches nothing that it may not take, and
// the lanes of its targets.
type queue struct {
	name   string
	paused bool
	strict bool
	limit  store.QueueLimit
	counts map[job.State]int64
	plain  map[string]*shelf // by kind
	lanes  map[string]*lane  // by target
	less   func(a, b *row) bool
}

// queue returns the queue of the name, new if need be.
func (s *Store) queue(name string) *queue {
	q := s.queues[name]
	if q == nil {
		q = &queue{
			name: name, counts: map[job.State]int64{},
			plain: map[string]*shelf{}, lanes: map[string]*lane{}, less: byDue(s.faults),
		}
		s.queues[name] = q
	}
	return q
}

// byDue orders jobs of one priority.
func byDue(faults fault.Set) func(a, b *row) bool {
	return func(a, b *row) bool {
		if !a.job.DueAt.Equal(b.job.DueAt) {
			return a.job.DueAt.Before(b.job.DueAt)
		}
		if faults.NewestFirst {
			return a.job.Seq > b.job.Seq
		}
		return a.job.Seq < b.job.Seq
	}
}

// before orders all jobs of a place.
func (q *queue) before(a, b *row) bool {
	if a.job.Priority != b.job.Priority {
		return a.job.Priority < b.job.Priority
	}
	return q.less(a, b)
}

// laneOf names the lane that the job waits in; empty = the plain one.
func (q *queue) laneOf(j *job.Job) string {
	switch {
	case q.strict:
		return ""
	case j.Target != "":
		return j.Target
	case q.limit != store.QueueLimit{}:
		return store.QueueTarget(q.name)
	}
	return ""
}

// shelve brings a queued row to where it waits.
func (s *Store) shelve(r *row) {
	q := s.queue(r.job.Queue)
	if target := q.laneOf(&r.job); target != "" {
		q.lane(target).push(r, s.asOf)
	} else {
		sh := q.plain[r.job.Kind]
		if sh == nil {
			sh = newShelf(q.less)
			q.plain[r.job.Kind] = sh
		}
		sh.push(r)
	}
	s.wake()
}

// unshelve takes a row from where it waits, if it does.
func (s *Store) unshelve(r *row) {
	if sh := r.shelf; sh != nil {
		sh.remove(r)
	}
}

// least returns the first due row of the kinds, nil if there is none.
func (q *queue) least(now time.Time, kinds []string) *row {
	for p := range job.MaxPriority + 1 {
		var first *row
		for _, kind := range kinds {
			sh := q.plain[kind]
			if sh == nil {
				continue
			}
			if r := sh.heaps[p].min(); r != nil && !r.job.DueAt.After(now) && (first == nil || q.less(r, first)) {
				first = r
			}
		}
		if first != nil {
			return first
		}
	}
	return nil
}

// kinds lists all kinds that ever waited here without a lane.
func (q *queue) kinds() []string {
	kinds := make([]string, 0, len(q.plain))
	for kind := range q.plain {
		kinds = append(kinds, kind)
	}
	return kinds
}

// dueAt returns the earliest due time of a job that no other blocks; zero if
// nothing waits.
func (q *queue) dueAt() time.Time {
	var first time.Time
	for _, sh := range q.plain {
		first = earliest(first, sh.dueAt())
	}
	for _, l := range q.lanes {
		for _, p := range l.parts {
			first = earliest(first, p.dueAt())
		}
	}
	return first
}

// claim leases the least rows of the queue's plain lane to the process.
func (s *Store) claim(now time.Time, p *process, c store.Claim) []job.Job {
	q := s.queues[c.Queue]
	if q == nil || q.paused {
		return nil
	}
	limit, kinds := c.Limit, s.running(c.Kinds)
	if q.strict && !s.faults.NoStrict {
		if limit = min(limit, 1); q.counts[job.Running] > 0 {
			return nil
		}
	}
	horizon := now
	if s.faults.NoDue {
		horizon = now.Add(time.Hour)
	}
	var claimed []job.Job
	var aside []*row // may not be taken, but stand before others
	for len(claimed) < limit {
		r := q.next(horizon, kinds)
		if r == nil {
			break
		}
		if passed(&r.job, now) || s.faults.SkipLate && r.job.Epoch == 0 && r.job.Seq < s.cursor {
			r.shelf.remove(r)
			aside = append(aside, r)
			continue
		}
		s.lease(r, now, p, true)
		claimed = append(claimed, copied(&r.job))
	}
	for _, r := range aside {
		q.plain[r.job.Kind].push(r)
	}
	if s.faults.DoubleLease && len(claimed) < limit {
		claimed = append(claimed, s.steal(now, p, c)...)
	}
	return claimed
}

// running returns the kinds, each once, without those that are paused.
func (s *Store) running(kinds []string) []string {
	list := slices.Compact(slices.Sorted(slices.Values(kinds)))
	return slices.DeleteFunc(list, func(kind string) bool { return s.pausedKinds[kind] })
}

// next returns the row that a claim of the kinds looks at next. In a strict
// queue there is one candidate, whatever its kind.
func (q *queue) next(now time.Time, kinds []string) *row {
	if !q.strict {
		return q.least(now, kinds)
	}
	r := q.least(now, q.kinds())
	if r == nil || !passed(&r.job, now) && !slices.Contains(kinds, r.job.Kind) {
		return nil
	}
	return r
}

// passed reports whether the job may not start any more.
func passed(j *job.Job, now time.Time) bool {
	return !j.DeadlineAt.IsZero() && j.DeadlineAt.Before(now)
}

// lease gives a row to the process; begun unless it is a suspect, if at all.
func (s *Store) lease(r *row, now time.Time, p *process, begun bool) {
	s.cursor = max(s.cursor, r.job.Seq)
	s.change(r, func(j *job.Job) {
		j.State, j.Process, j.LeasedAt = job.Running, p.ID, now
		j.Begun = begun && j.History.Crashes < store.SuspectCrashes
		if !s.faults.SameEpoch {
			j.Epoch++
		}
	})
}

// steal is fault.DoubleLease: it takes what another process is running.
func (s *Store) steal(now time.Time, p *process, c store.Claim) []job.Job {
	for _, r := range s.order {
		if j := &r.job; j.State == job.Running && j.Queue == c.Queue && j.Process != p.ID {
			s.lease(r, now, p, true)
			return []job.Job{copied(j)}
		}
	}
	return nil
}
