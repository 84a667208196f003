// Package audit answers "does reality keep the promise?": from the ledger of
// failed starts, whether the waits before each try lie inside the policy's
// bands, follow the law of its jitter, and are as many as were promised; and
// whether any was shorter than the guard of the target's kind allows.
//
// It is pure: starts go in, job by job, and a report comes out. The false
// alarms of all its tests together are held to Alarm.
package audit

import (
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
)

// Alarm is how likely an audit of a sender that keeps its promise finds a
// distribution wrong, over all its tests together.
const Alarm = 0.001

const (
	// exact is what storing instants to the microsecond may move, with room.
	exact = time.Millisecond
	// skew is how far a worker's clock may be behind or before the store's:
	// starts and ends are by the one, due times by the other. Of a short delay
	// it is a fifth.
	skew = time.Second
	// writing is how long after its end a start may be written down and its
	// due time still be explained by the delay that was decided.
	writing = 30 * time.Second
	// gap is how late a start may be, holds not counted, before the count of
	// its attempts is no longer sure: in between it may have been given up
	// and ordered back with fresh attempts, which leaves no row.
	gap = time.Minute
)

// Job is one job's part of the ledger.
type Job struct {
	Seq      int64
	Attempts int     // spent since it was enqueued or redriven last
	Starts   []Start // in their order
}

// Start is one row of the ledger.
type Start struct {
	Number     int // 1 and up over the job's whole life
	StartedAt  time.Time
	EndedAt    time.Time
	OK         bool
	Class      failure.Class
	Reason     string
	Status     int
	RetryAfter time.Duration
	Cause      retry.Cause
	Delay      time.Duration // as it was decided
	DueAt      time.Time     // of the next start; zero = none was promised
	HeldBy     string        // what held this start back
	Held       time.Duration
	Counted    retry.Counted
	Rule       string
	Version    string // of the policy that decided
}

// Audit gathers the ledger of one policy.
type Audit struct {
	promise  *policy.Policy
	accepted map[string]*policy.Policy // by version
	groups   map[groupKey]*group
	report   Report
	holds    map[string]*Hold
	lags     []time.Duration
	breaches map[breachKey]*breach
	unkept   map[unkeptKey]*unkept
}

// groupKey names the waits that have one law.
type groupKey struct {
	version  string
	schedule string // "backoff", or the label of a rule with its own
	try      int
}

// New returns an audit of the promise. Starts that were decided under the
// version of one of the accepted policies are judged by that; all others by
// the promise itself, for that is what others rely on. Both must be sealed.
func New(promise *policy.Policy, accepted ...policy.Policy) (*Audit, error) {
	if promise.Restarts.Refill {
		return nil, fmt.Errorf("policy audit: %s: progress gives its attempts back, so the ledger does not tell which try a wait came before", promise.Name)
	}
	a := &Audit{
		promise: promise, accepted: map[string]*policy.Policy{promise.Version: promise}, groups: map[groupKey]*group{},
		holds: map[string]*Hold{}, breaches: map[breachKey]*breach{}, unkept: map[unkeptKey]*unkept{},
	}
	for i := range accepted {
		if accepted[i].Name == promise.Name && !accepted[i].Restarts.Refill {
			a.accepted[accepted[i].Version] = &accepted[i]
		}
	}
	a.report = Report{Policy: promise.Name, Version: promise.Version}
	return a, nil
}

// pass is where a job stands in one run through its attempts.
type pass struct {
	attempts int
	unsure   bool // attempts may have been given back in between
}

// Add takes in one job's ledger.
func (a *Audit) Add(j Job) {
	a.report.Jobs++
	fresh := freshFrom(&j)
	var p pass
	var last *Start
	for i := range j.Starts {
		s := &j.Starts[i]
		if last != nil {
			p.unsure = p.unsure || a.between(last, s)
		}
		if i == fresh && p.attempts > 0 {
			p = pass{}
		}
		last = s
		if s.OK {
			continue
		}
		a.report.Failed++
		var before time.Duration
		if i > 0 && !j.Starts[i-1].DueAt.IsZero() {
			before = j.Starts[i-1].Delay
		}
		a.judge(j.Seq, s, &p, before)
		if s.DueAt.IsZero() {
			p, last = pass{}, nil
		}
	}
}

// freshFrom is the place of the first start of the present attempts where
// the job remembers fewer than its ledger shows since the last end, or -1: it
// was given up while it waited, and ordered back.
func freshFrom(j *Job) int {
	counted, from := 0, -1
	for i := len(j.Starts) - 1; i >= 0; i-- {
		s := &j.Starts[i]
		if i < len(j.Starts)-1 && !s.OK && s.DueAt.IsZero() {
			break
		}
		if s.OK || s.Counted != retry.CountedAttempt {
			continue
		}
		if counted++; counted == j.Attempts {
			from = i
		}
	}
	if counted > j.Attempts && j.Attempts > 0 {
		return from
	}
	return -1
}

