package clock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var epoch = time.Date(2026, 2, 21, 0, 0, 0, 0, time.UTC)

func TestFakeFiresInOrder(t *testing.T) {
	f := NewFake(epoch)
	late, _ := f.Timer(2 * time.Minute)
	soon, _ := f.Timer(time.Minute)
	gone, stop := f.Timer(90 * time.Second)
	stop()
	stop() // twice does no harm
	<-f.Armed()
	if next, ok := f.Next(); !ok || !next.Equal(epoch.Add(time.Minute)) {
		t.Fatalf("next timer at %s, %v", next, ok)
	}
	f.Advance(3 * time.Minute)
	if at := <-soon; !at.Equal(epoch.Add(time.Minute)) {
		t.Errorf("the first fired at %s", at)
	}
	if at := <-late; !at.Equal(epoch.Add(2 * time.Minute)) {
		t.Errorf("the second fired at %s", at)
	}
	select {
	case <-gone:
		t.Error("a stopped timer fired")
	default:
	}
	if now := f.Now(); !now.Equal(epoch.Add(3 * time.Minute)) {
		t.Errorf("stands at %s", now)
	}
	if _, ok := f.Next(); ok {
		t.Error("a timer is left")
	}
	at, _ := f.Timer(0)
	if got := <-at; !got.Equal(f.Now()) {
		t.Errorf("a timer of 0 fired at %s", got)
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := Sleep(t.Context(), System{}, 31*time.Minute); err != nil || time.Since(start) != 31*time.Minute {
			t.Errorf("slept %s, %v", time.Since(start), err)
		}
		fast := Scaled{Start: time.Now(), Factor: 60}
		start = time.Now()
		if err := Sleep(t.Context(), fast, 31*time.Minute); err != nil || time.Since(start) != 31*time.Second {
			t.Errorf("at 60 times slept %s, %v", time.Since(start), err)
		}
		if got := fast.Now().Sub(fast.Start); got != 31*time.Minute {
			t.Errorf("at 60 times %s passed", got)
		}
	})
}

// A timer that fired a nanosecond early would make its caller wait again for
// nothing.
func TestScaledTimerIsNeverEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fast := Scaled{Start: time.Now(), Factor: 60}
		for _, d := range []time.Duration{1, 59, 61, time.Second + 1, 7 * time.Millisecond} {
			before := fast.Now()
			if err := Sleep(t.Context(), fast, d); err != nil {
				t.Fatal(err)
			}
			if got := fast.Now().Sub(before); got < d {
				t.Errorf("slept %s of %s", got, d)
			}
		}
	})
}

func TestSleepEndsWithContext(t *testing.T) {
	why := errors.New("told to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	f := NewFake(epoch)
	done := make(chan error)
	go func() { done <- Sleep(ctx, f, time.Hour) }()
	<-f.Armed()
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("ended with %v", err)
	}
	if err := Sleep(ctx, f, 0); !errors.Is(err, why) {
		t.Errorf("a sleep of 0 after the end: %v", err)
	}
	if _, ok := f.Next(); ok {
		t.Error("the timer was left behind")
	}
}

// An eased clock keeps to its factor while its ticks come in time, and takes
// no time for those that were kept waiting.
func TestEased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEased(time.Now(), 60)
		ctx, stop := context.WithCancel(t.Context())
		go e.Run(ctx)
		start := time.Now()
		if err := Sleep(ctx, e, 31*time.Minute); err != nil || time.Since(start) != 31*time.Second {
			t.Errorf("slept %s, %v", time.Since(start), err)
		}
		if got := e.Now().Sub(e.Start); got != 31*time.Minute {
			t.Errorf("%s passed", got)
		}
		stop()
		synctest.Wait()
		stood := e.Now()
		if err := Sleep(t.Context(), System{}, time.Second); err != nil {
			t.Fatal(err)
		}
		if !e.Now().Equal(stood) {
			t.Errorf("it went on by itself to %s", e.Now())
		}
	})
}

// TestEasedWhereTicksAreLate: the machine's clock runs ahead while nobody
// could work.
func TestEasedWhereTicksAreLate(t *testing.T) {
	e := NewEased(epoch, 60)
	ticks := make(chan time.Time)
	done := make(chan struct{})
	go func() { e.follow(t.Context(), epoch, ticks); close(done) }()
	at := epoch
	for _, late := range []time.Duration{easedTick, easedTick, 3 * time.Second, easedTick} {
		at = at.Add(late)
		ticks <- at
	}
	close(ticks)
	<-done
	if got, want := e.Now().Sub(epoch), 60*(3*easedTick+easedMost); got != want {
		t.Errorf("%s passed, want %s", got, want)
	}
}
