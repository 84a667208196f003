package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
	"github.com/ebbhq/ebb/simulate/scenario"
)

// ladder is one policy's ladder in `policy check --simulate --json`.
type ladder struct {
	File    string          `json:"file"`
	Policy  string          `json:"policy"`
	Version string          `json:"version"`
	OK      bool            `json:"ok"`
	Rungs   []scenario.Rung `json:"rungs"`
}

// climb plays the ladder for every policy of a file; a rung that does not hold
// becomes a finding.
func (a *app) climb(ctx context.Context, f *file.File, c *lintedFile) ([]ladder, error) {
	var list []ladder
	for i := range f.Entries {
		e, err := a.effective(f.Entries[i])
		if err != nil {
			return nil, err
		}
		rungs, err := scenario.Ladder(ctx, e.Policy)
		if err != nil {
			return nil, &failed{code: exitNo, err: err}
		}
		l := ladder{File: f.Name, Policy: e.Policy.Name, Version: e.Policy.Version, Rungs: rungs, OK: true}
		for i := range rungs {
			if r := &rungs[i]; !r.OK() {
				l.OK = false
				c.add(f, e.Policy.Name, []policy.Finding{fallen(&e.Policy, r)})
			}
		}
		list = append(list, l)
	}
	return list, nil
}

// fallen says what a rung showed.
func fallen(p *policy.Policy, r *scenario.Rung) policy.Finding {
	f := policy.Finding{ID: "ladder", Severity: policy.SeverityError, Policy: p.Name, Field: "gate"}
	switch {
	case r.Policy.Dead > r.Bare.Dead:
		f.Measured = fmt.Sprintf("%d dead letters", r.Policy.Dead)
		f.Why = fmt.Sprintf("simulated: in an %s the guard loses more than the bare schedule, %d", r.Name, r.Bare.Dead)
		f.Fix = "on_hold_end: park, and a breaker as in the preset"
	case r.Policy.Calls > r.Bare.Calls:
		f.Measured = fmt.Sprintf("%d calls", r.Policy.Calls)
		f.Why = fmt.Sprintf("simulated: in an %s it calls more often than the bare schedule, %d", r.Name, r.Bare.Calls)
		f.Fix = "a breaker as in the preset"
	default:
		f.Measured = fmt.Sprintf("noticed after %.0f s", r.Policy.Noticed)
		f.Why = fmt.Sprintf("simulated: after an %s its work waits on although the target is well", r.Name)
		f.Fix = fmt.Sprintf("breaker.cap of 1m or less: noticed within %s", policy.FormatDuration(scenario.NoticedWithin))
	}
	return f
}

// printLadders tells what held, the hardest outage of each policy.
func (a *app) printLadders(list []ladder) {
	for _, l := range list {
		if !l.OK || a.quiet {
			continue
		}
		worst := slices.MaxFunc(l.Rungs, func(a, b scenario.Rung) int { return int(a.Bare.Dead - b.Bare.Dead) })
		fmt.Fprintf(a.stdout, "%s: %s: the ladder holds, %d outages and bad work; in an %s %d dead letters and %d failed calls, %d and %d by the bare schedule\n",
			l.File, l.Policy, len(l.Rungs), worst.Name, worst.Policy.Dead, worst.Policy.Failed, worst.Bare.Dead, worst.Bare.Failed)
	}
}
