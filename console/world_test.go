package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/worker"
)

// world is a console on loopback over SQLite, in which a quarter of an hour
// has passed: jobs in every state, a target whose breaker is open, a paused
// queue, dead letters of several kinds, a redrive under way, a process.
type world struct {
	*site
	keeper *access.Keeper
	url    string
	past
}

// past is what the world has lived through.
type past struct {
	file string // a database as it was then
	now  time.Time

	// Ids of jobs, by what became of them.
	waiting, died, parked, running, retried string
	// Of webhooks: endpoints that are well and down, a delivery of each.
	endpoint, down, delivered, undelivered string
	batch                                  string // of documents
}

const (
	crm  = "https://crm.example/hook"
	mail = "mx.example"
)

// worldPart is a workload of the world.
type worldPart struct {
	// open puts it into the console of a world over the store; nil = nothing
	// to do.
	open func(t *testing.T, keeps store.Store, c *clock.Fake, config *console.Config)
	// live gives it something to show, once for all worlds; nil = nothing.
	live func(w *world)
}

// worldParts are the workloads of the world, one line each.
var worldParts = []worldPart{
	webhookWorld,
	documentWorld,
	campaignWorld,
}

// lived is the past of all worlds: it is lived once.
var lived struct {
	once sync.Once
	past past
}

func newWorld(t *testing.T) *world {
	t.Helper()
	lived.once.Do(func() {
		dir, err := os.MkdirTemp("", "ebb-world-")
		if err != nil {
			t.Fatal(err)
		}
		// SQLite ends sessions by the machine's clock: the world begins today.
		w := &world{past: past{file: filepath.Join(dir, "ebb.db"), now: time.Now().Truncate(time.Minute)}}
		keeps := w.open(t, w.file)
		w.live()
		w.now = w.clock.Now()
		w.ok(keeps.Close())
		lived.past = w.past
	})
	if lived.past.file == "" {
		t.Fatal("the world's past failed, see the first test that needed it")
	}
	w := &world{past: lived.past}
	file := filepath.Join(t.TempDir(), "ebb.db")
	text, err := os.ReadFile(w.file)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	keeps := w.open(t, file)
	t.Cleanup(func() {
		if err := keeps.Close(); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(w.handler)
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

func (w *world) open(t *testing.T, file string) store.Store {
	t.Helper()
	keeps, err := sqlite.Open(t.Context(), file, sqlite.Options{Relaxed: true})
	if err != nil {
		t.Fatal(err)
	}
	c := clock.NewFake(w.now)
	if w.keeper, err = access.New(keeps, c, nil); err != nil {
		t.Fatal(err)
	}
	w.site = over(t, keeps, c, func(config *console.Config) {
		config.Keeper = w.keeper
		for _, p := range worldParts {
			if p.open != nil {
				p.open(t, keeps, c, config)
			}
		}
	})
	return keeps
}

// live lets a quarter of an hour pass.
func (w *world) live() {
	w.Helper()
	handlers := map[string]worker.Handler{"mail": w.send, "bill": w.bill, "hook": w.hook, "sync": w.sync}
	for step := range 15 {
		for i := range 4 + (step*7)%5 {
			w.add(engine.NewJob{Kind: "mail", Queue: "mail", Args: json.RawMessage(fmt.Sprintf(`{"to":"user%d@example.com"}`, 10*step+i))})
		}
		if step%3 == 0 {
			w.died = w.add(engine.NewJob{Kind: "bill", Args: json.RawMessage(`{"invoice":1712}`)})
		}
		if step > 10 {
			w.retried = w.add(engine.NewJob{Kind: "hook", Queue: "hooks", Target: crm, Policy: "webhook", Args: json.RawMessage(`{"event":"invoice.paid"}`)})
		}
		if step == 5 {
			w.parked = w.add(engine.NewJob{Kind: "sync", Key: "account-7"})
		}
		w.serve([]string{"mail", "default", "hooks"}, handlers)
		w.clock.Advance(time.Minute)
	}
	w.serve([]string{"mail", "default", "hooks"}, handlers)
	for range 12 {
		w.add(engine.NewJob{Kind: "hook", Queue: "hooks", Target: crm, Policy: "webhook"})
	}
	w.serve([]string{"hooks"}, handlers)
	w.add(engine.NewJob{Kind: "mail", Queue: "mail", Target: mail})
	w.waiting = w.add(engine.NewJob{Kind: "report", Queue: "reports", Key: "order-17", Batch: "monthly"})
	w.add(engine.NewJob{Kind: "report", Queue: "reports", Key: "order-18", DueAt: w.clock.Now().Add(time.Hour)})
	_, err := w.ops.PauseQueue(w.Context(), "reports")
	w.ok(err)
	for _, p := range worldParts {
		if p.live != nil {
			p.live(w)
		}
	}
	// Last, for workers carry it out.
	_, err = w.ops.Redrive(w.Context(), engine.Order{Filter: engine.Filter{Kind: "bill", State: job.Failed}, Rate: 0.001})
	w.ok(err)
	w.hold()
	w.clock.Advance(95 * time.Second)
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// hold leaves a job running in a process that lives.
func (w *world) hold() {
	w.Helper()
	w.running = w.add(engine.NewJob{Kind: "import", Queue: "imports"})
	now := w.clock.Now().Add(90 * time.Second)
	p, err := w.store.Register(w.Context(), now, store.Process{Host: "worker-1", PID: 4711, Kinds: []string{"bill", "hook", "import", "mail"}, Queues: []string{"default", "hooks", "imports", "mail"}, Version: "1.4.0"})
	w.ok(err)
	turned, err := w.store.Turn(w.Context(), store.Turn{Process: p.ID, Now: now, Claims: []store.Claim{{Queue: "imports", Kinds: []string{"import"}, Limit: 1}}})
	w.ok(err)
	if len(turned.Claimed) != 1 {
		w.Fatalf("claimed %d", len(turned.Claimed))
	}
}

// send fails the first start of every fourth message.
func (w *world) send(_ context.Context, t *worker.Task) error {
	if t.Job().Seq%4 == 0 && t.Start() == 1 {
		return failure.New(failure.Unavailable, "", errors.New("421 try again later"))
	}
	return nil
}

func (w *world) bill(context.Context, *worker.Task) error {
	return failure.Fatal(errors.New("invoice 1712: the amount <0> & currency are missing"))
}

func (w *world) hook(context.Context, *worker.Task) error {
	return failure.New(failure.Server, "", errors.New("503 Service Unavailable"))
}

func (w *world) sync(context.Context, *worker.Task) error {
	return failure.Park(errors.New("the API key of account 7 was revoked"))
}
