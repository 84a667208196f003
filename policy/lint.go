package policy

import (
	"fmt"
	"slices"
	"time"
)

// ContractPage is where the retry contract is written; messages name it.
const ContractPage = "docs/contract.md"

// Ids of the lint rules: stable, for waivers, machines and searches.
const (
	RuleFloor      = "floor"      // a delay under the floor of the target's kind, or jitter that goes far below it
	RuleJitter     = "jitter"     // too little spread
	RuleGrowth     = "growth"     // delays do not grow
	RuleWindow     = "window"     // schedule shorter than the outage to survive
	RuleUnbounded  = "unbounded"  // no end, or one too far
	RuleTimeout    = "timeout"    // attempts cut below healthy latency, or never
	RuleLease      = "lease"      // lease shorter than the work
	RuleMetastable = "metastable" // retries keep an overloaded target overloaded
	RuleBudget     = "budget"     // no retry budget, or a loose one
	RuleTaxonomy   = "taxonomy"   // a failure retried that retrying cannot mend
	RuleUnsafe     = "unsafe"     // ambiguous failure retried on unsafe work
	RuleCatchUp    = "catch-up"   // burst after downtime
	RuleHold       = "hold"       // a guard that could lose work, or notice too late
	RuleRiskyDiff  = "risky-diff" // found by DiffFindings, never by Lint
	RuleWaiver     = "waiver"     // a waiver that expired or silences nothing
)

// RuleIDs lists the lint rules by their stable ids, in the order of findings.
func RuleIDs() []string {
	return []string{
		RuleFloor, RuleJitter, RuleGrowth, RuleWindow, RuleUnbounded, RuleTimeout, RuleLease,
		RuleMetastable, RuleBudget, RuleTaxonomy, RuleUnsafe, RuleCatchUp, RuleHold, RuleRiskyDiff, RuleWaiver,
	}
}

// Severity says what a finding does to a check.
type Severity string

const (
	SeverityError   Severity = "error"   // fails the check unless waived
	SeverityWarning Severity = "warning" // deserves a look
	SeverityNote    Severity = "note"    // said for the record
)

// Position is where in a file a finding points. Lint knows no files; who
// read the policy from one fills it in.
type Position struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

// Finding is one judgement of lint about one field of one policy.
type Finding struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	Policy   string   `json:"policy"`
	// Field is the path to what was judged, such as "backoff.base" or
	// "classes[0].backoff.base".
	Field string `json:"field"`
	// Measured is the number that failed.
	Measured string `json:"measured"`
	Why      string `json:"why"`
	// Fix is what would pass.
	Fix string `json:"fix"`
	// Waived is the waiver that keeps the finding from counting, or nil.
	Waived   *Waiver   `json:"waived,omitempty"`
	Position *Position `json:"position,omitempty"`
}

// Fails reports whether the finding alone fails a check.
func (f Finding) Fails() bool { return f.Severity == SeverityError && f.Waived == nil }

func (f Finding) String() string {
	text := fmt.Sprintf("%s: %s: %s (%s): %s; would pass: %s", f.Severity, f.ID, f.Field, f.Measured, f.Why, f.Fix)
	if f.Waived != nil {
		text += fmt.Sprintf(" (waived until %s: %s)", day(f.Waived.Expires), f.Waived.Reason)
	}
	return text
}

// Failed reports whether any finding fails a check.
func Failed(findings []Finding) bool { return slices.ContainsFunc(findings, Finding.Fails) }

// Lint judges a sealed policy by every rule. The same policy and day give the
// same findings in the same order: that of RuleIDs, then of the file. Waived
// findings are listed too.
func Lint(p Policy, today time.Time) []Finding {
	l := linter{p: &p}
	for _, rule := range []func(*linter){
		(*linter).floor, (*linter).jitter, (*linter).growth, (*linter).window, (*linter).unbounded,
		(*linter).timeout, (*linter).lease, (*linter).metastable, (*linter).budget,
		(*linter).taxonomy, (*linter).unsafe, (*linter).catchUp, (*linter).hold,
	} {
		rule(&l)
	}
	silent := waive(l.found, p.Waivers, today)
	l.waivers(today, silent)
	return l.found
}

// linter gathers the findings of one policy.
type linter struct {
	p     *Policy
	found []Finding
}

func (l *linter) add(id string, severity Severity, field, measured, why, fix string) {
	l.found = append(l.found, Finding{
		ID: id, Severity: severity, Policy: l.p.Name,
		Field: field, Measured: measured, Why: why, Fix: fix,
	})
}

// retries reports whether a counted failure leads to another try at all.
func (l *linter) retries() bool { return l.p.Attempts != 1 }

// waive marks what unexpired waivers silence and returns the indices of the
// waivers that silence nothing.
func waive(found []Finding, waivers []Waiver, today time.Time) (silent []int) {
	for i := range waivers {
		w := waivers[i]
		if w.expired(today) {
			continue
		}
		used := false
		for j := range found {
			if found[j].ID == w.Rule && found[j].ID != RuleWaiver {
				used = true
				if found[j].Waived == nil {
					found[j].Waived = &w
				}
			}
		}
		if !used {
			silent = append(silent, i)
		}
	}
	return silent
}

func (l *linter) waivers(today time.Time, silent []int) {
	for i, w := range l.p.Waivers {
		field := fmt.Sprintf("waivers[%d]", i)
		switch {
		case w.expired(today):
			l.add(RuleWaiver, SeverityError, field+".expires", day(w.Expires),
				fmt.Sprintf("the waiver of %s expired; today is %s", w.Rule, day(today)),
				"a policy that needs no waiver, or a new date agreed on again")
		case w.Rule != RuleRiskyDiff && contains(silent, i):
			l.add(RuleWaiver, SeverityNote, field+".rule", w.Rule,
				"nothing is left for this waiver to silence", "remove it")
		}
	}
}

// expired reports whether the waiver's last day is over.
func (w Waiver) expired(today time.Time) bool { return day(today) > day(w.Expires) }

// day is the UTC date, which sorts as it reads.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
