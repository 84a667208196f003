package gate

import (
	"cmp"
	"slices"
	"time"
)

// maxPast is how many past holds of a kind a state remembers.
const maxPast = 8

// Spans are the times in which a hold applied: a few that have ended, and
// the instant from which the present one counts.
//
// Its past is sorted and never overlaps. When a further one would not fit,
// either the two neighbours with the shortest gap become one, the older moved
// up to the newer, or the oldest is dropped if it is shorter than that gap.
// So a sum over all of it errs only by what was dropped, and over a part of
// it by at most the gap more. The present hold is never touched.
type Spans struct {
	since Instant          // the present hold's part that past lacks begins here; 0 = none
	past  [maxPast]stretch // newest first; the unused ones at the end are zero
}

// stretch is the time [from, to); it is empty, and means none, if from ≥ to.
type stretch struct{ from, to Instant }

func (a stretch) length() span { return max(0, span(a.to-a.from)) }

func (a stretch) and(b stretch) stretch { return stretch{max(a.from, b.from), min(a.to, b.to)} }

func (a stretch) until(at Instant) stretch { return stretch{a.from, min(a.to, at)} }

// add appends a stretch that begins no earlier than all others end.
func (h *Spans) add(a stretch) {
	newest := &h.past[0]
	if a.from = max(a.from, newest.to); a.from >= a.to {
		return
	}
	if a.from == newest.to {
		newest.to = a.to
		return
	}
	all := [maxPast + 1]stretch{a}
	copy(all[1:], h.past[:])
	if oldest := all[maxPast]; oldest.to > 0 {
		join(&all, oldest.length())
	}
	copy(h.past[:], all[:])
}

// join makes one stretch of the two with the shortest gap between them,
// unless the gap is at least as long as what dropping the oldest would cost.
func join(all *[maxPast + 1]stretch, oldest span) {
	least, at := oldest, -1
	for i := range maxPast {
		if gap := span(all[i].from - all[i+1].to); gap < least {
			least, at = gap, i
		}
	}
	if at >= 0 {
		all[at].from = all[at].from.sub(all[at+1].length())
		copy(all[at+1:], all[at+2:])
	}
}

// begin starts a hold that is not running yet.
func (h *Spans) begin(at Instant) {
	if h.since == 0 {
		h.since = max(1, at)
	}
}

// shift moves all back in time with the clock.
func (h *Spans) shift(back span) {
	if h.since > 0 {
		h.since = max(1, h.since.sub(back))
	}
	old := h.past
	h.past = [maxPast]stretch{}
	for i, a := range old {
		if a = (stretch{max(1, a.from.sub(back)), a.to.sub(back)}); a.from >= a.to {
			break // so are all older ones
		}
		h.past[i] = a
	}
}

// present is the stretch from since to end in which the hold applies as the
// state stands. An operator's pause goes before every other hold, and its
// time never counts.
func (s *State) present(since, end Instant) stretch {
	if s.Stopped {
		if s.StopUntil == 0 {
			return stretch{}
		}
		since = max(since, s.StopUntil)
	}
	return stretch{since, end}
}

// heldNow is the present hold of all work by an open or half-open breaker, for
// which no end is known. While the target asked for a pause, it is the pause
// that holds.
func (s *State) heldNow() stretch {
	if !s.shut() {
		return stretch{}
	}
	since := s.Held.since
	if since == 0 {
		since = s.SeenAt // a state that an older build wrote
	}
	return s.present(max(since, s.PauseUntil), maxInstant)
}

// pausedNow is the present hold by a pause that the target asked for.
func (s *State) pausedNow() stretch {
	since := s.Paused.since
	if since == 0 {
		since = s.SeenAt
	}
	return s.present(since, s.PauseUntil)
}

// shut reports whether the breaker lets nothing through but a probe.
func (s *State) shut() bool { return s.Phase == Open || s.Phase == HalfOpen }

// dryNow is the present hold of retries alone.
func (s *State) dryNow() stretch {
	if s.Dry.since == 0 {
		return stretch{}
	}
	return s.present(max(s.Dry.since, s.PauseUntil), maxInstant)
}

