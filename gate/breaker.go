package gate

// rampTop is the ramp's last step for a target without a concurrency limit:
// 1, 2, 4, 8, 16 at once, then closed. A longer ramp would rarely end, since
// one failure begins its step anew.
const rampTop = 32

// maxTrips keeps the doubling within 64 bits; maxSpan is reached long before.
const maxTrips = 60

// result is what an outcome says of the target.
type result uint8

const (
	neither result = iota // our fault, the caller's, or nobody knows
	passed
	failed
)

// settle tells the breaker how a call ended. A breaker that the config
// switches off neither counts nor moves; a probe's place is freed regardless.
//
// Work that failed before (repeat) is no evidence against the target when it
// fails again: it may be the work that is bad. Only as the probe it decides,
// since nothing else is known then, and without doubling the open time.
func (c *Config) settle(s *State, probe, repeat bool, r result, at Instant, draw float64) {
	if probe {
		if !s.Probing {
			return // its place was freed before: it no longer decides
		}
		s.Probing = false
	}
	if r == neither || !c.Breaker.On() {
		return
	}
	switch s.Phase {
	case Closed:
		if r == passed || !repeat {
			c.count(s, r, at, draw)
		}
	case Open:
		// A call from before the opening: it was known by then.
	case HalfOpen:
		switch {
		case !probe: // likewise
		case r == passed:
			s.Trips = 0
			c.ramp(s, 1)
		case repeat:
			c.openAgain(s, at, draw)
		default:
			c.open(s, at, draw)
		}
	case Ramping:
		if r == failed {
			if s.Passed = 0; !repeat {
				c.count(s, r, at, draw)
			}
			return
		}
		c.count(s, r, at, draw)
		if s.Passed++; s.Passed >= s.Ramp {
			c.ramp(s, s.Ramp*2)
		}
	}
}

// count is for a breaker through which calls pass: a failure opens it when it
// completes a row or a share; a success never does. In the cells x passed, y
// failed.
func (c *Config) count(s *State, r result, at Instant, draw float64) {
	b, over := &c.Breaker, spanOf(c.Breaker.Window)
	if b.Ratio > 0 {
		newest := s.Calls.seek(at, over, joinCounts)
		if r == passed {
			newest.x = bounded(newest.x + 1)
		} else {
			newest.y = bounded(newest.y + 1)
		}
	}
	if r == passed {
		s.Failed = 0
		return
	}
	s.Failed = min(s.Failed+1, maxInFlight)
	if b.Consecutive > 0 && s.Failed >= b.Consecutive {
		c.open(s, at, draw)
		return
	}
	if b.Ratio <= 0 {
		return
	}
	sum := s.Calls.total(at, over, joinCounts)
	calls := sum.x + sum.y
	if calls >= int64(b.MinCalls) && float64(sum.y)/float64(calls) >= b.Ratio {
		c.open(s, at, draw)
	}
}

// open opens the breaker for the first time or, doubled, once more.
func (c *Config) open(s *State, at Instant, draw float64) {
	s.Trips = min(s.Trips+1, maxTrips)
	c.openAgain(s, at, draw)
}

// openAgain opens it for as long as the last time.
func (c *Config) openAgain(s *State, at Instant, draw float64) {
	s.Trips = max(1, s.Trips)
	s.Phase, s.OpenUntil = Open, at.add(c.openFor(s.Trips, draw))
	s.Ramp, s.Passed, s.Failed, s.Calls = 0, 0, 0, Tally{}
	c.ease(s, at)
}

// ramp lets n calls be in flight or, when n limits nothing any more, closes
// the breaker.
func (c *Config) ramp(s *State, n int) {
	s.OpenUntil, s.Passed = 0, 0
	top := rampTop
	if limit := c.PerTarget.Concurrency; limit > 0 {
		top = min(top, limit)
	}
	if n >= top {
		s.Phase, s.Ramp = Closed, 0
		return
	}
	s.Phase, s.Ramp = Ramping, n
}

// openFor is the time that the trips-th opening in a row lasts: Open doubled
// trips-1 times up to Cap, spread by Jitter, and never over Cap.
func (c *Config) openFor(trips int, draw float64) span {
	longest := maxSpan
	if c.Breaker.Cap > 0 {
		longest = spanOf(c.Breaker.Cap)
	}
	d := min(spanOf(c.Breaker.Open), longest)
	for ; trips > 1 && d < longest; trips-- {
		d = min(2*d, longest)
	}
	if j := min(c.Jitter, 1); j > 0 {
		d += span(float64(d) * j * (2*draw - 1))
	}
	return min(d, longest)
}
