package file_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, p := range pairs {
			if k, v, _ := strings.Cut(p, "="); k == name {
				return v, true
			}
		}
		return "", false
	}
}

func TestEnvironmentOverridesFileAndPreset(t *testing.T) {
	e := one(t, "webhook", "timeout: 20s\nbatch: 50")
	got, err := file.ApplyEnv(e, env("WEBHOOK_TIMEOUT_SECONDS=10", "MAX_RETRY_ATTEMPTS=8", "RETRY_BATCH_SIZE=500", "HTTP_POOL_SIZE=50"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]string{
		"timeout":     {"10s", "env WEBHOOK_TIMEOUT_SECONDS"},
		"attempts":    {"9", "env MAX_RETRY_ATTEMPTS"},
		"batch":       {"500", "env RETRY_BATCH_SIZE"},
		"concurrency": {"50", "env HTTP_POOL_SIZE"},
		"max_hold":    {"4h15m", "derived: the schedule's length"}, // 60 s × (2⁸ − 1)
		"safety":      {"idempotent", "preset webhook"},
	}
	for path, w := range want {
		f, _ := policy.FieldAt(path)
		if text := f.Text(&got.Policy); text != w[0] {
			t.Errorf("%s = %s, want %s", path, text, w[0])
		}
		if from := got.Origin(path).String(); from != w[1] {
			t.Errorf("%s comes from %q, want %q", path, from, w[1])
		}
	}
	if got.Policy.Version == e.Policy.Version {
		t.Error("the version did not change")
	}
	if from := e.Origin("timeout").String(); from != "policies.yaml:4:14" {
		t.Errorf("the entry given was changed: timeout comes from %q", from)
	}
}

func TestEnvironmentKeepsAnExplicitHold(t *testing.T) {
	got, err := file.ApplyEnv(one(t, "webhook", "max_hold: 7m"), env("MAX_RETRY_ATTEMPTS=0"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Policy.Attempts != 1 || policy.FormatDuration(got.Policy.MaxHold) != "7m" {
		t.Errorf("attempts %d, max_hold %s; want 1, 7m", got.Policy.Attempts, got.Policy.MaxHold)
	}
}

func TestEnvironmentOfSeedDefaultsIsThePreset(t *testing.T) {
	e, err := file.Preset("webhook")
	if err != nil {
		t.Fatal(err)
	}
	got, err := file.ApplyEnv(e, env("WEBHOOK_TIMEOUT_SECONDS=30", "MAX_RETRY_ATTEMPTS=5", "RETRY_BATCH_SIZE=100", "HTTP_POOL_SIZE=20"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(policy.MustPreset("webhook"), got.Policy); diff != "" {
		t.Error(diff)
	}
}

func TestEnvironmentLeavesOtherPoliciesAlone(t *testing.T) {
	e := one(t, "webhook-2", "timeout: 20s")
	got, err := file.ApplyEnv(e, env("WEBHOOK_TIMEOUT_SECONDS=rubbish"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Policy.Version != e.Policy.Version {
		t.Error("another policy was changed")
	}
}

func TestBadEnvironment(t *testing.T) {
	tests := []struct{ body, env, want string }{
		{"{}", "WEBHOOK_TIMEOUT_SECONDS=30s", `environment: WEBHOOK_TIMEOUT_SECONDS: "30s" is not a whole number (limit of one attempt in whole seconds); write one such as 30`},
		{"{}", "WEBHOOK_TIMEOUT_SECONDS=0", `environment: WEBHOOK_TIMEOUT_SECONDS: 0 is out of range (limit of one attempt in whole seconds); 1 to 1000000, such as 30`},
		{"{}", "MAX_RETRY_ATTEMPTS=-1", `environment: MAX_RETRY_ATTEMPTS: -1 is out of range (retries after the first send; attempts is this plus 1); 0 to 1000000, such as 5`},
		{"{}", "RETRY_BATCH_SIZE=", `environment: RETRY_BATCH_SIZE: "" is not a whole number (most claimed at once); write one such as 100`},
		{"{}", "HTTP_POOL_SIZE=0", `environment: HTTP_POOL_SIZE: 0 is out of range (starts at once, per process); 1 to 1000000, such as 20`},
		{"restarts: {max: 3}", "MAX_RETRY_ATTEMPTS=5", `environment: MAX_RETRY_ATTEMPTS: 5 retries conflict with restarts.max: 3 (policies.yaml:4:21); unset the variable or remove restarts.max`},
	}
	for _, tt := range tests {
		_, err := file.ApplyEnv(one(t, "webhook", tt.body), env(tt.env))
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v\nwant %s", tt.env, err, tt.want)
		}
	}
	_, err := file.ApplyEnv(one(t, "webhook", "{}"), env("HTTP_POOL_SIZE=x", "RETRY_BATCH_SIZE=y"))
	if err == nil || strings.Count(err.Error(), "environment: ") != 2 {
		t.Errorf("two faults give %v", err)
	}
}
