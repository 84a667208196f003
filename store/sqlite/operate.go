package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// audit remembers who did what.
func (t *tx) audit(actor, act, what, detail string) error {
	_, err := t.run("audit_add", micros(t.instant()), actor, act, what, detail)
	return err
}

// Cancel ends a waiting job and orders a running one to stop.
func (s *Store) Cancel(ctx context.Context, now time.Time, actor string, seq int64) (job.State, error) {
	var left job.State
	err := s.write(ctx, "cancel", now, func(t *tx) error {
		j, err := t.job(t.ctx, seq)
		if err != nil {
			return err
		}
		left = job.Cancelled
		switch j.State {
		case job.Queued:
			w := waitingOf(&j)
			if err = t.unshelve(&w); err == nil {
				err = t.toDone(seq, job.Cancelled, nil, nil)
			}
		case job.Parked:
			if _, err = t.run("parked_cancel", micros(t.instant()), seq); err == nil {
				_, err = t.run("parked_end", seq)
			}
		case job.Running:
			left = job.Running
			_, err = t.run("order", seq)
		default:
			left = j.State
			return fmt.Errorf("store: cancel: %s is %s: %w", j.ID(), j.State, store.ErrState)
		}
		if err != nil {
			return err
		}
		if left == job.Cancelled {
			t.move(j.Queue, j.State, job.Cancelled)
			if j.Key != "" {
				err = t.stepOut(j.Queue, j.Key, seq, job.Cancelled, j.KeyRule)
			}
		}
		if err != nil {
			return err
		}
		return t.audit(actor, "job.cancel", j.ID(), "")
	})
	return left, err
}

// Retry queues a job again, or makes a waiting one due now.
func (s *Store) Retry(ctx context.Context, now time.Time, actor string, seq int64) error {
	return s.write(ctx, "retry", now, func(t *tx) error {
		j, err := t.job(t.ctx, seq)
		if err != nil {
			return err
		}
		switch j.State {
		case job.Queued:
			err = t.hurry(&j)
		case job.Failed, job.Parked:
			var moved bool
			if moved, err = t.requeue(j.State, seq); err == nil && !moved {
				err = fmt.Errorf("store: retry: %s: its unique key %q is taken by a living job: %w", j.ID(), j.Unique, store.ErrState)
			}
		default:
			err = fmt.Errorf("store: retry: %s is %s: %w", j.ID(), j.State, store.ErrState)
		}
		if err != nil {
			return err
		}
		return t.audit(actor, "job.retry", j.ID(), "")
	})
}

// hurry makes a waiting job due now, never later than it was.
func (t *tx) hurry(j *job.Job) error {
	if !t.instant().Before(j.DueAt) {
		return nil
	}
	w := waitingOf(j)
	if err := t.unshelve(&w); err != nil {
		return err
	}
	if _, err := t.run("due", j.Seq, micros(t.instant())); err != nil || j.Blocked {
		return err
	}
	t.queued = true
	return t.shelve(j.Queue, []int64{j.Seq}, true)
}

// requeue queues a failed or parked job again, unless its unique key was taken
// since.
func (t *tx) requeue(from job.State, seq int64) (bool, error) {
	table := "dead"
	if from == job.Parked {
		table = "parked"
	}
	facts, err := t.one(t.ctx, table+"_facts", seq)
	if err != nil || facts == nil {
		return false, err
	}
	holder, err := t.liveHolder(facts.text(1))
	if err != nil || holder != 0 && holder != seq {
		return false, err
	}
	if _, err := t.run(table+"_again", micros(t.instant()), seq); err != nil {
		return false, err
	}
	if _, err := t.run(table+"_end", seq); err != nil {
		return false, err
	}
	t.move(facts.text(0), from, job.Queued)
	return true, t.shelve(facts.text(0), []int64{seq}, false)
}

// PauseQueue holds a queue back or lets it go.
func (s *Store) PauseQueue(ctx context.Context, now time.Time, actor, queue string, paused bool) error {
	act := "queue.pause"
	if !paused {
		act = "queue.resume"
	}
	return s.write(ctx, act, now, func(t *tx) error {
		if _, err := t.run("queue_pause", queue, flag(paused)); err != nil {
			return err
		}
		t.queued = !paused
		return t.audit(actor, act, queue, "")
	})
}

