// Package gate answers "may this target be called now?" with a pure state
// machine for one target: breaker, Retry-After pause, operator's pause,
// pacing, concurrency and retry budget.
//
//	(Config, State, Event, now, draw) → (State, Verdict)
//
// There is no clock, no goroutine and no randomness inside: now is an
// argument and draw is a number in [0,1). The same inputs give the same
// outputs everywhere: in a store that keeps State as JSON in one row a
// target and changes it by compare-and-swap, in the simulator, and in one
// process through Local.
//
// DESIGN.md beside this file states the transitions and invariants.
package gate

import (
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
)

// OpenJitter is the share by which Of spreads a breaker's open time, so that
// targets that failed together are not probed together.
const OpenJitter = 0.1

// Config is what a policy asks of a target's gate. The zero Config holds
// nothing back but what an operator paused.
type Config struct {
	Breaker policy.Breaker
	// Jitter spreads each open time by ± this share: a draw of 0 gives the
	// shortest, 0.5 exactly the nominal time. 0 = none. The cap is applied
	// after it.
	Jitter float64
	// Pause says whether a pause of the target holds this work.
	Pause bool
	// RetryAfter says whether a failure's RetryAfter pauses the target, and
	// the longest such pause.
	RetryAfter policy.RetryAfter
	Budget     policy.Budget
	PerTarget  policy.PerTarget
	// Keep is the longest time that the holder of a permit may let pass
	// before it starts the call; 0 = the call starts when it is admitted.
	// A store that carves grants sets it to a grant's life. With Keep over
	// 0 a first attempt pays into a window budget only when its Done names
	// the instant at which it started.
	Keep time.Duration
	// Adapt slows the target down after it was held, to half of what it bore
	// before, and lets the rate rise again by what passes: see Pace.
	Adapt bool
}

// Of returns the gate that the policy promises. With the policy's gate off no
// breaker, pause or budget holds its work; the limits per target remain.
// Spacing and concurrency of the process are not the target's and not here.
func Of(p *policy.Policy) Config {
	c := Config{PerTarget: p.PerTarget}
	if p.Gate {
		c.Breaker, c.Jitter = p.Breaker, OpenJitter
		c.Pause, c.RetryAfter = true, p.RetryAfter
		c.Budget = p.Budget
		c.Adapt = p.Target == policy.Host && p.Breaker.On()
	}
	return c
}

// Event is what happens at a gate: Ask, Done, Abandon, Again, Slow, Pause,
// Resume, Probe or Close, each passed by value.
type Event interface{ event() }

// Outcome is what a grant's holder tells of its permits: Done and Abandon give
// one back, Again says that it went out once more. None has a verdict.
type Outcome interface {
	Event
	outcome()
}

// Ask asks to start one call. When the verdict admits it, the call has begun
// and its permit must come back by exactly one Done or Abandon.
type Ask struct {
	Retry bool // not the work's first attempt
}

// Done ends a call that was admitted. Retry and Probe repeat what was asked
// and what the verdict said; Verdict.Success and Verdict.Failure fill them.
//
// A failure counts against the breaker only if it blames the target. Any
// other counts neither way: it gives the permit back and frees the probe's
// place. A RetryAfter pauses the whole target, whoever is to blame.
type Done struct {
	OK      bool
	Failure failure.Failure // when not OK
	Retry   bool
	Probe   bool
	// Repeat says that this piece of work has failed before: its failing
	// again does not count against the target, since the work itself may be
	// bad. A success of it counts.
	Repeat bool
	// Pause also pauses the target for that long, as the action
	// pause_target orders. The longest Retry-After does not cut it.
	Pause time.Duration
	// StartedAt is when the call began; needed only with Config.Keep.
	StartedAt time.Time
}

// Abandon gives a permit back without an outcome: its holder died, or never
// used it. It counts neither way; a lost probe frees its place.
type Abandon struct {
	Retry bool
	Probe bool
	// Unused says that no call was started. It undoes what can be undone:
	// a token returns, and a first attempt's pay is taken back.
	Unused bool
}

// Pause is an operator's order to start no call before Until; zero means
// until Resume. It replaces an earlier Pause.
type Pause struct{ Until time.Time }

// Resume ends an operator's Pause, and only that.
type Resume struct{}

func (Ask) event()       {}
func (Done) event()      {}
func (Abandon) event()   {}
func (Pause) event()     {}
func (Resume) event()    {}
func (Done) outcome()    {}
func (Abandon) outcome() {}

