// Package telemetry answers "who watches?": one observer of a worker's events
// that counts for Prometheus, traces for OpenTelemetry and writes log records.
// Nothing depends on it: a worker without an observer does the same.
//
//	t := telemetry.New(telemetry.Config{Store: s, Log: slog.Default().Handler()})
//	worker.New(s, worker.Config{Observe: t.Observe, …})
//	mux.Handle("/metrics", t.Handler())
//
// docs/monitoring.md names every metric and what to do about it.
package telemetry

import (
	"cmp"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/worker"
)

// Config says what is watched. The zero value counts events and no more.
type Config struct {
	// Store is read for the gauges of queues, processes and targets when
	// somebody scrapes; nil = there are none. Only maintained counts are read.
	Store Source
	// Policies are those of the worker. What they and the presets promise is
	// shown beside what happens; one with a preset's name replaces it.
	Policies []policy.Policy
	// Clock is policy time, as the worker has it; nil = the store's own.
	Clock clock.Clock
	// Lease is after how long without a heartbeat a process counts as silent;
	// it must be the workers'. Default 20 s.
	Lease time.Duration
	// MaxNames is how many kinds, how many pairs of kind and queue, how many
	// queues, targets and policies get series of their own, first come first
	// served. All later ones are counted together as "other". Default 200.
	MaxNames int
	// Fresh is how long what was read from the store answers further scrapes.
	// Machine time. Default 5 s.
	Fresh time.Duration
	// Machine is the time of Fresh. Default: the machine's clock.
	Machine clock.Clock
	// Version of the program, for ebb_build_info.
	Version string
	// Log gets records of what happens, as Log writes them; nil = none.
	Log slog.Handler
	// Tracer gets a span for each start, enqueue and outbound call; nil = no
	// spans. Package telemetry/otlp makes one from the OTEL_* variables.
	Tracer trace.TracerProvider
}

const (
	defaultLease    = 20 * time.Second
	defaultMaxNames = 200
	defaultFresh    = 5 * time.Second
)

// Telemetry is the observer. It is safe for concurrent use.
type Telemetry struct {
	registry *prometheus.Registry
	metrics  *metrics
	log      func(worker.Event) // nil = no records
	spans    *spans             // nil = no spans
}

// New returns an observer. It panics on a policy that cannot be sealed: the
// worker refuses it too.
func New(c Config) *Telemetry {
	c.Lease = cmp.Or(c.Lease, defaultLease)
	c.MaxNames = cmp.Or(c.MaxNames, defaultMaxNames)
	c.Fresh = cmp.Or(c.Fresh, defaultFresh)
	if c.Machine == nil {
		c.Machine = clock.System{}
	}
	t := &Telemetry{registry: prometheus.NewRegistry()}
	promises := newPromises(c.Policies)
	t.metrics = newMetrics(t.registry, c.MaxNames, promises)
	t.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		promises,
	)
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ebb_build_info", Help: "Always 1; its labels say what runs.",
	}, []string{"version", "go_version"})
	gauge.WithLabelValues(cmp.Or(c.Version, "unknown"), runtime.Version()).Set(1)
	t.registry.MustRegister(gauge)
	if c.Store != nil {
		t.registry.MustRegister(newReading(&c, t.metrics))
	}
	if c.Log != nil {
		t.log = Log(c.Log)
	}
	if c.Tracer != nil {
		t.spans = newSpans(c.Tracer)
	}
	return t
}

// Observe is worker.Config.Observe.
func (t *Telemetry) Observe(e worker.Event) {
	t.metrics.observe(&e)
	if t.log != nil {
		t.log(e)
	}
	if t.spans != nil {
		t.spans.observe(&e)
	}
}

// Registry is where further metrics of the same process are registered.
func (t *Telemetry) Registry() *prometheus.Registry { return t.registry }

// Handler serves /metrics. What can be told is told, also while the store
// cannot be read: ebb_store_up is 0 then.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError,
		Registry:      t.registry,
	})
}
