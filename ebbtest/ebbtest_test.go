package ebbtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/ebbtest"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSchedulePasses: 30, 120 and 480 s, exactly as derived from the seed.
func TestSchedulePasses(t *testing.T) {
	e := ebbtest.New(t)
	var starts []time.Time
	ebb.Handle(e.Client, "pay", func(context.Context, *ebb.Task, struct{}) error {
		starts = append(starts, e.Now())
		return errors.New("down")
	})
	id := e.Enqueue(ebb.Job{Kind: "pay", Policy: "processing"})
	total := e.Drain()
	p := policy.MustPreset("processing")
	want := []time.Time{ebbtest.Epoch}
	for try := 2; try <= 4; try++ {
		delay := p.Backoff.Draw(try, 0, retry.Derive(ebbtest.Seed, 1, try-1).Unit())
		want = append(want, store.Due(want[try-2], delay))
	}
	sum := want[3].Sub(want[0])
	if !slices.EqualFunc(starts, want, time.Time.Equal) || total != sum {
		t.Errorf("starts %v over %s, want %v over %s", starts, total, want, sum)
	}
	j := ebbtest.RequireSettled(t, e.Client, id, job.Failed)
	if j.Cause != retry.CauseExhausted {
		t.Errorf("cause %s, want exhausted", j.Cause)
	}
}

// TestStep: one instant after the other; nothing happens before its time.
func TestStep(t *testing.T) {
	e := ebbtest.New(t)
	ran := []string{}
	ebb.Handle(e.Client, "k", func(ctx context.Context, task *ebb.Task, name string) error {
		ran = append(ran, name)
		if name == "parent" {
			_, err := e.Client.Enqueue(ctx, ebb.Job{Kind: "k", Args: "child"})
			return err
		}
		return nil
	})
	e.Enqueue(ebb.Job{Kind: "k", Args: "hour", DueAt: e.Now().Add(time.Hour)})
	e.Enqueue(ebb.Job{Kind: "k", Args: "minute", DueAt: e.Now().Add(time.Minute)})
	e.Enqueue(ebb.Job{Kind: "k", Args: "parent"})
	check := func(after time.Duration, want ...string) {
		t.Helper()
		if got := e.Now().Sub(ebbtest.Epoch); got != after || !slices.Equal(ran, want) {
			t.Errorf("after %s ran %v, want after %s %v", got, ran, after, want)
		}
	}
	e.RunDue()
	check(0, "parent", "child")
	if !e.Step() {
		t.Error("Step: false, want the job of the minute")
	}
	check(time.Minute, "parent", "child", "minute")
	e.Advance(time.Hour - time.Minute - time.Nanosecond)
	check(time.Hour-time.Nanosecond, "parent", "child", "minute")
	e.Advance(time.Nanosecond)
	check(time.Hour, "parent", "child", "minute", "hour")
	if e.Step() {
		t.Error("Step: true with nothing left")
	}
}

// TestAdvanceRunsAtTheirInstant: what is due on the way sees its own time.
func TestAdvanceRunsAtTheirInstant(t *testing.T) {
	e := ebbtest.New(t)
	var at []time.Duration
	ebb.Handle(e.Client, "tick", func(context.Context, *ebb.Task, struct{}) error {
		at = append(at, e.Now().Sub(ebbtest.Epoch))
		return ebb.Snooze(time.Hour)
	})
	id := e.Enqueue(ebb.Job{Kind: "tick"})
	e.Advance(3*time.Hour + time.Minute)
	if want := []time.Duration{0, time.Hour, 2 * time.Hour, 3 * time.Hour}; !slices.Equal(at, want) {
		t.Errorf("ran at %v, want %v", at, want)
	}
	ebbtest.RequireNotSettled(t, e.Client, id)
}

func TestDeadlinePasses(t *testing.T) {
	e := ebbtest.New(t)
	ebb.Handle(e.Client, "k", func(context.Context, *ebb.Task, struct{}) error { return nil })
	id := e.Enqueue(ebb.Job{Kind: "k", Queue: "elsewhere", DeadlineAt: e.Now().Add(time.Minute)})
	e.Advance(time.Minute)
	ebbtest.RequireNotSettled(t, e.Client, id)
	e.Advance(time.Second)
	ebbtest.RequireSettled(t, e.Client, id, job.Failed)
}

// TestObserverOfTheUser: the engine's own ear does not replace the test's.
func TestObserverOfTheUser(t *testing.T) {
	settled := make(chan worker.Event, 9)
	e := ebbtest.New(t, ebb.WithWorker(func(c *worker.Config) {
		c.Observe = func(event worker.Event) {
			if event.What == worker.Settled {
				settled <- event
			}
		}
	}))
	ebb.Handle(e.Client, "k", func(context.Context, *ebb.Task, struct{}) error { return nil })
	e.Enqueue(ebb.Job{Kind: "k"})
	e.RunDue()
	if got := <-settled; got.To != job.Succeeded {
		t.Errorf("observed %+v", got)
	}
}

