package gate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/gate"
)

func TestHoldsThatCountTowardsMaxHold(t *testing.T) {
	counts := map[gate.Hold]bool{gate.HeldBreaker: true, gate.HeldBudget: true}
	for _, h := range gate.Holds() {
		if v := (gate.Verdict{Held: h}); v.CountsHold() != counts[h] {
			t.Errorf("%s: counts %t, want %t", h, v.CountsHold(), counts[h])
		}
	}
	if (gate.Verdict{Admit: true}).CountsHold() {
		t.Error("an admitted call is not held")
	}
}

func TestHoldsHaveNamesAndWords(t *testing.T) {
	seen := map[string]bool{}
	for _, h := range gate.Holds() {
		text, err := h.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back gate.Hold
		if err := back.UnmarshalText(text); err != nil || back != h {
			t.Errorf("%s reads back as %s, %v", h, back, err)
		}
		for _, until := range []time.Time{{}, t0} {
			words := gate.Verdict{Held: h, Until: until}.String()
			if !strings.HasPrefix(words, "held: ") {
				t.Errorf("%s: %q does not say that it is held", h, words)
			}
			seen[words] = true
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d different texts", len(seen))
	}
	got := gate.Verdict{Held: gate.HeldBreaker, Until: t0}.String()
	if want := "held: the target keeps failing and its breaker is open until 2026-01-01T00:00:00Z"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var h gate.Hold
	if h.UnmarshalText([]byte("weather")) == nil {
		t.Error("an unknown hold was read")
	}
}
