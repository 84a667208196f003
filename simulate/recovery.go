package simulate

import "math"

// defaultShare is how much of its former success share a caller must regain.
const defaultShare = 0.9

// disturbance returns from when to when something was wrong, if that is known
// and ended within the run.
func (k *kernel) disturbance() (began, ended int64, ok bool) {
	r := &k.scenario.Recovery
	if r.BeganAt != 0 || r.EndedAt != 0 {
		return int64(r.BeganAt), int64(r.EndedAt), int64(r.EndedAt) < k.now
	}
	began = math.MaxInt64
	note := func(from, until int64) {
		began, ended, ok = min(began, from), max(ended, until), true
	}
	curve := func(t timeline) {
		if first, last, changes := t.changes(); changes {
			note(first, last)
		}
	}
	for i := range k.nodes {
		n := &k.nodes[i]
		curve(n.capacity)
		curve(n.speed)
		curve(n.lossIn)
		curve(n.lossOut)
		for f := range n.faults {
			spec := n.faults[f].spec
			if spec.Until > 0 { // also of one that comes and goes
				note(int64(spec.From), int64(spec.Until))
			} else {
				curve(n.faults[f].probability)
			}
		}
	}
	for i := range k.sources {
		s := &k.sources[i]
		curve(s.rate)
		if s.spec.Until > 0 && s.spec.From > 0 {
			note(int64(s.spec.From), int64(s.spec.Until)) // a spike
		}
	}
	return began, ended, ok && ended < k.now
}

// recovery judges a caller's series: see DESIGN.md.
func (k *kernel) recovery(s *CallerSeries, began, ended int64) RecoveryTime {
	width := k.buckets.width
	r := RecoveryTime{Disturbed: true, BeganAt: seconds(began), EndedAt: seconds(ended)}
	share := k.scenario.Recovery.Share
	if share == 0 {
		share = defaultShare
	}
	before := int(min(began/width, int64(len(s.OK))))
	first := int((ended + width - 1) / width) // the first bucket that lies after it
	base, deepest := baseline(s, before)
	r.Recovered, r.After = k.since(first, len(s.OK), ended, func(i int) sign {
		switch calls := s.OK[i] + s.Failed[i]; {
		case calls == 0 && s.InSystemMax[i] > 0:
			return silent
		case float64(s.OK[i]) >= share*base*float64(calls):
			return good
		}
		return bad
	})
	r.Drained, r.DrainedAfter = k.since(first, len(s.OK), ended, func(i int) sign {
		if s.InSystemMax[i] <= deepest {
			return good
		}
		return bad
	})
	return r
}

// sign is what a bucket says of recovery. One in which there was work and no
// start ended is silent: it ends no good time, but none begins with it. A
// caller that a gate holds back for ever has not recovered.
type sign int

const (
	bad sign = iota
	silent
	good
)

// baseline is the success share and the most jobs in the system before a
// disturbance. A share that nothing tells is 1.
func baseline(s *CallerSeries, before int) (share float64, deepest int64) {
	var ok, calls int64
	for i := range before {
		ok += s.OK[i]
		calls += s.OK[i] + s.Failed[i]
		deepest = max(deepest, s.InSystemMax[i])
	}
	if calls == 0 {
		return 1, deepest
	}
	return ratio(ok, calls), deepest
}

// since finds the first good bucket from which on none is bad, for as long as
// the scenario asks or to the end.
func (k *kernel) since(first, n int, ended int64, of func(int) sign) (bool, float64) {
	width := k.buckets.width
	enough := math.MaxInt
	if d := int64(k.scenario.Recovery.For); d > 0 {
		enough = int((d + width - 1) / width)
	}
	run := 0
	for i := first; i < n; i++ {
		switch sign := of(i); {
		case sign == bad:
			run = 0
			continue
		case sign == silent && run == 0:
			continue
		}
		if run++; run >= enough {
			return true, seconds(max(0, int64(i-run+1)*width-ended))
		}
	}
	if run == 0 || enough != math.MaxInt {
		return false, 0
	}
	return true, seconds(max(0, int64(n-run)*width-ended))
}
