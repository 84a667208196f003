package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// What a gate remembers of its holds is told newest first, each with its own
// ends.
func TestHoldsOf(t *testing.T) {
	asks := func(after time.Duration) happened {
		f := down()
		f.RetryAfter = after
		return happened{"12:00:00", gate.Done{Failure: *f}}
	}
	first := happened{"12:00:00", gate.Ask{}}
	for _, c := range []struct {
		name   string
		events []happened
		want   []TargetHold
	}{
		{"none", nil, []TargetHold{}},
		{"a pause that is over", []happened{first, asks(30 * time.Second)}, []TargetHold{{Of: "asked", From: clockAt("12:00:00"), To: clockAt("12:00:30")}}},
		{"a pause that lasts", []happened{first, asks(5 * time.Minute)}, []TargetHold{{Of: "asked", From: clockAt("12:00:00")}}},
		{"an open breaker", calls(10, "12:01:00", down()), []TargetHold{{Of: "all", From: clockAt("12:01:00")}}},
		{"a breaker that opened again", append(calls(10, "12:00:00", down()), happened{"12:00:40", gate.Ask{}}, happened{"12:00:50", gate.Done{Failure: *down(), Probe: true}}), []TargetHold{
			{Of: "all", From: clockAt("12:00:00")},
		}},
		{"a breaker that let go", append(calls(10, "12:00:00", down()), happened{"12:00:40", gate.Ask{}}, happened{"12:00:50", gate.Done{OK: true, Probe: true}}), []TargetHold{
			{Of: "all", From: clockAt("12:00:00"), To: clockAt("12:00:50")},
		}},
		{"a pause within an open breaker", append(calls(10, "12:01:00", down()), happened{"12:01:10", gate.Pause{}}, happened{"12:01:15", gate.Resume{}}), []TargetHold{
			{Of: "all", From: clockAt("12:01:15")}, {Of: "all", From: clockAt("12:01:00"), To: clockAt("12:01:10")},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := gatheredFor(func(g *gathered) { g.guarded(c.events...) })
			if got := holdsOf(&g.flow.gate.State, noon); !slices.Equal(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestLimitsInWords(t *testing.T) {
	for got, want := range map[string]string{
		budgetWords(policy.Budget{Kind: policy.BudgetTokens, Ratio: 0.1, Floor: 10}):                                                                   "a bucket of 10 retries, refilled by 0.1 with each success",
		budgetWords(policy.Budget{Kind: policy.BudgetShare, Ratio: 0.2, Floor: 3}):                                                                     "retries up to 0.2 of all calls in flight, at least 3",
		budgetWords(policy.Budget{Kind: policy.BudgetThrottle, Ratio: 2, Floor: 20, TTL: time.Minute}):                                                 "from 20 calls in 1m on, some are refused when fewer than 1 in 2 succeed",
		budgetWords(policy.Budget{Kind: policy.BudgetNone}) + breakerWords(policy.Breaker{}):                                                           "",
		breakerWords(policy.Breaker{Consecutive: 1, Open: time.Minute}):                                                                                "opens after 1 failure in a row, for 1m",
		limitWords(store.QueueLimit{Concurrency: 1}) + ", " + limitWords(store.QueueLimit{Rate: 2.5}):                                                  "1 job at once, 2.5 starts a second",
		limitWords(store.QueueLimit{Concurrency: 5, Rate: 10}):                                                                                         "5 jobs at once and 10 starts a second",
		tripWords(1) + ", " + tripWords(2) + ", " + tripWords(5):                                                                                       "opened once, opened twice in a row, opened 5 times in a row",
		(&hold{gate: &store.Gate{Grants: make([]store.Grant, 6)}}).grantWords():                                                                        " (process 0: 0, process 0: 0, process 0: 0, process 0: 0, 2 more)",
		retriesWords(1) + ", " + retriesWords(2) + ", " + waitWords(1) + ", " + waitWords(3) + (&TargetExplained{LookAt: store.Never}).lookWords(noon): "1 retry, 2 retries, 1 job waits for it, 3 jobs wait for it",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
