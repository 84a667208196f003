package memory

import (
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory/internal/fault"
)

// queue holds the waiting jobs of one queue in the order of claims: a heap
// for each kind and priority, so that a claim touches nothing that it may not
// take.
type queue struct {
	name   string
	paused bool
	strict bool
	counts map[job.State]int64
	lanes  map[string]*[job.MaxPriority + 1]heap
	less   func(a, b *row) bool
}

// queue returns the queue of the name, new if need be.
func (s *Store) queue(name string) *queue {
	q := s.queues[name]
	if q == nil {
		q = &queue{
			name: name, counts: map[job.State]int64{},
			lanes: map[string]*[job.MaxPriority + 1]heap{}, less: byDue(s.faults),
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

// lane returns the heap that the job waits in.
func (q *queue) lane(j *job.Job) *heap {
	lane := q.lanes[j.Kind]
	if lane == nil {
		lane = &[job.MaxPriority + 1]heap{}
		for p := range lane {
			lane[p] = heap{less: q.less, place: place}
		}
		q.lanes[j.Kind] = lane
	}
	return &lane[j.Priority]
}

// least returns the first due row of the kinds, nil if there is none.
func (q *queue) least(now time.Time, kinds []string) *row {
	for p := range job.MaxPriority + 1 {
		var first *row
		for _, kind := range kinds {
			lane := q.lanes[kind]
			if lane == nil {
				continue
			}
			if r := lane[p].min(); r != nil && !r.job.DueAt.After(now) && (first == nil || q.less(r, first)) {
				first = r
			}
		}
		if first != nil {
			return first
		}
	}
	return nil
}

// kinds lists all kinds that ever waited here.
func (q *queue) kinds() []string {
	kinds := make([]string, 0, len(q.lanes))
	for kind := range q.lanes {
		kinds = append(kinds, kind)
	}
	return kinds
}

// dueAt returns the earliest due time of the kinds; zero if nothing waits.
func (q *queue) dueAt(kinds []string) time.Time {
	var first time.Time
	for _, kind := range kinds {
		lane := q.lanes[kind]
		if lane == nil {
			continue
		}
		for p := range lane {
			if r := lane[p].min(); r != nil && (first.IsZero() || r.job.DueAt.Before(first)) {
				first = r.job.DueAt
			}
		}
	}
	return first
}

// claim leases the least rows of the queue to the process.
func (s *Store) claim(now time.Time, p *process, c store.Claim) []job.Job {
	q := s.queues[c.Queue]
	if q == nil || q.paused {
		return nil
	}
	limit, kinds := c.Limit, slices.Compact(slices.Sorted(slices.Values(c.Kinds)))
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
			q.lane(&r.job).remove(r)
			aside = append(aside, r)
			continue
		}
		s.lease(r, now, p)
		claimed = append(claimed, copied(&r.job))
	}
	for _, r := range aside {
		q.lane(&r.job).push(r)
	}
	if s.faults.DoubleLease && len(claimed) < limit {
		claimed = append(claimed, s.steal(now, p, c)...)
	}
	return claimed
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

// lease gives a row to the process.
func (s *Store) lease(r *row, now time.Time, p *process) {
	s.cursor = max(s.cursor, r.job.Seq)
	s.change(r, func(j *job.Job) {
		j.State, j.Process, j.LeasedAt = job.Running, p.ID, now
		j.Begun = j.History.Crashes < store.SuspectCrashes
		if !s.faults.SameEpoch {
			j.Epoch++
		}
	})
}

// steal is fault.DoubleLease: it takes what another process is running.
func (s *Store) steal(now time.Time, p *process, c store.Claim) []job.Job {
	for _, r := range s.order {
		if j := &r.job; j.State == job.Running && j.Queue == c.Queue && j.Process != p.ID {
			s.lease(r, now, p)
			return []job.Job{copied(j)}
		}
	}
	return nil
}
