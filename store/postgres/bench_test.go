package postgres_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/postgres"
)

// The benchmarks compare the store with lean B: bare SQL that claims by UPDATE
// and completes by DELETE and INSERT into a history without an index, with
// neither ledger, counters nor fencing. Both run in turns on the same server;
// only the ratio counts. One iteration is one round of both:
//
//	go test ./store/postgres -run '^$' -bench . -benchtime 3x
const (
	benchJobs  = 50_000
	benchBatch = 1000
	benchConns = 3
)

type bench struct {
	*testing.B
	server *pgtest.Server
	url    string
	pool   *pgxpool.Pool
	store  *postgres.Store
	rates  map[string][]float64
}

func newBench(b *testing.B) *bench {
	server := pgtest.Start(b, pgtest.Config{Settings: []string{"shared_buffers=1GB", "max_wal_size=8GB"}})
	url := server.Database(b, "template0")
	x := &bench{B: b, server: server, url: url, pool: connect(b, url), store: open(b, url, postgres.Options{}), rates: map[string][]float64{}}
	x.exec(`CREATE TABLE lean_job (
		seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, due_at timestamptz NOT NULL DEFAULT now(), state smallint NOT NULL DEFAULT 0,
		process bigint, priority smallint NOT NULL DEFAULT 0, starts smallint NOT NULL DEFAULT 0, queue text NOT NULL DEFAULT 'default', kind text NOT NULL, args bytea)`)
	x.exec(`CREATE INDEX lean_ready ON lean_job (queue, priority, due_at, seq) WHERE state = 0`)
	x.exec(`CREATE TABLE lean_done (
		seq bigint, due_at timestamptz, process bigint, priority smallint, starts smallint, queue text, kind text, args bytea, ended_at timestamptz NOT NULL DEFAULT now())`)
	return x
}

func (x *bench) exec(sql string, args ...any) {
	x.Helper()
	if _, err := x.pool.Exec(x.Context(), sql, args...); err != nil {
		x.Fatal(err)
	}
}

func (x *bench) wal() (bytes float64) {
	if err := x.pool.QueryRow(x.Context(), "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8").Scan(&bytes); err != nil {
		x.Fatal(err)
	}
	return bytes
}

// cpu returns the seconds that the server's processes have used, those that
// have ended left out.
func (x *bench) cpu() (seconds float64) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		x.Fatal(err)
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if parent, _ := strconv.Atoi(fields[1]); parent != x.server.PID() {
			continue
		}
		for _, f := range fields[11:13] {
			ticks, _ := strconv.ParseFloat(f, 64)
			seconds += ticks / 100
		}
	}
	return seconds
}

// own returns the seconds that this process has used.
func (x *bench) own() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		x.Fatal(err)
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

// measure runs f, which handles benchJobs jobs, and remembers its rate.
func (x *bench) measure(name string, f func()) {
	wal, cpu, own, began := x.wal(), x.cpu(), x.own(), time.Now()
	f()
	took := time.Since(began).Seconds()
	x.rates[name] = append(x.rates[name], benchJobs/took)
	x.rates[name+" WAL"] = append(x.rates[name+" WAL"], (x.wal()-wal)/benchJobs)
	x.rates[name+" own"] = append(x.rates[name+" own"], (x.own()-own)/benchJobs*1e6)
	x.rates[name+" CPU"] = append(x.rates[name+" CPU"], (x.cpu()-cpu)/benchJobs*1e6)
}

// report prints medians and the ratio of ebb to lean.
func (x *bench) report() {
	median := func(name string) float64 {
		all := slices.Sorted(slices.Values(x.rates[name]))
		return all[len(all)/2]
	}
	x.ReportMetric(0, "ns/op")
	x.ReportMetric(median("ebb"), "ebb/s")
	x.ReportMetric(median("ebb WAL"), "ebb-WAL/job")
	x.ReportMetric(median("ebb CPU"), "ebb-dbµs/job")
	x.ReportMetric(median("ebb own"), "ebb-ownµs/job")
	if len(x.rates["lean"]) > 0 {
		x.ReportMetric(median("lean"), "lean/s")
		x.ReportMetric(median("lean WAL"), "lean-WAL/job")
		x.ReportMetric(median("lean CPU"), "lean-dbµs/job")
		x.ReportMetric(median("lean own"), "lean-ownµs/job")
		x.ReportMetric(median("ebb")/median("lean"), "ebb/lean")
	}
}

