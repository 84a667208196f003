package policy

import (
	"fmt"
	"slices"
	"time"
)

// Change is one difference between two versions of a policy.
type Change struct {
	// Path is the field, such as "backoff.base"; "classes[1]" for a rule and
	// "breaker" for a breaker put in or taken out.
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
	// Effect says in one sentence what the change does.
	Effect string `json:"effect"`
	// Risky marks a change that calls targets sooner, more often or more at
	// once, gives work up sooner, or takes a guard away. Why says which.
	Risky bool   `json:"risky"`
	Why   string `json:"why,omitempty"`
}

func (c Change) String() string {
	text := fmt.Sprintf("%s: %s → %s: %s", c.Path, c.Old, c.New, c.Effect)
	if c.Risky {
		text += " (risky: " + c.Why + ")"
	}
	return text
}

// Diff lists what changes for the jobs of a policy, in the order of the file.
// Both policies are sealed. Fields that only follow from others are left out:
// max_hold where it is the schedule's length, the width of another kind of
// jitter, the figures of a budget or breaker that is put in or taken out.
func Diff(old, new Policy) []Change {
	var changes []Change
	for _, f := range fields {
		if f.Path == "breaker.consecutive" && old.Breaker.On() != new.Breaker.On() {
			changes = append(changes, breakerSwitched(&old, &new))
		}
		before, after := f.Text(&old), f.Text(&new)
		if before == after || follows(f.Path, &old, &new) {
			continue
		}
		c := Change{Path: f.Path, Old: before, New: after}
		judges[f.Path].judge(&c, f, &old, &new)
		changes = append(changes, c)
	}
	changes = append(changes, diffClasses(&old, &new)...)
	return append(changes, diffWaivers(old.Waivers, new.Waivers)...)
}

// follows reports whether a difference in the field is told by another's.
func follows(path string, old, new *Policy) bool {
	switch path {
	case "attempts":
		return old.Restarts.Max != new.Restarts.Max
	case "max_hold":
		return old.holdFollows() && new.holdFollows()
	case "backoff.base", "backoff.factor", "backoff.cap":
		return len(old.Backoff.Steps) > 0 || len(new.Backoff.Steps) > 0
	case "backoff.jitter.ratio":
		return old.Backoff.Jitter.Kind != new.Backoff.Jitter.Kind
	case "budget.ratio", "budget.floor", "budget.ttl":
		return old.Budget.Kind != new.Budget.Kind
	case "breaker.consecutive", "breaker.ratio", "breaker.min_calls", "breaker.window", "breaker.open", "breaker.cap":
		return old.Breaker.On() != new.Breaker.On()
	case "waves.cooldown", "waves.concurrency", "waves.spacing", "waves.classes":
		return (old.Waves.Count > 0) != (new.Waves.Count > 0)
	}
	return false
}

// holdFollows reports whether max_hold is the schedule's length, as Seal
// fills it in.
func (p *Policy) holdFollows() bool { return p.MaxHold == 0 || p.MaxHold == p.Reach().Nominal }

func diffWaivers(old, new []Waiver) []Change {
	var changes []Change
	for i, w := range new {
		at := slices.IndexFunc(old, func(o Waiver) bool { return o.Rule == w.Rule })
		c := Change{Path: fmt.Sprintf("waivers[%d]", i), Old: "none", New: waiverText(w)}
		c.Effect = fmt.Sprintf("findings of %s do not count until %s: %s", w.Rule, day(w.Expires), w.Reason)
		c.Risky, c.Why = true, "a guard is silenced"
		if at >= 0 {
			if c.Old = waiverText(old[at]); c.Old == c.New {
				continue
			}
			c.Risky = w.Expires.After(old[at].Expires)
			c.Why = map[bool]string{true: "a guard is silenced for longer"}[c.Risky]
		}
		changes = append(changes, c)
	}
	for _, w := range old {
		if !slices.ContainsFunc(new, func(n Waiver) bool { return n.Rule == w.Rule }) {
			changes = append(changes, Change{
				Path: "waivers", Old: waiverText(w), New: "none",
				Effect: fmt.Sprintf("findings of %s count again", w.Rule),
			})
		}
	}
	return changes
}

