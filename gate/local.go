package gate

import (
	"sync"
	"time"
)

// Local keeps one target's gate in this process, for callers without a store.
// It waits for nothing and starts nothing: the caller asks, and on a hold
// waits until Verdict.Until or until Changed says that asking may help.
// Its methods may be called at the same time.
type Local struct {
	mu      sync.Mutex
	config  Config
	state   State
	changed chan struct{} // nil unless somebody waits
}

// NewLocal returns the gate of a healthy target.
func NewLocal(c Config) *Local { return &Local{config: c} }

// Ask asks to start one call. When the verdict admits it, its permit must
// come back by exactly one Done or Abandon.
func (l *Local) Ask(now time.Time, retry bool, draw float64) Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	var v Verdict
	l.state, v = Step(l.config, l.state, Ask{Retry: retry}, now, draw)
	return v
}

// Done ends a call that was admitted.
func (l *Local) Done(now time.Time, d Done, draw float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	done(&l.config, &l.state, &d, l.state.tick(now), clampDraw(draw))
	l.wake()
}

// Abandon gives a permit back without an outcome.
func (l *Local) Abandon(now time.Time, a Abandon) {
	l.mu.Lock()
	defer l.mu.Unlock()
	abandon(&l.config, &l.state, a, l.state.tick(now))
	l.wake()
}

// Pause starts no call before until; zero means until Resume.
func (l *Local) Pause(now, until time.Time) { l.order(now, Pause{Until: until}) }

// Resume ends a Pause.
func (l *Local) Resume(now time.Time) { l.order(now, Resume{}) }

// Probe makes the next call the probe of a target that is held.
func (l *Local) Probe(now time.Time) { l.order(now, Probe{}) }

// Close closes the breaker and ends a Retry-After pause.
func (l *Local) Close(now time.Time) { l.order(now, Close{}) }

func (l *Local) order(now time.Time, e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	step(&l.config, &l.state, e, now, 0)
	l.wake()
}

// Changed returns a channel that is closed at the next Done, Abandon or order.
// Take it before the Ask whose hold is to be waited for, so that
// no change is missed.
func (l *Local) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// wake tells the waiters; the caller holds the lock.
func (l *Local) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// State returns a copy of what the gate remembers.
func (l *Local) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}
