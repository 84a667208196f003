package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// errContended is returned when a unique key changes hands faster than it can
// be asked for.
var errContended = errors.New("a unique key is taken and freed again and again; try once more")

// keying is an enqueue of jobs of which some have keys or unique keys.
type keying struct {
	r       runner
	b       *batch
	answers []store.Enqueued

	held     map[string]int64  // who has which unique key
	fresh    []job.New         // jobs that are new as far as is known
	places   []int             // of these among all
	seqs     []int64           // of these
	first    map[string]int    // of these the first with a unique key
	replaces map[int64]job.New // what waiting jobs become
	order    []int64           // of replaces
}

// enqueueKeyed adds jobs of which some have keys or unique keys. Others may
// take a unique key at the same time: ebb_unique decides who is first. Of a key
// nobody else enqueues until the transaction ends.
func enqueueKeyed(ctx context.Context, r runner, b *batch) ([]store.Enqueued, error) {
	k := &keying{
		r: r, b: b, answers: make([]store.Enqueued, len(b.jobs)), held: map[string]int64{}, first: map[string]int{},
		replaces: map[int64]job.New{},
	}
	if b.lined {
		if err := k.lock(ctx); err != nil {
			return nil, err
		}
	}
	if keys := uniqueKeys(b.jobs, k.held); len(keys) > 0 {
		if err := k.holders(ctx, keys); err != nil {
			return nil, err
		}
	}
	numbers, err := numbers(ctx, r, len(b.jobs))
	if err != nil {
		return nil, err
	}
	for i := range b.jobs {
		if err := k.stage(i, numbers[len(k.fresh)]); err != nil {
			return nil, err
		}
	}
	if err := k.takeKeys(ctx); err != nil {
		return nil, err
	}
	if err := k.insert(ctx); err != nil {
		return nil, err
	}
	return k.answers, k.replace(ctx)
}

// lock keeps others from enqueueing to the keys.
func (k *keying) lock(ctx context.Context) error {
	var queues, keys []string
	for i := range k.b.jobs {
		if n := &k.b.jobs[i]; n.Key != "" {
			queues, keys = append(queues, n.Queue), append(keys, n.Key)
		}
	}
	return k.r.exec(ctx, statement("lock_keys"), queues, keys)
}

// uniqueKeys lists the unique keys that nobody is known to hold.
func uniqueKeys(jobs []job.New, held map[string]int64) []string {
	var keys []string
	for i := range jobs {
		if _, known := held[jobs[i].Unique]; jobs[i].Unique != "" && !known {
			keys = append(keys, jobs[i].Unique)
		}
	}
	return keys
}

// holders asks who has the keys.
func (k *keying) holders(ctx context.Context, keys []string) error {
	return k.r.each(ctx, statement("holders"), []any{keys, nullable(k.b.now)}, func(scan scan) error {
		var key string
		var seq int64
		err := scan(&key, &seq)
		k.held[key] = seq
		return err
	})
}

// stage decides what becomes of a job, which gets the number if it is new.
func (k *keying) stage(i int, number int64) error {
	n := k.b.jobs[i]
	if seq, taken := k.held[n.Unique]; taken {
		return k.conflict(i, seq)
	}
	if at, again := k.first[n.Unique]; again {
		if n.Conflict == job.ConflictRefuse {
			return refusal(n.Unique, k.seqs[at])
		}
		if n.Conflict == job.ConflictReplace {
			replaced(&k.fresh[at], &n)
		}
		k.answers[i].Existing = true // whose number follows
		return nil
	}
	if n.Unique != "" {
		k.first[n.Unique] = len(k.fresh)
	}
	k.fresh, k.places, k.seqs = append(k.fresh, n), append(k.places, i), append(k.seqs, number)
	return nil
}

