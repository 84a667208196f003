package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Lean is design B as bare SQL, the limit that a queue of this design can
// come near: claim by UPDATE … SKIP LOCKED, complete by DELETE and INSERT into
// history, one flush a batch. It has no reaper, fences, limits or hooks.
type Lean struct {
	pool *pgxpool.Pool
}

// Two loops keep both cores busy; a third gains nothing.
const (
	leanLoops = 2
	leanBatch = 2000
)

const leanSchema = `
CREATE TABLE IF NOT EXISTS lean_job (
	id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	kind     text NOT NULL,
	queue    text NOT NULL DEFAULT 'default',
	priority smallint NOT NULL DEFAULT 0,
	due_at   timestamptz NOT NULL DEFAULT now(),
	running  boolean NOT NULL DEFAULT false,
	attempt  smallint NOT NULL DEFAULT 0,
	worker   integer,
	began_at timestamptz,
	args     jsonb NOT NULL
);
CREATE INDEX IF NOT EXISTS lean_ready ON lean_job (priority, due_at, id) WHERE NOT running;
CREATE TABLE IF NOT EXISTS lean_done (
	id bigint PRIMARY KEY, kind text NOT NULL, queue text NOT NULL, attempt smallint NOT NULL, worker integer,
	began_at timestamptz, ended_at timestamptz NOT NULL DEFAULT now(), args jsonb NOT NULL
);
CREATE TABLE IF NOT EXISTS lean_failure (
	id bigint NOT NULL, attempt smallint NOT NULL, worker integer,
	began_at timestamptz, ended_at timestamptz NOT NULL DEFAULT now(), error text NOT NULL
);`

const leanClaim = `
WITH due AS (
	SELECT id FROM lean_job WHERE NOT running AND due_at <= now()
	ORDER BY priority, due_at, id LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE lean_job j SET running = true, attempt = attempt + 1, worker = $2, began_at = now()
FROM due WHERE j.id = due.id RETURNING j.id, j.args`

const leanComplete = `
WITH gone AS (DELETE FROM lean_job WHERE id = ANY($1::bigint[]) RETURNING *)
INSERT INTO lean_done (id, kind, queue, attempt, worker, began_at, args)
SELECT id, kind, queue, attempt, worker, began_at, args FROM gone`

const leanFail = `
WITH back AS (
	UPDATE lean_job SET running = false, due_at = now() WHERE id = ANY($1::bigint[])
	RETURNING id, attempt, worker, began_at
)
INSERT INTO lean_failure (id, attempt, worker, began_at, error)
SELECT id, attempt, worker, began_at, $2 FROM back`

// Setup connects and creates the tables.
func (l *Lean) Setup(ctx context.Context, dsn string) (err error) {
	if l.pool, err = pgxpool.New(ctx, dsn); err != nil {
		return err
	}
	_, err = l.pool.Exec(ctx, leanSchema)
	return err
}

// Insert copies a batch in.
func (l *Lean) Insert(ctx context.Context, jobs []Job) error {
	if len(jobs) == 1 && jobs[0].Due.IsZero() {
		_, err := l.pool.Exec(ctx, `WITH job AS (INSERT INTO lean_job (kind, args) VALUES ('noop', $1)) SELECT pg_notify('lean', '')`, jobs[0].Args)
		return err
	}
	now := time.Now()
	_, err := l.pool.CopyFrom(ctx, pgx.Identifier{"lean_job"}, []string{"kind", "due_at", "args"},
		pgx.CopyFromSlice(len(jobs), func(i int) ([]any, error) {
			due := jobs[i].Due
			if due.IsZero() {
				due = now
			}
			return []any{"noop", due, jobs[i].Args}, nil
		}))
	return err
}

// Work runs the loops; workers is ignored, the handler runs in the loop.
func (l *Lean) Work(ctx context.Context, _ int, handle Handler) (func() error, error) {
	ctx, cancel := context.WithCancel(ctx)
	wake := make(chan struct{}, leanLoops)
	var loops sync.WaitGroup
	for i := range leanLoops {
		loops.Go(func() { must(l.loop(ctx, i, wake, handle)) })
	}
	loops.Go(func() {
		if err := l.listen(ctx, wake); ctx.Err() == nil {
			must(err)
		}
	})
	return func() error { cancel(); loops.Wait(); return nil }, nil
}

// must ends the whole child: a limit that failed half way is none.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// loop writes the results of a batch and claims the next in one transaction.
func (l *Lean) loop(ctx context.Context, worker int, wake <-chan struct{}, handle Handler) error {
	var done, failed []int64
	for ctx.Err() == nil {
		var trip pgx.Batch
		if len(done) > 0 {
			trip.Queue(leanComplete, done)
		}
		if len(failed) > 0 {
			trip.Queue(leanFail, failed, errOnce.Error())
		}
		settled := len(done)+len(failed) > 0
		trip.Queue(leanClaim, leanBatch, worker)
		var err error
		// The last results are written even if the work was told to stop.
		if done, failed, err = l.trip(context.WithoutCancel(ctx), &trip, handle, done[:0], failed[:0]); err != nil {
			return err
		}
		if settled || len(done)+len(failed) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-wake:
		case <-time.After(time.Second):
		}
	}
	return nil
}

func (l *Lean) trip(ctx context.Context, trip *pgx.Batch, handle Handler, done, failed []int64) ([]int64, []int64, error) {
	ids, args, err := l.send(ctx, trip)
	if err != nil {
		return nil, nil, fmt.Errorf("lean: %w", err)
	}
	for i, id := range ids {
		if handle(ctx, args[i]) == nil {
			done = append(done, id)
		} else {
			failed = append(failed, id)
		}
	}
	return done, failed, nil
}

// send makes one round trip, which PostgreSQL runs as one transaction.
func (l *Lean) send(ctx context.Context, trip *pgx.Batch) (ids []int64, args [][]byte, err error) {
	results := l.pool.SendBatch(ctx, trip)
	defer func() { err = errors.Join(err, results.Close()) }()
	for range trip.Len() - 1 {
		if _, err := results.Exec(); err != nil {
			return nil, nil, err
		}
	}
	rows, err := results.Query()
	if err != nil {
		return nil, nil, err
	}
	var id int64
	var arg []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &arg}, func() error {
		ids, args = append(ids, id), append(args, append([]byte(nil), arg...))
		return nil
	})
	return ids, args, err
}

// listen passes notifications on.
func (l *Lean) listen(ctx context.Context, wake chan<- struct{}) error {
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "LISTEN lean"); err != nil {
		return err
	}
	for {
		if _, err := conn.Conn().WaitForNotification(ctx); err != nil {
			return err
		}
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// Left looks for a job that is due.
func (l *Lean) Left(ctx context.Context) (left bool, err error) {
	err = l.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM lean_job WHERE due_at <= now())").Scan(&left)
	return left, err
}

// Close ends the connections.
func (l *Lean) Close() { l.pool.Close() }