// between books what lay between a due time and the start that followed, and
// reports whether it was too long to be sure of the attempts.
func (a *Audit) between(last, s *Start) (unsure bool) {
	if last.DueAt.IsZero() {
		return false
	}
	if s.Held > 0 {
		h := a.holds[s.HeldBy]
		if h == nil {
			h = &Hold{By: s.HeldBy}
			a.holds[s.HeldBy] = h
		}
		h.Starts++
		h.Total += s.Held
		h.Longest = max(h.Longest, s.Held)
	}
	lag := s.StartedAt.Sub(last.DueAt)
	if lag < -apart(last.Delay) {
		a.report.Early++
	}
	a.lags = append(a.lags, max(0, lag-s.Held))
	return lag-s.Held > gap
}

// judge holds one failed start against the promise.
func (a *Audit) judge(seq int64, s *Start, p *pass, before time.Duration) {
	promise := a.accepted[s.Version]
	if promise == nil {
		promise = a.promise
		a.report.Foreign++
	}
	if s.Counted == retry.CountedAttempt {
		p.attempts++
	}
	if strings.HasPrefix(s.Rule, "handler/") {
		a.report.Ordered++
		return
	}
	rule := promise.RuleFor(failure.Failure{Class: s.Class, Status: s.Status, Reason: s.Reason})
	if s.DueAt.IsZero() {
		a.judgeEnd(promise, rule, s, p)
		return
	}
	a.guard(promise, s)
	switch {
	case !rule.Action.Retries():
		a.breach(Retried, s, 0, fmt.Sprintf("class %s is not to be retried by rule %s", s.Class, rule.Label))
		return
	case s.Counted != retry.CountedAttempt && rule.Counts == policy.CountsAttempt:
		a.breach(Uncounted, s, 0, fmt.Sprintf("class %s spends an attempt by rule %s", s.Class, rule.Label))
		return
	case s.Counted != retry.CountedAttempt:
		a.report.Free++
		return
	case p.unsure:
		a.report.Unsure++
		return
	}
	try := p.attempts + 1
	if promise.Attempts > 0 && try > promise.Attempts {
		a.breach(TooMany, s, try, fmt.Sprintf("promised are %d", promise.Attempts))
		return
	}
	a.wait(seq, s, promise, rule, try, before)
}

// guard looks for a retry that was due sooner than the guard allows. Whether
// the policy promised it makes no difference, unless it waives the rule.
func (a *Audit) guard(promise *policy.Policy, s *Start) {
	least := promise.LeastDelay()
	wait := waited(s)
	if !policy.Guarded(s.Class) || wait >= least-exact || promise.Waives(policy.RuleFloor, s.EndedAt) {
		return
	}
	b := a.breach(Guard, s, 0, fmt.Sprintf("allowed from %s on for target %s", short(least), promise.Target))
	if b.count == 1 || wait < b.shortest {
		b.shortest = wait
	}
}

// judgeEnd looks for what was given up although it had attempts left.
func (a *Audit) judgeEnd(promise *policy.Policy, rule *policy.Rule, s *Start, p *pass) {
	if !rule.Action.Retries() || rule.Counts != policy.CountsAttempt || p.unsure || s.Rule == "window" || s.Rule == "deadline" {
		return
	}
	if s.Cause != retry.CauseExhausted && s.Cause != retry.CauseFatal {
		return
	}
	if promise.Attempts > 0 && p.attempts < promise.Attempts {
		a.breach(GaveUp, s, p.attempts, fmt.Sprintf("promised are %d", promise.Attempts))
	}
}

// apart is by how much the clocks of worker and store may differ around a
// delay without a word about it.
func apart(delay time.Duration) time.Duration { return max(exact, min(skew, delay/5)) }

// waited is how long after the start's end its next one was due: the delay that
// was decided, where clocks and the time to write it down explain the rest.
func waited(s *Start) time.Duration {
	observed := s.DueAt.Sub(s.EndedAt)
	if late := observed - s.Delay; late >= -apart(s.Delay) && late <= writing {
		return s.Delay
	}
	return observed
}

// wait puts one wait into the group of its law.
func (a *Audit) wait(seq int64, s *Start, promise *policy.Policy, rule *policy.Rule, try int, before time.Duration) {
	backoff, schedule := &promise.Backoff, "backoff"
	if rule.Backoff != nil {
		backoff, schedule = rule.Backoff, rule.Label
	}
	key := groupKey{version: s.Version, schedule: schedule, try: try}
	g := a.groups[key]
	if g == nil {
		g = &group{Group: Group{
			Try: try, Schedule: schedule, Version: s.Version, Accepted: a.accepted[s.Version] != nil,
			Nominal: backoff.Band(try).Nominal, Least: backoff.Band(try).Least, Most: backoff.Band(try).Most,
			Jitter: jitterWords(backoff.Jitter),
		}, jittered: backoff.Jitter.Kind != policy.JitterNone}
		a.groups[key] = g
	}
	var floor time.Duration
	if promise.RetryAfter.Honour && s.RetryAfter > 0 {
		floor = s.RetryAfter
		if promise.RetryAfter.Max > 0 {
			floor = min(floor, promise.RetryAfter.Max)
		}
	}
	g.add(lawOf(backoff, try, before), waited(s), floor, retry.Derive(0, uint64(seq), s.Number).Unit())
}
