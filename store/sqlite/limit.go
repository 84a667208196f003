package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// LimitQueue bounds a queue over all processes.
func (s *Store) LimitQueue(ctx context.Context, now time.Time, actor, queue string, l store.QueueLimit) error {
	return s.write(ctx, "limit queue", now, func(t *tx) error {
		err := t.rearrange(queue, func() error {
			_, err := t.run("queue_limit", queue, int64(l.Concurrency), l.Rate)
			return err
		})
		if err != nil {
			return err
		}
		return t.audit(actor, "queue.limit", queue, fmt.Sprintf("concurrency %d, rate %g", l.Concurrency, l.Rate))
	})
}

// PauseKind holds a kind back or lets it go.
func (s *Store) PauseKind(ctx context.Context, now time.Time, actor, kind string, paused bool) error {
	act, name := "kind.pause", "kind_pause"
	if !paused {
		act, name = "kind.resume", "kind_resume"
	}
	return s.write(ctx, act, now, func(t *tx) error {
		if _, err := t.run(name, kind); err != nil {
			return err
		}
		t.queued = !paused
		return t.audit(actor, act, kind, "")
	})
}

// PausedKinds lists them by name.
func (s *Store) PausedKinds(ctx context.Context) ([]string, error) {
	var list []string
	err := s.read(ctx, "paused kinds", false, func(c *conn) (err error) {
		list, err = c.pausedKinds(ctx)
		return err
	})
	return list, err
}

func (c *conn) pausedKinds(ctx context.Context) ([]string, error) {
	var list []string
	err := c.query(ctx, "paused_kinds", nil, func(r row) error {
		list = append(list, r.text(0))
		return nil
	})
	return list, err
}

// EndWaiting ends queued jobs of a target that will not start. They are looked
// for without the right to write, for that may take a walk over all that waits
// for the target; then those found are looked at again.
func (s *Store) EndWaiting(ctx context.Context, now time.Time, e store.Ending) ([]store.EndCount, error) {
	if err := store.CheckEnding(e); err != nil {
		return nil, err
	}
	var list []waiting
	err := s.read(ctx, "end waiting", false, func(c *conn) (err error) {
		list, err = c.ending(ctx, &e)
		return err
	})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	found := make([]int64, len(list))
	for i := range list {
		found[i] = list[i].seq
	}
	err = s.write(ctx, "end waiting", now, func(t *tx) (err error) {
		if list, err = t.endingOf(t.ctx, &e, found); err != nil {
			return err
		}
		return t.end(list, e.To, e.Cause)
	})
	if err != nil {
		return nil, err
	}
	return countEnds(list, e.To, e.Cause), nil
}

// ending selects the jobs, the least first.
func (c *conn) ending(ctx context.Context, e *store.Ending) ([]waiting, error) {
	if len(e.Seqs) > 0 {
		return c.endingOf(ctx, e, e.Seqs)
	}
	return c.waiting(ctx, "ending", endingArgs(e)...)
}

// endingOf selects among these alone.
func (c *conn) endingOf(ctx context.Context, e *store.Ending, seqs []int64) ([]waiting, error) {
	return c.waiting(ctx, "ending_seqs", append(endingArgs(e), jsonList(seqs), flag(len(e.Seqs) > 0))...)
}

func endingArgs(e *store.Ending) []any {
	var retries any
	if !e.Any {
		retries = flag(e.Retries)
	}
	return []any{e.Target, micros(e.DueBy), orNull(e.Policy), retries, int64(max(e.Limit, 0))}
}

// HeldBefore lists queued jobs of the target that gates have held.
func (s *Store) HeldBefore(ctx context.Context, target string, after int64, limit int) ([]job.Job, error) {
	list := []job.Job{}
	err := s.read(ctx, "held before", false, func(c *conn) error {
		return c.query(ctx, "held_before", []any{target, after, int64(max(limit, 0))}, func(r row) error {
			j, err := readJob(r)
			list = append(list, j)
			return err
		})
	})
	return list, err
}