// remember writes the holds down up to now, before an event changes them;
// review says afterwards whether there is one that goes on.
func (s *State) remember(at Instant) {
	s.Held.add(s.heldNow().until(at))
	s.Paused.add(s.pausedNow().until(at))
	s.Held.since, s.Paused.since = max(1, at), max(1, at)
	if s.Dry.since > 0 {
		s.Dry.add(s.dryNow().until(at))
		s.Dry.since = max(1, at)
	}
}

func (s *State) review(at Instant) {
	if !s.shut() {
		s.Held.since = 0
	}
	if s.PauseUntil <= at {
		s.Paused.since = 0
	}
}

// stop and resume an operator's pause: what was held until now stays so.
func (s *State) stop(stopped bool, until, at Instant) {
	s.remember(at)
	s.Stopped, s.StopUntil = stopped, until
	s.review(at)
}

// judgeRetries records what became of the retries that were asked for: an
// empty budget holds them from the first that it refused until one comes that
// it does not refuse.
func (s *State) judgeRetries(admitted, refused bool, at Instant) {
	if admitted || !refused {
		s.Dry.add(s.dryNow().until(at))
		s.Dry.since = 0
	}
	if refused {
		s.Dry.begin(at)
	}
}

// holdTimes are the times in which work of the kind was held and, as the
// state stands, will be: disjoint, the newest first.
func (s *State) holdTimes(retry bool, buffer *[2*maxPast + 2]stretch) []stretch {
	all := buffer[:0]
	all = append(all, s.heldNow())
	all = append(all, s.Held.past[:]...)
	if retry {
		all = append(all, s.dryNow())
		all = append(all, s.Dry.past[:]...)
	}
	all = slices.DeleteFunc(all, func(a stretch) bool { return a.from >= a.to })
	slices.SortFunc(all, func(a, b stretch) int { return cmp.Compare(b.to, a.to) })
	n := 0
	for _, a := range all {
		if n > 0 && a.to >= all[n-1].from {
			all[n-1].from = min(all[n-1].from, a.from)
			continue
		}
		all[n] = a
		n++
	}
	return all[:n]
}

// HeldBetween is how much of the time from one instant to another the target
// held its work by what counts towards max_hold: an open or half-open breaker
// all of it, an empty budget its retries alone. What falls together counts
// once; an operator's pause, a pause that the target asked for and a throttled
// first attempt do not count. A hold that runs counts up to the end of the
// interval.
//
// It speaks of the target. Of work whose policy has no such hold, on a target
// that it shares with others, it says too much.
func (s *State) HeldBetween(from, to time.Time, retry bool) time.Duration {
	a, b := InstantOf(from), InstantOf(to)
	if !retry && s.Held.past[0].to <= a && s.heldNow().length() == 0 { // mostly
		return 0
	}
	var sum span
	var buffer [2*maxPast + 2]stretch
	for _, h := range s.holdTimes(retry, &buffer) {
		sum += h.and(stretch{a, b}).length()
	}
	return durationOf(sum)
}

// PausedBetween is how much of that time the target held its work by a pause
// that it asked for. It does not count towards max_hold.
func (s *State) PausedBetween(from, to time.Time) time.Duration {
	within := stretch{InstantOf(from), InstantOf(to)}
	sum := s.pausedNow().and(within).length()
	for _, h := range s.Paused.past {
		sum += h.and(within).length()
	}
	return durationOf(sum)
}

// HeldCutoff is the latest due time such that work due then has been held for
// at least so long by now: HeldBetween(due, now, retry) ≥ atLeast. It is
// false if there is none.
func (s *State) HeldCutoff(now time.Time, atLeast time.Duration, retry bool) (due time.Time, ok bool) {
	at, left := InstantOf(now), spanOf(atLeast)
	if left == 0 {
		return at.Time(), true
	}
	var buffer [2*maxPast + 2]stretch
	for _, h := range s.holdTimes(retry, &buffer) {
		h = h.until(at)
		if h.length() >= left {
			return h.to.sub(left).Time(), true
		}
		left -= h.length()
	}
	return time.Time{}, false
}

// durationOf is saturating.
func durationOf(d span) time.Duration {
	const most = span(1<<63-1) / span(time.Microsecond)
	return time.Duration(min(d, most)) * time.Microsecond
}
