package policy

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ebbhq/ebb/failure"
)

// verdictChange is a difference in what the rules decide, with the failures
// that it concerns.
type verdictChange struct {
	old, new *Rule
	words    verdictWords
	classes  ClassSet
}

// verdictWords are what makes two differences the same: the rules in words,
// and status or reason, empty for a class as such.
type verdictWords struct{ before, after, detail string }

// diffClasses compares what the rules decide about every class, and every
// status and reason that a rule names, not how the rules are written.
func diffClasses(old, new *Policy) []Change {
	var found []verdictChange
	at := map[verdictWords]int{} // in found
	for _, class := range failure.Classes() {
		var plain verdictWords
		for i, f := range probes(class, old, new) {
			v := verdictChange{old: old.RuleFor(f), new: new.RuleFor(f)}
			v.words = verdictWords{verdictText(v.old), verdictText(v.new), detailOf(f)}
			if i == 0 {
				plain = v.words
			} else if v.words.before == plain.before && v.words.after == plain.after {
				continue // decided as the class is
			}
			if v.words.before == v.words.after {
				continue
			}
			n, known := at[v.words]
			if !known {
				n, found = len(found), append(found, v)
				at[v.words] = n
			}
			found[n].classes |= SetOf(class)
		}
	}
	var changes []Change
	for _, v := range found {
		changes = append(changes, v.change(old, new))
	}
	rules := func(p *Policy) string { return strings.Join(ruleTexts(p.Classes), " ") }
	if len(changes) == 0 && rules(old) != rules(new) {
		changes = append(changes, Change{
			Path: "classes", Old: rules(old), New: rules(new),
			Effect: "the rules are written differently and decide every failure as before",
		})
	}
	return changes
}

func detailOf(f failure.Failure) string {
	var parts []string
	if f.Status != 0 {
		parts = append(parts, fmt.Sprintf(" with status %d", f.Status))
	}
	if f.Reason != "" {
		parts = append(parts, fmt.Sprintf(" for reason %q", f.Reason))
	}
	return strings.Join(parts, "")
}

func (v verdictChange) change(old, new *Policy) Change {
	return Change{
		Path: rulePath(new, v.new), Old: v.words.before, New: v.words.after,
		Effect: fmt.Sprintf("%s failures%s %s instead of %s", strings.Join(v.classes.Names(), ", "), v.words.detail,
			outcome(v.new, &new.Backoff, "are"), outcome(v.old, &old.Backoff, "being")),
		Risky: v.risk(old, new) != "", Why: v.risk(old, new),
	}
}

// rulePath is where the rule stands in the policy; built-in rules stand
// behind the list.
func rulePath(p *Policy, r *Rule) string {
	for i := range p.Classes {
		if &p.Classes[i] == r {
			return fmt.Sprintf("classes[%d]", i)
		}
	}
	return "classes"
}

func (v verdictChange) risk(old, new *Policy) string {
	o, n := v.old, v.new
	switch {
	case !o.Action.Retries() && n.Action.Retries():
		return "targets get calls again after failures that got none"
	case o.Action.Retries() && !n.Action.Retries() && blamesTarget(v.classes):
		return "work is given up at the first such failure"
	case o.Action == PauseTarget && n.Action == Retry:
		return "the other calls to a target that asked for a pause go on"
	case o.Action == DisableTarget && n.Action != DisableTarget:
		return "a target that is gone is called on and on"
	case o.Action == Park && n.Action == Fail:
		return "work is given up where it waited for a person"
	case !n.Action.Retries():
		return ""
	case n.Counts == CountsFree && looserFree(o, n):
		return "more retries spend no attempt"
	}
	if o.Backoff == nil && n.Backoff == nil {
		return "" // told by the schedule's own fields
	}
	before, after := *old, *old
	before.Backoff, after.Backoff = *orBackoff(o, &old.Backoff), *orBackoff(n, &new.Backoff)
	return cmp.Or(scheduleRisk(&before, &after, false), leastRisk(&before, &after, &after))
}

// looserFree reports whether a free rule allows more than before.
func looserFree(o, n *Rule) bool {
	if o.Counts != CountsFree {
		return true
	}
	limit := func(v int64) uint64 { return uint64(v) - 1 } // 0, no limit, becomes the largest
	return limit(int64(n.Max)) > limit(int64(o.Max)) || limit(int64(n.Window)) > limit(int64(o.Window))
}

func orBackoff(r *Rule, own *Backoff) *Backoff {
	if r.Backoff != nil {
		return r.Backoff
	}
	return own
}

// verdictText is the rule without what it matches.
func verdictText(r *Rule) string {
	bare := *r
	bare.Match = Match{}
	text := strings.TrimPrefix(ruleText(bare), "{match: {}, action: ")
	if !r.Action.Retries() {
		return string(r.Action)
	}
	return strings.TrimSuffix(text, "}")
}

// outcome says in words what the rule does, with "are" or "being" before it.
func outcome(r *Rule, own *Backoff, verb string) string {
	text := map[Action]string{
		Retry: "retried", PauseTarget: "retried while their target pauses", Fail: "failed at once",
		Park: "parked for a person", DisableTarget: "failed at once, with their target disabled",
	}[r.Action]
	if r.Action.Retries() {
		text += " after " + FormatDuration(orBackoff(r, own).Band(2).Nominal)
		switch {
		case r.Counts == CountsFree && r.Max > 0:
			text += fmt.Sprintf(" without spending an attempt, up to %d times", r.Max)
		case r.Counts == CountsFree:
			text += " without spending an attempt"
		}
	}
	return verb + " " + text
}

func ruleTexts(rules []Rule) []string {
	texts := make([]string, len(rules))
	for i, r := range rules {
		texts[i] = ruleText(r)
	}
	return texts
}
