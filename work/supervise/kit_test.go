package supervise

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/worker"
)

// TestMain lets this binary be the wrapper of its own runs.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "supervise-child" {
		if err := Child(os.Args[2]); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// kit is a real supervisor over a store in memory, on policy time that runs
// faster than the machine's.
type kit struct {
	*testing.T
	dir     string
	store   store.Store
	clock   clock.Clock
	service *Service
	// policies of the worker beside the presets.
	policies []policy.Policy

	mu     sync.Mutex
	events []Event
	hooks  map[EventKind]func()
}

// onEvent does something when the supervisor tells of such an event.
func (k *kit) onEvent(what EventKind, do func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hooks = map[EventKind]func(){what: do}
}

// await looks until something is so.
func await(t *testing.T, so func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(time.Minute); !so(); <-tick.C {
		if time.Now().After(until) {
			t.Fatal("not so after a minute")
		}
	}
}

// newKit runs policy time 300 times faster: 2 min of back-off are 0.4 s.
func newKit(t *testing.T, change ...func(*Config)) *kit { return newKitAt(t, 300, change...) }

func newKitAt(t *testing.T, speed float64, change ...func(*Config)) *kit {
	t.Helper()
	k := &kit{T: t, dir: t.TempDir(), clock: clock.Scaled{Start: time.Now(), Factor: speed}}
	k.store = memory.New(memory.Config{Clock: k.clock})
	t.Cleanup(func() { _ = k.store.Close() })
	k.service = k.newService(change...)
	return k
}

func (k *kit) newService(change ...func(*Config)) *Service {
	k.Helper()
	self, err := os.Executable()
	if err != nil {
		k.Fatal(err)
	}
	c := Config{
		Store: k.store, Self: []string{self, "supervise-child"}, Clock: k.clock,
		Poll: 10 * time.Millisecond, Report: 50 * time.Millisecond, StopRuns: true,
		Observe: func(e Event) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.events = append(k.events, e)
			if do := k.hooks[e.What]; do != nil {
				do()
			}
		},
	}
	for _, f := range change {
		f(&c)
	}
	s, err := New(c)
	if err != nil {
		k.Fatal(err)
	}
	return s
}

// shell is a spec of a shell script.
func (k *kit) shell(script string) Spec {
	return Spec{Version: 1, Name: "crawl", Dir: k.dir, Command: Words("sh", "-c", script)}
}

func (k *kit) submit(s Spec) {
	k.Helper()
	if _, err := k.service.Submit(k.Context(), k.clock.Now(), Submission{Spec: s}); err != nil {
		k.Fatal(err)
	}
}

// work runs a worker until the run's job is in a state that done accepts.
func (k *kit) work(done func(Run) bool) Run {
	k.Helper()
	w, err := worker.New(k.store, worker.Config{
		Handlers: map[string]worker.Handler{Kind: k.service.Handle}, Queues: []string{DefaultQueue},
		Policies: k.policies, Clock: k.clock, Seed: 1, Grace: 1000 * time.Hour, Drain: time.Second,
		Observe: func(e worker.Event) {
			if e.What == worker.Settled {
				k.Logf("settled: %s %s %v", e.To, e.Failure.Reason, e.Decision)
			}
		},
	})
	if err != nil {
		k.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(k.Context(), time.Minute)
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var r Run
	for {
		if r, err = k.service.Show(k.Context(), "crawl"); err != nil {
			k.Fatal(err)
		}
		if done(r) {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			k.Fatalf("not there after a minute: %+v", r)
		}
	}
	w.Stop()
	w.Stop()
	if err := <-ran; err != nil {
		k.Fatal(err)
	}
	if r, err = k.service.Show(k.Context(), "crawl"); err != nil {
		k.Fatal(err)
	}
	return r
}

func over(r Run) bool {
	return r.State == job.Succeeded || r.State == job.Failed || r.State == job.Parked || r.State == job.Cancelled
}

// do submits a run and works until it is over.
func (k *kit) do(s Spec) Run {
	k.Helper()
	k.submit(s)
	return k.work(over)
}

func (k *kit) count(what EventKind) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, e := range k.events {
		if e.What == what {
			n++
		}
	}
	return n
}

func (k *kit) file(name string) string {
	k.Helper()
	text, err := os.ReadFile(filepath.Join(k.dir, name))
	if err != nil {
		k.Fatal(err)
	}
	return string(text)
}
