package demo

import (
	_ "embed"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

// pr247 is the change that caused seed 002's incident, as a policy file.
//
//go:embed pr-247.yaml
var pr247 []byte

// guard shows that the change behind the webhook incident does not get past
// the contract.
func guard(o Options) error {
	fmt.Fprintf(o.Out, "First, the \"perf\" change behind seed 002's incident, as a policy file: fixed 5 s instead of 60 s\ndoubling, no jitter, 8 retries, timeout 10 s, pool 50, batch 500. ebb policy lint says:\n\n")
	f, err := file.Parse("pr-247.yaml", pr247)
	if err != nil {
		return err
	}
	change := f.Policies()[0]
	old, err := policy.Preset("webhook")
	if err != nil {
		return err
	}
	risky := 0
	for _, c := range policy.Diff(old, change) {
		if c.Risky {
			risky++
		}
	}
	for _, finding := range policy.Lint(change, time.Now().UTC()) {
		if finding.Fails() {
			fmt.Fprintf(o.Out, "  %-10s %s = %s; would pass: %s\n", finding.ID, finding.Field, finding.Measured, finding.Fix)
		}
	}
	if err := policy.Enforce(change, time.Now().UTC()); err == nil {
		return fmt.Errorf("the guard let %s pass", f.Name)
	}
	fmt.Fprintf(o.Out, "\n  refused: %d risky changes; no engine starts with it.\n\n", risky)
	return nil
}
