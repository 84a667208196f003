package sqlite

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Register adds a process and releases what was parked under another config.
func (s *Store) Register(ctx context.Context, now time.Time, p store.Process) (store.Process, error) {
	err := s.write(ctx, "register", now, func(t *tx) error {
		p.Beat, p.BornAt, p.SeenAt = 0, t.instant(), t.instant()
		id, err := t.one(t.ctx, "register", p.Host, int64(p.PID), listText(p.Kinds), listText(p.Queues), p.Config, micros(p.BornAt),
			p.Version, p.Identity)
		if err != nil {
			return err
		}
		p.ID = id.int(0)
		var seqs []int64
		err = t.query(t.ctx, "parked_elsewhere", []any{jsonTexts(p.Kinds), p.Config}, func(r row) error {
			seqs = append(seqs, r.int(0))
			return nil
		})
		for _, seq := range seqs {
			if _, err := t.requeue(job.Parked, seq); err != nil {
				return err
			}
		}
		return err
	})
	return p, err
}

// listText tells an absent list from an empty one.
func listText(list []string) string {
	if list == nil {
		return "null"
	}
	return jsonTexts(list)
}

// Beat moves the counter and returns the waiting orders.
func (s *Store) Beat(ctx context.Context, now time.Time, process int64) ([]store.Ref, error) {
	var orders []store.Ref
	err := s.writeAs(ctx, goesFirst, "beat", now, func(t *tx) error {
		changed, err := t.run("beat", process, micros(t.instant()))
		if err != nil {
			return err
		}
		if changed == 0 {
			return store.ErrLostProcess
		}
		return t.query(t.ctx, "orders", []any{process}, func(r row) error {
			orders = append(orders, store.Ref{Seq: r.int(0), Epoch: r.int(1)})
			return nil
		})
	})
	return orders, err
}

// Leave removes a process unless it still holds a lease or a permit.
func (s *Store) Leave(ctx context.Context, process int64) error {
	return s.write(ctx, "leave", time.Time{}, func(t *tx) error {
		targets, err := t.grantedTo(process)
		if err != nil || len(targets) > 0 {
			return err
		}
		_, err = t.run("leave", process)
		return err
	})
}

// Processes lists all registered, oldest first.
func (s *Store) Processes(ctx context.Context) ([]store.Process, error) {
	list := []store.Process{}
	err := s.read(ctx, "processes", false, func(c *conn) error {
		return c.query(ctx, "processes", nil, func(r row) error {
			p := store.Process{
				ID: r.int(0), Host: r.text(1), PID: int(r.int(2)), Config: r.text(5), Beat: r.int(6), SeenAt: r.at(7), BornAt: r.at(8),
				Version: r.text(9), Identity: r.text(10),
			}
			if err := json.Unmarshal([]byte(r.text(3)), &p.Kinds); err != nil {
				return err
			}
			if err := json.Unmarshal([]byte(r.text(4)), &p.Queues); err != nil {
				return err
			}
			list = append(list, p)
			return nil
		})
	})
	return list, err
}

// Reap ends a process whose counter still stands at beat. decide must not
// call the store.
func (s *Store) Reap(ctx context.Context, now time.Time, process, beat int64, decide func(job.Job) store.Settle) (int, bool, error) {
	ended, reaped := 0, false
	err := s.write(ctx, "reap", now, func(t *tx) error {
		stands, err := t.one(t.ctx, "beat_of", process)
		if err != nil || stands == nil || stands.int(0) != beat {
			return err
		}
		reaped = true
		ended, err = t.reap(process, decide)
		return err
	})
	if err != nil {
		return 0, false, err
	}
	return ended, reaped, nil
}

func (t *tx) reap(process int64, decide func(job.Job) store.Settle) (int, error) {
	var settles []store.Settle
	var unbegun []store.Ref
	err := t.query(t.ctx, "leases", []any{process}, func(r row) error {
		j, err := readJob(r)
		if err != nil {
			return err
		}
		ref := store.Ref{Seq: j.Seq, Epoch: j.Epoch}
		if !j.Begun {
			unbegun = append(unbegun, ref)
			return nil
		}
		st := decide(j)
		st.Ref, st.Keep = ref, false
		settles = append(settles, st)
		return nil
	})
	if err != nil {
		return 0, err
	}
	if err := store.CheckSettles(settles); err != nil {
		return 0, err
	}
	if _, err := t.settle(process, settles); err != nil {
		return 0, err
	}
	if _, err := t.release(process, unbegun); err != nil {
		return 0, err
	}
	if err := t.abandon(process); err != nil {
		return 0, err
	}
	_, err = t.run("process_end", process)
	return len(settles) + len(unbegun), err
}

// NextDue returns the earliest due time or look of the kinds in the queues
// that are not paused.
func (s *Store) NextDue(ctx context.Context, queues, kinds []string) (time.Time, error) {
	var first time.Time
	err := s.read(ctx, "next due", true, func(c *conn) error {
		var open []string
		err := c.query(ctx, "running_queues", []any{jsonTexts(queues)}, func(r row) error {
			open = append(open, r.text(0))
			return nil
		})
		if err != nil || len(open) == 0 {
			return err
		}
		paused, err := c.pausedKinds(ctx)
		if err != nil {
			return err
		}
		known := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return slices.Contains(paused, kind) })
		due, err := c.one(ctx, "next_due", jsonTexts(open), jsonTexts(known))
		if err != nil {
			return err
		}
		look, err := c.one(ctx, "next_look", jsonTexts(open), jsonTexts(known), micros(store.Never))
		if err != nil {
			return err
		}
		first = earliest(due.at(0), look.at(0))
		return nil
	})
	return first, err
}

// queuesDue returns the earliest due time by queue.
func (c *conn) queuesDue(ctx context.Context, queues []string) (map[string]time.Time, error) {
	due := map[string]time.Time{}
	queues = slices.Compact(slices.Sorted(slices.Values(queues)))
	err := c.query(ctx, "queues_due", []any{jsonTexts(queues)}, func(r row) error {
		due[r.text(0)] = r.at(1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = c.query(ctx, "lanes_due", []any{jsonTexts(queues)}, func(r row) error {
		due[r.text(0)] = earliest(due[r.text(0)], r.at(1))
		return nil
	})
	return due, err
}

// earliest returns the earlier of two instants; zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
