package engine

import (
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// anyPolicy is what a gate keeps when the policy that used it last is not
// known: pauses and the breaker hold, limits have no figures.
var anyPolicy = gate.Config{Pause: true, Breaker: policy.Breaker{Consecutive: 1}}

// limits returns what the gate is asked by: its queue's limit, or the figures
// of the policy that used it last.
func (e *Engine) limits(g *store.Gate, queue store.QueueLimit) (gate.Config, *policy.Policy) {
	if _, ok := queueOfGate(g.Target); ok {
		return gate.Config{PerTarget: policy.PerTarget{Concurrency: queue.Concurrency, Rate: queue.Rate}}, nil
	}
	if p := e.byName[g.Policy]; p != nil {
		return gate.Of(p), p
	}
	return anyPolicy, nil
}

// asked is the gate's answer to one more start, without taking it. The
// throttle is asked with its most generous draw.
func asked(c gate.Config, s gate.State, retry bool, now time.Time) gate.Verdict {
	const generous = 1
	_, v := gate.Step(c, s, gate.Ask{Retry: retry}, now, generous)
	return v
}

// instant is a time of a gate's state; none is the zero time.
func instant(i gate.Instant) time.Time {
	if i == 0 {
		return time.Time{}
	}
	return i.Time()
}

// ahead is an instant that is still to come; any other is the zero time.
func ahead(now, t time.Time) time.Time {
	if t.After(now) {
		return t
	}
	return time.Time{}
}
