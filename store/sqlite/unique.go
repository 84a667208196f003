package sqlite

import (
	"fmt"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// uniques are the unique keys of one enqueue.
type uniques struct {
	*tx
	first int64          // sequence number of the first new job
	fresh map[string]int // new jobs by their key, as places
	stale map[string]bool
}

// taken returns the job that has the key, and does to it what the new one
// says; 0 = the key is free, and the new job takes it.
func (u *uniques) taken(n *job.New, fresh []job.New) (int64, error) {
	seq, live, err := u.holder(n.Unique)
	switch {
	case err != nil:
		return 0, err
	case seq == 0:
		if u.fresh == nil {
			u.fresh = map[string]int{}
		}
		u.fresh[n.Unique] = len(fresh)
		return 0, nil
	case n.Conflict == job.ConflictRefuse:
		return 0, fmt.Errorf("store: enqueue: %q is taken by job %s: %w", n.Unique, job.FormatID(seq), store.ErrUnique)
	case n.Conflict != job.ConflictReplace:
		return seq, nil
	}
	if place, here := u.fresh[n.Unique]; here {
		f := &fresh[place]
		f.Args, f.Policy, f.Priority, f.DueAt, f.DeadlineAt = n.Args, n.Policy, n.Priority, n.DueAt, n.DeadlineAt
		f.Batch, f.Trace = n.Batch, n.Trace
		return seq, nil
	}
	if live {
		err = u.replace(seq, n)
	}
	return seq, err
}

// holder returns who has the key, and whether it lives in the tables.
func (u *uniques) holder(unique string) (seq int64, live bool, err error) {
	if seq, err = u.liveHolder(unique); err != nil || seq != 0 {
		return seq, true, err
	}
	if place, here := u.fresh[unique]; here {
		return u.first + int64(place), false, nil
	}
	kept, err := u.one(u.ctx, "unique_kept", unique)
	if err != nil || kept == nil {
		return 0, false, err
	}
	if u.instant().Before(kept.at(1)) {
		return kept.int(0), false, nil
	}
	if u.stale == nil {
		u.stale = map[string]bool{}
	}
	u.stale[unique] = true
	return 0, false, nil
}

// liveHolder returns the living job that has the unique key; 0 = none.
func (t *tx) liveHolder(unique string) (int64, error) {
	if unique == "" {
		return 0, nil
	}
	r, err := t.one(t.ctx, "unique_holder", unique)
	if err != nil || r == nil {
		return 0, err
	}
	return r.int(0), nil
}

// replace gives a job that waits for its first start the new one's content.
func (t *tx) replace(seq int64, n *job.New) error {
	j, err := t.job(t.ctx, seq)
	if err != nil || j.State != job.Queued || j.History.Starts > 0 {
		return err
	}
	w := waitingOf(&j)
	if err := t.unshelve(&w); err != nil {
		return err
	}
	_, err = t.run("replace", seq, int64(n.Priority), micros(n.DueAt), n.Policy, micros(n.DeadlineAt), orNull(n.Batch), orNull(n.Trace), orEmpty(n.Args))
	if err != nil || j.Blocked {
		return err
	}
	t.queued = true
	return t.shelve(j.Queue, []int64{seq}, true)
}

// keep remembers the keys of new jobs that stay taken when these have ended,
// and forgets what earlier ones left.
func (u *uniques) keep(fresh []job.New) error {
	for unique, place := range u.fresh {
		n := &fresh[place]
		var err error
		switch {
		case n.UniqueFor > 0:
			_, err = u.run("unique_keep", unique, u.first+int64(place), micros(store.Due(u.instant(), n.UniqueFor)))
		case u.stale[unique]:
			_, err = u.run("unique_free", unique)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
