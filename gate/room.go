package gate

import "time"

// Unlimited is Room's answer for a target that nothing limits. Carve hands
// out no more than MaxWant at once all the same.
const Unlimited = maxInFlight

// Shut reports whether no call at all can start now: an operator's pause, a
// Retry-After pause, an open breaker, or a half-open one with its probe out.
// until is when the passing of time alone can open it; zero if something else
// must happen. A gate without room is not shut: see Room.
func Shut(c Config, s State, now time.Time) (until time.Time, shut bool) {
	l := limit{room: Unlimited}
	c.closed(&s, &l, s.tick(now))
	if l.room > 0 {
		return time.Time{}, false
	}
	return l.verdict(false).Until, true
}

// Room is the most permits that Carve would hand out now by pauses, breaker,
// ramp and concurrency; Unlimited if none of them limits it. Rate and budget
// may leave less.
func Room(c Config, s State, now time.Time) int {
	l := c.limitOf(&s, now)
	if l.held == HeldConcurrency && l.room > 0 && c.PerTarget.Concurrency <= 0 {
		return Unlimited
	}
	return l.room
}

// limitOf is what pauses, breaker, ramp and concurrency leave.
func (c *Config) limitOf(s *State, now time.Time) limit {
	l := limit{room: Unlimited}
	c.holds(s, &l, s.tick(now))
	return l
}

// RoomAfter reports whether there is room after the outcome, and no rate: then
// a permit that came back by it may be used again in the same instant.
func (c *Config) RoomAfter(s *State, o Outcome, now time.Time) bool {
	if at := InstantOf(now); at >= s.SeenAt && c.onlyReturns(s, o) {
		l := limit{room: Unlimited}
		c.closed(s, &l, at)
		l.cap(c.most()-max(0, s.InFlight-1), HeldConcurrency, 0)
		return l.room > 0
	}
	after := *s
	step(c, &after, o, now, 0)
	return c.limitOf(&after, now).room > 0 && c.every(&after) == 0
}

// onlyReturns reports whether the outcome changes nothing of what holds calls
// back but that a permit is no longer out, at a target without a rate: of a
// healthy target mostly. Then nobody need copy the state to know.
func (c *Config) onlyReturns(s *State, o Outcome) bool {
	if s.Phase != Closed && c.Breaker.On() || c.every(s) != 0 {
		return false
	}
	switch o := o.(type) {
	case Done:
		return o.OK && !o.Probe && o.Pause <= 0
	case Abandon:
		return !o.Probe
	}
	return false
}
