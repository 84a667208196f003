// Package clock answers "what time is it?" where time is waited for: policy
// time, which can run faster in a demonstration and stand still in a test.
// Pure packages take an instant as an argument instead.
package clock

import (
	"context"
	"math"
	"time"
)

// Clock tells policy time and makes timers of it.
type Clock interface {
	Now() time.Time
	// Timer returns a channel that receives once, after d, and a function
	// that releases it early.
	Timer(d time.Duration) (fired <-chan time.Time, stop func())
}

// System is the machine's clock.
type System struct{}

func (System) Now() time.Time { return time.Now() }

func (System) Timer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// Scaled runs Factor times faster than the machine's clock from Start on, so
// that the 31 minutes of a schedule pass in 31 seconds at 60.
type Scaled struct {
	Start  time.Time
	Factor float64
}

func (s Scaled) Now() time.Time {
	return s.Start.Add(time.Duration(float64(time.Since(s.Start)) * s.Factor))
}

func (s Scaled) Timer(d time.Duration) (<-chan time.Time, func()) {
	return System{}.Timer(time.Duration(math.Ceil(float64(d) / s.Factor))) // never early
}

// Sleep waits for d on the clock, or until the context ends; then it returns
// the context's cause.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	if err := context.Cause(ctx); err != nil || d <= 0 {
		return err
	}
	fired, stop := c.Timer(d)
	defer stop()
	select {
	case <-fired:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
