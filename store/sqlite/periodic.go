package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// PutPeriodic adds or replaces a schedule.
func (s *Store) PutPeriodic(ctx context.Context, now time.Time, actor string, p store.Periodic) error {
	text, err := json.Marshal(p.Job)
	if err != nil {
		return fmt.Errorf("sqlite: periodic %q: %w", p.Name, err)
	}
	return s.write(ctx, "put periodic", now, func(t *tx) error {
		_, err := t.run("periodic_put", p.Name, p.Cron, p.Zone, string(p.Missed), string(text), micros(store.Instant(p.NextAt)), micros(store.Instant(p.LastAt)))
		if err != nil {
			return err
		}
		return t.audit(actor, "periodic.put", p.Name, p.Cron)
	})
}

// DropPeriodic forgets a schedule.
func (s *Store) DropPeriodic(ctx context.Context, now time.Time, actor, name string) error {
	return s.write(ctx, "drop periodic", now, func(t *tx) error {
		n, err := t.run("periodic_drop", name)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("store: periodic %q: %w", name, store.ErrNotFound)
		}
		return t.audit(actor, "periodic.drop", name, "")
	})
}

// Periodics lists all by name.
func (s *Store) Periodics(ctx context.Context) ([]store.Periodic, error) {
	list := []store.Periodic{}
	err := s.read(ctx, "periodics", false, func(c *conn) error {
		return c.query(ctx, "periodics", nil, func(r row) error {
			p := store.Periodic{
				Name: r.text(0), Cron: r.text(1), Zone: r.text(2), Missed: job.Missed(r.text(3)), NextAt: r.at(5), LastAt: r.at(6),
			}
			if err := json.Unmarshal([]byte(r.text(4)), &p.Job); err != nil {
				return fmt.Errorf("sqlite: periodic %q: %w", p.Name, err)
			}
			list = append(list, p)
			return nil
		})
	})
	return list, err
}

// Fire enqueues the jobs of a schedule and moves it on, once.
func (s *Store) Fire(ctx context.Context, now time.Time, name string, from, to time.Time, jobs []job.New) (bool, error) {
	fired := false
	err := s.write(ctx, "fire", now, func(t *tx) error {
		r, err := t.one(t.ctx, "periodic_next", name)
		if err != nil || r == nil || !r.at(0).Equal(store.Instant(from)) {
			return err
		}
		fired = true
		var last any
		if len(jobs) > 0 {
			last = micros(store.Instant(from))
			prepared, err := prepare(t.now, jobs)
			if err != nil {
				return err
			}
			if _, err := t.enqueue(prepared); err != nil {
				return err
			}
		}
		_, err = t.run("periodic_fire", name, micros(store.Instant(to)), last)
		return err
	})
	return fired && err == nil, err
}
