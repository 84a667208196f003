package telemetry

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/worker"
)

// recorded returns a provider and what it has recorded, ended spans only.
func recorded() (*sdk.TracerProvider, *tracetest.InMemoryExporter) {
	e := tracetest.NewInMemoryExporter()
	return sdk.NewTracerProvider(sdk.WithSyncer(e)), e
}

func attr(s tracetest.SpanStub, key string) attribute.Value {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value
		}
	}
	return attribute.Value{}
}

// wantAttrs fails the test unless the span says so; "" = it says nothing.
func wantAttrs(t *testing.T, s tracetest.SpanStub, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if got := attr(s, key); got.Type() == attribute.EMPTY && value != "" || got.Type() != attribute.EMPTY && got.String() != value {
			t.Errorf("span %q: %s is %q, want %q", s.Name, key, got.String(), value)
		}
	}
}

// called answers with a status and notes the traceparents it was sent.
type called struct {
	status int
	seen   []string
}

func (c *called) RoundTrip(r *http.Request) (*http.Response, error) {
	c.seen = append(c.seen, r.Header.Get("Traceparent"))
	rec := httptest.NewRecorder()
	rec.WriteHeader(c.status)
	return rec.Result(), nil
}

// TestTrace follows a job: enqueue, a start that fails, a crash of its
// process, and the start that succeeds in another one are one trace, and the
// calls that handlers make stand below their starts.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, spans := recorded()
		s := memory.New(memory.Config{})
		tel := New(Config{Tracer: provider})
		server := &called{status: 503}
		client := &http.Client{Transport: tel.Transport(server)}
		call := func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, "POST", "http://me:secret@shop.example/hook?token=secret", nil)
			if err != nil {
				return err
			}
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			if err := resp.Body.Close(); err != nil || resp.StatusCode == 200 {
				return err
			}
			return failure.New(failure.Server, "", errors.New("503 Service Unavailable"))
		}

		ops := tel.Ops(engine.New(s, nil, engine.Config{}))
		answer, err := ops.Enqueue(t.Context(), engine.NewJob{Kind: "deliver", Target: "shop.example"})
		if err != nil {
			t.Fatal(err)
		}
		id := answer[0].ID
		enqueued := spans.GetSpans()[0]
		root := enqueued.SpanContext
		if got := answer[0].Trace; got != "00-"+root.TraceID().String()+"-"+root.SpanID().String()+"-01" {
			t.Fatalf("the job carries %q", got)
		}

		// First start: 503, retried by policy. Second: its process dies.
		hang := false
		away := &cutStore{Store: s}
		stop := runWorker(t, away, worker.Config{Observe: tel.Observe, Handlers: map[string]worker.Handler{
			"deliver": tel.Work(func(ctx context.Context, _ *worker.Task) error {
				if hang {
					<-ctx.Done()
					return ctx.Err()
				}
				hang = true
				return call(ctx)
			}),
		}})
		pass(time.Minute)
		away.gone.Store(true)
		if err := stop(); !errors.Is(err, worker.ErrUnsaved) {
			t.Fatalf("the crash ended with %v", err)
		}
		// Third start, in another process with its own telemetry.
		server.status = 200
		other := New(Config{Tracer: provider})
		stop = runWorker(t, s, worker.Config{Observe: other.Observe, Handlers: map[string]worker.Handler{
			"deliver": other.Work(func(ctx context.Context, _ *worker.Task) error { return call(ctx) }),
		}})
		pass(time.Hour)
		if err := stop(); err != nil {
			t.Fatal(err)
		}

		var starts, calls []tracetest.SpanStub
		for _, span := range spans.GetSpans() {
			if span.SpanContext.TraceID() != root.TraceID() {
				t.Errorf("span %q is in another trace", span.Name)
			}
			switch span.Name {
			case "start deliver":
				starts = append(starts, span)
				if span.Parent.SpanID() != root.SpanID() || !span.Parent.IsRemote() {
					t.Errorf("a start's parent is %s, want the enqueue %s", span.Parent.SpanID(), root.SpanID())
				}
			case "POST":
				calls = append(calls, span)
			}
		}
		if len(starts) != 3 || len(calls) != 2 {
			t.Fatalf("%d starts and %d calls, want 3 and 2", len(starts), len(calls))
		}
		wantAttrs(t, enqueued, map[string]string{"ebb.job.id": id, "ebb.queue": "default", "ebb.jobs": "1", "ebb.existing": "false"})
		if enqueued.SpanKind != trace.SpanKindProducer || starts[0].SpanKind != trace.SpanKindConsumer || calls[0].SpanKind != trace.SpanKindClient {
			t.Error("spans are of the wrong kind")
		}
		wantAttrs(t, starts[0], map[string]string{
			"ebb.job.id": id, "ebb.job.kind": "deliver", "ebb.queue": "default", "ebb.target": "shop.example", "ebb.policy": "default",
			"ebb.start": "1", "ebb.attempt": "1", "ebb.crashes": "",
			"ebb.outcome": "retried", "ebb.class": "server", "ebb.rule": "builtin/server", "ebb.cause": "",
		})
		decision, version := attr(starts[0], "ebb.decision").String(), attr(starts[0], "ebb.policy.version").String()
		if version == "" || !strings.HasPrefix(decision, "retry after ") || !strings.HasSuffix(decision, version) {
			t.Errorf("decision %q of version %q", decision, version)
		}
		if got := starts[0].Status; got.Code != codes.Error || got.Description != "server: 503 Service Unavailable" {
			t.Errorf("status %+v", got)
		}
		wantAttrs(t, starts[1], map[string]string{"ebb.start": "2", "ebb.attempt": "2", "ebb.outcome": ""})
		if got := starts[1].Status.Description; got != "the process stopped before the outcome was saved" {
			t.Errorf("the lost start says %q", got)
		}
		wantAttrs(t, starts[2], map[string]string{"ebb.start": "3", "ebb.attempt": "2", "ebb.crashes": "1", "ebb.outcome": "succeeded", "ebb.class": ""})
		for i, of := range []int{0, 2} {
			if calls[i].Parent.SpanID() != starts[of].SpanContext.SpanID() {
				t.Errorf("call %d is not below start %d", i, of+1)
			}
			if want := "00-" + root.TraceID().String() + "-" + calls[i].SpanContext.SpanID().String() + "-01"; server.seen[i] != want {
				t.Errorf("call %d sent traceparent %q, want %q", i, server.seen[i], want)
			}
		}
		wantAttrs(t, calls[0], map[string]string{
			"url.full": "http://shop.example/hook", "server.address": "shop.example",
			"http.request.method": "POST", "http.response.status_code": "503",
		})
		if calls[0].Status.Code != codes.Error || calls[1].Status.Code != codes.Unset {
			t.Error("the calls' status is wrong")
		}
	})
}