// Step applies one event. Only an Ask has a verdict to speak of.
//
// A refused Ask that leaves nothing to remember returns the state as it was,
// equal by ==, so that a store writes only what differs: a refusal that the
// throttle counts, the beginning and the end of an empty budget's hold.
func Step(c Config, s State, e Event, now time.Time, draw float64) (State, Verdict) {
	if _, asked := e.(Ask); !asked {
		v := step(&c, &s, e, now, draw)
		return s, v
	}
	before := s
	v := step(&c, &s, e, now, draw)
	if !v.Admit {
		s.forgetLook(&before)
	}
	return s, v
}

// Apply is Step for an outcome, in place.
func (c *Config) Apply(s *State, o Outcome, now time.Time, draw float64) {
	step(c, s, o, now, draw)
}

// Pass is the end of a call that passed, as most do: Done and Again in little, for
// those who remember many.
type Pass struct {
	StartedAt Instant // as in Done
	Retry     bool
	Probe     bool
	Again     bool // the permit goes to a first attempt at once
}

// Passed is Apply for the end of a call that passed: no draw decides anything then,
// and nothing is made on the way.
func (c *Config) Passed(s *State, p *Pass, now Instant) {
	c.fold(s, p, false, passed, 0, 0, s.tickAt(now), 0)
	if p.Again {
		s.take(false)
	}
}

// forgetLook returns to the state before if only the clock's reading differs.
func (s *State) forgetLook(before *State) {
	seen := s.SeenAt
	if s.SeenAt = before.SeenAt; *s != *before {
		s.SeenAt = seen
	}
}

// Fold applies outcomes in order at one instant: the same as one Step each.
// A grant's holder folds what happened since its last swap, in the order in
// which it happened, and carves its next permits from the result.
func Fold(c Config, s State, outcomes []Outcome, now time.Time, draw float64) State {
	for _, o := range outcomes {
		step(&c, &s, o, now, draw)
	}
	return s
}

func step(c *Config, s *State, e Event, now time.Time, draw float64) Verdict {
	at, draw := s.tick(now), clampDraw(draw)
	switch e := e.(type) {
	case Ask:
		return ask(c, s, e.Retry, at, draw)
	case Done:
		done(c, s, &e, at, draw)
	case Abandon:
		abandon(c, s, e, at)
	case Again:
		s.take(e.Retry)
	case Slow:
		s.slow(e.Every, at)
	case Pause:
		s.stop(true, InstantOf(e.Until), at)
	case Resume:
		s.stop(false, 0, at)
	case Probe:
		c.probe(s, at)
	case Close:
		s.close(at)
	default:
		panic("gate: unknown event; pass one of the package's events by value")
	}
	return Verdict{}
}

func done(c *Config, s *State, e *Done, at Instant, draw float64) {
	wish, r := span(0), neither
	switch {
	case e.OK:
		r = passed
	case e.Failure.Blame == failure.BlameTarget:
		r = failed
	}
	if !e.OK {
		wish = c.retryAfter(e.Failure.RetryAfter)
	}
	end := Pass{StartedAt: InstantOf(e.StartedAt), Retry: e.Retry, Probe: e.Probe}
	c.fold(s, &end, e.Repeat, r, wish, spanOf(e.Pause), at, draw)
}

// fold is the end of a call: the permit comes back, the target is paused as long as
// it wished or as was ordered, and the result counts.
func (c *Config) fold(s *State, end *Pass, repeat bool, r result, wish, pause span, at Instant, draw float64) {
	s.remember(at)
	s.release(end.Retry)
	s.pause(at, max(wish, pause))
	if r == passed || !repeat {
		c.learn(s, r, at)
	}
	c.settle(s, end.Probe, repeat, r, at, draw)
	c.repay(s, end.Retry, end.StartedAt, r, at)
	if wish > 0 {
		c.ease(s, at)
	}
	s.review(at)
}

func abandon(c *Config, s *State, e Abandon, at Instant) {
	s.release(e.Retry)
	c.settle(s, e.Probe, false, neither, at, 0)
	if e.Unused {
		c.refund(s, e.Retry, at)
	}
}

// retryAfter is how long the target's wish pauses it.
func (c *Config) retryAfter(wish time.Duration) span {
	if !c.RetryAfter.Honour {
		return 0
	}
	if longest := c.RetryAfter.Max; longest > 0 {
		wish = min(wish, longest)
	}
	return spanOf(wish)
}

// clampDraw brings any float into [0,1).
func clampDraw(draw float64) float64 {
	if !(draw > 0) { // NaN too
		return 0
	}
	return min(draw, 1-0x1p-53)
}
