package dispatch

import (
	"math"
	"slices"
	"time"
)

const (
	// LongAfter is how long a call may run before it counts as one that has
	// run long.
	LongAfter = time.Second
	// hangAfter is how long a call must have run for others to have to prove
	// that their targets answer.
	hangAfter = LongAfter / 5
	// suspectFor is how long targets must have proven that they answer after
	// the last call that hung.
	suspectFor = time.Minute
	// maxPulses is how many targets are remembered before those are forgotten
	// of which there is nothing to say.
	maxPulses = 1024
)

// Slots cannot be captured. A call that hangs keeps its slot until its timeout,
// and nobody can take it away. So, under a policy with a SlowShare,
//
//   - a target is slow while one of its calls has run for LongAfter, or if its
//     last one did: its calls start only while calls that have run long, or go
//     to slow targets, hold less than the share of the slots;
//   - where calls hang, a target has to prove that it answers: when the share
//     is in use, targets that have not answered since the oldest of those calls
//     began are tried one at a time, who answered last first, and never in the
//     last tenth of the slots. When many targets begin to hang at once, nothing
//     else tells those that still answer.

// pulse is what this process knows of how a target answers.
type pulse struct {
	running    int
	long       int  // of those: have run long, or began while it was slow
	slow       bool // its last call ran long
	answeredAt time.Time
}

// call is a start under way of a policy with a SlowShare.
type call struct {
	pulse     *pulse
	account   *account
	startedAt time.Time
	long      bool
	ended     bool
}

// slowness is what a Floor knows of calls under policies with a SlowShare.
type slowness struct {
	pulses map[string]*pulse
	calls  map[int64]*call // by the item's ID
	young  []*call         // have not run long, in the order of their starts
	old    []*call         // have run long, in the same order
	aside  []*shelf        // set aside until calls end
	// hungAt is when the last call began that ran long and has ended, and
	// until is how long that matters.
	hungAt, until time.Time
	trial         *call // of a target that has to prove that it answers
}

// SlowMost is how many of the policy's slots calls that have run long may hold;
// 0 = all.
func (l Limits) SlowMost() int {
	if !l.sharesSlots() || l.Concurrency <= 0 {
		return 0
	}
	return l.slowMost(l.Concurrency)
}

func (l *Limits) sharesSlots() bool { return l.SlowShare > 0 && l.SlowShare < 1 }

func (l *Limits) slowMost(slots int) int {
	return max(1, int(math.Ceil(l.SlowShare*float64(slots)-1e-9)))
}

// slowMost is how many slots calls that have run long may hold.
func (a *account) slowMost(slots int) int { return a.limits.slowMost(a.most(slots)) }

// capturable reports whether the policy bounds what calls that run long hold.
func (a *account) capturable(target string) bool { return target != "" && a.limits.sharesSlots() }

// spares reports whether a start at the target leaves enough slots to targets
// that answer; if not, when asking again may help before a call ends.
func (f *Floor) spares(a *account, target string, now time.Time) (ok bool, until time.Time) {
	if !a.capturable(target) {
		return true, time.Time{}
	}
	f.age(now)
	p, share := f.slow.pulses[target], a.slowMost(f.slots)
	slow := p != nil && p.isSlow()
	switch {
	case !slow && (f.answers(p, now) || a.running < share):
		return true, time.Time{}
	case a.running >= a.unprovenMost(f.slots):
		return false, time.Time{}
	case slow:
		return a.long < share, time.Time{}
	case f.trying(now):
		return false, f.slow.trial.startedAt.Add(hangAfter)
	case f.othersFirst(p):
		return false, now.Add(hangAfter)
	}
	return true, time.Time{}
}

// trying reports whether a target that has not answered is being tried.
func (f *Floor) trying(now time.Time) bool {
	t := f.slow.trial
	return t != nil && !t.ended && now.Sub(t.startedAt) < hangAfter
}

// othersFirst reports whether a target waits to be tried that has answered
// later than this one.
func (f *Floor) othersFirst(p *pulse) bool {
	return slices.ContainsFunc(f.slow.aside, func(s *shelf) bool {
		if s.state != aside {
			return false
		}
		o := f.slow.pulses[s.lane.target]
		return o != nil && !o.isSlow() && (p == nil || o.answeredAt.After(p.answeredAt))
	})
}

