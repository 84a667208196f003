package memory

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// PutPeriodic adds or replaces a schedule.
func (s *Store) PutPeriodic(ctx context.Context, now time.Time, actor string, p store.Periodic) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if old, found := s.periodics[p.Name]; found && old.Cron == p.Cron && old.Zone == p.Zone {
		p.NextAt, p.LastAt = old.NextAt, old.LastAt
	}
	p.NextAt, p.LastAt, p.Job.Args = store.Instant(p.NextAt), store.Instant(p.LastAt), bytes.Clone(p.Job.Args)
	s.periodics[p.Name] = p
	s.record(s.at(now), actor, "periodic.put", p.Name, p.Cron)
	return nil
}

// DropPeriodic forgets a schedule.
func (s *Store) DropPeriodic(ctx context.Context, now time.Time, actor, name string) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if _, found := s.periodics[name]; !found {
		return fmt.Errorf("store: periodic %q: %w", name, store.ErrNotFound)
	}
	delete(s.periodics, name)
	s.record(s.at(now), actor, "periodic.drop", name, "")
	return nil
}

// Periodics lists all by name.
func (s *Store) Periodics(ctx context.Context) ([]store.Periodic, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	list := make([]store.Periodic, 0, len(s.periodics))
	for _, name := range slices.Sorted(maps.Keys(s.periodics)) {
		p := s.periodics[name]
		p.Job.Args = bytes.Clone(p.Job.Args)
		list = append(list, p)
	}
	return list, nil
}

// Fire enqueues the jobs of a schedule and moves it on, once.
func (s *Store) Fire(ctx context.Context, now time.Time, name string, from, to time.Time, jobs []job.New) (bool, error) {
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	p, found := s.periodics[name]
	if !found || !p.NextAt.Equal(store.Instant(from)) {
		return false, nil
	}
	staged, err := s.stage(now, jobs, nil)
	if err != nil {
		return false, err
	}
	s.commit(staged)
	if p.NextAt = store.Instant(to); len(jobs) > 0 {
		p.LastAt = store.Instant(from)
	}
	s.periodics[name] = p
	return true, nil
}