func (x *bench) jobs() []job.New {
	return slices.Repeat([]job.New{{Kind: "noop", Args: []byte(`{"n":12345}`)}}, 5000)
}

func (x *bench) enqueue() {
	jobs := x.jobs()
	for range benchJobs / len(jobs) {
		if _, err := x.store.Enqueue(x.Context(), time.Time{}, jobs); err != nil {
			x.Fatal(err)
		}
	}
}

func (x *bench) enqueueLean() {
	kinds, args := make([]string, 5000), make([][]byte, 5000)
	for i := range kinds {
		kinds[i], args[i] = "noop", []byte(`{"n":12345}`)
	}
	for range benchJobs / len(kinds) {
		x.exec("INSERT INTO lean_job (kind, args) SELECT * FROM unnest($1::text[], $2::bytea[])", kinds, args)
	}
}

// together runs f on every connection.
func (x *bench) together(f func(ctx context.Context, n int) error) {
	var all sync.WaitGroup
	for n := range benchConns {
		all.Go(func() {
			if err := f(x.Context(), n); err != nil {
				x.Error(err)
			}
		})
	}
	all.Wait()
}

// drain works everything off. Of a job's starts the first fails if fail is
// set.
func (x *bench) drain(fail bool) {
	p, err := x.store.Register(x.Context(), time.Time{}, store.Process{Host: "bench", Kinds: []string{"noop"}})
	if err != nil {
		x.Fatal(err)
	}
	left := make(chan struct{}, benchJobs)
	x.together(func(ctx context.Context, _ int) error {
		turn := store.Turn{Process: p.ID, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"noop"}, Limit: benchBatch}}}
		for len(left) < benchJobs {
			answer, err := x.store.Turn(ctx, turn)
			if err != nil {
				return err
			}
			for i, ok := range answer.Settled {
				if !ok {
					return fmt.Errorf("refused: %+v", turn.Settles[i])
				}
				if turn.Settles[i].To == job.Succeeded {
					left <- struct{}{}
				}
			}
			turn.Settles = turn.Settles[:0]
			now := time.Now()
			for i := range answer.Claimed {
				turn.Settles = append(turn.Settles, outcome(&answer.Claimed[i], now, fail))
			}
		}
		return nil
	})
}

// outcome settles a job as a worker would.
func outcome(j *job.Job, now time.Time, fail bool) store.Settle {
	h := j.History.Started(now)
	h.Attempts++
	a := &job.Attempt{
		Seq: j.Seq, Start: h.Starts, Epoch: j.Epoch, Process: j.Process, StartedAt: now, EndedAt: now, OK: true, Version: "0123456789ab",
	}
	s := store.Settle{Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Succeeded, History: h, Attempt: a}
	if fail && h.Starts == 1 {
		s.To, s.Fingerprint = job.Queued, "6f1c2a9b"
		a.OK, a.Class, a.Status, a.Error, a.Action = false, failure.Server, 503, "503 Service Unavailable", "retry"
		a.Counted, a.Rule = retry.CountedAttempt, "builtin/server"
	}
	return s
}

