package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Recent lists what ended lately.
func (s *Store) Recent(ctx context.Context, since time.Time, limit int) ([]store.Ended, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	list := []store.Ended{}
	for _, r := range s.order {
		j := &r.job
		if r.gone || j.EndedAt.IsZero() || j.EndedAt.Before(since) || j.State == job.Parked {
			continue
		}
		ready := j.EnqueuedAt
		if j.History.Starts <= 1 && j.DueAt.After(ready) {
			ready = j.DueAt
		}
		list = append(list, store.Ended{Seq: j.Seq, State: j.State, At: j.EndedAt, ReadyAt: ready, Queue: j.Queue, Policy: j.Policy, Starts: j.History.Starts})
	}
	slices.SortFunc(list, func(a, b store.Ended) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Seq, a.Seq)) })
	return list[:min(len(list), max(limit, 0))], nil
}
