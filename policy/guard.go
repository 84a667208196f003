package policy

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ebbhq/ebb/failure"
)

// FloorOf returns the least nominal delay before a retry on that kind of target.
//
//	endpoint  30 s  a customer's server, which did not ask for our load (seed 002)
//	provider  10 s  a paid service with published limits; it throttles, and says for how long
//	host       5 s  a public site, fetched politely by few workers, tries of one
//	                page following each other in their slot (seed 000)
//	process    1 s  our own program: enough to keep a crash loop from spinning
func FloorOf(t Target) time.Duration {
	switch t {
	case Provider:
		return 10 * time.Second
	case Host:
		return 5 * time.Second
	case Process:
		return time.Second
	}
	return 30 * time.Second
}

// MinDelay returns the floor that the policy's nominal delays must reach: that
// of its target's kind, which the guard can raise and never lower.
func (p *Policy) MinDelay() time.Duration { return max(FloorOf(p.Target), p.Guard.MinDelay) }

// LeastDelay returns how soon after a failure a retry may come at the
// earliest, after jitter and floor: 80 % of MinDelay, so that a nominal delay
// at the floor may be spread by 20 % either way.
func (p *Policy) LeastDelay() time.Duration {
	floor := p.MinDelay()
	return floor/5*4 + floor%5*4/5 // four fifths, without overflow
}

// Guarded reports whether the guard holds for retries after failures of the
// class. It does not for the faults of our own machine or process: the target
// did not fail.
func Guarded(c failure.Class) bool { return !ours.Has(c) }

// Waives reports whether the policy has a waiver of the lint rule that holds
// on that day.
func (p *Policy) Waives(rule string, on time.Time) bool {
	for _, w := range p.Waivers {
		if w.Rule == rule && !w.expired(on) {
			return true
		}
	}
	return false
}

// guardedSchedule is a schedule that gives the delay before some retry for
// which the guard holds.
type guardedSchedule struct {
	path    string // "backoff" or "classes[1].backoff"
	backoff *Backoff
	lastTry int // the last try that it gives the delay of; 0 = no limit, 1 = none
}

// guardedSchedules lists the policy's own schedule and those of its class
// rules, as far as a failure can lead to them for which the guard holds.
func (p *Policy) guardedSchedules() []guardedSchedule {
	all := []guardedSchedule{{path: "backoff", backoff: &p.Backoff, lastTry: 1}}
	use := func(r *Rule, path string) {
		switch {
		case !r.Action.Retries() || !p.reaches(r):
		case r.Backoff != nil:
			all = append(all, guardedSchedule{path: path + ".backoff", backoff: r.Backoff, lastTry: p.lastTry(r)})
		case all[0].lastTry > 0 && p.lastTry(r) > 0:
			all[0].lastTry = max(all[0].lastTry, p.lastTry(r))
		default:
			all[0].lastTry = 0
		}
	}
	for i := range p.Classes {
		use(&p.Classes[i], fmt.Sprintf("classes[%d]", i))
	}
	for _, c := range failure.Classes() {
		use(&builtin[c], builtin[c].Label)
	}
	return slices.DeleteFunc(all, func(s guardedSchedule) bool { return s.lastTry == 1 })
}

// lastTry returns the last try before which the rule can wait: 0 for no limit,
// 1 where it never waits. It follows retry.Decide, whatever the job's history,
// which another version of the policy may have begun.
func (p *Policy) lastTry(r *Rule) int {
	switch {
	case r.Counts != CountsFree:
		return p.Attempts
	case r.Backoff == nil, r.Max == 0, p.Attempts == 0:
		return 0
	}
	return max(r.Max+1, p.Attempts) // its free starts, then attempts
}

// reaches reports whether some failure for which the guard holds is decided by
// the rule, and not by an earlier one.
func (p *Policy) reaches(r *Rule) bool {
	statuses, reasons := r.Match.Status, r.Match.Reason
	if len(statuses) == 0 {
		statuses = []int{0} // which no rule names
	}
	if len(reasons) == 0 {
		reasons = []string{p.unnamedReason()}
	}
	if len(statuses)*len(reasons) > maxProbes {
		return true // too many to look at; the stricter answer
	}
	for _, class := range failure.Classes() {
		if !Guarded(class) || r.Match.Classes != 0 && !r.Match.Classes.Has(class) {
			continue
		}
		for _, status := range statuses {
			for _, reason := range reasons {
				if p.RuleFor(failure.Failure{Class: class, Status: status, Reason: reason}) == r {
					return true
				}
			}
		}
	}
	return false
}