// unprovenMost is how many slots may be in use when a target starts that is
// slow, or has not answered since others hang.
func (a *account) unprovenMost(slots int) int {
	most := a.most(slots)
	return max(a.slowMost(slots), most-most/10)
}

func (p *pulse) isSlow() bool { return p.slow || p.long > 0 }

// answers reports whether the target has answered since the oldest of the
// calls that hang began; where none hangs or hung of late, all do.
func (f *Floor) answers(p *pulse, now time.Time) bool {
	oldest := running(&f.slow.old)
	if oldest == nil {
		oldest = running(&f.slow.young)
	}
	switch {
	case oldest != nil && now.Sub(oldest.startedAt) >= hangAfter:
		return p != nil && p.answeredAt.After(oldest.startedAt)
	case now.Before(f.slow.until):
		return p != nil && p.answeredAt.After(f.slow.hungAt)
	}
	return true
}

// running is the first call of a list that has not ended; those before it are
// forgotten.
func running(list *[]*call) *call {
	for len(*list) > 0 {
		if first := (*list)[0]; !first.ended {
			return first
		}
		(*list)[0], *list = nil, (*list)[1:]
	}
	return nil
}

// age sees which calls have run long by now.
func (f *Floor) age(now time.Time) {
	young := f.slow.young
	for len(young) > 0 && (young[0].ended || now.Sub(young[0].startedAt) >= LongAfter) {
		if c := young[0]; !c.ended {
			c.runsLong()
			f.slow.old = append(f.slow.old, c)
		}
		young[0], young = nil, young[1:]
	}
	f.slow.young = young
}

func (c *call) runsLong() {
	if c.long {
		return
	}
	c.long = true
	c.account.long++
	c.pulse.long++
}

// began notes a start.
func (f *Floor) began(id int64, target string, a *account, now time.Time) {
	if !a.capturable(target) {
		return
	}
	p := f.slow.pulses[target]
	if p == nil {
		f.forgetPulses(now)
		p = &pulse{}
		f.slow.pulses[target] = p
	}
	c := &call{pulse: p, account: a, startedAt: now}
	f.slow.calls[id] = c
	p.running++
	if p.isSlow() {
		c.runsLong()
	} else if !f.answers(p, now) {
		f.slow.trial = c
	}
	f.slow.young = append(f.slow.young, c)
}

// over notes the end of a start that no longer runs, and lets those ask again who wait for it.
func (f *Floor) over(id int64, now time.Time) {
	c := f.slow.calls[id]
	if c == nil {
		return
	}
	delete(f.slow.calls, id)
	f.age(now)
	p := c.pulse
	c.ended = true
	p.running--
	room := c.long || c.account.running < c.account.unprovenMost(f.slots)
	if c.long {
		c.account.long--
		p.long--
	}
	if p.slow = now.Sub(c.startedAt) >= LongAfter; p.slow {
		f.slow.hungAt, f.slow.until = c.startedAt, now.Add(suspectFor)
	} else {
		room = room || !f.answers(p, now)
		p.answeredAt = now
	}
	if !room {
		return
	}
	waiting := f.slow.aside
	f.slow.aside = nil
	for _, s := range waiting {
		if s.listed = false; s.state == aside {
			f.queue(s)
		}
	}
}

// waitForSlots sets a shelf aside until calls end, or until the time.
func (f *Floor) waitForSlots(s *shelf, until time.Time) {
	f.setAside(s, until)
	if !s.listed {
		s.listed = true
		f.slow.aside = append(f.slow.aside, s)
	}
}

// forgetPulses keeps the number of targets bounded.
func (f *Floor) forgetPulses(now time.Time) {
	if len(f.slow.pulses) < maxPulses {
		return
	}
	for target, p := range f.slow.pulses {
		if p.running == 0 && !p.slow && now.Sub(p.answeredAt) > time.Minute {
			delete(f.slow.pulses, target)
		}
	}
}

// Slow returns how many slots of a policy are held by calls that have run long
// or go to slow targets, and how many may be; most is 0 without a SlowShare.
func (f *Floor) Slow(policy string, now time.Time) (held, most int) {
	a := f.account(policy)
	if !a.capturable("any") {
		return 0, 0
	}
	f.age(now)
	return a.long, a.slowMost(f.slots)
}
