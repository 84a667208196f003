package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// copyFrom is the batch size from which COPY is faster than an INSERT of
// arrays: it takes one round trip more.
const copyFrom = 100

// Enqueue adds the jobs, all or none.
func (s *Store) Enqueue(ctx context.Context, now time.Time, jobs []job.New) ([]store.Enqueued, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	b := newBatch(now, jobs)
	if !s.foreseen(b) {
		if err := b.check(); err != nil {
			return nil, err
		}
		if err := s.ensureQueues(ctx, b); err != nil {
			return nil, failed("enqueue", err)
		}
	}
	var answers []store.Enqueued
	var err error
	told := false // workers hear of the jobs by their commit
	switch {
	case b.keyed || b.lined:
		err = s.inTx(ctx, func(tx pgx.Tx) (err error) {
			answers, err = enqueueIn(ctx, pgxRunner{tx}, b)
			return err
		})
	case len(jobs) >= copyFrom:
		answers, err = s.enqueueCopy(ctx, b)
	default:
		answers, told, err = s.enqueueFew(ctx, b)
	}
	if err != nil {
		if invalid := b.check(); invalid != nil {
			return nil, invalid
		}
		return nil, failed("enqueue", err)
	}
	s.lower(b)
	if told {
		s.wakes.local()
	} else {
		s.wakes.now()
	}
	return answers, nil
}

// foreseen reports whether the batch may begin before its jobs are checked:
// they are many, and their queues are there.
func (s *Store) foreseen(b *batch) bool {
	return b.size >= copyFrom && b.foresee() && len(s.unknown(b)) == 0
}

// unknown notes the numbers of the batch's queues, and returns those queues
// that this process has not seen yet.
func (s *Store) unknown(b *batch) []string {
	b.queueNumbers = make(map[string]int32, len(b.into))
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.into), func(name string) bool {
		number, known := s.queues[name]
		b.queueNumbers[name] = number
		return known
	})
}

// lower lets claims begin before jobs that named a due time.
func (s *Store) lower(b *batch) {
	if first := b.earliest(); len(first) > 0 {
		s.scans.lower(first)
		s.marks.clear()
	}
}

// enqueueIn adds jobs in a transaction.
func enqueueIn(ctx context.Context, r runner, b *batch) ([]store.Enqueued, error) {
	b.spread()
	if b.keyed || b.lined {
		return enqueueKeyed(ctx, r, b)
	}
	return enqueuePlain(ctx, r, b)
}

// enqueueFew adds jobs without keys in one round trip.
func (s *Store) enqueueFew(ctx context.Context, b *batch) (answers []store.Enqueued, told bool, err error) {
	b.spread()
	answers = make([]store.Enqueued, 0, b.size)
	statements := &pgx.Batch{}
	add := func() {
		statements.Queue(statement("enqueue"), b.parameters()...).Query(func(rows pgx.Rows) error {
			return eachRow(rows, func(r *row) error {
				answers = append(answers, store.Enqueued{Seq: r.number()})
				return nil
			})
		})
	}
	told = s.wakes.along()
	switch {
	case told && s.flushes:
		statements.Queue("BEGIN")
		add()
		statements.Queue(notifyUnflushed, channel, s.wakes.me)
		statements.Queue("COMMIT")
		statements.Queue(flush)
	case told:
		add()
		statements.Queue(notifyStatement, channel, s.wakes.me)
	default:
		add()
	}
	return answers, told, s.send(ctx, statements)
}

// An enqueue that wakes a sleeping worker is seen before it is on the disk, so
// that the worker claims while the disk is at work; the answer still comes
// after the flush. Nothing starts that could be lost: the log is flushed in
// order, and a worker begins when its claim, which stands behind the enqueue,
// is on the disk.
const (
	notifyUnflushed = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"
	// flush is a transaction that waits for the disk, and for standbys where
	// they are waited for, with all that was committed before it.
	flush = "SELECT pg_logical_emit_message(true, 'ebb', '')"
	// mayFlush asks whether this user may: everybody may, unless somebody took
	// it away.
	mayFlush = `SELECT coalesce(bool_and(has_function_privilege(oid, 'execute')), false)
	  FROM pg_proc WHERE proname = 'pg_logical_emit_message' AND pronamespace = 'pg_catalog'::regnamespace`
)

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
	answers, err = enqueueIn(ctx, r, b)
	if err != nil {
		return nil, failed("enqueue", foreign(err))
	}
	s.lower(b)
	return answers, failed("enqueue", s.wakes.within(ctx, r))
}

// ensureQueues makes queues that this process has not seen yet, and learns the
// numbers of all. It does so outside of any transaction of the caller.
func (s *Store) ensureQueues(ctx context.Context, b *batch) error {
	names := s.unknown(b)
	if len(names) == 0 {
		return nil
	}
	statements := &pgx.Batch{}
	statements.Queue(statement("queues"), names)
	statements.Queue(statement("queue_numbers"), names).Query(func(rows pgx.Rows) error {
		return eachRow(rows, func(r *row) error {
			b.queueNumbers[r.word()] = int32(r.number())
			return nil
		})
	})
	if err := s.send(ctx, statements); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if b.queueNumbers[name] == 0 {
			return fmt.Errorf("queue %q was made and is not there", name)
		}
		s.queues[name] = b.queueNumbers[name]
	}
	return nil
}

// enqueuePlain adds jobs without keys in one statement.
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

// run is how many sequence numbers each value of ebb_seq stands for.
const run = 32

// numbers takes n sequence numbers, in order.
func numbers(ctx context.Context, r runner, n int) (seqs []int64, err error) {
	var wire []byte
	if err := r.each(ctx, statement("numbers"), []any{runs(n)}, func(scan scan) error { return scan(&wire) }); err != nil {
		return nil, err
	}
	return numbered(wire, n)
}

// runs is how many values of ebb_seq give n numbers.
func runs(n int) int { return (n + run - 1) / run }

// numbered returns the first n numbers that the values stand for.
func numbered(wire []byte, n int) ([]int64, error) {
	if len(wire) < 8*runs(n) {
		return nil, errors.New("the database gave too few sequence numbers")
	}
	seqs := make([]int64, n)
	for i := range seqs {
		seqs[i] = int64(binary.BigEndian.Uint64(wire[i/run*8:])) + int64(i%run)
	}
	return seqs, nil
}
