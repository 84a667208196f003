package fetch

import (
	"fmt"
	"time"

	"github.com/ebbhq/ebb/policy"
)

// What no policy undercuts without a recorded waiver: at most 20 starts a
// second and 16 connections for one host.
const (
	floorSpacing     = 50 * time.Millisecond
	floorConcurrency = 16
)

// together is the policy for machines that share their hosts: spacing and
// concurrency of a process become the host's, over all of them.
func together(p policy.Policy) (policy.Policy, error) {
	if p.Spacing > 0 {
		if rate := 1 / p.Spacing.Seconds(); p.PerTarget.Rate <= 0 || p.PerTarget.Rate > rate {
			p.PerTarget.Rate = rate
		}
	}
	if p.PerTarget.Concurrency <= 0 || p.PerTarget.Concurrency > p.Concurrency {
		p.PerTarget.Concurrency = p.Concurrency
	}
	sealed, err := policy.Seal(p)
	if err != nil {
		return p, fmt.Errorf("fetch: policy %s: for several machines: %w", p.Name, err)
	}
	return sealed, nil
}

// CheckFloors refuses a policy that would press a host harder than the floors
// of politeness allow, unless somebody gave a reason.
func CheckFloors(p *policy.Policy, waiver string) error {
	if waiver != "" {
		return nil
	}
	if rate := p.PerTarget.Rate; p.Spacing < floorSpacing && (rate <= 0 || rate > float64(time.Second/floorSpacing)) {
		return fmt.Errorf("fetch: policy %s: spacing %s is under the floor of %s between starts for a host; raise spacing, set per_target.rate to 20 or less, or give a waiver with its reason",
			p.Name, p.Spacing, floorSpacing)
	}
	if p.Concurrency > floorConcurrency && (p.PerTarget.Concurrency <= 0 || p.PerTarget.Concurrency > floorConcurrency) {
		return fmt.Errorf("fetch: policy %s: %d connections are over the floor's %d for a host; set per_target.concurrency, or give a waiver with its reason",
			p.Name, p.Concurrency, floorConcurrency)
	}
	return nil
}