// StrictQueue declares a queue's order.
func (s *Store) StrictQueue(ctx context.Context, queue string, strict bool) error {
	return s.write(ctx, "strict queue", time.Time{}, func(t *tx) error {
		t.timeless = true
		return t.rearrange(queue, func() error {
			_, err := t.run("queue_strict", queue, flag(strict))
			return err
		})
	})
}

// Matching counts what a redrive would move.
func (s *Store) Matching(ctx context.Context, f store.Filter, limit int) (int, error) {
	if err := store.CheckRedrive(f); err != nil {
		return 0, err
	}
	n := 0
	err := s.read(ctx, "matching", false, func(c *conn) error {
		return selectionOf(f).ask(ctx, c, "above", max(f.From-1, 0), limit, func(row) error {
			n++
			return nil
		})
	})
	return n, err
}

// StartRedrive remembers the order; steps carry it out.
func (s *Store) StartRedrive(ctx context.Context, now time.Time, r store.Redrive) (store.Redrive, error) {
	if err := store.CheckRedrive(r.Filter); err != nil {
		return r, err
	}
	filter, err := json.Marshal(r.Filter)
	if err != nil {
		return r, fmt.Errorf("sqlite: redrive: %w", err)
	}
	err = s.write(ctx, "redrive", now, func(t *tx) error {
		r.CreatedAt, r.DoneAt, r.Moved, r.Cursor = t.instant(), time.Time{}, 0, 0
		id, err := t.one(t.ctx, "redrive_add", string(filter), r.Rate, r.Actor, micros(r.CreatedAt))
		if err != nil {
			return err
		}
		r.ID = id.int(0)
		return t.audit(r.Actor, "dead.redrive", strconv.FormatInt(r.ID, 10), r.Filter.String())
	})
	return r, err
}

func readRedrive(row row) (store.Redrive, error) {
	r := store.Redrive{
		ID: row.int(0), Rate: row.float(2), Actor: row.text(3), CreatedAt: row.at(4), DoneAt: row.at(5),
		Moved: row.int(6), Cursor: row.int(7),
	}
	return r, json.Unmarshal([]byte(row.text(1)), &r.Filter)
}

// StepRedrive moves up to n jobs.
func (s *Store) StepRedrive(ctx context.Context, now time.Time, id int64, n int) (store.Redrive, error) {
	var r store.Redrive
	err := s.write(ctx, "redrive", now, func(t *tx) error {
		found, err := t.one(t.ctx, "redrive", id)
		if err != nil {
			return err
		}
		if found == nil {
			return fmt.Errorf("store: redrive %d: %w", id, store.ErrNotFound)
		}
		if r, err = readRedrive(found); err != nil || !r.DoneAt.IsZero() {
			return err
		}
		return t.step(&r, n)
	})
	return r, err
}

func (t *tx) step(r *store.Redrive, n int) error {
	sel := selectionOf(r.Filter)
	next, err := t.above(sel, r.Cursor, n)
	if err != nil {
		return err
	}
	for _, seq := range next {
		moved, err := t.requeue(r.Filter.State, seq)
		if err != nil {
			return err
		}
		if r.Cursor = seq; moved {
			r.Moved++
		}
	}
	left, err := t.above(sel, r.Cursor, 1)
	if err != nil {
		return err
	}
	if len(left) == 0 {
		r.DoneAt = t.instant()
	}
	_, err = t.run("redrive_step", r.ID, micros(r.DoneAt), r.Moved, r.Cursor)
	return err
}

// above returns the next selected sequence numbers.
func (t *tx) above(sel selection, seq int64, limit int) ([]int64, error) {
	var list []int64
	err := sel.ask(t.ctx, t.conn, "above", max(seq, sel.from-1), limit, func(r row) error {
		list = append(list, r.int(0))
		return nil
	})
	return list, err
}

// Redrives lists the unfinished, oldest first, then the newest done.
func (s *Store) Redrives(ctx context.Context, limit int) ([]store.Redrive, error) {
	var list []store.Redrive
	err := s.read(ctx, "redrives", false, func(c *conn) error {
		return c.query(ctx, "redrives", []any{int64(limit)}, func(row row) error {
			r, err := readRedrive(row)
			list = append(list, r)
			return err
		})
	})
	return list, err
}
