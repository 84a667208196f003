package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
	"github.com/ebbhq/ebb/simulate/scenario"
)

// simulatedPolicy is one policy of `policy check --simulate --json`.
type simulatedPolicy struct {
	File    string  `json:"file"`
	Policy  string  `json:"policy"`
	Version string  `json:"version"`
	Outage  float64 `json:"outage_s"`
	OK      bool    `json:"ok"`
	scenario.Expected
}

// expectations runs every policy of a file that has an expect block against
// it; what breaks becomes a finding.
func (a *app) expectations(ctx context.Context, f *file.File, c *lintedFile) ([]simulatedPolicy, error) {
	var list []simulatedPolicy
	for i := range f.Entries {
		e, err := a.effective(f.Entries[i])
		if err != nil {
			return nil, err
		}
		found, has, err := scenario.Expect(ctx, e.Policy)
		if err != nil {
			return nil, &failed{code: exitNo, err: err}
		}
		if !has {
			continue
		}
		list = append(list, simulatedPolicy{File: f.Name, Policy: e.Policy.Name, Version: e.Policy.Version, Outage: found.Outage.Seconds(), OK: found.OK(), Expected: *found})
		c.add(f, e.Policy.Name, broken(&e.Policy, found))
	}
	return list, nil
}

// broken says which expectations did not hold.
func broken(p *policy.Policy, e *scenario.Expected) []policy.Finding {
	var list []policy.Finding
	add := func(field, measured, why, fix string) {
		list = append(list, policy.Finding{ID: "expect", Severity: policy.SeverityError, Policy: p.Name, Field: field, Measured: measured, Why: why, Fix: fix})
	}
	accepted := fmt.Sprintf("at most %s, or another expect block", share(e.Accepted))
	if e.DeadShare > e.Accepted {
		add("expect.dead_letters", share(e.DeadShare)+" dead letters",
			fmt.Sprintf("simulated: of the jobs that arrive in an outage of %s so many are lost", span(e.Outage)), accepted)
	}
	if e.HealthyDeadShare > e.Accepted {
		add("expect.dead_letters", share(e.HealthyDeadShare)+" dead letters while healthy",
			fmt.Sprintf("simulated: with a p99 of %s so many jobs are lost before and after the outage", span(p.Expect.P99)), accepted)
	}
	if !e.Recovered {
		add("expect.outage", "never recovered", fmt.Sprintf("simulated: calls do not succeed again after an outage of %s ended", span(e.Outage)), "fewer or later retries, or a budget")
	}
	return list
}

// printOutages tells the numbers that held.
func (a *app) printOutages(list []simulatedPolicy) {
	for _, s := range list {
		if !s.OK || a.quiet {
			continue
		}
		text := fmt.Sprintf("%s: %s: in a simulated outage of %s %s dead letters, %s while healthy (accepted: %s); recovered %s after its end; %.2f calls for each job, at most %d in a second",
			s.File, s.Policy, span(s.Expected.Outage), share(s.DeadShare), share(s.HealthyDeadShare), share(s.Accepted),
			span(time.Duration(s.After*float64(time.Second))), s.Amplification, s.PeakCalls)
		if s.Scale < 1 {
			text += fmt.Sprintf(" (at %.2g of the load)", s.Scale)
		}
		fmt.Fprintln(a.stdout, text)
	}
}

func share(x float64) string {
	if x == 0 || x == 1 {
		return fmt.Sprintf("%.0f %%", x*100)
	}
	return fmt.Sprintf("%.2f %%", x*100)
}
