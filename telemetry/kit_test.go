package telemetry

import (
	"context"
	"errors"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var t0 = time.Date(2026, 2, 21, 12, 0, 0, 0, time.UTC)

// exposition returns what a scrape gets, ours alone.
func exposition(t testing.TB, tel *Telemetry) string {
	t.Helper()
	rec := httptest.NewRecorder()
	tel.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if rec.Code != 200 {
		t.Fatalf("scrape: %d: %s", rec.Code, rec.Body)
	}
	var out strings.Builder
	for line := range strings.Lines(rec.Body.String()) {
		name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
		if strings.HasPrefix(name, "ebb_") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// samples returns the scrape's lines by their series.
func samples(t testing.TB, tel *Telemetry) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for line := range strings.Lines(exposition(t, tel)) {
		if i := strings.LastIndexByte(line, ' '); !strings.HasPrefix(line, "#") {
			out[line[:i]] = strings.TrimSpace(line[i+1:])
		}
	}
	return out
}

// want fails the test unless the series have these values; "" = absent.
func want(t *testing.T, tel *Telemetry, series map[string]string) {
	t.Helper()
	got := samples(t, tel)
	for name, value := range series {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
}

// promtool runs it with the input and returns what it says.
func promtool(t *testing.T, input string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatal("promtool is not there: run scripts/need prometheus")
	}
	if err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// runWorker runs one until stop is called; it returns what Run returned.
func runWorker(t *testing.T, s store.Store, c worker.Config) (stop func() error) {
	t.Helper()
	if c.Seed == 0 {
		c.Seed = 7
	}
	w, err := worker.New(s, c)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.Background()) }()
	return func() error {
		w.Stop()
		w.Stop()
		return <-ended
	}
}

func enqueue(t *testing.T, s store.Store, jobs ...job.New) []int64 {
	t.Helper()
	answers, err := s.Enqueue(t.Context(), time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	var seqs []int64
	for _, a := range answers {
		seqs = append(seqs, a.Seq)
	}
	return seqs
}

// pass lets the bubble's time run until everybody waits again.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// cutStore can be taken away: whoever uses it is dead as far as others see.
type cutStore struct {
	*memory.Store
	gone atomic.Bool
}

var errCut = errors.New("the store is away")

func (c *cutStore) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	if c.gone.Load() {
		return store.Turned{}, errCut
	}
	return c.Store.Turn(ctx, t)
}

func (c *cutStore) Beat(ctx context.Context, now time.Time, process int64) ([]store.Ref, error) {
	if c.gone.Load() {
		return nil, errCut
	}
	return c.Store.Beat(ctx, now, process)
}

func (c *cutStore) Queues(ctx context.Context) ([]store.QueueState, error) {
	if c.gone.Load() {
		return nil, errCut
	}
	return c.Store.Queues(ctx)
}

func (c *cutStore) Leave(ctx context.Context, process int64) error {
	if c.gone.Load() {
		return errCut
	}
	return c.Store.Leave(ctx, process)
}

// delivery is a job of the webhook preset as events show it.
func delivery(seq int64, h retry.History) job.Job {
	return job.Job{
		Seq: seq, New: job.New{Kind: "deliver", Queue: "webhook", Policy: "webhook", Target: "shop.example", DueAt: t0},
		EnqueuedAt: t0, State: job.Running, History: h, Process: 1, Epoch: 1,
	}
}

// failedWith is the settle of a start of j that ended at an instant, as the
// worker decides it.
func failedWith(j job.Job, f failure.Failure, at time.Time, took time.Duration) worker.Event {
	p := policy.MustPreset(j.Policy)
	h := j.History.Started(at.Add(-took))
	d := retry.Decide(&p, h, f, at, retry.Derive(7, uint64(j.Seq), h.Starts))
	to := map[policy.Action]job.State{policy.Retry: job.Queued, policy.Park: job.Parked}[d.Action]
	if to == "" {
		to = job.Failed
	}
	return worker.Event{What: worker.Settled, At: at, Process: 1, Job: j, Failure: f, Decision: d, To: to, Cause: d.Cause, Took: took}
}

func failureOf(c failure.Class, text string) failure.Failure {
	f := failure.Of(c)
	f.Err = errors.New(text)
	return f
}

// script is one event of every kind, and starts of all outcomes.
func script() []worker.Event {
	at := t0.Add(250 * time.Millisecond)
	first, again := delivery(1, retry.History{}), delivery(2, retry.History{Starts: 5, Attempts: 5, FirstStartAt: t0.Add(-time.Hour)})
	throttled := failureOf(failure.Throttled, "429 Too Many Requests")
	throttled.RetryAfter = 130 * time.Second
	snooze := failure.Failure{Order: failure.OrderSnooze, Snooze: time.Minute}
	of := func(what worker.EventKind, j job.Job) worker.Event {
		return worker.Event{What: what, At: at, Process: 1, Job: j}
	}
	held := of(worker.Held, first)
	held.Text = "held: the retry budget is empty until other calls pay into it"
	ok := of(worker.Settled, first)
	ok.To, ok.Took, ok.At = job.Succeeded, 30*time.Millisecond, at.Add(30*time.Millisecond)
	cancelled := of(worker.Settled, first)
	cancelled.To, cancelled.Failure = job.Cancelled, failureOf(failure.Interrupted, "cancelled")
	events := []worker.Event{
		{What: worker.Registered, At: t0, Process: 1},
		of(worker.Claimed, first), held, of(worker.Started, first), ok,
		of(worker.Started, again), failedWith(again, failureOf(failure.Server, "503 Service Unavailable"), at, time.Second),
		failedWith(first, failureOf(failure.Server, "503 Service Unavailable"), at, time.Second),
		failedWith(first, throttled, at, time.Second),
		failedWith(first, snooze, at, time.Second),
		failedWith(first, failureOf(failure.DiskFull, "no space left on device"), at, time.Second),
		failedWith(first, failureOf(failure.Config, "no such endpoint"), at, time.Second),
		cancelled, of(worker.Refused, first), of(worker.Stuck, first), of(worker.Ordered, first),
	}
	process := func(what worker.EventKind, change func(*worker.Event)) {
		e := worker.Event{What: what, At: at, Process: 1}
		if change != nil {
			change(&e)
		}
		events = append(events, e)
	}
	for _, what := range []worker.EventKind{worker.Probing, worker.GateOpened, worker.GateClosed, worker.GatePaused, worker.TargetDisabled} {
		process(what, func(e *worker.Event) { e.Target = "shop.example" })
	}
	process(worker.Reaped, func(e *worker.Event) { e.Process, e.Count = 9, 3 })
	process(worker.Redriven, func(e *worker.Event) { e.Count = 4 })
	ended := func(to job.State, cause job.Cause, by string, untried bool, n int) {
		process(worker.Ended, func(e *worker.Event) {
			e.To, e.Cause, e.Text, e.Untried, e.Count, e.Target = to, cause, by, untried, n, "shop.example"
			e.Job = job.Job{New: job.New{Kind: "deliver", Queue: "webhook", Policy: "webhook", Target: "shop.example"}}
		})
	}
	ended(job.Parked, retry.CauseTargetDown, worker.ByHold, true, 5)
	ended(job.Parked, job.Disabled, worker.ByTarget, false, 2)
	ended(job.Parked, job.HeadFailed, worker.ByKey, true, 1)
	ended(job.Failed, retry.CauseExpired, worker.ByDeadline, true, 3)
	ended(job.Failed, retry.CauseExpired, worker.ByHold, false, 4)
	process(worker.Ended, func(e *worker.Event) { // of a process that died
		e.To, e.Cause, e.Text, e.Count, e.Target, e.Job = job.Failed, retry.CausePoison, worker.ByCrash, 1, "shop.example", first
	})
	process(worker.Fired, func(e *worker.Event) { e.Count, e.Text = 1, "nightly" })
	process(worker.Erred, func(e *worker.Event) { e.Text, e.Err = "turn", errCut })
	process(worker.Erred, func(e *worker.Event) { e.Text, e.Err = "schedule nightly", errCut })
	process(worker.Lost, func(e *worker.Event) { e.Err = store.ErrLostProcess })
	process(worker.Draining, nil)
	process(worker.Stopping, nil)
	process(worker.Stopped, func(e *worker.Event) { e.Err = worker.ErrUnsaved })
	return events
}

// TestScriptIsWhole: no kind of event is left out of the tests below.
func TestScriptIsWhole(t *testing.T) {
	var seen []worker.EventKind
	for _, e := range script() {
		seen = append(seen, e.What)
	}
	for _, what := range eventKinds(t) {
		if !slices.Contains(seen, what) {
			t.Errorf("the script has no event %q", what)
		}
	}
}