// recorder is a test that is expected to fail.
type recorder struct {
	testing.TB
	message string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatal(args ...any) { r.fail(fmt.Sprint(args...)) }

func (r *recorder) Fatalf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }

type failed struct{}

func (r *recorder) fail(message string) {
	r.message = message
	panic(failed{})
}

// message runs a check that must fail and returns what it says.
func message(t *testing.T, check func(testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != any(failed{}) {
				panic(v)
			}
		}()
		check(r)
	}()
	if r.message == "" {
		t.Error("the check passed, want it to fail")
	}
	return r.message
}

func TestMessages(t *testing.T) {
	e := ebbtest.New(t)
	c := e.Client
	ebb.Handle(c, "mail", func(_ context.Context, _ *ebb.Task, to string) error {
		if to == "eve" {
			return ebb.Fatal(errors.New("no such user"))
		}
		return errors.New("server busy")
	})
	ann := e.Enqueue(ebb.Job{Kind: "mail", Args: "ann"})
	eve := e.Enqueue(ebb.Job{Kind: "mail", Args: "eve", Priority: 3})
	later := e.Enqueue(ebb.Job{Kind: "mail", Args: "bob", DueAt: e.Now().Add(time.Hour)})
	e.RunDue()

	ebbtest.RequireEnqueued(t, c, ebb.Job{Kind: "mail", Args: "eve", Priority: 3, Queue: "default"})
	ebbtest.RequireNotEnqueued(t, c, ebb.Job{Kind: "mail", Args: "zoe"})
	ebbtest.RequireNotSettled(t, c, ann)
	for name, test := range map[string]struct {
		check func(testing.TB)
		want  []string
	}{
		"other args": {func(t testing.TB) { ebbtest.RequireEnqueued(t, c, ebb.Job{Kind: "mail", Args: "zoe", Priority: 3}) }, []string{
			`no job {Kind: mail, Args: "zoe", Priority: 3} was enqueued; there are 3 of kind "mail", which differ:`,
			eve + `: args "eve"`, ann + `: args "ann", priority 0`,
		}},
		"no such kind": {func(t testing.TB) { ebbtest.RequireEnqueued(t, c, ebb.Job{Kind: "fax"}) }, []string{`there is none of kind "fax"`}},
		"unnamed":      {func(t testing.TB) { ebbtest.RequireEnqueued(t, c, ebb.Job{}) }, []string{"name the kind"}},
		"unwanted": {func(t testing.TB) { ebbtest.RequireNotEnqueued(t, c, ebb.Job{Kind: "mail", Args: "eve"}) }, []string{
			`a job {Kind: mail, Args: "eve"} was enqueued: ` + eve + `, failed (fatal), args "eve"`,
		}},
		"waits": {func(t testing.TB) { ebbtest.RequireSettled(t, c, ann, job.Succeeded) }, []string{
			"job " + ann + " (mail) is queued, due at 2026-01-01T00:00:", "want succeeded",
			"1 at 2026-01-01T00:00:00Z: error: server busy → retry after ", "by rule builtin/error",
		}},
		"never started": {func(t testing.TB) { ebbtest.RequireSettled(t, c, later, job.Succeeded) }, []string{
			"due at 2026-01-01T01:00:00Z", "it never started",
		}},
		"settled": {func(t testing.TB) { ebbtest.RequireNotSettled(t, c, eve) }, []string{
			"is failed (fatal), want it queued or running", "error: no such user → fail fatal by rule handler/fatal",
		}},
		"no such job": {func(t testing.TB) { ebbtest.RequireSettled(t, c, job.FormatID(99), job.Succeeded) }, []string{"no such job"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := message(t, test.check)
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("message\n%s\nlacks %q", got, want)
				}
			}
		})
	}
}

func TestNoHandler(t *testing.T) {
	got := message(t, func(tb testing.TB) { ebbtest.New(tb).RunDue() })
	if !strings.Contains(got, "no handlers") {
		t.Errorf("message %q, want that there are no handlers", got)
	}
}

func TestEndlessWork(t *testing.T) {
	got := message(t, func(tb testing.TB) {
		e := ebbtest.New(tb)
		ebb.Handle(e.Client, "tick", func(context.Context, *ebb.Task, struct{}) error { return ebb.Snooze(time.Minute) })
		e.Enqueue(ebb.Job{Kind: "tick"})
		e.Drain()
	})
	if !strings.Contains(got, "never drains") {
		t.Errorf("message %q", got)
	}
}

func BenchmarkDrain(b *testing.B) {
	for range b.N {
		e := ebbtest.New(b)
		ebb.Handle(e.Client, "pay", func(context.Context, *ebb.Task, struct{}) error { return errors.New("down") })
		e.Enqueue(ebb.Job{Kind: "pay"})
		e.Drain()
	}
}
