package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

// Ops returns the same operations, with enqueues counted and traced: a job
// that brings no Trace of its own carries that of the enqueue's span.
func (t *Telemetry) Ops(o engine.Ops) engine.Ops { return &watched{Ops: o, telemetry: t} }

type watched struct {
	engine.Ops
	telemetry *Telemetry
}

// Enqueue adds the jobs. All of one call share the span.
func (w *watched) Enqueue(ctx context.Context, jobs ...engine.NewJob) ([]engine.Enqueued, error) {
	if s := w.telemetry.spans; s != nil && len(jobs) > 0 {
		name := "enqueue"
		if kind := jobs[0].Kind; kind != "" && same(jobs) {
			name += " " + kind
		}
		var span trace.Span
		ctx, span = s.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
			attribute.Int("ebb.jobs", len(jobs)), attribute.String("ebb.queue", orDefault(jobs[0].Queue))))
		defer span.End()
		jobs = traced(jobs, Traceparent(ctx))
		answers, err := w.enqueue(ctx, jobs)
		failedSpan(span, err)
		if len(answers) == 1 {
			span.SetAttributes(attribute.String("ebb.job.id", answers[0].ID), attribute.Bool("ebb.existing", answers[0].Existing))
		}
		return answers, err
	}
	return w.enqueue(ctx, jobs)
}

func (w *watched) enqueue(ctx context.Context, jobs []engine.NewJob) ([]engine.Enqueued, error) {
	answers, err := w.Ops.Enqueue(ctx, jobs...)
	for i := range answers {
		if !answers[i].Existing {
			w.telemetry.metrics.lane(answers[i].Kind, answers[i].Queue).enqueued.Inc()
		}
	}
	return answers, err
}

// traced returns the jobs with the trace where they bring none.
func traced(jobs []engine.NewJob, parent string) []engine.NewJob {
	out := make([]engine.NewJob, len(jobs))
	copy(out, jobs)
	for i := range out {
		if out[i].Trace == "" {
			out[i].Trace = parent
		}
	}
	return out
}

func same(jobs []engine.NewJob) bool {
	for i := range jobs {
		if jobs[i].Kind != jobs[0].Kind {
			return false
		}
	}
	return true
}

func orDefault(queue string) string {
	if queue == "" {
		return job.DefaultQueue
	}
	return queue
}
