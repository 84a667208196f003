package sqlite

import (
	"context"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// waiting is what is known of a queued job that is about to leave its place.
type waiting struct {
	seq      int64
	queue    string
	kind     string
	priority int64
	due      int64
	target   string
	key      string
	rule     job.KeyRule
	retry    bool
	policy   string
}

// readWaiting reads a row of expired, ending, key_behind or waiting_one.
func readWaiting(r row) waiting {
	return waiting{
		seq: r.int(0), queue: r.text(1), kind: r.text(3), priority: r.int(4), due: r.int(5), target: r.text(6), key: r.text(7),
		rule: job.KeyRule(r.text(8)), retry: r.flag(9), policy: r.text(10),
	}
}

// countEnds counts jobs that were failed or parked while they waited.
func countEnds(list []waiting, to job.State, cause job.Cause) []store.EndCount {
	counts := make([]store.EndCount, len(list))
	for i := range list {
		w := &list[i]
		counts[i] = store.EndCount{To: to, Cause: cause, Kind: w.kind, Queue: w.queue, Target: w.target, Policy: w.policy, Untried: !w.retry, Count: 1}
	}
	return store.SumEnds(counts)
}

// waiting lists what such a statement selects.
func (c *conn) waiting(ctx context.Context, name string, args ...any) ([]waiting, error) {
	var list []waiting
	err := c.query(ctx, name, args, func(r row) error {
		list = append(list, readWaiting(r))
		return nil
	})
	return list, err
}

func waitingOf(j *job.Job) waiting {
	return waiting{
		seq: j.Seq, queue: j.Queue, kind: j.Kind, priority: int64(j.Priority), due: j.DueAt.UnixMicro(), target: j.Target,
		key: j.Key, rule: j.KeyRule, retry: !j.History.FirstStartAt.IsZero(),
	}
}

// shelve lets queued jobs of a queue wait where they belong. Those with a key
// take their place in it, unless the caller knows them to be heads.
func (t *tx) shelve(queue string, seqs []int64, heads bool) error {
	q, err := t.queue(queue)
	if err != nil {
		return err
	}
	if !q.limited() {
		name, args := "ready_plain", []any(nil)
		if q.strict || heads {
			name, args = "ready_known", []any{flag(q.strict), flag(heads)}
		}
		n, err := t.runForN(name, seqs, args...)
		if err != nil || n == int64(len(seqs)) {
			return err
		}
	}
	if !heads {
		if err := t.lineUp(queue, seqs); err != nil {
			return err
		}
	}
	if q.strict {
		return nil
	}
	if err := t.runFor("looks", seqs, t.lookFrom(), flag(heads), flag(q.limited())); err != nil {
		return err
	}
	return t.runFor("wait", seqs, flag(q.limited()), flag(heads))
}

// lookFrom is when a look at a due job comes; 0 where nobody told the time.
func (t *tx) lookFrom() int64 {
	if t.timeless {
		return 0
	}
	return t.instant().UnixMicro()
}

// unshelve takes a queued job from where it waits. A blocked one waits
// nowhere, which does no harm.
func (t *tx) unshelve(w *waiting) error {
	q, err := t.queue(w.queue)
	if err != nil {
		return err
	}
	if target := q.laneOf(w.queue, w.target); target != "" {
		_, err = t.run("unwait", target, w.queue, w.kind, flag(w.retry), w.priority, w.due, w.seq)
	} else {
		_, err = t.run("unready", w.queue, w.kind, w.priority, w.due, w.seq)
	}
	return err
}

// rearrange changes what decides where a queue's jobs wait, and moves them.
func (t *tx) rearrange(queue string, change func() error) error {
	var seqs []int64
	err := t.query(t.ctx, "queue_waiting", []any{queue}, func(r row) error {
		seqs = append(seqs, r.int(0))
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range []string{"queue_unready", "queue_unwait", "queue_unlane"} {
		if _, err := t.run(name, queue); err != nil {
			return err
		}
	}
	if err := change(); err != nil {
		return err
	}
	delete(t.queues, queue)
	if len(seqs) == 0 {
		return nil
	}
	t.queued = true
	return t.shelve(queue, seqs, true)
}

// end ends queued jobs as failed or parked: all of them first, then what
// stands behind them in their keys follows.
func (t *tx) end(list []waiting, to job.State, cause job.Cause) error {
	for i := range list {
		w := &list[i]
		if err := t.unshelve(w); err != nil {
			return err
		}
		if err := t.toEnd(w.seq, to, cause); err != nil {
			return err
		}
		t.move(w.queue, job.Queued, to)
	}
	for i := range list {
		if w := &list[i]; w.key != "" && to == job.Failed && w.rule == job.KeyPark {
			if err := t.parkBehind(w.queue, w.key, w.seq); err != nil {
				return err
			}
		}
	}
	for i := range list {
		if w := &list[i]; w.key != "" {
			if err := t.stepOut(w.queue, w.key, w.seq, to, w.rule); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *tx) toEnd(seq int64, to job.State, cause job.Cause) error {
	if to == job.Failed {
		return t.toDead(seq, cause)
	}
	return t.toParked(seq, cause, "")
}
