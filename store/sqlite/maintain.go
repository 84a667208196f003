package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Maintain expires deadlines and records and ends retention. There is nothing to fold:
// counts are kept as they change.
func (s *Store) Maintain(ctx context.Context, m store.Maintenance) (store.Maintained, error) {
	left := m.Limit
	var expired []waiting
	err := s.write(ctx, "maintain", m.Now, func(t *tx) (err error) {
		if expired, err = t.expire(&left); err != nil {
			return err
		}
		if err := t.drop("done", m.SucceededKept, &left); err != nil {
			return err
		}
		if err := t.drop("dead", m.FailedKept, &left); err != nil {
			return err
		}
		if err := t.expireRecords(&left); err != nil {
			return err
		}
		_, err = t.run("unique_old", micros(t.instant()), int64(max(m.Limit, 0)))
		return err
	})
	if err != nil {
		return store.Maintained{}, err
	}
	return store.Maintained{Expired: countEnds(expired, job.Failed, retry.CauseExpired), More: left <= 0}, nil
}

// some returns up to left rows, of which the sequence number, queue and state
// come first, and counts them off.
func (t *tx) some(name string, before time.Time, left *int) ([]row, error) {
	if *left <= 0 {
		return nil, nil
	}
	var list []row
	err := t.query(t.ctx, name, []any{micros(before), int64(*left)}, func(r row) error {
		list = append(list, slices.Clone(r))
		return nil
	})
	*left -= len(list)
	return list, err
}

// expire fails queued jobs whose deadline has passed, and returns them.
func (t *tx) expire(left *int) ([]waiting, error) {
	list, err := t.some("expired", t.instant(), left)
	if err != nil {
		return nil, err
	}
	passed := make([]waiting, len(list))
	for i, r := range list {
		passed[i] = readWaiting(r)
	}
	return passed, t.end(passed, job.Failed, retry.CauseExpired)
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
	for i, r := range list {
		seqs[i] = r.int(0)
		t.add(r.text(1), job.State(r.text(2)), -1)
	}
	if err := t.runFor(table+"_drop", seqs); err != nil {
		return err
	}
	if err := t.runFor("attempts_drop", seqs); err != nil || table != "dead" {
		return err
	}
	for _, r := range list { // a dead letter may have blocked its key
		if key := r.text(3); key != "" {
			if _, err := t.run("key_leave", r.text(1), key, r.int(0)); err != nil {
				return err
			}
			if err := t.promote(r.text(1), key); err != nil {
				return err
			}
		}
	}
	return nil
}
