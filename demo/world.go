package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/supervise"
	"github.com/ebbhq/ebb/work/webhook"
	"github.com/ebbhq/ebb/worker"
)

// world is one engine with its database, its workloads and its policies.
type world struct {
	foil     bool
	dir      string
	at       string // address of the console
	seed     uint64
	size     size
	clock    *clock.Eased
	store    store.Store
	ops      engine.Ops
	keeper   *access.Keeper
	policies []policy.Policy
	counts   *counts

	provider  *provider
	webhooks  *webhook.Service
	documents *document.Service
	runs      *supervise.Service

	end   context.CancelFunc
	tasks sync.WaitGroup
	mu    sync.Mutex
	errs  []error
}

// newWorld opens a database in the directory and begins to work on it.
func newWorld(ctx context.Context, dir string, o Options, policyTime *clock.Eased, rules func() ([]policy.Policy, error)) (*world, error) {
	policies, err := rules()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s, err := sqlite.Open(ctx, filepath.Join(dir, "ebb.db"), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	p, err := newProvider(ctx, policyTime)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	derived, err := p.settings().Policies(policies)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	policies = append(policies, derived...)
	w := &world{
		provider: p,
		foil:     filepath.Base(dir) == "foil", dir: dir, seed: o.Seed, size: o.size, clock: policyTime, store: s, policies: policies, counts: newCounts(),
		ops: engine.New(s, policies, engine.Config{Actor: "demo", Clock: policyTime, Lease: time.Duration(20 * o.Speed * float64(time.Second))}),
	}
	if err := w.employ(ctx, o.Self); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return w, nil
}

// employ makes the workloads and lets a worker do them.
func (w *world) employ(ctx context.Context, self []string) error {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	var err error
	if w.keeper, err = access.New(w.store, nil, key); err != nil {
		return err
	}
	w.webhooks, err = webhook.New(webhook.Config{
		Store: w.store, Seal: w.keeper, Policies: w.policies, Clock: w.clock,
		Lookup:        func(string) (string, bool) { return "", false },
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	if err != nil {
		return err
	}
	w.documents, err = document.New(document.Config{
		Store: w.store, Ops: w.ops, Clock: w.clock, Settings: w.provider.settings(),
		Lookup: func(name string) (string, bool) { return "demo", name == "DEMO_KEY" },
	})
	if err != nil {
		return err
	}
	if len(self) > 0 {
		w.runs, err = supervise.New(supervise.Config{Store: w.store, Policies: w.policies, Self: self, Clock: w.clock, StopRuns: true, Report: time.Second})
		if err != nil {
			return err
		}
	}
	c := worker.Config{
		Handlers: w.webhooks.Handlers(),
		Queues:   []string{job.DefaultQueue, webhook.Queue, document.Queue, supervise.DefaultQueue},
		Policies: w.policies, Clock: w.clock, Seed: w.seed, Observe: w.counts.observe, Host: "demo",
	}
	c.Handlers[document.Kind] = w.documents.Handle
	if w.runs != nil {
		c.Handlers[supervise.Kind] = w.runs.Handle
	}
	crew, err := worker.New(w.store, c)
	if err != nil {
		return err
	}
	ctx, w.end = context.WithCancel(ctx)
	w.task(ctx, crew.Run)
	w.task(ctx, w.webhooks.Run)
	if w.runs != nil {
		w.task(ctx, w.runs.Run)
	}
	return nil
}

func (w *world) task(ctx context.Context, run func(context.Context) error) {
	w.tasks.Go(func() {
		if err := run(ctx); err != nil && ctx.Err() == nil {
			w.mu.Lock()
			w.errs = append(w.errs, err)
			w.mu.Unlock()
		}
	})
}

// console serves the console on loopback, for whoever is on this machine to
// look and nobody to act: logins would end within seconds of policy time.
func (w *world) console(ctx context.Context) (string, error) {
	c := console.Config{Ops: w.ops, Policies: w.policies, Now: w.clock.Now, Webhooks: w.webhooks, Documents: w.documents}
	if w.runs != nil {
		c.Runs = w.runs
	}
	looks, err := console.New(c)
	if err != nil {
		return "", err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := api.Server(looks)
	go func() { _ = server.Serve(l) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	w.at = "http://" + l.Addr().String()
	return w.at, nil
}

// close ends the world; its database goes with the directory.
func (w *world) close() error {
	w.end()
	w.tasks.Wait()
	w.provider.Close()
	w.webhooks.Close()
	err := errors.Join(append(w.errs, w.documents.Close(), w.store.Close())...)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

// until waits, looking every so often, until done says so. Machine time.
func until(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		over, err := done()
		if over || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
