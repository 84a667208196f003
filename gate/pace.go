package gate

import (
	"math"
	"time"
)

// Pace is how fast a target may be called beyond what policies say: what it
// asks for, and what it was seen to bear. It is part of State, so it holds
// over all processes and survives them.
type Pace struct {
	// Every is the least time between two starts that the target asks for, in
	// microseconds; 0 = it asks for none. Slow sets it.
	Every int64 `json:"every,omitzero"`
	// Rate is the most starts since the target was held, in thousandths a
	// second; 0 = not limited. It is lifted at Nominal.
	Rate    int64 `json:"rate,omitzero"`
	Nominal int64 `json:"nominal,omitzero"`
	// Good is the goodput of the last whole window without a failure, in
	// thousandths a second.
	Good int64 `json:"good,omitzero"`
	// Passed and Failed are of the window that began at Since.
	Since  Instant `json:"since,omitzero"`
	Passed int64   `json:"passed,omitzero"`
	Failed int64   `json:"failed,omitzero"`
}

// AIMD, with Config.Adapt. When breaker or Retry-After hold the target, it
// resumes at half of its last good rate. The rate rises by a tenth of the
// nominal one for each whole window of calls that used it and all passed, and
// falls by half for a window with a failure in it. A window that used less
// proves nothing: we were idle ourselves.
const (
	paceWindow span  = 10e6
	paceIdle   span  = 3 * paceWindow // a longer one has a pause in it and tells no rate
	paceLeast  int64 = 500            // half a call a second: slower is the breaker's
	paceMost   int64 = 1e12
)

// Slow is what the target asks of everybody who calls it: so much time between
// two starts, such as the Crawl-delay of a robots.txt. 0 ends that. Whoever
// tells it may start one call: the next comes Every later.
type Slow struct{ Every time.Duration }

func (Slow) event() {}

func (s *State) slow(every time.Duration, at Instant) {
	s.Pace.Every = int64(spanOf(every))
	if every > 0 {
		s.NextAt = max(s.NextAt, at.add(spanOf(every)))
	}
}

// Every is the time between two starts at the target; 0 = nothing paces them.
// Where it is over 0, a permit that came back must not be used again.
func (c Config) Every(s State) time.Duration { return durationOf(c.every(&s)) }

func (c *Config) every(s *State) span {
	every := span(s.Pace.Every)
	if c.Adapt && s.Pace.Rate > 0 {
		every = max(every, span((1e9+s.Pace.Rate-1)/s.Pace.Rate))
	}
	if rate := c.PerTarget.Rate; rate > 0 {
		us := math.Ceil(1e6/rate - 1e-6)
		if us >= float64(maxSpan) {
			return maxSpan
		}
		every = max(every, 1, span(us))
	}
	return every
}

// learn counts a call for the pace.
func (c *Config) learn(s *State, r result, at Instant) {
	if !c.Adapt || r == neither {
		return
	}
	p := &s.Pace
	p.roll(at)
	if r == passed {
		p.Passed = min(p.Passed+1, maxInFlight)
	} else {
		p.Failed = min(p.Failed+1, maxInFlight)
	}
}

// roll closes the window if it is over.
func (p *Pace) roll(at Instant) {
	if p.Since == 0 {
		p.Since = at
	}
	over := span(at - p.Since)
	if over < paceWindow {
		return
	}
	good := p.goodput(over)
	switch {
	case p.Failed > 0:
		if p.Rate > 0 {
			p.Rate = max(p.Rate/2, paceLeast)
		}
	case over > paceIdle:
	case p.Rate == 0:
		p.Good = good
	case good*10 >= p.Rate*8:
		p.Good = good
		if p.Rate += max(1, p.Nominal/10); p.Rate >= p.Nominal {
			p.Rate, p.Nominal = 0, 0
		}
	}
	p.Since, p.Passed, p.Failed = at, 0, 0
}

// goodput is in thousandths a second.
func (p *Pace) goodput(over span) int64 {
	if over <= 0 {
		return 0
	}
	return min(p.Passed*1e9/int64(over), paceMost)
}

// ease lowers the pace of a target that is held from now on.
func (c *Config) ease(s *State, at Instant) {
	if !c.Adapt {
		return
	}
	p := &s.Pace
	good := p.Good
	if good == 0 { // not one whole window before: what there was of it
		good = p.goodput(span(at - p.Since))
	}
	if good > 0 { // else it never bore anything, and the ramp is gentle enough
		if p.Rate == 0 {
			p.Nominal = max(good, paceLeast)
		}
		p.Rate = max(good/2, paceLeast)
	}
	p.Since, p.Passed, p.Failed = at, 0, 0
}
