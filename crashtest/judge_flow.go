package crashtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// GateSeen is what a process wrote into a gate.
type GateSeen struct {
	Target     string
	Version    int64 // of the row since
	Phase      gate.Phase
	Trips      int
	OpenUntil  time.Time
	PauseUntil time.Time
	InFlight   int
	Granted    int // permits of all processes
}

func seen(g *store.Gate) string {
	s := GateSeen{
		Target: g.Target, Version: g.Version + 1, Phase: g.State.Phase, Trips: g.State.Trips, InFlight: g.State.InFlight,
		OpenUntil: g.State.OpenUntil.Time(), PauseUntil: g.State.PauseUntil.Time(),
	}
	for _, grant := range g.Grants {
		s.Granted += grant.Size()
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // of strings, numbers and times
	}
	return string(text)
}

// grantLife is how long a permit may wait for its start, and how long a
// process may go on by what it last saw of a gate: worker/DESIGN.md.
const grantLife = time.Second

// reaction is how long a busy machine may take from a worker's decision to the
// handler's first act.
const reaction = 500 * time.Millisecond

// FlowReport counts what was judged.
type FlowReport struct {
	Targets, Starts, Retries int
	Rows                     int            // of the ledger, without crashes
	Most                     map[string]int // calls at once, by target with a limit
	Swaps                    int
	Openings, Probes         int
	Pauses                   int
	Keys                     int
	// Strays are starts of processes that had been taken for dead: they were
	// stopped between their permit and the start.
	Strays int
}

func (r FlowReport) String() string {
	return fmt.Sprintf("%d targets, %d keys: %d starts, %d of them retries, %d rows of the ledger; most at once %v; %d swaps; %d openings, %d probes; %d pauses; %d starts by processes taken for dead",
		r.Targets, r.Keys, r.Starts, r.Retries, r.Rows, r.Most, r.Swaps, r.Openings, r.Probes, r.Pauses, r.Strays)
}

// flow judges what goes on between jobs.
type flow struct {
	*judge
	report FlowReport
	reaped map[int64]time.Duration // when a process was taken for dead, by its number
	probes map[store.Ref]bool
	gates  map[string][]sight
}

// sight is a swap that was acknowledged.
type sight struct {
	GateSeen
	Event
}

// JudgeFlow judges limits, budgets, breakers, pauses and keys by the evidence,
// and limits, budgets and keys by the ledger, too.
//
// A permit counts from the start that it is for until its handler ended, its
// process was killed or was taken for dead, whatever comes first. A process
// that was stopped and comes back after that may still finish a call; such a
// call is nobody's any more. Starts count always, but for strays.
func JudgeFlow(c Case, gates []store.Gate) (FlowReport, []string) {
	f := &flow{
		judge: intake(c), reaped: map[int64]time.Duration{}, probes: map[store.Ref]bool{}, gates: map[string][]sight{},
		report: FlowReport{Most: map[string]int{}},
	}
	f.broken = nil // what Judge says of the evidence is said by it
	f.read()
	targets, keys := f.sort()
	for target, runs := range targets {
		f.report.Targets++
		f.target(target, runs)
	}
	for key, runs := range keys {
		f.report.Keys++
		f.key(key, runs)
	}
	f.ledger()
	for i := range gates {
		if g := &gates[i]; len(g.Grants) > 0 || g.State.InFlight != 0 || g.State.Retries != 0 || g.State.Probing {
			f.breaks("%s: grants %v, in flight %d, retries %d, probing %v after the end", g.Target, g.Grants, g.State.InFlight, g.State.Retries, g.State.Probing)
		}
	}
	slices.Sort(f.broken)
	return f.report, slices.Compact(f.broken)
}

func (f *flow) breaks(format string, args ...any) {
	f.broken = append(f.broken, fmt.Sprintf(format, args...))
}

// read takes in what the queue's judge does not need.
func (f *flow) read() {
	for _, l := range f.in.Lives {
		for _, e := range l.Events {
			switch e.What {
			case Reaped:
				if at, ok := f.reaped[e.Process]; !ok || e.Mono < at {
					f.reaped[e.Process] = e.Mono
				}
			case Probing:
				f.probes[e.Ref] = true
			case Swapped:
				s := sight{Event: e}
				if err := json.Unmarshal([]byte(e.Text), &s.GateSeen); err != nil {
					f.breaks("evidence: %q: %v", e.Text, err)
				}
				if s.Granted != s.InFlight {
					f.breaks("%s: version %d has %d in flight and grants of %d", s.Target, s.Version, s.InFlight, s.Granted)
				}
				f.gates[s.Target] = append(f.gates[s.Target], s)
				f.report.Swaps++
			}
		}
	}
	for target, list := range f.gates {
		slices.SortFunc(list, func(a, b sight) int { return cmp.Compare(a.Version, b.Version) })
		for i := 1; i < len(list); i++ {
			if list[i].Version == list[i-1].Version {
				f.breaks("%s: processes %d and %d both wrote version %d", target, list[i-1].Process, list[i].Process, list[i].Version)
			}
		}
	}
}

// sort returns the starts by target and by key, each in the order of time,
// without strays.
func (f *flow) sort() (targets, keys map[string][]*run) {
	targets, keys = map[string][]*run{}, map[string][]*run{}
	for seq, runs := range f.runs {
		order := f.orders[seq]
		for _, r := range runs {
			if at, ok := f.reaped[r.Process]; ok {
				if r.Mono >= at {
					f.report.Strays++
					continue
				}
				r.until = min(r.until, at)
			}
			if order.Target != "" {
				targets[order.Target] = append(targets[order.Target], r)
			}
			if order.Key != "" {
				keys[order.Key] = append(keys[order.Key], r)
			}
		}
	}
	for _, group := range []map[string][]*run{targets, keys} {
		for _, runs := range group {
			slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(a.Mono, b.Mono) })
		}
	}
	return targets, keys
}

