package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/telemetry"
	"github.com/ebbhq/ebb/worker"
)

// workload is one kind of work that the server does itself, and what it adds
// to the server. Every field may be empty.
type workload struct {
	name        string
	handlers    map[string]worker.Handler
	classifiers []failure.Classifier
	queues      []string
	// settings is a fingerprint of its configuration: jobs that were parked for
	// it come back when it has changed.
	settings   string
	collectors []prometheus.Collector
	// observe is told what the worker does, before the server's own observer.
	observe func(worker.Event)
	// serve adds its routes and pages.
	serve func(*api.Config, *console.Config)
	// run is its own upkeep, until the context ends.
	run func(context.Context) error
}

// site is what a workload is built on.
type site struct {
	store store.Store
	ops   engine.Ops
	// keeper seals and opens the secrets that a workload keeps: Seal, Open.
	keeper   *access.Keeper
	policies []policy.Policy
	settings settings
	log      *slog.Logger
	observe  func(worker.Event)
	// telemetry traces: outbound calls go through its Transport. Nil for
	// commands that only ask.
	telemetry *telemetry.Telemetry
	tracer    trace.TracerProvider // nil = off
	// clock is policy time; nil = the store's and the machine's. The
	// demonstration lets it run faster: a workload hands it on.
	clock clock.Clock
}

// workloads makes all that are shipped.
func (a *app) workloads(on site) ([]workload, error) {
	var all []workload
	for _, makeOne := range []func(site) (workload, error){
		a.checkWork,
		a.superviseWork,
		a.campaignWork,
		a.webhookWork,
		a.documentWork,
		a.fetchWork,
	} {
		w, err := makeOne(on)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		all = append(all, w)
	}
	return all, nil
}

// checkWork is the one kind that does nothing and succeeds, so that anybody
// can see a job go through.
func (a *app) checkWork(site) (workload, error) {
	return workload{
		name:     "check",
		handlers: map[string]worker.Handler{checkKind: func(context.Context, *worker.Task) error { return nil }},
	}, nil
}

// crew puts the workloads into one worker.
func crew(all []workload, c *worker.Config) {
	c.Handlers = map[string]worker.Handler{}
	c.Queues = []string{job.DefaultQueue}
	for _, w := range all {
		maps.Copy(c.Handlers, w.handlers)
		c.Classifiers = append(c.Classifiers, w.classifiers...)
		for _, q := range w.queues {
			if !slices.Contains(c.Queues, q) {
				c.Queues = append(c.Queues, q)
			}
		}
		if next := c.Observe; w.observe != nil {
			c.Observe = func(e worker.Event) {
				w.observe(e)
				if next != nil {
					next(e)
				}
			}
		}
		if w.settings != "" {
			c.Settings += w.name + "=" + w.settings + ";"
		}
	}
}