// drainLean is the loop of lean B.
func (x *bench) drainLean(fail bool) {
	const complete = `WITH gone AS (DELETE FROM lean_job WHERE seq = ANY ($1) AND process = $2 RETURNING *)
		INSERT INTO lean_done (seq, due_at, process, priority, starts, queue, kind, args) SELECT seq, due_at, process, priority, starts, queue, kind, args FROM gone RETURNING seq`
	const again = `UPDATE lean_job SET state = 0, process = NULL, due_at = now() WHERE seq = ANY ($1) AND process = $2 RETURNING seq`
	const claim = `UPDATE lean_job j SET state = 1, process = $1, starts = starts + 1
		FROM (SELECT seq FROM lean_job WHERE queue = 'default' AND state = 0 AND priority = 0 AND due_at <= now() ORDER BY due_at, seq LIMIT $2 FOR UPDATE SKIP LOCKED) c
		WHERE j.seq = c.seq RETURNING j.seq, j.starts, j.kind, j.args`
	left := make(chan struct{}, benchJobs)
	x.together(func(ctx context.Context, n int) error {
		var done, failed []int64
		for len(left) < benchJobs {
			b := &pgx.Batch{}
			for sql, seqs := range map[string][]int64{complete: done, again: failed} {
				if len(seqs) > 0 {
					b.Queue(sql, seqs, n).Query(func(rows pgx.Rows) error {
						for rows.Next() {
							if sql == complete {
								left <- struct{}{}
							}
						}
						return rows.Err()
					})
				}
			}
			done, failed = nil, nil
			b.Queue(claim, n, benchBatch).Query(func(rows pgx.Rows) error {
				for rows.Next() {
					var seq int64
					var starts int16
					var kind string
					var args []byte
					if err := rows.Scan(&seq, &starts, &kind, &args); err != nil {
						return err
					}
					if fail && starts == 1 {
						failed = append(failed, seq)
					} else {
						done = append(done, seq)
					}
				}
				return rows.Err()
			})
			if err := x.pool.SendBatch(ctx, b).Close(); err != nil {
				return err
			}
		}
		return nil
	})
}

func (x *bench) clear() {
	x.exec("TRUNCATE ebb_job, ebb_done, ebb_attempt, ebb_tally, ebb_look, ebb_gate, ebb_note, lean_job, lean_done")
}

func BenchmarkEnqueue(b *testing.B) {
	x := newBench(b)
	for range b.N {
		x.clear()
		x.measure("ebb", x.enqueue)
		x.measure("lean", x.enqueueLean)
	}
	x.report()
}

func BenchmarkDrain(b *testing.B) {
	x := newBench(b)
	for range b.N {
		x.clear()
		x.enqueue()
		x.measure("ebb", func() { x.drain(false) })
		x.enqueueLean()
		x.measure("lean", func() { x.drainLean(false) })
	}
	x.report()
}

func BenchmarkFailOnce(b *testing.B) {
	x := newBench(b)
	for range b.N {
		x.clear()
		x.enqueue()
		x.measure("ebb", func() { x.drain(true) })
		x.enqueueLean()
		x.measure("lean", func() { x.drainLean(true) })
	}
	x.report()
}

// BenchmarkHeldSnapshot drains while a reader's old snapshot keeps everything
// that was claimed from being removed. "lean" is the same drain without it.
func BenchmarkHeldSnapshot(b *testing.B) {
	x := newBench(b)
	const rounds = 10 // of benchJobs each: what is dead adds up
	drain := func(name string) {
		for range rounds {
			x.enqueue()
			x.measure(name, func() { x.drain(false) })
		}
	}
	for range b.N {
		x.clear()
		drain("lean")
		x.clear()
		reader, err := x.pool.BeginTx(b.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			b.Fatal(err)
		}
		var n int
		if err := reader.QueryRow(b.Context(), "SELECT count(*) FROM ebb_job").Scan(&n); err != nil {
			b.Fatal(err)
		}
		drain("ebb")
		if err := reader.Rollback(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	x.report()
}

// BenchmarkFuture drains beside a million jobs that are not due. "lean" is the
// same drain without them.
func BenchmarkFuture(b *testing.B) {
	x := newBench(b)
	for range b.N {
		x.clear()
		x.enqueue()
		x.measure("lean", func() { x.drain(false) })
		x.exec(`INSERT INTO ebb_job (seq, due_at, enqueued_at, queue_number, kind, args)
			SELECT -i, now() + i * interval '1 second', now(), q.number, 'noop', '{}'
			  FROM generate_series(10000, 1010000) AS i, ebb_queue q WHERE q.name = 'default'`)
		x.enqueue()
		x.measure("ebb", func() { x.drain(false) })
	}
	x.report()
}
