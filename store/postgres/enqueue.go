package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// copyFrom is the batch size from which COPY is faster than an INSERT of
// arrays: it takes three round trips more.
const copyFrom = 100

// Enqueue adds the jobs, all or none.
func (s *Store) Enqueue(ctx context.Context, now time.Time, jobs []job.New) ([]store.Enqueued, error) {
	b, err := prepare(now, jobs)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	if err := s.ensureQueues(ctx, b); err != nil {
		return nil, failed("enqueue", err)
	}
	var answers []store.Enqueued
	switch {
	case b.keyed:
		err = s.inTx(ctx, func(tx pgx.Tx) (err error) {
			answers, err = enqueueKeyed(ctx, pgxRunner{tx}, b)
			return err
		})
	case len(jobs) >= copyFrom:
		err = s.inTx(ctx, func(tx pgx.Tx) (err error) {
			answers, err = enqueueCopy(ctx, tx, b)
			return err
		})
	default:
		answers, err = enqueuePlain(ctx, pgxRunner{s.pool}, b)
	}
	if err != nil {
		return nil, failed("enqueue", err)
	}
	s.scans.lower(b.earliest())
	s.wakes.now()
	return answers, nil
}

// EnqueueTx adds the jobs when tx commits: a pgx.Tx, or a *sql.Tx of pgx's
// stdlib.
func (s *Store) EnqueueTx(ctx context.Context, tx any, now time.Time, jobs []job.New) ([]store.Enqueued, error) {
	r, err := joined(ctx, tx)
	if err != nil {
		return nil, err
	}
	b, err := prepare(now, jobs)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	if err := s.ensureQueues(ctx, b); err != nil {
		return nil, failed("enqueue", err)
	}
	var answers []store.Enqueued
	if b.keyed {
		answers, err = enqueueKeyed(ctx, r, b)
	} else {
		answers, err = enqueuePlain(ctx, r, b)
	}
	if err != nil {
		return nil, failed("enqueue", foreign(err))
	}
	s.scans.lower(b.earliest())
	return answers, failed("enqueue", s.wakes.within(ctx, r))
}

// batch is jobs to be enqueued, column by column.
type batch struct {
	now   time.Time
	jobs  []job.New
	keyed bool // some have a unique key

	kinds, queues                                     []string
	policies, targets, keys, uniques, batches, traces column[string]
	priorities                                        column[int16]
	dues, deadlines                                   instants
	args                                              [][]byte
}

// prepare checks the jobs and fills their defaults. A due time that nobody
// named stays unset: the database's clock decides.
func prepare(now time.Time, jobs []job.New) (*batch, error) {
	clock := now
	if now.IsZero() {
		clock = time.Unix(0, 0) // Prepare needs one; what it fills in is not used
	}
	b := &batch{now: store.Instant(now), jobs: make([]job.New, 0, len(jobs))}
	for _, n := range jobs {
		unset := n.DueAt.IsZero()
		n, err := store.Prepare(clock, n)
		if err != nil {
			return nil, err
		}
		if unset {
			n.DueAt = b.now
		}
		b.jobs = append(b.jobs, n)
		b.keyed = b.keyed || n.Unique != ""
	}
	return b, nil
}

// parameters are those of the enqueue statements: the jobs by column.
func (b *batch) parameters() []any {
	for i := range b.jobs {
		n := &b.jobs[i]
		b.kinds, b.queues = append(b.kinds, n.Kind), append(b.queues, n.Queue)
		b.priorities.add(int16(n.Priority))
		if !n.DueAt.IsZero() {
			b.dues = fillTo(b.dues, i, micros(n.DueAt))
		}
		if !n.DeadlineAt.IsZero() {
			b.deadlines = fillTo(b.deadlines, i, micros(n.DeadlineAt))
		}
		if n.Policy != policy.DefaultName {
			b.policies.add(n.Policy)
		} else {
			b.policies.add("")
		}
		b.targets.add(n.Target)
		b.keys.add(n.Key)
		b.uniques.add(n.Unique)
		b.batches.add(n.Batch)
		b.traces.add(n.Trace)
		b.args = addBytes(b.args, i, n.Args)
	}
	return []any{
		nullable(b.now), b.kinds, b.queues, b.priorities.array(), b.dues, b.deadlines, b.policies.array(), b.targets.array(),
		b.keys.array(), b.uniques.array(), b.batches.array(), b.traces.array(), b.args,
	}
}

// fillTo puts the value into place n of the column; those before that have
// none are none.
func fillTo(column instants, n int, value int64) instants {
	for len(column) < n {
		column = append(column, none)
	}
	return append(column, value)
}

// earliest returns, for each queue, where its earliest job that named its due
// time stands: a claim must not have walked past it. None has walked into the
// future, clocks that differ a little allowed for.
func (b *batch) earliest() map[string]place {
	var first map[string]place
	horizon := time.Now().Add(time.Minute)
	for i := range b.jobs {
		n := &b.jobs[i]
		if n.DueAt.IsZero() || n.DueAt.After(horizon) {
			continue
		}
		if p, ok := first[n.Queue]; !ok || n.DueAt.Before(p.due) {
			if first == nil {
				first = map[string]place{}
			}
			first[n.Queue] = place{due: n.DueAt}
		}
	}
	return first
}

func (b *batch) queueNames() []string {
	var names []string
	for i := range b.jobs {
		if q := b.jobs[i].Queue; len(names) == 0 || names[len(names)-1] != q && !slices.Contains(names, q) {
			names = append(names, q)
		}
	}
	return names
}

// ensureQueues makes queues that this process has not seen yet. It does so
// outside of any transaction of the caller.
func (s *Store) ensureQueues(ctx context.Context, b *batch) error {
	names := b.queueNames()
	s.mu.Lock()
	names = slices.DeleteFunc(names, func(n string) bool { return s.queues[n] })
	s.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	if _, err := s.pool.Exec(ctx, statement("queues"), names); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		s.queues[n] = true
	}
	return nil
}

// enqueuePlain adds jobs without unique keys in one statement.
func enqueuePlain(ctx context.Context, r runner, b *batch) ([]store.Enqueued, error) {
	answers := make([]store.Enqueued, 0, len(b.jobs))
	err := r.each(ctx, statement("enqueue"), b.parameters(), func(scan scan) error {
		var a store.Enqueued
		err := scan(&a.Seq)
		answers = append(answers, a)
		return err
	})
	return answers, err
}

// numbers takes n sequence numbers, in order, with the database's clock.
func numbers(ctx context.Context, r runner, n int) (seqs []int64, now time.Time, err error) {
	var wire []byte
	err = r.each(ctx, statement("numbers"), []any{n}, func(scan scan) error { return scan(&now, &wire) })
	seqs = make([]int64, 0, n)
	for ; len(wire) >= 8; wire = wire[8:] {
		seqs = append(seqs, int64(binary.BigEndian.Uint64(wire)))
	}
	return seqs, store.Instant(now), err
}

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
	seqs, _, err := numbers(ctx, r, len(fresh.jobs))
	if err != nil {
		return nil, err
	}
	if err := takeKeys(ctx, r, fresh.jobs, seqs, held); err != nil {
		return nil, err
	}
	added := &batch{now: b.now}
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
