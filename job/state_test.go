package job

import (
	"slices"
	"testing"

	"github.com/ebbhq/ebb/retry"
)

// causes is everything that a change may name.
var causes = []Cause{
	retry.CauseNone, retry.CauseFatal, retry.CauseExhausted, retry.CausePoison, retry.CauseExpired, retry.CauseConfig,
	retry.CauseNoProgress, retry.CauseTargetDown, HostLost, Disabled,
}

// The states of docs/architecture.md, change by change: everything else is
// refused.
func TestAllowed(t *testing.T) {
	type change struct{ from, to State }
	want := map[change][]Cause{
		{Queued, Running}:    {""},
		{Running, Succeeded}: {""},
		{Running, Queued}:    {""},
		{Running, Failed}:    {"fatal", "exhausted", "poison", "expired"},
		{Running, Parked}:    {"config", "no_progress", "target_down", "host_lost"},
		{Queued, Failed}:     {"expired"},
		{Queued, Parked}:     {"target_down", "disabled"},
		{Queued, Cancelled}:  {""},
		{Running, Cancelled}: {""},
		{Parked, Cancelled}:  {""},
		{Failed, Queued}:     {""},
		{Parked, Queued}:     {""},
	}
	states := append(States(), "", "gone")
	for _, from := range states {
		for _, to := range states {
			for _, cause := range append(causes, "nonsense") {
				if got, allowed := Allowed(from, to, cause), slices.Contains(want[change{from, to}], cause); got != allowed {
					t.Errorf("from %q to %q for %q: %t, want %t", from, to, cause, got, allowed)
				}
			}
		}
	}
}

// No change is listed twice, and none leads from or to a state that is not
// one.
func TestTransitions(t *testing.T) {
	seen := map[[2]State]bool{}
	for _, tr := range Transitions {
		pair := [2]State{tr.From, tr.To}
		if seen[pair] {
			t.Errorf("from %s to %s stands twice", tr.From, tr.To)
		}
		seen[pair] = true
		for _, s := range pair {
			if !slices.Contains(States(), s) {
				t.Errorf("%q is no state", s)
			}
		}
	}
}

// A job can always end, and a dead letter or a parked job always comes back.
func TestReach(t *testing.T) {
	reach := map[State]map[State]bool{}
	for _, from := range States() {
		reach[from] = map[State]bool{from: true}
		for grown := true; grown; {
			grown = false
			for _, tr := range Transitions {
				if reach[from][tr.From] && !reach[from][tr.To] {
					reach[from][tr.To], grown = true, true
				}
			}
		}
	}
	for _, from := range []State{Queued, Running, Parked, Failed} {
		for _, to := range States() {
			if !reach[from][to] {
				t.Errorf("%s never becomes %s", from, to)
			}
		}
	}
	for _, end := range []State{Succeeded, Cancelled} {
		if len(reach[end]) != 1 {
			t.Errorf("%s is not the end: %v", end, reach[end])
		}
	}
}

func TestLive(t *testing.T) {
	want := map[State]bool{Queued: true, Running: true, Parked: true}
	for _, s := range States() {
		if s.Live() != want[s] {
			t.Errorf("%s lives: %t", s, s.Live())
		}
	}
}
