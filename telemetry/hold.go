package telemetry

import (
	"strings"

	"github.com/ebbhq/ebb/gate"
)

// heldBy finds what held a job by how the worker and the gate tell it. A test
// asks both for all that they can say.
var heldBy = []struct{ prefix, by string }{
	{"held: an operator paused", gate.HeldOperator.String()},
	{"held: the target asked for a pause", gate.HeldRetryAfter.String()},
	{"held: the target keeps failing", gate.HeldBreaker.String()},
	{"held: the breaker waits", gate.HeldBreaker.String()},
	{"held: the target is recovering", gate.HeldRamp.String()},
	{"held: the retry budget", gate.HeldBudget.String()},
	{"held: the target has as many calls", gate.HeldConcurrency.String()},
	{"held: the target's rate", gate.HeldRate.String()},
	{"no slot of policy", "policy"},
	{"waits for its policy", "policy"},
	{"crashed twice or more", "suspect"},
	{"too many wait to run alone", "suspect"},
	{"stopping", "stopping"},
	{"no handler", "no_handler"},
	{"its deadline has passed", "deadline"},
}

// holdOf names what held a job in a word of a closed set.
func holdOf(text string) string {
	for _, h := range heldBy {
		if strings.HasPrefix(text, h.prefix) {
			return h.by
		}
	}
	return other
}
