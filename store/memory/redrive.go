package memory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ebbhq/ebb/store"
)

// Matching counts what a redrive would move.
func (s *Store) Matching(ctx context.Context, f store.Filter, limit int) (int, error) {
	if err := store.CheckRedrive(f); err != nil {
		return 0, err
	}
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	return len(s.above(0, &f, limit)), nil
}

// above returns up to limit matching rows with a higher sequence, in order.
func (s *Store) above(seq int64, f *store.Filter, limit int) []*row {
	var rows []*row
	for _, r := range s.order[s.search(seq+1):] {
		if len(rows) >= limit {
			break
		}
		if !r.gone && f.Matches(&r.job) {
			rows = append(rows, r)
		}
	}
	return rows
}

// StartRedrive remembers the order; steps carry it out.
func (s *Store) StartRedrive(ctx context.Context, now time.Time, r store.Redrive) (store.Redrive, error) {
	if err := store.CheckRedrive(r.Filter); err != nil {
		return r, err
	}
	if err := s.begin(ctx); err != nil {
		return r, err
	}
	defer s.mu.Unlock()
	now = s.at(now)
	r.ID, r.CreatedAt, r.DoneAt, r.Moved, r.Cursor = int64(len(s.redrives)+1), store.Instant(now), time.Time{}, 0, 0
	r.Filter.Seqs = slices.Clone(r.Filter.Seqs)
	s.redrives = append(s.redrives, r)
	s.record(now, r.Actor, "dead.redrive", strconv.FormatInt(r.ID, 10), r.Filter.String())
	return r, nil
}

// StepRedrive moves up to n jobs.
func (s *Store) StepRedrive(ctx context.Context, now time.Time, id int64, n int) (store.Redrive, error) {
	if err := s.begin(ctx); err != nil {
		return store.Redrive{}, err
	}
	defer s.mu.Unlock()
	if id < 1 || id > int64(len(s.redrives)) {
		return store.Redrive{}, fmt.Errorf("store: redrive %d: %w", id, store.ErrNotFound)
	}
	r := &s.redrives[id-1]
	if !r.DoneAt.IsZero() {
		return *r, nil
	}
	now = s.at(now)
	for _, next := range s.above(r.Cursor, &r.Filter, n) {
		if r.Cursor = next.job.Seq; s.requeue(next, now) {
			r.Moved++
		}
	}
	if len(s.above(r.Cursor, &r.Filter, 1)) == 0 {
		r.DoneAt = store.Instant(now)
	}
	return *r, nil
}

// Redrives lists the unfinished, oldest first, then the newest done.
func (s *Store) Redrives(ctx context.Context, limit int) ([]store.Redrive, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var list, done []store.Redrive
	for _, r := range s.redrives {
		if r.DoneAt.IsZero() {
			list = append(list, r)
		} else {
			done = append(done, r)
		}
	}
	slices.Reverse(done)
	list = append(list, done...)
	return list[:min(len(list), limit)], nil
}
