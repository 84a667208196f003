package main

import (
	"fmt"
	"time"

	"github.com/ebbhq/ebb/policy"
)

// waived is a waiver with the policy that it stands in: every output about a
// policy tells its waivers, so that none is forgotten.
type waived struct {
	Policy string `json:"policy"`
	policy.Waiver
}

func waiversOf(policies []policy.Policy) []waived {
	list := []waived{}
	for _, p := range policies {
		for _, w := range p.Waivers {
			list = append(list, waived{p.Name, w})
		}
	}
	return list
}

// printWaivers tells the waivers that the findings printed before do not.
func (a *app) printWaivers(list []waived, told []policy.Finding) {
	for _, w := range list {
		if !tells(told, w) {
			fmt.Fprintf(a.stdout, "%s: %s %s until %s: %s\n", w.Policy, a.paint(yellow, "waives"), w.Rule, w.Expires.Format(time.DateOnly), w.Reason)
		}
	}
}

func tells(findings []policy.Finding, w waived) bool {
	for _, f := range findings {
		if f.Policy == w.Policy && f.Waived != nil && *f.Waived == w.Waiver {
			return true
		}
	}
	return false
}
