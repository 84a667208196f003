package document

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/work/document/model"
	"github.com/ebbhq/ebb/worker"
)

// meter counts what this process did.
type meter struct {
	starts     *prometheus.CounterVec
	ended      *prometheus.CounterVec
	retries    *prometheus.CounterVec
	succeeded  *prometheus.HistogramVec
	invalid    *prometheus.CounterVec
	raws       *prometheus.CounterVec
	normalised *prometheus.CounterVec
	resumed    *prometheus.CounterVec
	calls      *prometheus.HistogramVec
	tokens     *prometheus.CounterVec
	cost       *prometheus.CounterVec
}

func newMeter() *meter {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	return &meter{
		starts:     counter("ebb_document_starts_total", "Starts of documents that were settled; try is first or retry.", "provider", "try"),
		ended:      counter("ebb_document_ended_total", "Documents that ended, by state; class is of a failure.", "provider", "state", "class"),
		retries:    counter("ebb_document_ended_retries_total", "Retries that documents had taken when they ended, by the state they ended in.", "provider", "state"),
		succeeded:  histogram("ebb_document_succeeded_seconds", "From the submission of a document until it succeeded.", []float64{1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200}, "provider"),
		invalid:    counter("ebb_document_invalid_output_total", "Answers that were refused, by reason.", "provider", "reason"),
		raws:       counter("ebb_document_raw_captures_total", "Refused answers that were kept for people.", "provider"),
		normalised: counter("ebb_document_normalisations_total", "Steps that were needed to get at the JSON of an answer.", "step"),
		resumed:    counter("ebb_document_resumed_total", "Starts that went on with an answer kept by an earlier one.", "provider"),
		calls:      histogram("ebb_document_model_seconds", "How long calls of a model took.", []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120}, "provider", "model"),
		tokens:     counter("ebb_document_tokens_total", "Tokens as the provider counts them; direction is input or output.", "provider", "model", "direction"),
		cost:       counter("ebb_document_cost_dollars_total", "What the tokens cost at the configured prices.", "provider", "model"),
	}
}

// Collectors are the service's metrics.
func (s *Service) Collectors() []prometheus.Collector {
	m := s.meter
	return []prometheus.Collector{m.starts, m.ended, m.retries, m.succeeded, m.invalid, m.raws, m.normalised, m.resumed, m.calls, m.tokens, m.cost}
}

func (m *meter) asked(provider, name string, took time.Duration, u model.Usage, cost money) {
	m.calls.WithLabelValues(provider, name).Observe(took.Seconds())
	m.tokens.WithLabelValues(provider, name, "input").Add(float64(u.Input))
	m.tokens.WithLabelValues(provider, name, "output").Add(float64(u.Output))
	m.cost.WithLabelValues(provider, name).Add(cost.dollars())
}

func (m *meter) refused(provider, reason string, kept bool) {
	m.invalid.WithLabelValues(provider, reason).Inc()
	if kept {
		m.raws.WithLabelValues(provider).Inc()
	}
}

// Observe counts what becomes of documents, and hears when a job may have been
// left behind its document; it is an observer of the worker.
func (s *Service) Observe(e worker.Event) {
	s.suspect(e)
	if e.Job.Kind != Kind {
		return
	}
	m, provider := s.meter, e.Job.Target
	switch e.What {
	case worker.Settled:
	case worker.Ended:
		m.ended.WithLabelValues(provider, string(e.To), "").Add(float64(e.Count))
		return
	default:
		return
	}
	try := "first"
	if e.Job.History.Attempts > 0 {
		try = "retry"
	}
	m.starts.WithLabelValues(provider, try).Inc()
	if e.To == job.Queued {
		return
	}
	class := ""
	if e.To != job.Succeeded {
		class = e.Failure.Class.String()
	}
	m.ended.WithLabelValues(provider, string(e.To), class).Inc()
	m.retries.WithLabelValues(provider, string(e.To)).Add(float64(e.Job.History.Attempts))
	if e.To == job.Succeeded {
		m.succeeded.WithLabelValues(provider).Observe(e.At.Sub(e.Job.EnqueuedAt).Seconds())
	}
}
