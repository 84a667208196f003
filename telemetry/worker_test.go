package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/worker"
)

// work fails each job as often as its args have letters, by their class.
func work(_ context.Context, t *worker.Task) error {
	args := t.Args()
	if t.Start() > len(args) {
		return nil
	}
	switch args[t.Start()-1] {
	case 's':
		return failure.New(failure.Server, "", errors.New("503"))
	case 'f':
		return failure.Fatal(errors.New("no such thing"))
	case 'p':
		return failure.Park(errors.New("a person must look"))
	}
	return failure.Snooze(time.Minute)
}

// history runs a day of work and returns the ledger of each job.
func history(t *testing.T, change func(*worker.Config, *memory.Store)) (ledgers [][]job.Attempt) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{})
		c := worker.Config{Handlers: map[string]worker.Handler{"k": work}}
		if change != nil {
			change(&c, s)
		}
		seqs := enqueue(t, s,
			job.New{Kind: "k"}, job.New{Kind: "k", Args: []byte("ss")}, job.New{Kind: "k", Args: []byte("ssss")},
			job.New{Kind: "k", Args: []byte("f")}, job.New{Kind: "k", Args: []byte("p")}, job.New{Kind: "k", Args: []byte("zzs")})
		stop := runWorker(t, s, c)
		pass(24 * time.Hour)
		for _, seq := range seqs {
			rows, err := s.Attempts(t.Context(), seq)
			if err != nil {
				t.Fatal(err)
			}
			ledgers = append(ledgers, rows)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
	return ledgers
}

// TestWorkerIsCounted: what a real worker does is what the counters say.
func TestWorkerIsCounted(t *testing.T) {
	tel := New(Config{})
	ledgers := history(t, func(c *worker.Config, _ *memory.Store) { c.Observe = tel.Observe })
	starts := 0
	for _, rows := range ledgers {
		starts += len(rows)
	}
	if starts != 1+3+4+1+1+4 {
		t.Fatalf("%d starts in the ledger", starts)
	}
	settled := func(outcome, class string) string {
		return `ebb_jobs_settled_total{class="` + class + `",kind="k",outcome="` + outcome + `",queue="default"}`
	}
	want(t, tel, map[string]string{
		`ebb_jobs_started_total{kind="k",queue="default",try="first"}`:                                  "6",
		`ebb_jobs_started_total{kind="k",queue="default",try="retry"}`:                                  "8",
		settled("succeeded", "none"):                                                                    "3",
		settled("retried", "server"):                                                                    "6",
		settled("snoozed", "none"):                                                                      "2",
		`ebb_dead_letters_total{cause="exhausted",kind="k",queue="default"}`:                            "1",
		`ebb_dead_letters_total{cause="fatal",kind="k",queue="default"}`:                                "1",
		`ebb_jobs_parked_total{cause="config",kind="k",queue="default"}`:                                "1",
		`ebb_job_completion_seconds_count{kind="k"}`:                                                    "3",
		`ebb_retry_interval_seconds_count{attempt="2",chosen_by="schedule",policy="default"}`:           "3",
		`ebb_retry_interval_seconds_count{attempt="3",chosen_by="schedule",policy="default"}`:           "2",
		`ebb_retry_interval_seconds_count{attempt="4",chosen_by="schedule",policy="default"}`:           "1",
		`ebb_retry_interval_seconds_bucket{attempt="4",chosen_by="schedule",policy="default",le="576"}`: "1",
		`ebb_retry_interval_seconds_bucket{attempt="4",chosen_by="schedule",policy="default",le="384"}`: "0",
	})
}

// TestRemovingItChangesNothing: the ledger is the same to the microsecond with
// all of telemetry and without.
func TestRemovingItChangesNothing(t *testing.T) {
	bare := history(t, nil)
	watched := history(t, func(c *worker.Config, s *memory.Store) {
		p := trace.NewTracerProvider()
		tel := New(Config{Store: s, Log: slog.DiscardHandler, Tracer: p})
		c.Observe = tel.Observe
		c.Handlers["k"] = tel.Work(c.Handlers["k"])
	})
	if diff := cmp.Diff(bare, watched, cmpopts.EquateComparable(job.Attempt{})); diff != "" {
		t.Errorf("the ledgers differ:\n%s", diff)
	}
}

// TestStoreAway: what a worker without its store tells is counted, and so is
// who takes over.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{})
		away := &cutStore{Store: s}
		first, second := New(Config{}), New(Config{Store: s})
		hang := func(ctx context.Context, _ *worker.Task) error { <-ctx.Done(); return ctx.Err() }
		enqueue(t, s, job.New{Kind: "k"})
		stop := runWorker(t, away, worker.Config{Observe: first.Observe, Handlers: map[string]worker.Handler{"k": hang}})
		pass(time.Second)
		away.gone.Store(true)
		if err := stop(); !errors.Is(err, worker.ErrUnsaved) {
			t.Fatalf("ended with %v", err)
		}
		got := samples(t, first)
		if n := got[`ebb_store_errors_total{call="turn"}`]; n == "" || n == "0" {
			t.Errorf("failed turns: %q", n)
		}
		if n := got[`ebb_store_errors_total{call="stop"}`]; n != "1" {
			t.Errorf("failed stops: %q, want 1", n)
		}
		stop = runWorker(t, s, worker.Config{Observe: second.Observe, Handlers: map[string]worker.Handler{"k": work}})
		pass(time.Minute)
		want(t, second, map[string]string{
			"ebb_processes_reaped_total": "1", "ebb_leases_reaped_total": "1",
			`ebb_jobs_started_total{kind="k",queue="default",try="retry"}`: "1",
			`ebb_queue_jobs{queue="default",state="succeeded"}`:            "1",
			`ebb_processes{state="alive"}`:                                 "1",
		})
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
