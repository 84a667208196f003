package sqlite

import (
	"slices"

	"github.com/ebbhq/ebb/job"
)

// lineUp brings those of the jobs that have a key to their places in it.
func (t *tx) lineUp(queue string, seqs []int64) error {
	var keyed []int64
	var keys []string
	name, args := forSeqs("keyed", seqs)
	err := t.query(t.ctx, name, args, func(r row) error {
		keyed, keys = append(keyed, r.int(0)), append(keys, r.text(1))
		return nil
	})
	if err != nil || len(keyed) == 0 {
		return err
	}
	if err := t.runFor("key_join", keyed); err != nil {
		return err
	}
	for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		if err := t.promote(queue, key); err != nil {
			return err
		}
	}
	return nil
}

// stepOut ends a job's part in its key, unless it goes on blocking it, and
// promotes the next.
func (t *tx) stepOut(queue, key string, seq int64, to job.State, rule job.KeyRule) error {
	blocks := to.Live() || to == job.Failed && rule == job.KeyBlock
	if !blocks {
		if _, err := t.run("key_leave", queue, key, seq); err != nil {
			return err
		}
	}
	return t.promote(queue, key)
}

// promote finds the head of a key anew: the running job, else the least. It
// alone can be claimed.
func (t *tx) promote(queue, key string) error {
	k, err := t.one(t.ctx, "key_state", queue, key)
	if err != nil {
		return err
	}
	least, head, running := k.int(0), k.int(1), k.flag(2)
	if least == head || running { // of no members both are 0
		return nil
	}
	if head != 0 {
		if err := t.demote(queue, key, head); err != nil {
			return err
		}
	}
	if _, err := t.run("key_head", queue, key, least, int64(1)); err != nil {
		return err
	}
	w, err := t.one(t.ctx, "waiting_one", least)
	if err != nil || w == nil { // it is parked, or a dead letter
		return err
	}
	t.queued = true
	return t.shelve(queue, []int64{least}, true)
}

// demote blocks a head that has not begun.
func (t *tx) demote(queue, key string, head int64) error {
	if _, err := t.run("key_head", queue, key, head, int64(0)); err != nil {
		return err
	}
	r, err := t.one(t.ctx, "waiting_one", head)
	if err != nil || r == nil {
		return err
	}
	w := readWaiting(r)
	return t.unshelve(&w)
}

// parkBehind parks what is queued behind a job of the key that failed.
func (t *tx) parkBehind(queue, key string, seq int64) error {
	behind, err := t.waiting(t.ctx, "key_behind", queue, key, seq)
	if err != nil {
		return err
	}
	for i := range behind {
		if err := t.unshelve(&behind[i]); err != nil {
			return err
		}
		if err := t.toParked(behind[i].seq, job.HeadFailed, ""); err != nil {
			return err
		}
		t.move(queue, job.Queued, job.Parked)
	}
	t.behind = append(t.behind, behind...)
	return nil
}

// headEnded does to a key what the end of its running head means.
func (t *tx) headEnded(queue, key string, seq int64, to job.State) error {
	rule := job.KeyBlock
	if to == job.Failed {
		r, err := t.one(t.ctx, "dead_rule", seq)
		if err != nil {
			return err
		}
		rule = job.KeyRule(r.text(0))
	}
	if rule == job.KeyPark {
		if err := t.parkBehind(queue, key, seq); err != nil {
			return err
		}
	}
	return t.stepOut(queue, key, seq, to, rule)
}
