package postgres

import (
	"context"
	"errors"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// errContended is returned when a unique key changes hands faster than it can
// be asked for.
var errContended = errors.New("a unique key is taken and freed again and again; try once more")

// enqueueKeyed adds jobs of which some have unique keys. Others may take such
// a key at the same time: ebb_unique decides who is first.
func enqueueKeyed(ctx context.Context, r runner, b *batch) ([]store.Enqueued, error) {
	answers := make([]store.Enqueued, len(b.jobs))
	held := map[string]int64{}
	if err := holders(ctx, r, b.wanted(held), held); err != nil {
		return nil, err
	}
	fresh := &batch{}
	var places []int // of fresh jobs in b
	first := map[string]int{}
	for i, n := range b.jobs {
		seq, taken := held[n.Unique]
		_, again := first[n.Unique]
		switch {
		case n.Unique != "" && taken:
			answers[i] = store.Enqueued{Seq: seq, Existing: true}
		case n.Unique == "" || !again:
			first[n.Unique] = i
			fresh.jobs, places = append(fresh.jobs, n), append(places, i)
		}
	}
	seqs, err := numbers(ctx, r, len(fresh.jobs))
	if err != nil {
		return nil, err
	}
	if err := takeKeys(ctx, r, fresh.jobs, seqs, held); err != nil {
		return nil, err
	}
	added := &batch{now: b.now, queueNumbers: b.queueNumbers}
	var given []int64
	for k, n := range fresh.jobs {
		if seq, keyed := held[n.Unique]; keyed && n.Unique != "" && seq != seqs[k] {
			answers[places[k]] = store.Enqueued{Seq: seq, Existing: true}
			continue
		}
		answers[places[k]] = store.Enqueued{Seq: seqs[k]}
		added.jobs, given = append(added.jobs, n), append(given, seqs[k])
	}
	for i, n := range b.jobs {
		if answers[i].Seq == 0 {
			answers[i] = store.Enqueued{Seq: held[n.Unique], Existing: true}
		}
	}
	return answers, r.exec(ctx, statement("enqueue_numbered"), append(added.parameters(), given)...)
}

// wanted lists the unique keys that nobody is known to hold.
func (b *batch) wanted(held map[string]int64) []string {
	var keys []string
	for i := range b.jobs {
		if u := b.jobs[i].Unique; u != "" {
			if _, known := held[u]; !known {
				keys = append(keys, u)
			}
		}
	}
	return keys
}

// holders adds to held who has the keys.
func holders(ctx context.Context, r runner, keys []string, held map[string]int64) error {
	return r.each(ctx, statement("holders"), []any{keys}, func(scan scan) error {
		var key string
		var seq int64
		err := scan(&key, &seq)
		held[key] = seq
		return err
	})
}

// takeKeys takes the jobs' keys for their numbers, and adds to held who has
// them in the end. Who loses a race to another transaction waits for its end.
func takeKeys(ctx context.Context, r runner, jobs []job.New, seqs []int64, held map[string]int64) error {
	for range 10 {
		var keys []string
		var numbers []int64
		for k := range jobs {
			if _, known := held[jobs[k].Unique]; jobs[k].Unique != "" && !known {
				keys, numbers = append(keys, jobs[k].Unique), append(numbers, seqs[k])
			}
		}
		if len(keys) == 0 {
			return nil
		}
		err := r.each(ctx, statement("take_keys"), []any{keys, numbers}, func(scan scan) error {
			var key string
			var seq int64
			err := scan(&key, &seq)
			held[key] = seq
			return err
		})
		if err != nil {
			return err
		}
		if err := holders(ctx, r, keys, held); err != nil {
			return err
		}
	}
	return errContended
}
