package ebb_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/worker"
)

type greeting struct{ Name string }

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

// databases runs a test on a fresh one of each. open gives a client on it,
// closed when the test ends.
func databases(t *testing.T, test func(t *testing.T, open func(options ...ebb.Option) *ebb.Client)) {
	kept := memory.New(memory.Config{})
	for name, open := range map[string]func(t *testing.T) func(options ...ebb.Option) (*ebb.Client, error){
		"memory": func(*testing.T) func(...ebb.Option) (*ebb.Client, error) {
			return func(o ...ebb.Option) (*ebb.Client, error) { return ebb.New(kept, o...) }
		},
		"sqlite": func(t *testing.T) func(...ebb.Option) (*ebb.Client, error) {
			url := "sqlite:" + filepath.Join(t.TempDir(), "ebb.db")
			return func(o ...ebb.Option) (*ebb.Client, error) { return ebb.Open(t.Context(), url, o...) }
		},
		"postgres": func(t *testing.T) func(...ebb.Option) (*ebb.Client, error) {
			url := pgtest.Database(t)
			return func(o ...ebb.Option) (*ebb.Client, error) { return ebb.Open(t.Context(), url, o...) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			opener := open(t)
			test(t, func(options ...ebb.Option) *ebb.Client {
				c, err := opener(options...)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				})
				return c
			})
		})
	}
}

