package clock

import (
	"context"
	"time"
)

// Eased runs Factor times faster than the machine's clock while the machine
// keeps up, and slower where it does not: what a busy machine takes longer for
// takes no more time on this clock. Use NewEased; it stands still until Run.
type Eased struct {
	Start  time.Time
	Factor float64
	hands  *Fake
}

// easedTick is how often the clock moves, and easedMost the longest time of the
// machine that one move stands for: a tick that comes later was kept waiting,
// as was everybody else.
const (
	easedTick = 2 * time.Millisecond
	easedMost = 2 * easedTick
)

// NewEased returns a clock that stands at start.
func NewEased(start time.Time, factor float64) *Eased {
	return &Eased{Start: start, Factor: factor, hands: NewFake(start)}
}

// Now returns where the clock stands.
func (e *Eased) Now() time.Time { return e.hands.Now() }

// Timer fires with the first move of the clock after d has passed on it.
func (e *Eased) Timer(d time.Duration) (<-chan time.Time, func()) { return e.hands.Timer(d) }

// Run moves the clock until the context ends.
func (e *Eased) Run(ctx context.Context) {
	tick := time.NewTicker(easedTick)
	defer tick.Stop()
	e.follow(ctx, time.Now(), tick.C)
}

// follow moves the clock with the ticks, until they or the context end.
func (e *Eased) follow(ctx context.Context, last time.Time, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case now, more := <-ticks:
			if !more {
				return
			}
			e.hands.Advance(time.Duration(float64(min(now.Sub(last), easedMost)) * e.Factor))
			last = now
		}
	}
}