// conflict answers a job whose unique key is another's.
func (k *keying) conflict(i int, seq int64) error {
	n := &k.b.jobs[i]
	if n.Conflict == job.ConflictRefuse {
		return refusal(n.Unique, seq)
	}
	if n.Conflict == job.ConflictReplace {
		if _, again := k.replaces[seq]; !again {
			k.order = append(k.order, seq)
		}
		k.replaces[seq] = *n
	}
	k.answers[i] = store.Enqueued{Seq: seq, Existing: true}
	return nil
}

func refusal(unique string, seq int64) error {
	return fmt.Errorf("store: enqueue: %q is taken by job %s: %w", unique, job.FormatID(seq), store.ErrUnique)
}

// replaced writes what a unique enqueue may change of a job.
func replaced(j, n *job.New) {
	j.Args, j.Policy, j.Priority, j.DueAt, j.DeadlineAt = n.Args, n.Policy, n.Priority, n.DueAt, n.DeadlineAt
	j.Batch, j.Trace = n.Batch, n.Trace
}

// takeKeys takes the unique keys of the fresh jobs, and learns who has them in
// the end. Who loses a race to another transaction waits for its end.
func (k *keying) takeKeys(ctx context.Context) error {
	for range 10 {
		var keys []string
		var numbers []int64
		for i := range k.fresh {
			if _, known := k.held[k.fresh[i].Unique]; k.fresh[i].Unique != "" && !known {
				keys, numbers = append(keys, k.fresh[i].Unique), append(numbers, k.seqs[i])
			}
		}
		if len(keys) == 0 {
			return nil
		}
		err := k.r.each(ctx, statement("take_keys"), []any{keys, numbers}, func(scan scan) error {
			var key string
			var seq int64
			err := scan(&key, &seq)
			k.held[key] = seq
			return err
		})
		if err != nil {
			return err
		}
		if keys = uniqueKeys(k.fresh, k.held); len(keys) == 0 {
			return nil
		}
		if err := k.holders(ctx, keys); err != nil {
			return err
		}
	}
	return errContended
}

// insert adds the jobs that are new, and answers all.
func (k *keying) insert(ctx context.Context) error {
	added := &batch{now: k.b.now, queueNumbers: k.b.queueNumbers}
	var given, owners, kept []int64
	var reserved []string
	for i := range k.fresh {
		n := &k.fresh[i]
		if seq, keyed := k.held[n.Unique]; keyed && n.Unique != "" && seq != k.seqs[i] {
			if err := k.conflict(k.places[i], seq); err != nil {
				return err
			}
			continue
		}
		k.answers[k.places[i]] = store.Enqueued{Seq: k.seqs[i]}
		added.jobs, given = append(added.jobs, *n), append(given, k.seqs[i])
		if n.UniqueFor > 0 {
			reserved, owners = append(reserved, n.Unique), append(owners, k.seqs[i])
			kept = append(kept, int64((n.UniqueFor+time.Microsecond-1)/time.Microsecond))
		}
	}
	for i := range k.answers {
		if k.answers[i].Seq == 0 {
			k.answers[i] = store.Enqueued{Seq: k.held[k.b.jobs[i].Unique], Existing: true}
		}
	}
	if len(reserved) > 0 {
		if err := k.r.exec(ctx, statement("reserve_keys"), nullable(k.b.now), reserved, owners, kept); err != nil {
			return err
		}
	}
	if len(given) == 0 {
		return nil
	}
	return k.r.exec(ctx, statement("enqueue_numbered"), append(added.parameters(), given)...)
}

// replace gives waiting jobs their new content. One that has started since
// keeps what it has.
func (k *keying) replace(ctx context.Context) error {
	for _, seq := range k.order {
		n := k.replaces[seq]
		name := n.Policy
		if name == policy.DefaultName {
			name = ""
		}
		err := k.r.exec(ctx, statement("replace"), nullable(k.b.now), seq, nullable(n.DueAt), nullable(n.DeadlineAt), int16(n.Priority),
			name, n.Args, n.Batch, n.Trace)
		if err != nil {
			return err
		}
	}
	return nil
}