// unnamedReason returns a reason that no rule of the policy names.
func (p *Policy) unnamedReason() string {
	reason := ""
	for i := 0; i < len(p.Classes); {
		if i++; contains(p.Classes[i-1].Match.Reason, reason) {
			reason, i = reason+"?", 0
		}
	}
	return reason
}

// customers names whom too fast retries hurt.
var customers = map[Target]string{
	Endpoint: "customer endpoints", Host: "the hosts we fetch from",
	Provider: "the provider", Process: "the machine it runs on",
}

func (l *linter) floor() {
	for _, s := range l.p.guardedSchedules() {
		l.judgeFloor(s)
	}
	if floor, w := l.p.MinDelay(), l.p.Waves; w.Count > 0 && w.Classes&^ours != 0 && w.Cooldown < floor {
		l.tooFast("waves.cooldown", w.Cooldown, floor)
	}
}

// judgeFloor judges the shortest delay of a schedule: as it is written, and at
// the least that jitter makes of it.
func (l *linter) judgeFloor(s guardedSchedule) {
	floor := l.p.MinDelay()
	field, nominal := s.shortest()
	if nominal < floor {
		l.tooFast(s.path+"."+field, nominal, floor)
	}
	// Whether the jitter is at fault too is asked of the nominal delay that
	// would pass, so that both findings' fixes together pass.
	raised := Backoff{Base: max(nominal, floor), Factor: 1, Jitter: s.backoff.Jitter, Floor: s.backoff.Floor}
	if raised.Band(2).Least < l.p.LeastDelay() {
		l.tooWide(s, nominal, raised.Base)
	}
}

func (l *linter) tooFast(field string, delay, floor time.Duration) {
	limit := FormatDuration(floor)
	l.add(RuleFloor, SeverityError, field, FormatDuration(delay),
		fmt.Sprintf("dangerously low. Retry delays under %s risk overwhelming %s. See %s for the retry contract",
			limit, customers[l.p.Target], ContractPage),
		"at least "+limit)
}

// tooWide reports a schedule whose jitter lets retries come too soon. enough is
// a nominal delay that would pass.
func (l *linter) tooWide(s guardedSchedule, nominal, enough time.Duration) {
	needed := l.p.LeastDelay()
	limit := FormatDuration(needed)
	b := Backoff{Base: nominal, Factor: 1, Jitter: s.backoff.Jitter, Floor: s.backoff.Floor}
	measured := b.Band(2).Least
	field, fix := "jitter.kind", fmt.Sprintf("{kind: proportional, ratio: 0.2}, or a %s.floor of at least %s", s.path, limit)
	switch {
	case b.Floor > 0 && b.Floor == measured && !l.inheritsFloor(s):
		field, fix = "floor", "at least "+limit
	case b.Jitter.Kind == JitterProportional:
		field, fix = "jitter.ratio", fmt.Sprintf("at most %g, or a %s.floor of at least %s", ratioFor(enough, needed), s.path, limit)
	}
	l.add(RuleFloor, SeverityError, s.path+"."+field, "a least delay of "+FormatDuration(measured),
		fmt.Sprintf("dangerously low. Jitter can bring a retry sooner than %s, 80%% of the floor of %s, which risks overwhelming %s. See %s for the retry contract",
			limit, FormatDuration(l.p.MinDelay()), customers[l.p.Target], ContractPage),
		fix)
}

// inheritsFloor reports whether the schedule's floor is the preset's, so that
// the jitter is what was changed.
func (l *linter) inheritsFloor(s guardedSchedule) bool {
	return s.backoff == &l.p.Backoff && s.backoff.Floor == Base(l.p.Name).Backoff.Floor
}

// ratioFor returns the widest proportional jitter, to a hundredth, that leaves
// needed of a nominal delay.
func ratioFor(nominal, needed time.Duration) float64 {
	return math.Floor(100*(1-float64(needed)/float64(nominal))+1e-9) / 100
}

// shortest returns the shortest nominal delay that the schedule gives, its
// floor included, and the field that sets it. Only steps can hold it anywhere
// but at the start.
func (s *guardedSchedule) shortest() (field string, delay time.Duration) {
	b := s.backoff
	if len(b.Steps) == 0 {
		return "base", b.bounded(b.Nominal(2))
	}
	least := 0
	for i, step := range b.Steps {
		if (s.lastTry == 0 || i+2 <= s.lastTry) && step < b.Steps[least] {
			least = i
		}
	}
	return fmt.Sprintf("steps[%d]", least), b.bounded(b.Steps[least])
}
