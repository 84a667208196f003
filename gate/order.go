package gate

import "time"

// Probe is a person's order to call the target now. An open breaker does not
// wait for its time any longer, and a Retry-After pause is over: the next call
// that is asked for goes out as the one probe, and its outcome decides as any
// probe's does. Where no breaker is on, the end of the pause is all.
//
// It changes nothing where nothing of that holds the target, while the probe
// is out already, and while an operator's Pause lasts: Resume comes first.
type Probe struct{}

// Close is a person's word that the target is well: the breaker is closed
// with its openings and failures forgotten, the ramp is over, and a
// Retry-After pause has ended. A probe that is out decides nothing any more.
// An operator's Pause stays, and so does the pace that the target was seen to
// bear, which rises by itself.
type Close struct{}

func (Probe) event() {}
func (Close) event() {}

// Probeable reports whether a Probe would make the next call the probe: it is
// held by breaker or Retry-After, no probe is out, and no operator's Pause
// lasts.
func (s State) Probeable(now time.Time) bool {
	at := s.tick(now)
	return s.probeable(at)
}

func (s *State) probeable(at Instant) bool {
	stopped := s.Stopped && (s.StopUntil == 0 || s.StopUntil > at)
	broken := s.Phase == Open || s.Phase == HalfOpen
	return !stopped && !s.Probing && (broken || s.PauseUntil > at)
}

// probe makes the next call the probe.
func (c *Config) probe(s *State, at Instant) {
	if !s.probeable(at) {
		return
	}
	s.remember(at)
	if c.Breaker.On() || s.Phase == Open || s.Phase == HalfOpen {
		s.Phase = HalfOpen
		s.Ramp, s.Passed, s.Failed, s.Calls = 0, 0, 0, Tally{}
	}
	s.OpenUntil, s.PauseUntil = 0, 0
	s.review(at)
}

// close forgets that the target ever failed.
func (s *State) close(at Instant) {
	s.remember(at)
	s.Phase, s.Trips, s.OpenUntil, s.Probing = Closed, 0, 0, false
	s.Ramp, s.Passed, s.Failed, s.Calls = 0, 0, 0, Tally{}
	s.PauseUntil = 0
	s.review(at)
}
