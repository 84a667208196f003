package demo

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
)

// Seed 001's kind of trouble: documents to be processed by a provider that
// browns out, and some that no retry can mend.
const (
	documentsSent   = 40
	documentsBroken = 2
	brownout        = 2 * time.Minute
)

// documents runs durable jobs in a SQLite file through a brownout of their
// provider, and asks why one of them waits.
func documents(ctx context.Context, o Options) error {
	heading(o, "documents and a provider that browns out (seed 001)",
		fmt.Sprintf("%d durable jobs in SQLite under the preset processing; the provider answers 503 for %s", documentsSent, brownout))
	dir, err := os.MkdirTemp("", "ebb-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system empties its temporary directory
	policyTime := clock.Scaled{Start: time.Now(), Factor: o.Speed}
	provider, err := listen(ctx, func(w http.ResponseWriter, _ *http.Request) {
		if policyTime.Now().Sub(policyTime.Start) < brownout {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	if err != nil {
		return err
	}
	defer provider.close()
	client, err := ebb.Open(ctx, "sqlite:"+filepath.Join(dir, "jobs.db"), ebb.WithClock(policyTime))
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // the file is removed
	return process(ctx, o, client, provider, policyTime)
}

// process enqueues the documents, runs them and tells how they ended.
func process(ctx context.Context, o Options, client *ebb.Client, provider *server, policyTime clock.Clock) error {
	var ended, retried atomic.Int64
	done := make(chan struct{})
	ebb.Handle(client, "document", func(ctx context.Context, t *ebb.Task, number int) error {
		if t.Attempt() > 1 {
			retried.Add(1)
		}
		if number < documentsBroken {
			return failure.New(failure.InvalidOutput, "schema", fmt.Errorf("document %d: the answer breaks its schema", number))
		}
		return provider.call(ctx, fmt.Sprintf("/documents/%d", number))
	})
	jobs := make([]ebb.Job, documentsSent)
	for i := range jobs {
		jobs[i] = ebb.Job{Kind: "document", Policy: "processing", Args: i}
	}
	sent, err := client.EnqueueMany(ctx, jobs)
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- client.Run(run) }()
	go func() {
		defer close(done)
		for _, s := range sent {
			for {
				j, err := client.Job(run, s.ID)
				if err != nil || !j.State.Live() {
					ended.Add(1)
					break
				}
				if clock.Sleep(run, policyTime, time.Second) != nil {
					return
				}
			}
		}
	}()
	if err := explainOne(ctx, o, client, sent[documentsSent-1].ID, policyTime); err != nil {
		return err
	}
	select {
	case <-done:
	case err := <-failed:
		return err
	}
	stop()
	return tally(context.WithoutCancel(ctx), o, client, sent, retried.Load())
}

// explainOne waits until a job has failed once and tells why it waits.
func explainOne(ctx context.Context, o Options, client *ebb.Client, id string, policyTime clock.Clock) error {
	for {
		j, err := client.Job(ctx, id)
		if err != nil {
			return err
		}
		if j.State == job.Queued && j.History.Starts > 0 {
			break
		}
		if err := clock.Sleep(ctx, policyTime, time.Second); err != nil {
			return err
		}
	}
	why, err := engine.New(client.Store(), nil, engine.Config{Clock: policyTime}).Why(ctx, id)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "  ebb job why %s\n    %s\n\n", id, why.Text)
	return nil
}

func tally(ctx context.Context, o Options, client *ebb.Client, sent []ebb.Enqueued, retried int64) error {
	states := map[job.State]int{}
	fatal := 0
	for _, s := range sent {
		j, err := client.Job(ctx, s.ID)
		if err != nil {
			return err
		}
		states[j.State]++
		if j.Cause == retry.CauseFatal && j.History.Starts == 1 {
			fatal++
		}
	}
	fmt.Fprintf(o.Out, "  %d succeeded after %d retries, %d failed at once for a broken schema (0 retries), %d lost\n",
		states[job.Succeeded], retried, fatal, documentsSent-states[job.Succeeded]-fatal)
	return nil
}
