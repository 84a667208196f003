package gate

import "time"

// MaxWant is the most permits of each kind that one Carve hands out.
const MaxWant = 1 << 20

// Want is how many permits of each kind are asked for at once.
type Want struct {
	Firsts  int // for first attempts
	Retries int
}

// Grant is what was carved out of a gate: permits that each must come back by
// one Done or Abandon.
type Grant struct {
	Firsts  int
	Retries int
	// Probe marks the one permit of a half-open breaker.
	Probe bool
	// StartAt and Every pace the calls of a target with a rate: permit i
	// (from 0) is for a start in [StartAt + i × Every, + Every), and lost
	// afterwards. Every is 0 without a rate: then StartAt is now.
	StartAt time.Time
	Every   time.Duration
	// Rest is the verdict on what was wanted and not granted; it admits when
	// nothing is missing.
	Rest Verdict
}

// Size is the number of permits.
func (g Grant) Size() int { return g.Firsts + g.Retries }

// Carve hands out as many of the wanted permits as the gate has now, so that
// the sum of all that are out stays within every limit. First attempts are
// served first, and pay for the retries of the same grant; whoever wants
// retries before them carves twice. With a rate, starts up to Config.Keep
// ahead are reserved. A half-open breaker grants one permit, the probe.
//
// A grant may be renewed as often as its holder likes, if it wants only what
// it can start: a rate's slot and a window's charge are spent by the carve,
// not by the start. What Rest holds is not asked for again before Rest.Until,
// as the throttle counts every refusal. A Carve that grants nothing and has
// nothing to remember returns the state as it was, as Step does.
func Carve(c Config, s State, w Want, now time.Time, draw float64) (State, Grant) {
	before := s
	at := s.tick(now)
	w.Firsts, w.Retries = max(0, min(w.Firsts, MaxWant)), max(0, min(w.Retries, MaxWant))
	l := limit{room: w.Firsts + w.Retries, ahead: spanOf(c.Keep)}
	got, probe := carve(&c, &s, w, &l, at, clampDraw(draw))
	g := Grant{Firsts: got.Firsts, Retries: got.Retries, Probe: probe, Rest: l.verdict(got == w)}
	if g.Size() > 0 {
		g.StartAt, g.Every = l.start.Time(), durationOf(l.every)
	} else {
		s.forgetLook(&before)
	}
	return s, g
}

// ask carves one permit for a call that starts now.
func ask(c *Config, s *State, retry bool, at Instant, draw float64) Verdict {
	w := Want{Firsts: 1}
	if retry {
		w = Want{Retries: 1}
	}
	l := limit{room: 1}
	got, probe := carve(c, s, w, &l, at, draw)
	v := l.verdict(got == w)
	v.Retry, v.Probe = retry, probe
	return v
}

// carve takes out of the state what it can give of w.
func carve(c *Config, s *State, w Want, l *limit, at Instant, draw float64) (got Want, probe bool) {
	probe = c.holds(s, l, at)
	c.pace(s, l, at)
	got.Firsts = min(w.Firsts, l.room)
	got.Retries = min(w.Retries, l.room-got.Firsts)
	if refused, until := c.throttled(s, got.Firsts+got.Retries, at, draw); refused > 0 {
		l.held, l.until = HeldBudget, until
		retries := min(refused, got.Retries)
		got.Retries -= retries
		got.Firsts -= refused - retries
	}
	if got.Firsts > 0 {
		c.pay(s, got.Firsts, at)
		s.InFlight += got.Firsts
	}
	if got.Retries > 0 {
		if room, until := c.retryRoom(s, at); room < int64(got.Retries) {
			got.Retries = int(room)
			l.held, l.until = HeldBudget, until
		}
		c.charge(s, got.Retries, at)
		s.InFlight += got.Retries
		s.Retries += got.Retries
	}
	if w.Retries > 0 {
		s.judgeRetries(got.Retries > 0, got.Retries < w.Retries && l.held == HeldBudget, at)
	}
	n := got.Firsts + got.Retries
	if n == 0 {
		return got, false
	}
	if l.every > 0 {
		s.NextAt = l.start.add(l.every * span(n))
	}
	if probe {
		s.Phase, s.Probing = HalfOpen, true
	}
	return got, probe
}

// limit gathers how many permits may go out and what binds them.
type limit struct {
	room  int
	held  Hold
	until Instant

	ahead span    // how far ahead starts may be reserved
	start Instant // the first start
	every span    // from one start to the next; 0 without a rate
}

// cap lowers the room to n.
func (l *limit) cap(n int, by Hold, until Instant) {
	if n = max(0, n); n < l.room {
		l.room, l.held, l.until = n, by, until
	}
}

// hold closes the gate until an instant. The end is that of the longest hold;
// an operator's pause keeps its name.
func (l *limit) hold(by Hold, until Instant) {
	switch {
	case l.held == NotHeld:
		l.room, l.held, l.until = 0, by, until
	case l.until == 0: // by something that time does not end
	case until > l.until:
		l.until = until
		if l.held != HeldOperator {
			l.held = by
		}
	}
}

func (l *limit) verdict(admit bool) Verdict {
	v := Verdict{Admit: admit}
	if !admit {
		v.Held = l.held
		if l.until > 0 {
			v.Until = l.until.Time()
		}
	}
	return v
}

// holds applies pauses, breaker and concurrency, and reports whether what
// passes is the breaker's probe.
func (c *Config) holds(s *State, l *limit, at Instant) (probe bool) {
	probe = c.closed(s, l, at)
	if c.Breaker.On() && s.Phase == Ramping {
		l.cap(s.Ramp-s.InFlight, HeldRamp, 0)
	}
	l.cap(c.most()-s.InFlight, HeldConcurrency, 0)
	return probe
}

// most is how many calls may be in flight by concurrency.
func (c *Config) most() int {
	if limit := c.PerTarget.Concurrency; limit > 0 {
		return min(maxInFlight, limit)
	}
	return maxInFlight
}

// closed applies what lets no call through, or but a probe.
func (c *Config) closed(s *State, l *limit, at Instant) (probe bool) {
	if s.Stopped && (s.StopUntil == 0 || s.StopUntil > at) {
		l.hold(HeldOperator, s.StopUntil)
	}
	if c.Pause && s.PauseUntil > at {
		l.hold(HeldRetryAfter, s.PauseUntil)
	}
	if c.Breaker.On() {
		switch s.Phase {
		case Closed, Ramping:
		case Open:
			if s.OpenUntil > at {
				l.hold(HeldBreaker, s.OpenUntil)
			}
			probe = true
		case HalfOpen:
			if s.Probing {
				l.cap(0, HeldBreaker, 0)
			}
			probe = true
		}
	}
	if probe {
		l.cap(1, HeldBreaker, 0)
	}
	return probe
}

// pace applies the rate, and what the target asks for or was seen to bear.
func (c *Config) pace(s *State, l *limit, at Instant) {
	l.start = at
	if l.every = c.every(s); l.every == 0 {
		return
	}
	l.start = max(at, s.NextAt)
	last := at.add(l.ahead)
	if l.start > last {
		l.cap(0, HeldRate, l.start.sub(l.ahead))
		return
	}
	if slots := 1 + span(last-l.start)/l.every; slots < 2*MaxWant {
		l.cap(int(slots), HeldRate, l.start.add(slots*l.every).sub(l.ahead))
	}
}
