package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb/bench/pg"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/postgres"
	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/document/model"
	"github.com/ebbhq/ebb/worker"
)

const (
	schema = `{"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}`
	prompt = "What is the total? Answer as JSON.\n\n"
)

// fill writes documents of about 2 KB.
func fill(dir string, n int) error {
	in := filepath.Join(dir, "in")
	if err := os.MkdirAll(in, 0o750); err != nil {
		return err
	}
	text := strings.Repeat("One line of an invoice that nobody reads to its end.\n", 40)
	for i := range n {
		if err := os.WriteFile(filepath.Join(in, fmt.Sprintf("%05d.txt", i)), []byte(fmt.Sprintf("Invoice %d\n%s", i, text)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// check holds that every result is there.
func check(dir string, n int) error {
	found, err := filepath.Glob(filepath.Join(dir, "out", "*.json"))
	if err != nil {
		return err
	}
	if len(found) != n {
		return fmt.Errorf("%d results of %d documents", len(found), n)
	}
	return nil
}

// bare does it without a memory: objects through the same library, the same
// client, the same number at once.
func bare(ctx context.Context, dir, base string) (time.Duration, error) {
	client, err := model.New(model.Config{Protocol: model.Chat, BaseURL: base, Structured: true})
	if err != nil {
		return 0, err
	}
	in, err := document.OpenBucket(ctx, "file://"+dir+"/in")
	if err != nil {
		return 0, err
	}
	out, err := document.OpenBucket(ctx, "file://"+dir+"/out?create_dir=true")
	if err != nil {
		return 0, err
	}
	names, err := filepath.Glob(filepath.Join(dir, "in", "*.txt"))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	var next atomic.Int64
	var group sync.WaitGroup
	failures := make(chan error, atOnce)
	for range atOnce {
		group.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(names) {
					return
				}
				key := filepath.Base(names[i])
				text, err := in.ReadAll(ctx, key)
				if err == nil {
					var got model.Answer
					got, err = client.Ask(ctx, model.Request{Model: "m-1", Prompt: prompt + string(text), Schema: []byte(schema)})
					if err == nil {
						err = out.WriteAll(ctx, key+".json", []byte(got.Text), nil)
					}
				}
				if err != nil {
					failures <- err
					return
				}
			}
		})
	}
	group.Wait()
	select {
	case err := <-failures:
		return 0, err
	default:
		return time.Since(began), nil
	}
}

func onSQLite(ctx context.Context, dir, base string, n int) (time.Duration, error) {
	s, err := sqlite.Open(ctx, filepath.Join(dir, "ebb.db"), sqlite.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { _ = s.Close() }()
	return process(ctx, s, dir, base, n)
}

func onPostgres(ctx context.Context, cluster *pg.Cluster, dir, base string, n int) (time.Duration, error) {
	dsn, err := cluster.Fresh(ctx, "document")
	if err != nil {
		return 0, err
	}
	s, err := postgres.Open(ctx, dsn, postgres.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { _ = s.Close() }()
	return process(ctx, s, dir, base, n)
}

// process submits the documents and lets a worker do them; the time is that of
// the worker.
func process(ctx context.Context, s store.Store, dir, base string, n int) (time.Duration, error) {
	settings := document.Settings{Providers: map[string]document.Provider{"bench": {BaseURL: base, Concurrency: atOnce}}}
	policies, err := settings.Policies([]policy.Policy{policy.MustPreset("processing")})
	if err != nil {
		return 0, err
	}
	service, err := document.New(document.Config{Store: s, Settings: settings})
	if err != nil {
		return 0, err
	}
	defer func() { _ = service.Close() }()
	_, err = service.Submit(ctx, document.Submission{
		Pipeline: document.Pipeline{Model: "bench/m-1", Prompt: prompt + "{{.Text}}", Schema: []byte(schema)},
		Inputs:   []string{"file://" + dir + "/in/*.txt"}, Output: "file://" + dir + "/out",
	})
	if err != nil {
		return 0, err
	}
	left := atomic.Int64{}
	left.Store(int64(n))
	done := make(chan struct{})
	w, err := worker.New(s, worker.Config{
		Handlers: map[string]worker.Handler{document.Kind: service.Handle}, Queues: []string{document.Queue}, Policies: policies, Concurrency: atOnce,
		Observe: func(e worker.Event) {
			if e.What == worker.Settled && left.Add(-1) == 0 {
				close(done)
			}
		},
	})
	if err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- w.Run(ctx) }()
	select {
	case <-done:
	case err := <-ended:
		return 0, err
	}
	took := time.Since(began)
	w.Stop()
	return took, <-ended
}
