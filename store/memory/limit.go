package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// rearrange changes what decides where a queue's jobs wait, and moves them.
func (s *Store) rearrange(q *queue, change func()) {
	var waiting []*row
	for _, r := range s.order {
		if !r.gone && r.job.Queue == q.name && r.shelf != nil {
			waiting = append(waiting, r)
			s.unshelve(r)
		}
	}
	change()
	for _, r := range waiting {
		s.shelve(r)
	}
}

// LimitQueue bounds a queue over all processes.
func (s *Store) LimitQueue(ctx context.Context, now time.Time, actor, queue string, l store.QueueLimit) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now = s.at(now)
	q := s.queue(queue)
	s.rearrange(q, func() { q.limit = l })
	s.record(now, actor, "queue.limit", queue, fmt.Sprintf("concurrency %d, rate %g", l.Concurrency, l.Rate))
	return nil
}

// PauseKind holds a kind back or lets it go.
func (s *Store) PauseKind(ctx context.Context, now time.Time, actor, kind string, paused bool) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	act := "kind.pause"
	if paused {
		s.pausedKinds[kind] = true
	} else {
		act = "kind.resume"
		delete(s.pausedKinds, kind)
		s.wake()
	}
	s.record(s.at(now), actor, act, kind, "")
	return nil
}

// PausedKinds lists them by name.
func (s *Store) PausedKinds(ctx context.Context) ([]string, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.pausedKinds)), nil
}

// await remembers that the row is queued for its target.
func (s *Store) await(r *row) {
	rows := s.waiting[r.job.Target]
	if rows == nil {
		rows = map[int64]*row{}
		s.waiting[r.job.Target] = rows
	}
	rows[r.job.Seq] = r
}

// forget forgets it again.
func (s *Store) forget(r *row) {
	rows := s.waiting[r.job.Target]
	if delete(rows, r.job.Seq); len(rows) == 0 {
		delete(s.waiting, r.job.Target)
	}
}

// waitingFor lists the queued jobs of the target that are meant, by sequence.
func (s *Store) waitingFor(target string, meant func(*job.Job) bool) []*row {
	var rows []*row
	for _, r := range s.waiting[target] {
		if meant(&r.job) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Compare(a.job.Seq, b.job.Seq) })
	return rows
}

// EndWaiting ends queued jobs of a target that will not start.
func (s *Store) EndWaiting(ctx context.Context, now time.Time, e store.Ending) ([]store.EndCount, error) {
	if err := store.CheckEnding(e); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	at := store.Instant(s.at(now))
	ended := s.waitingFor(e.Target, e.Selects)
	ended = ended[:min(len(ended), max(e.Limit, 0))]
	var counts []store.EndCount
	for _, r := range ended {
		counts = append(counts, store.EndOf(&r.job, e.To, e.Cause))
		s.change(r, func(j *job.Job) {
			if j.State, j.Cause = e.To, e.Cause; e.To == job.Failed {
				j.EndedAt = at
			}
		})
	}
	for _, r := range ended {
		s.headFailed(r)
	}
	return store.SumEnds(counts), nil
}

// HeldBefore lists queued jobs of the target that gates have held.
func (s *Store) HeldBefore(ctx context.Context, target string, after int64, limit int) ([]job.Job, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	list := []job.Job{}
	for _, r := range s.waitingFor(target, func(j *job.Job) bool { return j.Seq > after && j.History.Held > 0 }) {
		if len(list) < limit {
			list = append(list, copied(&r.job))
		}
	}
	return list, nil
}
