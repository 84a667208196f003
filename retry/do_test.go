package retry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

type status int

func (s status) Error() string   { return fmt.Sprintf("status %d", int(s)) }
func (s status) StatusCode() int { return int(s) }

// failing returns the errors in turn, then succeeds with the number of calls.
func failing(calls *int, errs ...error) func(context.Context) (int, error) {
	return func(context.Context) (int, error) {
		*calls++
		if *calls <= len(errs) {
			return 0, errs[*calls-1]
		}
		return *calls, nil
	}
}

func TestDoFollowsTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, start, calls := preset(t, "webhook"), time.Now(), 0
		var decided []time.Duration
		v, err := Do(t.Context(), p, failing(&calls, status(503), status(500), status(429)),
			WithSeed(7, 1), OnDecision(func(_ failure.Failure, d Decision) { decided = append(decided, d.Delay) }))
		if v != 4 || err != nil {
			t.Fatalf("got %d, %v", v, err)
		}
		var sum time.Duration
		for i, d := range decided {
			if want := p.Backoff.Draw(i+2, 0, Derive(7, 1, i+1).Unit()); d != want {
				t.Errorf("delay %d is %s, want %s", i+1, d, want)
			}
			sum += d
		}
		if got := time.Since(start); got != sum || len(decided) != 3 {
			t.Errorf("took %s for delays of %s", got, sum)
		}
	})
}

func TestDoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		errs := make([]error, 10)
		for i := range errs {
			errs[i] = status(503)
		}
		_, err := Do(t.Context(), preset(t, "processing"), failing(&calls, errs...))
		var e *Error
		if !errors.As(err, &e) || calls != 4 || e.Decision.Cause != CauseExhausted || e.Failure.Class != failure.Server {
			t.Fatalf("%d calls, %v", calls, err)
		}
		if want := "retry: exhausted after 4 starts: status 503"; err.Error() != want {
			t.Errorf("text %q, want %q", err, want)
		}
		var s status
		if !errors.As(err, &s) || s != 503 {
			t.Error("fn's own error is lost")
		}
		calls = 0
		_, err = Do(t.Context(), preset(t, "processing"), failing(&calls, status(400)))
		if calls != 1 || FailureOf(err).Class != failure.Rejected {
			t.Errorf("a permanent failure: %d calls, %v", calls, err)
		}
	})
}

func TestDoWithoutPreparation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := policy.Base("bare")
		base.Timeout = 0
		calls := 0
		v, err := Do(t.Context(), sealed(t, base), failing(&calls, status(503), status(503)))
		if v != 3 || err != nil {
			t.Errorf("got %d, %v", v, err)
		}
		calls = 0
		_, err = Do(t.Context(), sealed(t, base), failing(&calls, failure.Fatal(errors.New("no"))))
		var e *Error
		if !errors.As(err, &e) || calls != 1 || e.Decision.Next.Starts != 1 || e.Decision.Rule != "handler/fatal" {
			t.Errorf("fatal: %d calls, %v", calls, err)
		}
	})
}

func TestDoTimesOutOneTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		v, err := Do(t.Context(), preset(t, "webhook"), func(ctx context.Context) (string, error) {
			if calls++; calls == 1 {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "ok", nil
		})
		if v != "ok" || err != nil || calls != 2 {
			t.Errorf("%q, %v after %d calls", v, err, calls)
		}
	})
}

// The timeout of a try is policy time: on a clock that runs 60 times faster
// thirty seconds are half a second, whatever fn makes of its context.
func TestDoTimesOutInPolicyTime(t *testing.T) {
	for name, wait := range map[string]func(context.Context) error{
		"own context": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"child": func(ctx context.Context) error {
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			<-child.Done()
			return child.Err()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			fast := clock.Scaled{Start: start, Factor: 60}
			var took time.Duration
			err := Run(t.Context(), preset(t, "webhook"), wait, WithClock(fast), OnDecision(func(f failure.Failure, d Decision) {
				if took == 0 {
					took = time.Since(start)
				}
				if f.Class != failure.Timeout || d.Rule != "builtin/timeout" {
					t.Errorf("%s: class %s, %v", name, f.Class, d)
				}
			}))
			if took != 500*time.Millisecond || FailureOf(err).Class != failure.Timeout {
				t.Errorf("%s: the first try took %s; %v", name, took, err)
			}
		})
	}
}

// A context that fn cancels itself is no interruption of ours: as one it was
// retried at once, for nothing and for ever.
func TestOwnCancellationDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, name := range []string{"webhook", "bare"} {
			base := policy.Base(name)
			if name == "bare" {
				base.Timeout = 0
			}
			p, calls := sealed(t, base), 0
			err := Run(t.Context(), p, func(ctx context.Context) error {
				calls++
				own, cancel := context.WithCancel(ctx)
				cancel()
				return own.Err()
			})
			if f := FailureOf(err); calls != p.Attempts || f.Class != failure.Plain || f.Reason != "context_canceled" {
				t.Errorf("%s: %d calls of %d, %s %q: %v", name, calls, p.Attempts, f.Class, f.Reason, err)
			}
		}
	})
}

func TestDoEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("deploy")
		ctx, cancel := context.WithCancelCause(t.Context())
		calls, start := 0, time.Now()
		time.AfterFunc(10*time.Second, func() { cancel(why) })
		_, err := Do(ctx, preset(t, "webhook"), failing(&calls, status(503), status(503)))
		if !errors.Is(err, why) || calls != 1 || time.Since(start) != 10*time.Second {
			t.Errorf("%d calls in %s, %v", calls, time.Since(start), err)
		}
		var s status
		if !errors.As(err, &s) || !strings.Contains(err.Error(), "stopped after 1 starts: deploy; last error: status 503") {
			t.Errorf("text %q", err)
		}
		calls = 0
		if _, err = Do(ctx, preset(t, "webhook"), failing(&calls, ctx.Err())); !errors.Is(err, why) || calls != 1 {
			t.Errorf("after the end: %d calls, %v", calls, err)
		}
	})
}

func TestRunHasNoValue(t *testing.T) {
	calls := 0
	if err := Run(t.Context(), preset(t, "default"), func(context.Context) error { calls++; return nil }); err != nil || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// A gate that opens holds the work back, spends no attempt and lets one probe
// through.
func TestDoThroughAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := policy.Base("gated")
		base.Breaker = policy.Breaker{Consecutive: 2, Open: 10 * time.Minute, Cap: time.Hour}
		base.MaxHold = time.Hour
		base.Timeout = 0
		p := sealed(t, base)
		g := gate.NewLocal(gate.Of(p))
		calls, start := 0, time.Now()
		v, err := Do(t.Context(), p, failing(&calls, status(503), status(503)), WithGate(g), WithSeed(1, 1))
		if v != 3 || err != nil {
			t.Fatalf("got %d, %v", v, err)
		}
		// The second failure opened the breaker for ten minutes (±10 %),
		// longer than the second delay of two.
		if took := time.Since(start); took < 9*time.Minute || took > 12*time.Minute {
			t.Errorf("took %s", took)
		}
		if g.State().InFlight != 0 {
			t.Errorf("permits left out: %+v", g.State())
		}
	})
}

func TestHoldIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := policy.Base("bounded")
		base.Breaker = policy.Breaker{Consecutive: 1, Open: time.Hour, Cap: time.Hour}
		base.MaxHold, base.OnHoldEnd = 5*time.Minute, policy.HoldPark
		p := sealed(t, base)
		g := gate.NewLocal(gate.Of(p))
		calls, start := 0, time.Now()
		_, err := Do(t.Context(), p, failing(&calls, status(503)), WithGate(g))
		var held *HeldError
		var e *Error
		if !errors.As(err, &held) || !errors.As(err, &e) || e.Decision.Cause != CauseTargetDown || e.Decision.Action != policy.Park {
			t.Fatalf("got %v", err)
		}
		if took := time.Since(start); calls != 1 || held.Held != 5*time.Minute || took > 6*time.Minute {
			t.Errorf("%d calls, held %s, took %s", calls, held.Held, took)
		}
	})
}

func TestPanicGivesThePermitBack(t *testing.T) {
	base := policy.Base("panics")
	base.PerTarget.Concurrency = 1
	p := sealed(t, base)
	g := gate.NewLocal(gate.Of(p))
	func() {
		defer func() { recover() }()
		Run(t.Context(), p, func(context.Context) error { panic("boom") }, WithGate(g))
	}()
	if err := Run(t.Context(), p, func(context.Context) error { return nil }, WithGate(g)); err != nil {
		t.Error(err)
	}
}

func ExampleDo() {
	p := policy.MustPreset("processing")
	p.Backoff.Base = time.Millisecond // the example should not take eleven minutes
	p.Backoff.Floor = 0
	tries := 0
	answer, err := Do(context.Background(), &p, func(context.Context) (string, error) {
		if tries++; tries < 3 {
			return "", status(503)
		}
		return "42", nil
	})
	fmt.Println(answer, err, tries)
	// Output: 42 <nil> 3
}

func BenchmarkDoSuccess(b *testing.B) {
	base := policy.Base("bare")
	base.Timeout = 0
	for name, p := range map[string]*policy.Policy{"without a timeout": sealed(b, base), "webhook": preset(b, "webhook")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if v, err := Do(b.Context(), p, func(context.Context) (int, error) { return 1, nil }); v != 1 || err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
