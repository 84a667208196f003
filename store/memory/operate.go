package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// record adds an audit row.
func (s *Store) record(now time.Time, actor, act, what, detail string) {
	s.audit = append(s.audit, store.AuditRow{At: store.Instant(now), Actor: actor, Act: act, What: what, Detail: detail})
}

// Cancel ends a waiting job and orders a running one to stop.
func (s *Store) Cancel(ctx context.Context, now time.Time, actor string, seq int64) (job.State, error) {
	if err := s.begin(ctx); err != nil {
		return "", err
	}
	defer s.mu.Unlock()
	r, err := s.find(seq)
	if err != nil {
		return "", err
	}
	now = s.at(now)
	switch r.job.State {
	case job.Queued, job.Parked:
		from := r.job.State
		s.change(r, func(j *job.Job) {
			j.State, j.Cause, j.Config, j.EndedAt = job.Cancelled, retry.CauseNone, "", store.Instant(now)
		})
		if s.faults.DriftCounts {
			s.queues[r.job.Queue].counts[from]++
		}
	case job.Running:
		r.ordered = !s.faults.LoseOrders
	default:
		return r.job.State, fmt.Errorf("store: cancel: %s is %s: %w", r.job.ID(), r.job.State, store.ErrState)
	}
	s.record(now, actor, "job.cancel", r.job.ID(), "")
	return r.job.State, nil
}

// Retry queues a job again, or makes a waiting one due now.
func (s *Store) Retry(ctx context.Context, now time.Time, actor string, seq int64) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	r, err := s.find(seq)
	if err != nil {
		return err
	}
	now = s.at(now)
	switch r.job.State {
	case job.Queued:
		if at := store.Instant(now); at.Before(r.job.DueAt) {
			s.change(r, func(j *job.Job) { j.DueAt = at })
		}
	case job.Failed, job.Parked:
		if !s.requeue(r, now) {
			return fmt.Errorf("store: retry: %s: its unique key %q is taken by a living job: %w", r.job.ID(), r.job.Unique, store.ErrState)
		}
	default:
		return fmt.Errorf("store: retry: %s is %s: %w", r.job.ID(), r.job.State, store.ErrState)
	}
	s.record(now, actor, "job.retry", r.job.ID(), "")
	return nil
}

// requeue queues a failed or parked job again, unless its unique key was taken
// since.
func (s *Store) requeue(r *row, now time.Time) bool {
	if other := s.uniques[r.job.Unique]; r.job.Unique != "" && other != nil && other != r {
		return false
	}
	s.change(r, func(j *job.Job) {
		if passed(j, store.Instant(now)) {
			j.DeadlineAt = time.Time{}
		}
		history := store.Requeued(j.History, j.Cause)
		j.State, j.Cause, j.Config, j.EndedAt, j.DueAt = job.Queued, retry.CauseNone, "", time.Time{}, store.Instant(now)
		s.remember(j, history)
	})
	return true
}

// PauseQueue holds a queue back or lets it go.
func (s *Store) PauseQueue(ctx context.Context, now time.Time, actor, queue string, paused bool) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.queue(queue).paused = paused
	act := "queue.pause"
	if !paused {
		act = "queue.resume"
		s.wake()
	}
	s.record(s.at(now), actor, act, queue, "")
	return nil
}

// StrictQueue declares a queue's order.
func (s *Store) StrictQueue(ctx context.Context, queue string, strict bool) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	q := s.queue(queue)
	s.rearrange(q, func() { q.strict = strict })
	return nil
}

// Maintain expires deadlines and records and ends retention. There is nothing to fold.
func (s *Store) Maintain(ctx context.Context, m store.Maintenance) (store.Maintained, error) {
	if err := s.begin(ctx); err != nil {
		return store.Maintained{}, err
	}
	defer s.mu.Unlock()
	now, left := store.Instant(s.at(m.Now)), m.Limit
	var expired []*row
	var counts []store.EndCount
	for ; left > 0; left-- {
		r := s.limits.min()
		if r == nil || !passed(&r.job, now) {
			break
		}
		s.change(r, func(j *job.Job) { j.State, j.Cause, j.EndedAt = job.Failed, retry.CauseExpired, now })
		expired = append(expired, r)
		counts = append(counts, store.EndOf(&r.job, job.Failed, retry.CauseExpired))
	}
	for _, r := range expired {
		s.headFailed(r)
	}
	for _, kept := range []struct {
		ended *heap
		time  time.Duration
	}{{&s.done, m.SucceededKept}, {&s.dead, m.FailedKept}} {
		for ; left > 0 && kept.time > 0; left-- {
			r := kept.ended.min()
			if r == nil || now.Sub(r.job.EndedAt) < kept.time {
				break
			}
			s.drop(r)
		}
	}
	left -= s.records.expire(now, left)
	return store.Maintained{Expired: store.SumEnds(counts), More: left == 0}, nil
}