func (f *flow) target(target string, runs []*run) {
	for _, r := range runs {
		f.report.Starts++
		if r.Start > 1 {
			f.report.Retries++
		}
	}
	switch f.orders[runs[0].Seq].Policy {
	case Limited:
		f.report.Most[target] = f.atOnce(target, runs)
	case Rated:
		f.rate(target, runs)
	case Budgeted:
		f.budget(target, runs, Allowance)
	case Saving:
		f.budget(target, runs, Savings)
	case Lasting:
		f.pauses(target, runs)
		f.breaker(target, runs)
	case Pausing:
		f.pauses(target, runs)
	case Breaking, Parking:
		f.report.Most[target] = f.atOnce(target, runs)
		f.breaker(target, runs)
	}
}

// atOnce: never more calls than the limit.
func (f *flow) atOnce(target string, runs []*run) (most int) {
	var open []*run
	for _, r := range runs {
		open = slices.DeleteFunc(open, func(o *run) bool { return o.until <= r.Mono })
		open = append(open, r)
		most = max(most, len(open))
		if len(open) > LimitedTo {
			f.breaks("%s: %d calls at once, want %d: job %d began beside %s", target, len(open), LimitedTo, r.Seq, describe(open))
		}
	}
	return most
}

func describe(runs []*run) string {
	text := ""
	for _, r := range runs {
		text += fmt.Sprintf(" %d(process %d, %s to %s)", r.Seq, r.Process, r.Mono, r.until)
	}
	return text
}

// rate: a slot is 1/rate wide and takes one start, anywhere in it. So in any
// window there are as many starts as slots, which it may cut at both ends.
func (f *flow) rate(target string, runs []*run) {
	const longest = 5 * time.Second
	for i, from := range runs {
		for k := i; k < len(runs) && runs[k].Mono-from.Mono <= longest; k++ {
			slots := (runs[k].Mono-from.Mono+reaction).Seconds()*RatedTo + 2
			if n := k - i + 1; float64(n) > slots {
				f.breaks("%s: %d starts within %s, want %g at most", target, n, runs[k].Mono-from.Mono, slots)
				return
			}
		}
	}
}

// budget: retries in any ttl ≤ ratio × first attempts in it + floor.
func (f *flow) budget(target string, runs []*run, b policy.Budget) {
	for i, from := range runs {
		allowed, spent := b.Floor, 0
		for _, r := range runs[i:] {
			if r.Mono-from.Mono >= b.TTL {
				break
			}
			if r.Start == 1 {
				allowed += b.Ratio
			} else if spent++; float64(spent) > allowed+1e-9 {
				f.breaks("%s: %d retries within %s, allowed %.6g", target, spent, r.Mono-from.Mono, allowed)
				return
			}
		}
	}
}

// pauses: from a grant's life after the pause is in the store no start until
// it is over.
func (f *flow) pauses(target string, runs []*run) {
	var until time.Time
	for _, s := range f.gates[target] {
		if !s.PauseUntil.After(until) {
			continue
		}
		until = s.PauseUntil
		f.report.Pauses++
		for _, r := range runs {
			if r.Mono > s.Mono+grantLife+reaction && r.Wall.Before(until) {
				f.breaks("%s: job %d began %s after the pause was known and %s before its end", target, r.Seq, r.Mono-s.Mono, until.Sub(r.Wall))
			}
		}
	}
}

// breaker: from a grant's life after it opened no start before its time is
// over; then one probe at a time and nothing beside it, and after one that did
// not pass nothing until the next.
func (f *flow) breaker(target string, runs []*run) {
	var until time.Time
	for _, s := range f.gates[target] {
		if s.Phase != gate.Open || !s.OpenUntil.After(until) {
			continue
		}
		until = s.OpenUntil
		f.report.Openings++
		for _, r := range runs {
			if r.Mono > s.Mono+grantLife+reaction && r.Wall.Before(until) {
				f.breaks("%s: job %d began %s after the breaker opened and %s before its time was over", target, r.Seq, r.Mono-s.Mono, until.Sub(r.Wall))
			}
		}
	}
	var probe *run // the last one, while it is not known to have passed
	for _, r := range runs {
		if probe != nil && probe.end != nil && probe.end.Text == "ok" && r.Mono >= probe.until {
			probe = nil
		}
		isProbe := f.probes[r.Ref]
		if isProbe {
			f.report.Probes++
		}
		switch {
		case probe != nil && r.Mono < probe.until:
			f.breaks("%s: job %d began (as a probe: %v) while job %d was the probe", target, r.Seq, isProbe, probe.Seq)
		case probe != nil && !isProbe:
			f.breaks("%s: job %d began after the probe %d had not passed", target, r.Seq, probe.Seq)
		}
		if isProbe {
			probe = r
		}
	}
}

// key: one at a time, in the order of the enqueues.
func (f *flow) key(key string, runs []*run) {
	for i := 1; i < len(runs); i++ {
		before, after := runs[i-1], runs[i]
		if after.Mono < before.until {
			f.breaks("key %s: job %d began while job %d ran", key, after.Seq, before.Seq)
		}
		if after.Seq < before.Seq {
			f.breaks("key %s: job %d began after job %d", key, after.Seq, before.Seq)
		}
	}
}
