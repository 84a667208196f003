package main

import (
	"context"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/work/supervise"
	"github.com/ebbhq/ebb/worker"
)

// superviseSettings is the key supervise of the configuration file.
type superviseSettings struct {
	// Commands lets administrators submit commands over the API. Whoever may,
	// runs programs here. Default false.
	Commands bool `yaml:"commands"`
	// Queues that are served beside runs.
	Queues []string `yaml:"queues"`
	// StopRuns: a server that stops stops its runs too, instead of leaving
	// them running for the next one.
	StopRuns bool `yaml:"stop_runs"`
}

// superviseWork is supervised runs.
func (a *app) superviseWork(on site) (workload, error) {
	w := workload{name: "supervise", queues: append([]string{supervise.DefaultQueue}, on.settings.Supervise.Queues...)}
	self, err := os.Executable()
	if err != nil {
		return w, err
	}
	service, err := supervise.New(supervise.Config{
		Store: on.store, Policies: on.policies, Self: []string{self, "supervise-child"}, Clock: on.clock,
		StopRuns: on.settings.Supervise.StopRuns, Log: on.log,
	})
	if err != nil {
		return w, err
	}
	w.handlers = map[string]worker.Handler{supervise.Kind: service.Handle}
	w.collectors = []prometheus.Collector{&runCollector{service: service}}
	w.run = service.Run
	w.serve = func(asks *api.Config, looks *console.Config) {
		asks.Runs, asks.RunCommands = service, on.settings.Supervise.Commands
		looks.Runs = service
	}
	return w, nil
}

// runCollector tells of runs at /metrics what their text files tell.
type runCollector struct{ service *supervise.Service }

// Describe sends nothing: which runs there are is known when they are asked
// for.
func (*runCollector) Describe(chan<- *prometheus.Desc) {}

// scrapeTimeout bounds how long a scrape waits for the store.
const scrapeTimeout = 5 * time.Second

// Collect tells how the runs stand.
func (c *runCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	runs, err := c.service.List(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewDesc("ebb_run_error", "Runs could not be read.", nil, nil), err)
		return
	}
	c.service.Samples(runs, func(s supervise.Sample) {
		labels, values := []string{"run"}, []string{s.Run}
		if s.Label != "" {
			labels, values = append(labels, s.Label), append(values, s.Value)
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(s.Name, s.Help, labels, nil), prometheus.GaugeValue, s.Number, values...)
	})
}
