package queue

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

// River is tuned for throughput: 1,000 workers, a fetch cooldown of 1 ms, its
// own batching completer, bulk inserts by COPY.
type River struct {
	pool     *pgxpool.Pool
	inserter *river.Client[pgx.Tx]
	probe    *probe
}

type riverArgs struct{ raw json.RawMessage }

func (riverArgs) Kind() string                      { return "noop" }
func (a riverArgs) MarshalJSON() ([]byte, error)    { return a.raw, nil }
func (a *riverArgs) UnmarshalJSON(raw []byte) error { a.raw = append(a.raw[:0], raw...); return nil }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	handle Handler
}

func (w *riverWorker) Work(ctx context.Context, job *river.Job[riverArgs]) error {
	return w.handle(ctx, job.Args.raw)
}

// atOnce retries without delay.
type atOnce struct{}

func (atOnce) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

// Setup connects and migrates.
func (r *River) Setup(ctx context.Context, dsn string) error {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return err
	}
	config.MaxConns = 10
	if r.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	if r.probe, err = newProbe(ctx, dsn, riverLeft); err != nil {
		return err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Logger: quiet()})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	// The cooldown bounds how often an inserting client notifies as well.
	r.inserter, err = river.NewClient(riverpgxv5.New(r.pool), &river.Config{FetchCooldown: time.Millisecond, Logger: quiet()})
	return err
}

func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 4}))
}

// Insert adds one job as users do, many by COPY.
func (r *River) Insert(ctx context.Context, jobs []Job) error {
	if len(jobs) == 1 {
		_, err := r.inserter.Insert(ctx, riverArgs{jobs[0].Args}, riverDue(jobs[0]))
		return err
	}
	params := make([]river.InsertManyParams, len(jobs))
	for i, j := range jobs {
		params[i] = river.InsertManyParams{Args: riverArgs{j.Args}, InsertOpts: riverDue(j)}
	}
	_, err := r.inserter.InsertManyFast(ctx, params)
	return err
}

func riverDue(j Job) *river.InsertOpts {
	if j.Due.IsZero() {
		return nil
	}
	return &river.InsertOpts{ScheduledAt: j.Due}
}

// Work starts a client.
func (r *River) Work(ctx context.Context, workers int, handle Handler) (func() error, error) {
	known := river.NewWorkers()
	river.AddWorker(known, &riverWorker{handle: handle})
	client, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		FetchCooldown: time.Millisecond, FetchPollInterval: 100 * time.Millisecond,
		JobTimeout:  -1,
		RetryPolicy: atOnce{},
		Logger:      quiet(),
		Workers:     known,
	})
	if err != nil {
		return nil, err
	}
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	return func() error { return client.Stop(context.WithoutCancel(ctx)) }, nil
}

// riverLeft looks for a job that is due and neither completed nor given up.
const riverLeft = `SELECT EXISTS (SELECT FROM river_job
	WHERE state IN ('available', 'running', 'retryable', 'pending') AND scheduled_at <= now() + interval '1 minute')`

// Left looks for unfinished work.
func (r *River) Left(ctx context.Context) (bool, error) { return r.probe.left(ctx) }

// Close ends the connections.
func (r *River) Close() { r.probe.close(); r.pool.Close() }
