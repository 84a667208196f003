package demo

import (
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

// presets are the policies of our world: those that are shipped.
func presets() ([]policy.Policy, error) {
	var all []policy.Policy
	for _, name := range policy.PresetNames() {
		p, err := policy.Preset(name)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// causes are the policies that caused the incidents. Each breaks the contract,
// so each needs a waiver of every rule that it breaks to run at all.
func causes() ([]policy.Policy, error) {
	f, err := file.Parse("pr-247.yaml", pr247)
	if err != nil {
		return nil, err
	}
	webhook := f.Policies()[0]

	// Seed 000 before its waves: three tries a page and no more.
	tries, err := policy.Preset("scrape")
	if err != nil {
		return nil, err
	}
	tries.Waves = policy.Waves{}

	// Seed 001's option A: a fixed interval.
	fixed, err := policy.Preset("processing")
	if err != nil {
		return nil, err
	}
	fixed.Backoff = policy.Backoff{Steps: []time.Duration{5 * time.Second}, Jitter: policy.Jitter{Kind: "none"}}
	fixed.Gate = false

	// Seed 003 before: low thresholds, few restarts, long back-offs.
	crawls, err := policy.Preset("annual-crawl")
	if err != nil {
		return nil, err
	}
	crawls.Name = "old-crawl"
	crawls.Attempts, crawls.Restarts.Max, crawls.Restarts.NoProgress = 4, 3, 3
	crawls.Thresholds = policy.Thresholds{Timeout: 10, HTTP: 10}
	crawls.Backoff = policy.Backoff{Base: 10 * time.Minute, Factor: 1}

	var all []policy.Policy
	for _, p := range []policy.Policy{webhook, tries, fixed, crawls} {
		today := time.Now().UTC()
		waived := map[string]bool{}
		for _, finding := range policy.Lint(p, today) {
			if finding.Fails() && !waived[finding.ID] {
				waived[finding.ID] = true
				p.Waivers = append(p.Waivers, policy.Waiver{
					Rule: finding.ID, Reason: "shown in the demonstration as what caused the incident",
					Expires: today.AddDate(0, 0, 2).Truncate(24 * time.Hour),
				})
			}
		}
		sealed, err := policy.Seal(p)
		if err != nil {
			return nil, err
		}
		all = append(all, sealed)
	}
	return all, nil
}

// rule returns one of the world's policies, or the preset of that name.
func (w *world) rule(name string) policy.Policy {
	for _, p := range w.policies {
		if p.Name == name {
			return p
		}
	}
	return policy.MustPreset(name)
}
