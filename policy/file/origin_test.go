package file_test

import (
	"strings"
	"testing"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

func TestOrigins(t *testing.T) {
	tests := []struct {
		policy, body, path, want string
	}{
		{"webhook", "timeout: 20s", "timeout", "policies.yaml:4:14"},
		{"webhook", "timeout: 20s", "attempts", "preset webhook"},
		{"webhook", "timeout: 20s", "classes", "preset webhook"},
		{"webhook", "timeout: 20s", "waivers", "preset webhook"},
		{"webhook", "timeout: 20s", "max_hold", "derived: the schedule's length"},
		{"webhook", "max_hold: 1h", "max_hold", "policies.yaml:4:15"},
		{"webhook", "max_hold: 0s", "max_hold", "derived: the schedule's length (policies.yaml:4:15)"},
		{"webhook", "classes: []", "classes", "policies.yaml:4:5"},
		{"webhook", "classes: []", "classes[0].max", "policies.yaml:4:5"},
		{"webhook", "backoff: {steps: [1m]}", "backoff.steps", "policies.yaml:4:22"},
		{"webhook", "backoff: {steps: [1m]}", "backoff.steps[0]", "policies.yaml:4:22"},
		{"webhook", "backoff: {steps: [1m]}", "backoff.base", "derived: steps are the schedule"},
		{"webhook", "backoff: {jitter: full}", "backoff.jitter.kind", "policies.yaml:4:23"},
		{"webhook", "backoff: {jitter: full}", "backoff.jitter.ratio", "derived: jitter full has no ratio"},
		{"webhook", "budget: none", "budget.kind", "policies.yaml:4:13"},
		{"webhook", "budget: none", "budget.ttl", "derived: there is no budget"},
		{"webhook", "budget: {kind: tokens, ratio: 0.1, floor: 5}", "budget.ttl", "derived: a tokens budget does not use it"},
		{"webhook", "breaker: off", "breaker.consecutive", "policies.yaml:4:14"},
		{"webhook", "breaker: off", "breaker.open", "derived: without consecutive or ratio the breaker is off"},
		{"scrape", "waves: off", "waves.cooldown", "derived: without a count there are no waves"},
		{"polite", "timeout: 20s", "max_hold", "preset polite"},
		{"annual-crawl", "max_container_restarts: 5", "restarts.max", "derived: raised from 5 to 20 (policies.yaml:4:29)"},
		{"annual-crawl", "restarts: {max: 5}\nattempts: 6", "attempts", "derived: restarts.max + 1 (policies.yaml:5:15)"},
		{"annual-crawl", "restarts: {max: 30}", "attempts", "derived: restarts.max + 1"},
		{"annual-crawl", "restarts: {max: 30}", "restarts.max", "policies.yaml:4:21"},
		{"order-sync", "timeout: 20s", "attempts", "default"},
		{"order-sync", "timeout: 20s", "classes", "default"},
		{"default", "timeout: 20s", "attempts", "preset default"},
		{"order-sync", "timeout: 20s", "no.such.field", "unknown"},
	}
	for _, tt := range tests {
		e := one(t, tt.policy, tt.body)
		if got := e.Origin(tt.path).String(); got != tt.want {
			t.Errorf("%s {%s}: %s comes from %q, want %q", tt.policy, tt.body, tt.path, got, tt.want)
		}
	}
}

func TestPresetEntry(t *testing.T) {
	e, err := file.Preset("webhook")
	if err != nil {
		t.Fatal(err)
	}
	if e.Policy.Version != policy.MustPreset("webhook").Version {
		t.Error("not the preset")
	}
	if got := e.Origin("timeout").String(); got != "preset webhook" {
		t.Errorf("timeout comes from %q", got)
	}
	if !e.Pos("timeout").IsZero() {
		t.Errorf("a preset's value stands at %v", e.Pos("timeout"))
	}
	if _, err := file.Preset("webhok"); err == nil || !strings.Contains(err.Error(), "one of: default") {
		t.Errorf("an unknown preset gives %v", err)
	}
}

func TestPositions(t *testing.T) {
	f := mustParse(t, `version: 1
policies:
  webhook:
    backoff:
      base: 60s
    classes:
      - match: {status: [404, 409]}
        action: retry
`)
	e := f.Entries[0]
	for path, want := range map[string]string{
		"backoff.base":               "policies.yaml:5:13",
		"backoff.factor":             "policies.yaml:4:5",
		"timeout":                    "policies.yaml:3:3",
		"classes[0]":                 "policies.yaml:7:9",
		"classes[0].action":          "policies.yaml:8:17",
		"classes[0].max":             "policies.yaml:7:9",
		"classes[0].match.status[1]": "policies.yaml:7:31",
		"classes[9]":                 "policies.yaml:6:5",
	} {
		if got := e.Pos(path).String(); got != want {
			t.Errorf("%s stands at %s, want %s", path, got, want)
		}
	}
}
