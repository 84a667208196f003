package sqlite

import (
	"context"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Maintain expires deadlines and ends retention. There is nothing to fold:
// counts are kept as they change.
func (s *Store) Maintain(ctx context.Context, m store.Maintenance) (bool, error) {
	left := m.Limit
	err := s.write(ctx, "maintain", m.Now, func(t *tx) error {
		if err := t.expire(&left); err != nil {
			return err
		}
		if err := t.drop("done", m.SucceededKept, &left); err != nil {
			return err
		}
		return t.drop("dead", m.FailedKept, &left)
	})
	return err == nil && left <= 0, err
}

// housed is a row that maintenance looks at.
type housed struct {
	seq   int64
	queue string
	state job.State
}

// some returns up to left rows, and counts them off.
func (t *tx) some(name string, before time.Time, left *int) ([]housed, error) {
	if *left <= 0 {
		return nil, nil
	}
	var list []housed
	err := t.query(t.ctx, name, []any{micros(before), int64(*left)}, func(r row) error {
		h := housed{seq: r.int(0), queue: r.text(1)}
		if len(r) > 2 {
			h.state = job.State(r.text(2))
		}
		list = append(list, h)
		return nil
	})
	*left -= len(list)
	return list, err
}

// expire fails queued jobs whose deadline has passed.
func (t *tx) expire(left *int) error {
	list, err := t.some("expired", t.instant(), left)
	if err != nil {
		return err
	}
	for _, h := range list {
		if err := t.toDead(h.seq, retry.CauseExpired); err != nil {
			return err
		}
		t.move(h.queue, job.Queued, job.Failed)
	}
	return nil
}

// drop ends the retention of a table's oldest rows.
func (t *tx) drop(table string, kept time.Duration, left *int) error {
	if kept <= 0 {
		return nil
	}
	list, err := t.some(table+"_old", store.Instant(t.instant().Add(-kept)), left)
	if err != nil || len(list) == 0 {
		return err
	}
	seqs := make([]int64, len(list))
	for i, h := range list {
		seqs[i] = h.seq
		t.add(h.queue, h.state, -1)
	}
	text := jsonList(seqs)
	if _, err := t.run(table+"_drop", text); err != nil {
		return err
	}
	_, err = t.run("attempts_drop", text)
	return err
}
