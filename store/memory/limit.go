package memory

import (
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

// EndWaiting ends queued jobs of a target that will not start.
func (s *Store) EndWaiting(ctx context.Context, now time.Time, e store.Ending) (int, error) {
	if err := store.CheckEnding(e); err != nil {
		return 0, err
	}
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	at := store.Instant(s.at(now))
	var ended []*row
	for _, r := range s.order {
		if len(ended) < e.Limit && !r.gone && e.Selects(&r.job) {
			ended = append(ended, r)
		}
	}
	for _, r := range ended {
		s.change(r, func(j *job.Job) {
			if j.State, j.Cause = e.To, e.Cause; e.To == job.Failed {
				j.EndedAt = at
			}
		})
	}
	for _, r := range ended {
		s.headFailed(r)
	}
	return len(ended), nil
}

// HeldBefore lists queued jobs of the target that gates have held.
func (s *Store) HeldBefore(ctx context.Context, target string, after int64, limit int) ([]job.Job, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	list := []job.Job{}
	for _, r := range s.order[s.search(after+1):] {
		if j := &r.job; len(list) < limit && !r.gone && j.State == job.Queued && j.Target == target && j.History.Held > 0 {
			list = append(list, copied(j))
		}
	}
	return list, nil
}