// TestEveryStartEnds: whatever ends a start ends its span, once.
func TestEveryStartEnds(t *testing.T) {
	j := delivery(1, retry.History{})
	settled := failedWith(j, failureOf(failure.Config, "no key"), t0, time.Second)
	for _, c := range []struct {
		name    string
		end     worker.Event
		outcome string
		status  string
	}{
		{"parked", settled, "parked", "no key"},
		{"refused", worker.Event{What: worker.Refused, Process: 1, Job: j}, "refused", "the lease was lost; the store refused the outcome"},
		{"lost", worker.Event{What: worker.Lost, Process: 1}, "", "the process was taken for dead"},
		{"stopped", worker.Event{What: worker.Stopped, Process: 1}, "", "the process stopped before the outcome was saved"},
		{"again", worker.Event{What: worker.Started, Process: 1, Job: j}, "", ""},
	} {
		provider, spans := recorded()
		tel := New(Config{Tracer: provider})
		tel.Observe(worker.Event{What: worker.Started, At: t0, Process: 1, Job: j})
		tel.Observe(worker.Event{What: worker.Stopped, At: t0, Process: 2}) // of a neighbour
		tel.Observe(worker.Event{What: worker.Settled, At: t0, Process: 2, Job: j})
		if n := len(spans.GetSpans()); n != 0 {
			t.Errorf("%s: ended by another process", c.name)
		}
		tel.Observe(c.end)
		got := spans.GetSpans()
		if len(got) != 1 {
			t.Errorf("%s: %d spans ended", c.name, len(got))
			continue
		}
		wantAttrs(t, got[0], map[string]string{"ebb.outcome": c.outcome})
		if got[0].Status.Description != c.status {
			t.Errorf("%s: status %q, want %q", c.name, got[0].Status.Description, c.status)
		}
		tel.Observe(settled)
		tel.Observe(settled)
		if n := len(spans.GetSpans()); c.name != "again" && n != 1 {
			t.Errorf("%s: ended %d times", c.name, n)
		}
	}
}

