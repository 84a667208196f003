package scenario_test

import (
	"os"
	"testing"
	"time"

	"github.com/ebbhq/ebb/policy"
	policyfile "github.com/ebbhq/ebb/policy/file"
	"github.com/ebbhq/ebb/simulate/scenario"
)

func TestPresetsMeetTheirExpectations(t *testing.T) {
	simulated := 0
	for _, name := range policy.PresetNames() {
		e, ok, err := scenario.Expect(t.Context(), policy.MustPreset(name))
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			continue
		}
		simulated++
		if !e.OK() {
			t.Errorf("%s: %+v", name, *e)
		}
		t.Logf("%s: %+v", name, *e)
	}
	if simulated < 3 {
		t.Errorf("%d presets have an expect block; webhook, scrape and polite do", simulated)
	}
}

// PR #247 breaks its contract: in the outage it dead-letters most of what
// arrives. It had no gate, which would have saved it.
func TestPR247BreaksItsExpectations(t *testing.T) {
	src, err := os.ReadFile("../../demo/pr-247.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := policyfile.Parse("pr-247.yaml", src)
	if err != nil {
		t.Fatal(err)
	}
	p := f.Entries[0].Policy
	p.Gate = false
	e, ok, err := scenario.Expect(t.Context(), p)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if e.OK() || e.DeadShare < 0.5 || e.Accepted != 0.02 {
		t.Errorf("%+v; want more than half of the outage's jobs dead", *e)
	}
	t.Logf("%+v", *e)
}

// The simulated loss agrees with the computed one where no gate and no
// capacity interferes.
func TestExpectedLossAgreesWithLint(t *testing.T) {
	for _, attempts := range []int{1, 2, 4, 6} {
		p := policy.Base("plain")
		p.Attempts, p.Gate, p.Concurrency, p.Timeout = attempts, false, 10_000, 0
		p.Backoff = policy.Backoff{Base: 30 * time.Second, Factor: 2, Jitter: policy.Jitter{Kind: policy.JitterProportional, Ratio: 0.2}}
		p.Expect = policy.Expect{Outage: 10 * time.Minute, Arrival: 20, P99: 100 * time.Millisecond}
		p, err := policy.Seal(p)
		if err != nil {
			t.Fatal(err)
		}
		e, _, err := scenario.Expect(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if want := p.OutageLoss(10 * time.Minute); e.DeadShare < want-0.01 || e.DeadShare > want+0.01 {
			t.Errorf("%d attempts: %.4f simulated, %.4f computed", attempts, e.DeadShare, want)
		}
	}
}

func TestNoExpectBlock(t *testing.T) {
	if _, ok, err := scenario.Expect(t.Context(), policy.MustPreset("processing")); ok || err != nil {
		t.Errorf("processing expects nothing: %v, %v", ok, err)
	}
}
