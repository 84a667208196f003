package gate

import "time"

// Instant is a point in time as State keeps it: microseconds since the zero
// time.Time, in UTC. 0 means none. Databases keep microseconds too; a now
// that falls between two is read as the earlier one.
type Instant int64

// span is a duration in microseconds.
type span int64

const (
	// unixZero is the zero time.Time's distance to the Unix epoch.
	unixZero = 62135596800 // s
	// maxInstant is the end of the year 9999, the last that JSON can say.
	maxInstant Instant = (unixZero+253402300799)*1e6 + 999999
	// maxSpan is about 142 years. Longer durations mean the same.
	maxSpan span = 1 << 52

	// skew is the most by which clocks may disagree. A now behind SeenAt by
	// no more is read as SeenAt; further behind means the clock was set back.
	skew span = 10e6
)

// Time returns the instant as a time in UTC; none is the zero time.
func (i Instant) Time() time.Time {
	return time.UnixMicro(int64(i) - unixZero*1e6).UTC()
}

// InstantOf is the instant of a time, cut to the microsecond.
func InstantOf(t time.Time) Instant {
	const last = 253402300799
	sec := t.Unix()
	switch {
	case sec < -unixZero:
		return 0
	case sec > last:
		return maxInstant
	}
	return Instant((sec+unixZero)*1e6 + int64(t.Nanosecond())/1000)
}

// add is saturating; i and d are never negative.
func (i Instant) add(d span) Instant {
	if d >= span(maxInstant-i) {
		return maxInstant
	}
	return i + Instant(d)
}

// spanOf rounds up, so that a hold is never shorter than was asked; negative
// durations are 0.
func spanOf(d time.Duration) span {
	if d <= 0 {
		return 0
	}
	s := span(d / time.Microsecond)
	if d%time.Microsecond != 0 {
		s++
	}
	return min(s, maxSpan)
}

// tick reads the clock for one step and keeps the state consistent with it.
//
// Time that seems to run backwards grants nothing: within skew the gate waits
// at SeenAt for the clock to catch up; beyond it the clock was set back, and
// every instant moves back with it, as if no time had passed. So holds keep
// what was left of them, neither dropped nor stretched to the old hour.
func (s *State) tick(now time.Time) Instant { return s.tickAt(InstantOf(now)) }

func (s *State) tickAt(at Instant) Instant {
	if at >= s.SeenAt {
		s.SeenAt = at
		return at
	}
	back := span(s.SeenAt - at)
	if back <= skew {
		return s.SeenAt
	}
	// An operator's pause ends by the wall clock, as ordered: it stays.
	s.OpenUntil = s.OpenUntil.sub(back)
	s.PauseUntil = s.PauseUntil.sub(back)
	s.NextAt = s.NextAt.sub(back)
	s.Pace.Since = s.Pace.Since.sub(back)
	s.Calls.shift(back)
	s.Starts.shift(back)
	s.Asked.shift(back)
	s.Held.shift(back)
	s.Dry.shift(back)
	s.Paused.shift(back)
	s.SeenAt = at
	return at
}

func (i Instant) sub(d span) Instant { return max(0, i-Instant(d)) }
