package clock

import (
	"sync"
	"time"
)

// Fake stands still until it is told to move. The zero value is not ready;
// use NewFake.
type Fake struct {
	mu     sync.Mutex
	now    time.Time
	timers []*fakeTimer
	armed  chan struct{} // receives, without blocking, whenever a timer starts
}

type fakeTimer struct {
	at    time.Time
	fired chan time.Time
}

// NewFake returns a clock that stands at now.
func NewFake(now time.Time) *Fake {
	return &Fake{now: now, armed: make(chan struct{}, 1)}
}

// Now returns where the clock stands.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Timer fires when Advance has moved the clock by d. A d of 0 or less fires
// at once.
func (f *Fake) Timer(d time.Duration) (<-chan time.Time, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &fakeTimer{at: f.now.Add(d), fired: make(chan time.Time, 1)}
	if d <= 0 {
		t.fired <- f.now
		return t.fired, func() {}
	}
	f.timers = append(f.timers, t)
	select {
	case f.armed <- struct{}{}:
	default:
	}
	return t.fired, func() { f.drop(t) }
}

func (f *Fake) drop(gone *fakeTimer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, t := range f.timers {
		if t == gone {
			f.timers = append(f.timers[:i], f.timers[i+1:]...)
			return
		}
	}
}

// Armed receives after a timer has started: the signal for a test that
// somebody waits now.
func (f *Fake) Armed() <-chan struct{} { return f.armed }

// Next returns the instant of the earliest timer, or false when nobody waits.
func (f *Fake) Next() (time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var next time.Time
	for _, t := range f.timers {
		if next.IsZero() || t.at.Before(next) {
			next = t.at
		}
	}
	return next, !next.IsZero()
}

// Advance moves the clock by d and fires what became due, in order.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end := f.now.Add(d)
	for {
		first := -1
		for i, t := range f.timers {
			if !t.at.After(end) && (first < 0 || t.at.Before(f.timers[first].at)) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		t := f.timers[first]
		f.timers = append(f.timers[:first], f.timers[first+1:]...)
		f.now = t.at
		t.fired <- f.now
	}
	f.now = end
}
