package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ebbhq/ebb/failure"
)

// ours are the classes that are our own machine's or process's fault.
var ours = func() ClassSet {
	var s ClassSet
	for _, c := range failure.Classes() {
		if c.Blame() == failure.BlameUs {
			s |= SetOf(c)
		}
	}
	return s
}()

// lasting are the classes that another try does not mend; misconfigured are
// those of them that wait for a person.
var (
	lasting       = SetOfGroups(failure.Permanent, failure.Misconfig)
	misconfigured = SetOfGroups(failure.Misconfig)
)

// ambiguous are the classes after which the call may have taken effect: the
// request was sent, or our process died around it, or nothing is known.
var ambiguous = SetOf(
	failure.Reset, failure.HeaderTimeout, failure.BodyTimeout, failure.Timeout, failure.ShortBody,
	failure.Server, failure.SoftError, failure.Plain, failure.Interrupted, failure.Crash,
)

// maxProbes bounds the pairs of status and reason that probes lists.
const maxProbes = 4096

// probes lists failures of the class that some rule of the policies tells
// apart: the plain one first, then those with a status or reason that a rule
// names, and every pair of both; of very many, the pairs that one rule names.
func probes(class failure.Class, policies ...*Policy) []failure.Failure {
	statuses, reasons := []int{0}, []string{""}
	var pairs []Match
	for _, p := range policies {
		for i := range p.Classes {
			m := Match{Reason: p.Classes[i].Match.Reason}
			for _, code := range p.Classes[i].Match.Status {
				if failure.Status(code).Class == class || p.Classes[i].Match.Classes.Has(class) {
					m.Status = append(m.Status, code)
				}
			}
			statuses, reasons = append(statuses, m.Status...), append(reasons, m.Reason...)
			pairs = append(pairs, m)
		}
	}
	statuses, reasons = unique(statuses), unique(reasons)
	if len(statuses)*len(reasons) <= maxProbes {
		pairs = []Match{{Status: statuses, Reason: reasons}}
	} else {
		pairs = append([]Match{{Status: statuses, Reason: []string{""}}, {Status: []int{0}, Reason: reasons}}, pairs...)
	}
	var all []failure.Failure
	for _, m := range pairs {
		for _, status := range m.Status {
			for _, reason := range m.Reason {
				f := failure.Of(class)
				f.Status, f.Reason = status, reason
				all = append(all, f)
			}
		}
	}
	return all[:min(len(all), 4*maxProbes)]
}

// unique drops repeated values, keeping the first of each.
func unique[T comparable](list []T) []T {
	seen := make(map[T]bool, len(list))
	var out []T
	for _, v := range list {
		if !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}

// retriesOn reports whether f leads to another try: by its rule, as far as
// there are attempts, or by a wave.
func (p *Policy) retriesOn(f failure.Failure) bool {
	r := p.RuleFor(f)
	return r.Action.Retries() && (p.Attempts != 1 || r.Counts == CountsFree) ||
		p.Waves.Count > 0 && p.Waves.Classes.Has(f.Class)
}

func (l *linter) taxonomy() {
	for i := range l.p.Classes {
		if r := &l.p.Classes[i]; r.Action.Retries() {
			l.judgeRule(fmt.Sprintf("classes[%d]", i), r)
		}
	}
	if again := l.p.Waves.Classes & lasting; again != 0 {
		l.add(RuleTaxonomy, SeverityError, "waves.classes", strings.Join(again.Names(), ", "),
			"every wave makes calls that fail again, for what no wait mends", "transient, timeout, connection, or classes of these groups")
	}
	throttled := slices.ContainsFunc(append(probes(failure.Throttled, l.p), failure.Status(429)), l.p.retriesOn)
	if !l.p.RetryAfter.Honour && throttled {
		l.add(RuleTaxonomy, SeverityError, "retry_after.honour", "false",
			"429 is retried without regard to the target's Retry-After, so the limit is hit again and again",
			"retry_after.honour: true, or a rule that fails or parks throttled")
	}
}

// judgeRule judges a rule that retries.
func (l *linter) judgeRule(path string, r *Rule) {
	if r.Counts == CountsFree && r.Max == 0 && r.Window == 0 {
		l.add(RuleTaxonomy, SeverityError, path+".counts", "free without a cap",
			"a failure that spends no attempt and has no end is retried for ever", "max, such as 3, or a window")
	}
	m := &r.Match
	names, fix := strings.Join(permanentIn(m), ", "), "name what is worth another try: class or status"
	switch {
	case m.Classes == 0 && len(m.Status) == 0 && len(m.Reason) == 0:
		l.add(RuleTaxonomy, SeverityError, path+".match", "matches everything",
			"a retry by default: permanent and config failures are retried too", fix)
	case m.Classes == 0 && len(m.Status) == 0 && r.Counts == CountsFree:
		l.add(RuleTaxonomy, SeverityWarning, path+".match", "matches by reason alone",
			"a permanent failure given that reason is retried without spending an attempt", fix)
	case m.Classes&misconfigured != 0:
		l.add(RuleTaxonomy, SeverityError, path+".match", names,
			"a person must change a setting, a flag or a credential: until then every try fails alike and burns the attempts", "action: park, or fail")
	case names != "" && r.Counts == CountsFree:
		l.add(RuleTaxonomy, SeverityError, path+".match", names,
			"the same call fails again, and these retries do not even spend attempts", "counts: attempt, or action: fail or park")
	case names != "":
		l.add(RuleTaxonomy, SeverityNote, path+".match", names,
			"failures that usually do not mend themselves are retried, by an explicit rule that counts attempts", "action: fail, unless it is meant")
	}
}

// permanentIn names the permanent and config failures that an explicit match
// selects.
func permanentIn(m *Match) []string {
	if m.Classes != 0 {
		return (m.Classes & lasting).Names()
	}
	var names []string
	for _, code := range m.Status {
		if lasting.Has(failure.Status(code).Class) {
			names = append(names, fmt.Sprintf("status %d", code))
		}
	}
	return names
}

func (l *linter) unsafe() {
	if l.p.Safety != Unsafe {
		return
	}
	var retried []string
	for _, c := range failure.Classes() {
		if ambiguous.Has(c) && slices.ContainsFunc(probes(c, l.p), l.p.retriesOn) {
			retried = append(retried, c.String())
		}
	}
	if len(retried) == 0 {
		return
	}
	l.add(RuleUnsafe, SeverityError, "safety", strings.Join(retried, ", "),
		"after these the call may have taken effect, and a doubled call of unsafe work does harm",
		"a classes rule that fails or parks them, or safety: keyed with a key that the target honours")
}
