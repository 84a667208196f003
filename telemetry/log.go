package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/worker"
)

// Log turns events into records: success and snoozes at debug, a retry with its decision
// in words at info, dead letters, parked jobs and open breakers at warn, what
// went wrong with the store or the process itself at error.
//
// Repeats are sampled: of records at info and above that are alike, ten a
// minute are written, and the next one after that says how many were not.
// Records carry the events' own time, policy time as the store tells it, and
// by it the minute is counted.
func Log(h slog.Handler) func(worker.Event) {
	s := &sampler{seen: make(map[alike]*repeats)}
	return func(e worker.Event) {
		level, text := levelOf(&e)
		ctx := context.Background()
		if !h.Enabled(ctx, level) {
			return
		}
		r := slog.NewRecord(e.At, level, text, 0)
		r.AddAttrs(attrsOf(&e)...)
		if level > slog.LevelDebug {
			unsaid, ok := s.admit(alikeOf(&e), e.At)
			if !ok {
				return
			}
			if unsaid > 0 {
				r.AddAttrs(slog.Int("unsaid", unsaid))
			}
		}
		_ = h.Handle(ctx, r) // a log that cannot be written has nobody to tell
	}
}

// said is how the events that tell all by their kind are told.
var said = map[worker.EventKind]struct {
	level slog.Level
	text  string
}{
	worker.Registered:     {slog.LevelInfo, "the worker takes part"},
	worker.Claimed:        {slog.LevelDebug, "claimed"},
	worker.Started:        {slog.LevelDebug, "started"},
	worker.Held:           {slog.LevelDebug, "held"},
	worker.Refused:        {slog.LevelWarn, "outcome refused: the lease was lost, and the job runs elsewhere"},
	worker.Stuck:          {slog.LevelWarn, "handler given up: it did not return after its context ended"},
	worker.Ordered:        {slog.LevelInfo, "cancel order reached the handler"},
	worker.Reaped:         {slog.LevelWarn, "took over from a dead process"},
	worker.Lost:           {slog.LevelError, "this process was taken for dead; it registers again"},
	worker.Redriven:       {slog.LevelInfo, "queued again by a redrive"},
	worker.Fired:          {slog.LevelDebug, "schedule fired"},
	worker.Probing:        {slog.LevelInfo, "probing the target"},
	worker.GateOpened:     {slog.LevelWarn, "breaker opened"},
	worker.GateClosed:     {slog.LevelInfo, "breaker closed"},
	worker.GatePaused:     {slog.LevelInfo, "the target asked for a pause"},
	worker.TargetDisabled: {slog.LevelWarn, "target disabled"},
	worker.Erred:          {slog.LevelError, "a call of the store failed; it is made again"},
	worker.Draining:       {slog.LevelInfo, "draining: nothing more is claimed"},
	worker.Stopping:       {slog.LevelInfo, "stopping: contexts of running handlers end"},
}

// endedBy says what ended jobs without the settle of a start.
var endedBy = map[string]string{
	worker.ByDeadline: "the deadline passed while it waited",
	worker.ByHold:     "its target held it for longer than max_hold",
	worker.ByTarget:   "its target is disabled",
	worker.ByKey:      "the job ahead in its key failed",
	worker.ByCrash:    "its process died",
}

func levelOf(e *worker.Event) (slog.Level, string) {
	switch {
	case e.What == worker.Settled:
		return settledLevel(e)
	case e.What == worker.Ended && e.To == job.Parked:
		return slog.LevelWarn, fmt.Sprintf("parked (%s): %s", e.Cause, endedBy[e.Text])
	case e.What == worker.Ended:
		return slog.LevelWarn, fmt.Sprintf("dead letter (%s): %s", e.Cause, endedBy[e.Text])
	case e.What == worker.Stopped && e.Err != nil:
		return slog.LevelError, "stopped before everything was saved"
	case e.What == worker.Stopped:
		return slog.LevelInfo, "stopped"
	}
	if s, ok := said[e.What]; ok {
		return s.level, s.text
	}
	return slog.LevelInfo, string(e.What)
}

func settledLevel(e *worker.Event) (slog.Level, string) {
	switch e.To {
	case job.Succeeded:
		return slog.LevelDebug, "succeeded"
	case job.Queued:
		if e.Failure.Order == failure.OrderSnooze {
			return slog.LevelDebug, "snoozed"
		}
		return slog.LevelInfo, e.Decision.String()
	case job.Failed:
		return slog.LevelWarn, "dead letter: " + e.Decision.String()
	case job.Parked:
		return slog.LevelWarn, "parked: " + e.Decision.String()
	}
	return slog.LevelInfo, string(e.To)
}

func attrsOf(e *worker.Event) []slog.Attr {
	attrs := []slog.Attr{slog.String("event", string(e.What)), slog.Int64("process", e.Process)}
	text := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	if j := &e.Job; j.Seq != 0 {
		attrs = append(attrs, slog.String("job", j.ID()), slog.String("kind", j.Kind), slog.String("queue", j.Queue),
			slog.Int("start", j.History.Starts+1), slog.Int("attempt", j.History.Attempts+1))
		text("policy", j.Policy)
		text("trace_id", traceID(j.Trace))
	} else {
		text("kind", j.Kind)
		text("queue", j.Queue)
		text("policy", j.Policy)
	}
	text("target", cmp.Or(e.Target, e.Job.Target))
	if e.What == worker.Settled {
		outcome, class := outcomeOf(e.To, &e.Failure, &e.Decision)
		attrs = append(attrs, slog.String("outcome", outcome), slog.Float64("took_s", seconds(e.Took)))
		if e.To != job.Succeeded {
			attrs = append(attrs, failedAttrs(e, class)...)
		}
	}
	if e.What == worker.Ended {
		text("to", string(e.To))
		text("cause", string(e.Cause))
		attrs = append(attrs, slog.Bool("untried", e.Untried))
	}
	if e.HeldBy != "" {
		attrs = append(attrs, slog.String("held_by", e.HeldBy), slog.Float64("held_s", seconds(e.Held)))
	}
	text("text", e.Text)
	if e.Count != 0 {
		attrs = append(attrs, slog.Int("count", e.Count))
	}
	if e.Err != nil {
		text("error", cut(e.Err.Error()))
	}
	return attrs
}

func failedAttrs(e *worker.Event, class string) []slog.Attr {
	f, d := &e.Failure, &e.Decision
	attrs := []slog.Attr{slog.String("class", class)}
	text := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	text("reason", f.Reason)
	if f.Status != 0 {
		attrs = append(attrs, slog.Int("status", f.Status))
	}
	text("cause", string(d.Cause))
	text("rule", d.Rule)
	text("version", d.Version)
	if e.To == job.Queued {
		attrs = append(attrs, slog.Float64("delay_s", seconds(d.Delay)))
	}
	if f.Err != nil {
		text("error", cut(f.Err.Error()))
	}
	return attrs
}