// TestForeignTraces: a job may bring a trace of its own, or any text.
func TestForeignTraces(t *testing.T) {
	provider, spans := recorded()
	tel := New(Config{Tracer: provider})
	s := memory.New(memory.Config{})
	ops := tel.Ops(engine.New(s, nil, engine.Config{}))
	const own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	answers, err := ops.Enqueue(t.Context(), engine.NewJob{Kind: "a", Trace: own}, engine.NewJob{Kind: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if got := spans.GetSpans()[0]; got.Name != "enqueue" || attr(got, "ebb.jobs").String() != "2" {
		t.Errorf("span %q of %s jobs", got.Name, attr(got, "ebb.jobs").String())
	}
	if answers[0].Trace != own || answers[1].Trace == "" || answers[1].Trace == own {
		t.Errorf("traces %q and %q", answers[0].Trace, answers[1].Trace)
	}
	want(t, tel, map[string]string{`ebb_jobs_enqueued_total{kind="a",queue="default"}`: "1", `ebb_jobs_enqueued_total{kind="b",queue="default"}`: "1"})
	spans.Reset()
	for parent, traced := range map[string]string{own: "0af7651916cd43dd8448eb211c80319c", "t": "", "": "", "00-zz-zz-01": ""} {
		j := delivery(1, retry.History{})
		j.Trace = parent
		tel.Observe(worker.Event{What: worker.Started, At: t0, Process: 1, Job: j})
		tel.Observe(worker.Event{What: worker.Settled, At: t0, Process: 1, Job: j, To: job.Succeeded})
		got := spans.GetSpans()[0].SpanContext
		spans.Reset()
		if traced != "" && got.TraceID().String() != traced || !got.IsValid() {
			t.Errorf("a job with trace %q starts in %s", parent, got.TraceID())
		}
		if id := traceID(parent); id != traced {
			t.Errorf("trace id of %q is %q, want %q", parent, id, traced)
		}
	}
}

// TestEnqueueRefused: the span says why, and nothing is counted.
func TestEnqueueRefused(t *testing.T) {
	provider, spans := recorded()
	tel := New(Config{Tracer: provider})
	ops := tel.Ops(engine.New(memory.New(memory.Config{}), nil, engine.Config{}))
	if _, err := ops.Enqueue(t.Context(), engine.NewJob{Kind: "k", Priority: 99}); !errors.Is(err, engine.ErrInvalid) {
		t.Fatalf("answered %v", err)
	}
	if got := spans.GetSpans()[0].Status; got.Code != codes.Error || !strings.Contains(got.Description, "priority 99") {
		t.Errorf("status %+v", got)
	}
	if n, ok := samples(t, tel)[`ebb_jobs_enqueued_total{kind="k",queue="default"}`]; ok {
		t.Errorf("counted %s", n)
	}
	first, err := ops.Enqueue(t.Context(), engine.NewJob{Kind: "k", Unique: "u"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := ops.Enqueue(t.Context(), engine.NewJob{Kind: "k", Unique: "u"})
	if err != nil || second[0].ID != first[0].ID {
		t.Fatalf("answered %v, %v", second, err)
	}
	want(t, tel, map[string]string{`ebb_jobs_enqueued_total{kind="k",queue="default"}`: "1"})
}

// TestTracingOff: without a tracer nothing is wrapped and no header is sent.
func TestTracingOff(t *testing.T) {
	tel := New(Config{})
	base := &called{status: 200}
	if got := tel.Transport(base); got != http.RoundTripper(base) {
		t.Error("the transport was wrapped")
	}
	if got := tel.Transport(nil); got != http.DefaultTransport {
		t.Error("nil is not the default transport")
	}
	ops := tel.Ops(engine.New(memory.New(memory.Config{}), nil, engine.Config{}))
	answers, err := ops.Enqueue(t.Context(), engine.NewJob{Kind: "k"})
	if err != nil || answers[0].Trace != "" {
		t.Errorf("answered %+v, %v", answers, err)
	}
	if got := Traceparent(t.Context()); got != "" {
		t.Errorf("a traceparent out of nothing: %q", got)
	}
}