// DiffKind says what happened to a policy between two sets.
type DiffKind string

const (
	PolicyAdded   DiffKind = "added"
	PolicyRemoved DiffKind = "removed"
	PolicyChanged DiffKind = "changed"
)

// PolicyDiff is what happened to one policy between two sets.
type PolicyDiff struct {
	Name    string   `json:"name"`
	Kind    DiffKind `json:"kind"`
	Changes []Change `json:"changes,omitempty"`
	Risky   bool     `json:"risky"`
	// Why is the risk of a removal; a changed policy's risks are in Changes.
	Why string `json:"why,omitempty"`

	waivers []Waiver // of risky-diff, in both versions
}

// DiffSets compares two sets of sealed policies by name, in the order of the
// new set, then what was removed. Where a preset's name is in one set only,
// the other's jobs run under the preset, so it is compared with that. Any
// other added policy is left to lint.
func DiffSets(old, new []Policy) []PolicyDiff {
	var diffs []PolicyDiff
	for _, n := range new {
		o, ok := byName(old, n.Name)
		if !ok {
			diffs = append(diffs, PolicyDiff{Name: n.Name, Kind: PolicyAdded})
			continue
		}
		diffs = appendChanged(diffs, o, n)
	}
	for _, o := range old {
		if slices.ContainsFunc(new, func(n Policy) bool { return n.Name == o.Name }) {
			continue
		}
		if n, ok := byName(new, o.Name); ok {
			diffs = appendChanged(diffs, o, n)
			continue
		}
		diffs = append(diffs, PolicyDiff{
			Name: o.Name, Kind: PolicyRemoved,
			Risky: true, Why: "jobs that name it are parked: their policy is unknown",
		})
	}
	return diffs
}

// byName finds the policy that jobs of that name run under.
func byName(set []Policy, name string) (Policy, bool) {
	if i := slices.IndexFunc(set, func(p Policy) bool { return p.Name == name }); i >= 0 {
		return set[i], true
	}
	p, err := Preset(name)
	return p, err == nil
}

func appendChanged(diffs []PolicyDiff, old, new Policy) []PolicyDiff {
	d := PolicyDiff{Name: new.Name, Kind: PolicyChanged, Changes: Diff(old, new)}
	if len(d.Changes) == 0 {
		return diffs
	}
	d.Risky = slices.ContainsFunc(d.Changes, func(c Change) bool { return c.Risky })
	for _, w := range new.Waivers {
		accepted := func(o Waiver) bool { return o.Rule == w.Rule && !w.Expires.After(o.Expires) }
		if w.Rule == RuleRiskyDiff && slices.ContainsFunc(old.Waivers, accepted) {
			d.waivers = append(d.waivers, w)
		}
	}
	return append(diffs, d)
}

// Findings returns the risks of the difference as findings of risky-diff. A
// waiver counts only if it was in the old version already: a change cannot
// excuse itself.
func (d PolicyDiff) Findings(today time.Time) []Finding {
	const fix = "the old value, or `ebb policy accept` once the risk is agreed on"
	var found []Finding
	if d.Kind == PolicyRemoved {
		found = append(found, Finding{
			ID: RuleRiskyDiff, Severity: SeverityError, Policy: d.Name, Field: "policies", Measured: "removed",
			Why: d.Why, Fix: fix,
		})
	}
	for _, c := range d.Changes {
		if c.Risky {
			found = append(found, Finding{
				ID: RuleRiskyDiff, Severity: SeverityError, Policy: d.Name, Field: c.Path,
				Measured: c.New + ", was " + c.Old, Why: c.Effect + ": " + c.Why, Fix: fix,
			})
		}
	}
	waive(found, d.waivers, today)
	return found
}