// background runs the client; the returned function waits for its end.
func background(t *testing.T, c *ebb.Client) (ended func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- c.Run(context.WithoutCancel(t.Context())) }()
	return func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func enqueue(t *testing.T, c *ebb.Client, j ebb.Job) string {
	t.Helper()
	answer, err := c.Enqueue(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return answer.ID
}

func TestEnqueueAndRun(t *testing.T) {
	databases(t, func(t *testing.T, open func(...ebb.Option) *ebb.Client) {
		c := open()
		names := make(chan string, 9)
		ebb.Handle(c, "greet", func(_ context.Context, task *ebb.Task, args greeting) error {
			task.SetResult([]byte("hello " + args.Name))
			names <- args.Name
			return nil
		})
		ebb.Handle(c, "last", func(context.Context, *ebb.Task, struct{}) error {
			c.Stop()
			return nil
		})
		before := enqueue(t, c, ebb.Job{Kind: "greet", Args: greeting{"Ada"}})
		ended := background(t, c)
		if got := <-names; got != "Ada" {
			t.Errorf("greeted %q, want Ada", got)
		}
		many, err := c.EnqueueMany(t.Context(), []ebb.Job{
			{Kind: "greet", Args: []byte(`{"Name": "Bob"}`)},
			{Kind: "greet", Args: "not an object"},
			{Kind: "greet"},
		})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{<-names: true, <-names: true}
		if !got["Bob"] || !got[""] {
			t.Errorf("greeted %v, want Bob and nobody", got)
		}
		enqueue(t, c, ebb.Job{Kind: "last", Priority: 9})
		ended()

		j, err := c.Job(t.Context(), before)
		if err != nil || j.State != job.Succeeded || string(j.Result) != "hello Ada" {
			t.Errorf("job %+v: %v", j, err)
		}
		j, err = c.Job(t.Context(), many[1].ID)
		if err != nil || j.State != job.Failed || j.Cause != retry.CauseFatal || j.LastClass != failure.InvalidInput {
			t.Errorf("unreadable args: %s %s %s: %v; want failed, fatal, invalid_input", j.State, j.Cause, j.LastClass, err)
		}
	})
}

func TestUniqueCancelRetry(t *testing.T) {
	databases(t, func(t *testing.T, open func(...ebb.Option) *ebb.Client) {
		c := open()
		tomorrow := time.Now().Add(24 * time.Hour)
		first := enqueue(t, c, ebb.Job{Kind: "k", Unique: "u", DueAt: tomorrow})
		again, err := c.Enqueue(t.Context(), ebb.Job{Kind: "k", Unique: "u"})
		if err != nil || !again.Existing || again.ID != first {
			t.Errorf("second: %+v %v, want the first one's id %s", again, err, first)
		}
		if err := c.Retry(t.Context(), first); err != nil {
			t.Error(err)
		}
		if j, err := c.Job(t.Context(), first); err != nil || j.DueAt.After(time.Now()) {
			t.Errorf("due at %s after Retry: %v", j.DueAt, err)
		}
		if state, err := c.Cancel(t.Context(), first); err != nil || state != job.Cancelled {
			t.Errorf("Cancel: %s %v", state, err)
		}
		for name, err := range map[string]error{
			"retry of a cancelled job": c.Retry(t.Context(), first),
			"job of no such id":        second(c.Job(t.Context(), job.FormatID(99))),
			"cancel of a broken id":    second(c.Cancel(t.Context(), "x")),
		} {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
}

// TestTwoClients: two processes' worth of workers share a database. Every job
// is done; none that succeeded runs twice; those that fail once run once more.
func TestTwoClients(t *testing.T) {
	const jobs = 2000
	again := policy.Base("again")
	again.Target, again.Concurrency, again.Batch = policy.Process, 500, 500
	again.Backoff = policy.Backoff{Base: time.Millisecond, Factor: 1}
	again.Waivers = []policy.Waiver{{Rule: "floor", Reason: "calls nobody", Expires: time.Now().AddDate(0, 0, 1)}}
	databases(t, func(t *testing.T, open func(...ebb.Option) *ebb.Client) {
		var starts [jobs]atomic.Int32
		var left atomic.Int32
		left.Store(jobs)
		done := make(chan struct{})
		var ends []func()
		var clients []*ebb.Client
		for range 2 {
			c := open(ebb.WithPolicies(again), ebb.WithConcurrency(500))
			ebb.Handle(c, "work", func(_ context.Context, task *ebb.Task, n int) error {
				if starts[n].Add(1) == 1 && n%10 == 0 {
					return errors.New("once")
				}
				if left.Add(-1) == 0 {
					close(done)
				}
				return nil
			})
			clients = append(clients, c)
		}
		list := make([]ebb.Job, jobs)
		for n := range list {
			list[n] = ebb.Job{Kind: "work", Args: n, Policy: "again"}
		}
		if _, err := clients[0].EnqueueMany(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for _, c := range clients {
			ends = append(ends, background(t, c))
		}
		<-done
		for i, c := range clients {
			c.Stop()
			ends[i]()
		}
		for n := range starts {
			want := int32(1)
			if n%10 == 0 {
				want = 2
			}
			if got := starts[n].Load(); got != want {
				t.Errorf("job %d started %d times, want %d", n, got, want)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestOpenRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"":                        "no scheme",
		"app.db":                  "no scheme",
		"sqlite:":                 "names no file",
		"sqlite://app.db":         "sqlite:app.db",
		"sqlite::memory:":         "memory:",
		"memory:x":                "no name",
		"redis://me:secret@h":     "redis:…: unknown scheme",
		"postgres://me:secret@%%": "",
	} {
		c, err := ebb.Open(t.Context(), url)
		if err == nil {
			c.Close()
			t.Errorf("Open(%q) succeeded", url)
		} else if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q): %v; want %q and no password", url, err, want)
		}
	}
	if _, err := ebb.Open(t.Context(), "memory:", ebb.WithPolicyFile("testdata/missing.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing policy file: %v", err)
	}
}

func TestLifecycle(t *testing.T) {
	open := func(options ...ebb.Option) *ebb.Client {
		c, err := ebb.Open(t.Context(), "memory:", options...)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	nothing := func(context.Context, *ebb.Task) error { return nil }
	t.Run("no handler", func(t *testing.T) {
		if err := open().Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no handlers") {
			t.Errorf("Run: %v", err)
		}
	})
	t.Run("stop before run", func(t *testing.T) {
		c := open()
		c.HandleRaw("k", nothing)
		c.Stop()
		if err := c.Run(t.Context()); err != nil {
			t.Errorf("Run after Stop: %v", err)
		}
		if err := c.Run(t.Context()); !errors.Is(err, worker.ErrRunning) {
			t.Errorf("second Run: %v", err)
		}
	})
	t.Run("close ends run", func(t *testing.T) {
		c := open()
		begun := make(chan struct{})
		c.HandleRaw("k", func(ctx context.Context, _ *ebb.Task) error {
			close(begun)
			return nil
		})
		id := enqueue(t, c, ebb.Job{Kind: "k"})
		ended := background(t, c)
		<-begun
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		ended()
		if err := c.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		if err := c.Run(t.Context()); !errors.Is(err, ebb.ErrClosed) {
			t.Errorf("Run after Close: %v", err)
		}
		if _, err := c.Job(t.Context(), id); !errors.Is(err, ebb.ErrClosed) {
			t.Errorf("Job after Close: %v", err)
		}
		seq, err := job.ParseID(id)
		if err != nil {
			t.Fatal(err)
		}
		if j, err := c.Store().Job(t.Context(), seq); err != nil || j.State != job.Succeeded {
			t.Errorf("job is %s: %v", j.State, err)
		}
	})
	t.Run("nothing after close", func(t *testing.T) {
		c := open()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"Enqueue":      second(c.Enqueue(t.Context(), ebb.Job{Kind: "k"})),
			"EnqueueMany":  second(c.EnqueueMany(t.Context(), nil)),
			"EnqueueTx":    second(c.EnqueueTx(t.Context(), nil, ebb.Job{Kind: "k"})),
			"Cancel":       second(c.Cancel(t.Context(), "0000000000001")),
			"Retry":        c.Retry(t.Context(), "0000000000001"),
			"PauseTarget":  c.PauseTarget(t.Context(), "t", time.Time{}),
			"ResumeTarget": c.ResumeTarget(t.Context(), "t"),
			"ProbeTarget":  c.ProbeTarget(t.Context(), "t"),
			"CloseTarget":  c.CloseTarget(t.Context(), "t"),
			"LimitQueue":   c.LimitQueue(t.Context(), "q", ebb.QueueLimit{}),
			"PauseKind":    c.PauseKind(t.Context(), "k"),
			"ResumeKind":   c.ResumeKind(t.Context(), "k"),
			"DropPeriodic": c.DropPeriodic(t.Context(), "p"),
		} {
			if !errors.Is(err, ebb.ErrClosed) {
				t.Errorf("%s: %v, want ErrClosed", name, err)
			}
		}
	})
	t.Run("what makes no sense", func(t *testing.T) {
		c := open()
		due := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
		for want, err := range map[string]error{
			"args: have 16777217 bytes, at most 16777216":             second(c.Enqueue(t.Context(), ebb.Job{Kind: "k", Args: make([]byte, ebb.MaxArgs+1)})),
			"args: json: unsupported type":                            second(c.Enqueue(t.Context(), ebb.Job{Kind: "k", Args: func() {}})),
			"2026-01-01T23:59:59Z is before it is due":                second(c.Enqueue(t.Context(), ebb.Job{Kind: "k", DueAt: due, DeadlineAt: due.Add(-time.Second)})),
			"ebb: job: 0000000000999: store: no such job":             second(c.Job(t.Context(), "0000000000999")),
			"ebb: cancel: 0000000000999: store: no such job":          second(c.Cancel(t.Context(), "0000000000999")),
			"ebb: retry: 0000000000999: store: no such job":           c.Retry(t.Context(), "0000000000999"),
			"ebb: queue: default: concurrency -1: must be 0 (no limi": c.LimitQueue(t.Context(), "default", ebb.QueueLimit{Concurrency: -1}),
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		if _, err := c.Enqueue(t.Context(), ebb.Job{Kind: "k", Args: make([]byte, ebb.MaxArgs)}); err != nil {
			t.Errorf("as much as may be: %v", err)
		}
	})
	t.Run("no store", func(t *testing.T) {
		if _, err := ebb.New(nil); err == nil || !strings.Contains(err.Error(), "Open a URL") {
			t.Errorf("New: %v", err)
		}
	})
	t.Run("bad policy", func(t *testing.T) {
		p := policy.Base("mine")
		p.Target, p.Backoff.Base = policy.Endpoint, time.Second
		c := open(ebb.WithPolicies(p))
		c.HandleRaw("k", nothing)
		var refused *policy.EnforceError
		if err := c.Run(t.Context()); !errors.As(err, &refused) {
			t.Errorf("Run: %v, want an EnforceError", err)
		}
	})
	for name, again := range map[string]func(*ebb.Client){
		"empty kind":     func(c *ebb.Client) { c.HandleRaw("", nothing) },
		"no function":    func(c *ebb.Client) { c.HandleRaw("k", nil) },
		"no handler":     func(c *ebb.Client) { ebb.Handle[string](c, "k", nil) },
		"second handler": func(c *ebb.Client) { c.HandleRaw("k", nothing); c.HandleRaw("k", nothing) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			again(open())
		})
	}
}
