package telemetry

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/worker"
)

const scope = "github.com/ebbhq/ebb/telemetry"

// spans are the starts under way. A span begins with the Started event, before
// the handler does, and ends when the store has the outcome. Its parent is the
// traceparent that the job carries, so every start of a job, in whatever
// process and after whatever crash, is in the trace of its enqueue.
type spans struct {
	tracer trace.Tracer

	mu   sync.Mutex
	open map[startName]trace.Span
}

// startName names a start that is under way: a process has a job once.
type startName struct{ process, seq int64 }

func newSpans(p trace.TracerProvider) *spans {
	return &spans{tracer: p.Tracer(scope), open: make(map[startName]trace.Span)}
}

func (s *spans) observe(e *worker.Event) {
	name := startName{e.Process, e.Job.Seq}
	switch e.What {
	case worker.Started:
		s.start(name, e)
	case worker.Settled:
		if span := s.take(name); span != nil {
			settle(span, e)
			span.End()
		}
	case worker.Refused:
		if span := s.take(name); span != nil {
			span.SetAttributes(attribute.String("ebb.outcome", "refused"))
			span.SetStatus(codes.Error, "the lease was lost; the store refused the outcome")
			span.End()
		}
	case worker.Lost:
		s.endAll(e.Process, "the process was taken for dead")
	case worker.Stopped:
		s.endAll(e.Process, "the process stopped before the outcome was saved")
	}
}

func (s *spans) start(name startName, e *worker.Event) {
	j := &e.Job
	ctx := withTrace(context.Background(), j.Trace)
	_, span := s.tracer.Start(ctx, "start "+j.Kind, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("ebb.job.id", j.ID()),
		attribute.String("ebb.job.kind", j.Kind),
		attribute.String("ebb.queue", j.Queue),
		attribute.String("ebb.policy", j.Policy),
		attribute.Int("ebb.start", j.History.Starts+1),
		attribute.Int("ebb.attempt", j.History.Attempts+1),
		attribute.Int64("ebb.process", e.Process),
		attribute.Float64("ebb.start_lag_seconds", seconds(e.At.Sub(j.DueAt))),
	))
	if j.Target != "" {
		span.SetAttributes(attribute.String("ebb.target", j.Target))
	}
	if e.HeldBy != "" {
		span.SetAttributes(attribute.String("ebb.held_by", e.HeldBy), attribute.Float64("ebb.held_seconds", seconds(e.Held)))
	}
	if j.History.Crashes > 0 {
		span.SetAttributes(attribute.Int("ebb.crashes", j.History.Crashes))
	}
	s.mu.Lock()
	before := s.open[name]
	s.open[name] = span
	s.mu.Unlock()
	if before != nil {
		before.End()
	}
}

// settle writes the outcome and the decision with its reason.
func settle(span trace.Span, e *worker.Event) {
	outcome, class := outcomeOf(e.To, &e.Failure, &e.Decision)
	span.SetAttributes(attribute.String("ebb.outcome", outcome))
	if e.To == job.Succeeded {
		return
	}
	d := &e.Decision
	span.SetAttributes(attribute.String("ebb.class", class))
	if d.Rule != "" {
		span.SetAttributes(
			attribute.String("ebb.decision", d.String()),
			attribute.String("ebb.rule", d.Rule),
			attribute.String("ebb.policy.version", d.Version),
			attribute.Float64("ebb.delay_seconds", seconds(d.Delay)),
		)
	}
	if d.Cause != "" {
		span.SetAttributes(attribute.String("ebb.cause", string(d.Cause)))
	}
	if e.Failure.Status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", e.Failure.Status))
	}
	if e.Failure.Order == failure.OrderSnooze || e.To == job.Cancelled {
		return
	}
	text := class
	if e.Failure.Err != nil {
		text = cut(e.Failure.Err.Error())
	}
	span.SetStatus(codes.Error, text)
}

func (s *spans) take(name startName) trace.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	span := s.open[name]
	delete(s.open, name)
	return span
}

func (s *spans) of(name startName) trace.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[name]
}

func (s *spans) endAll(process int64, why string) {
	var ended []trace.Span
	s.mu.Lock()
	for name, span := range s.open {
		if name.process == process {
			ended = append(ended, span)
			delete(s.open, name)
		}
	}
	s.mu.Unlock()
	for _, span := range ended {
		span.SetStatus(codes.Error, why)
		span.End()
	}
}

// Work gives a handler its start's span in the context, so that what it calls
// is seen below it. Without a tracer it is the handler itself.
func (t *Telemetry) Work(h worker.Handler) worker.Handler {
	if t.spans == nil {
		return h
	}
	return func(ctx context.Context, task *worker.Task) error {
		j := task.Job()
		span := t.spans.of(startName{j.Process, j.Seq})
		if span == nil {
			return h(ctx, task)
		}
		return h(trace.ContextWithSpan(ctx, span), task)
	}
}

// traceContext is the W3C format. Only its traceparent is kept with a job.
var traceContext propagation.TraceContext

const traceparent = "traceparent"

// Traceparent is what a job enqueued in this context carries as its Trace;
// empty without a span.
func Traceparent(ctx context.Context) string {
	carrier := make(propagation.MapCarrier, 2)
	traceContext.Inject(ctx, carrier)
	return carrier[traceparent]
}

// withTrace returns the context of a traceparent. One that is none is ignored:
// a job may carry any text.
func withTrace(ctx context.Context, parent string) context.Context {
	if parent == "" {
		return ctx
	}
	return traceContext.Extract(ctx, propagation.MapCarrier{traceparent: parent})
}

// traceID is the trace that a traceparent names; empty if it is none.
func traceID(parent string) string {
	if sc := trace.SpanContextFromContext(withTrace(context.Background(), parent)); sc.HasTraceID() {
		return sc.TraceID().String()
	}
	return ""
}

// failedSpan marks a span whose call returned an error; a context that ended
// is an error too.
func failedSpan(span trace.Span, err error) {
	if err == nil {
		return
	}
	span.SetStatus(codes.Error, cut(err.Error()))
	if errors.Is(err, context.Canceled) {
		span.SetAttributes(attribute.String("error.type", "cancelled"))
	}
}

// maxText bounds what of an error is written to records and spans.
const maxText = 500

func cut(text string) string {
	runes := []rune(text)
	if len(runes) <= maxText {
		return text
	}
	return string(runes[:maxText-1]) + "…"
}
