package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

// deadStore holds n dead letters, on the bubble's clock.
func deadStore(t *testing.T, n int) store.Store {
	t.Helper()
	s := memory.New(memory.Config{})
	t.Cleanup(func() { _ = s.Close() })
	jobs := make([]job.New, n)
	for i := range jobs {
		jobs[i] = job.New{Kind: "mail", DeadlineAt: time.Now().Add(time.Millisecond)}
	}
	if _, err := s.Enqueue(t.Context(), time.Time{}, jobs); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Maintain(t.Context(), store.Maintenance{Now: time.Now().Add(time.Second), Limit: n + 1}); err != nil {
		t.Fatal(err)
	}
	return s
}

func startRedrive(t *testing.T, e *Engine, rate float64) Redrive {
	t.Helper()
	r, err := e.Redrive(t.Context(), Order{Filter: Filter{Cause: retry.CauseExpired}, Rate: rate})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// 25 jobs at 10 a second: the first at once, the last after 2.4 s, and never
// more in between than the rate allows.
func TestRedriveKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(deadStore(t, 25), nil, Config{})
		r := startRedrive(t, e, 10)
		began := time.Now()
		done, err := e.FinishRedrive(t.Context(), r.ID, func(r Redrive) {
			if most := int64(10*time.Since(began).Seconds()+1e-6) + 1; r.Moved > most {
				t.Errorf("after %s %d jobs are moved, at most %d", time.Since(began), r.Moved, most)
			}
		})
		if err != nil || done.Moved != 25 || !done.Done() {
			t.Fatalf("got %+v, %v", done, err)
		}
		if took := time.Since(began); took < 2400*time.Millisecond || took > 2600*time.Millisecond {
			t.Errorf("took %s, want 2.4s to 2.6s", took)
		}
	})
}

// Two processes on one order keep its rate together.
func TestRedriveSharesItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := deadStore(t, 50)
		r := startRedrive(t, New(s, nil, Config{}), 10)
		began := time.Now()
		results := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := New(s, nil, Config{}).FinishRedrive(t.Context(), r.ID, nil)
				results <- err
			}()
		}
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		// Both may ask for the same due job at once: twice the step of 0.1 s.
		if took := time.Since(began); took < 4500*time.Millisecond {
			t.Errorf("took %s: faster than the rate allows", took)
		}
	})
}

// An order that nobody carried out for an hour is not caught up at once.
func TestRedriveResumesGently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := deadStore(t, 100)
		e := New(s, nil, Config{})
		r := startRedrive(t, e, 10)
		ctx, stop := context.WithCancel(t.Context())
		_, err := e.FinishRedrive(ctx, r.ID, func(r Redrive) {
			if r.Moved >= 30 {
				stop()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want the context's error", err)
		}
		if err := clock.Sleep(t.Context(), clock.System{}, time.Hour); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		done, err := New(s, nil, Config{}).FinishRedrive(t.Context(), r.ID, nil)
		if err != nil || done.Moved != 100 {
			t.Fatalf("got %+v, %v", done, err)
		}
		if took := time.Since(began); took < 6500*time.Millisecond || took > 7500*time.Millisecond {
			t.Errorf("70 jobs at 10 a second took %s", took)
		}
	})
}

func TestRedriveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(deadStore(t, 2500), nil, Config{})
		r := startRedrive(t, e, 0)
		began, steps := time.Now(), 0
		done, err := e.FinishRedrive(t.Context(), r.ID, func(Redrive) { steps++ })
		if err != nil || done.Moved != 2500 || steps != 3 || time.Since(began) != 0 {
			t.Fatalf("got %+v in %d steps and %s, %v", done, steps, time.Since(began), err)
		}
	})
}

// A slow order whose last jobs went another way ends at once.
func TestRedriveEndsWhenNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := deadStore(t, 3)
		e := New(s, nil, Config{})
		r := startRedrive(t, e, 0.001)
		ctx, stop := context.WithCancel(t.Context())
		if _, err := e.FinishRedrive(ctx, r.ID, func(Redrive) { stop() }); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want the context's error", err)
		}
		fast := startRedrive(t, e, 0)
		if _, err := e.FinishRedrive(t.Context(), fast.ID, nil); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		done, err := e.FinishRedrive(t.Context(), r.ID, nil)
		if err != nil || done.Moved != 1 || !done.Done() || time.Since(began) != 0 {
			t.Fatalf("got %+v after %s, %v", done, time.Since(began), err)
		}
	})
}

func TestPace(t *testing.T) {
	t0 := time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		pace  pace
		after time.Duration
		moved int64
		n     int
		wait  time.Duration
	}{
		{"at once", pace{}, 0, 0, 1000, 0},
		{"the first", pace{rate: 0.5}, 0, 0, 1, 0},
		{"the second has time", pace{rate: 0.5, asked: 1}, 500 * time.Millisecond, 1, 0, 1500 * time.Millisecond},
		{"the second", pace{rate: 0.5, asked: 1}, 2 * time.Second, 1, 1, 0},
		{"others were faster", pace{rate: 2}, time.Second, 6, 0, 2 * time.Second},
		{"no more than a step", pace{rate: 1e6}, time.Second, 0, 1000, 0},
		{"a slow one looks now and then", pace{rate: 1e-6, asked: 1}, 0, 1, 0, time.Hour},
	} {
		c.pace.createdAt, c.pace.startedAt = t0, t0
		if n, wait := c.pace.next(t0.Add(c.after), c.moved); n != c.n || wait != c.wait {
			t.Errorf("%s: got %d, %s; want %d, %s", c.name, n, wait, c.n, c.wait)
		}
	}
}
