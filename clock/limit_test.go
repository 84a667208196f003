package clock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type key struct{}

// Every clock ends the work after its own thirty seconds, and contexts made of
// the limited one end with it.
func TestTimeoutRunsOnItsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			clock Clock
			takes time.Duration
		}{
			"machine": {System{}, 30 * time.Second},
			"scaled":  {Scaled{Start: time.Now(), Factor: 60}, 500 * time.Millisecond},
		} {
			start := time.Now()
			ctx := WithTimeout(context.WithValue(t.Context(), key{}, 7), c.clock, 30*time.Second)
			child, cancel := context.WithCancel(ctx)
			<-child.Done()
			if took := time.Since(start); took != c.takes {
				t.Errorf("%s: ended after %s, want %s", name, took, c.takes)
			}
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(child), context.DeadlineExceeded) {
				t.Errorf("%s: ended with %v, its child with cause %v", name, ctx.Err(), context.Cause(child))
			}
			if ctx.Value(key{}) != 7 {
				t.Errorf("%s: the parent's values are lost", name)
			}
			cancel()
			ctx.End()
		}
	})
}

func TestTimeoutOfAClockThatStandsStill(t *testing.T) {
	f := NewFake(epoch)
	ctx := WithTimeout(t.Context(), f, 30*time.Second)
	defer ctx.End()
	f.Advance(29 * time.Second)
	if err := ctx.Err(); err != nil {
		t.Errorf("ended early: %v", err)
	}
	if _, ok := ctx.Deadline(); ok {
		t.Error("a deadline that is not the machine's is told as one")
	}
	f.Advance(time.Second)
	<-ctx.Done()
	if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ended with %v", err)
	}
}

func TestTimeoutEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("deploy")
		for name, c := range map[string]Clock{"machine": System{}, "scaled": Scaled{Start: time.Now(), Factor: 60}} {
			parent, cancel := context.WithCancelCause(t.Context())
			ctx := WithTimeout(parent, c, time.Hour)
			if err := ctx.Err(); err != nil {
				t.Errorf("%s: %v from the start", name, err)
			}
			cancel(why)
			<-ctx.Done()
			if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), why) {
				t.Errorf("%s: ended with %v, cause %v", name, ctx.Err(), context.Cause(ctx))
			}
			ctx.End()

			late := WithTimeout(t.Context(), c, time.Hour)
			late.End() // before anybody waits
			<-late.Done()
			if !errors.Is(late.Err(), context.Canceled) {
				t.Errorf("%s: after its end the error is %v", name, late.Err())
			}
		}
	})
}

func TestTimeoutKeepsAnEarlierDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ctx := WithTimeout(parent, System{}, time.Minute)
		defer ctx.End()
		if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Second {
			t.Errorf("deadline in %s, %v", time.Until(at), ok)
		}
	})
}
