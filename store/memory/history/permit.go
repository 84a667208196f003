package history

import (
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// callLimit is how many calls each target takes at once, in all processes.
const callLimit = 2

var (
	targets    = []string{"x", "y"}
	gateConfig = gate.Config{PerTarget: policy.PerTarget{Concurrency: callLimit}}
)

// needs is what a turn does with one target's permits.
type needs struct {
	begun   int // handlers that run, or begin in this turn
	waiting int // leases that wait for a permit
}

// learn asks for the gates anew, as after a lost answer.
func (k *worker) learn(w *world) {
	gates, err := w.store.Gates(w.ctx, targets)
	w.must("gates", err)
	k.gates = map[string]store.Gate{}
	for _, g := range gates {
		k.gates[g.Target] = g
	}
}

// free is how many handlers of the target may begin.
func (k *worker) free(target string, n *needs) int {
	g := k.gates[target]
	held := g.GrantOf(k.id)
	return held.Size() - n.begun
}

// swap brings what the worker holds of a target to what it needs, as far as
// the gate gives it. False = it is so already, or nothing is given.
func (k *worker) swap(w *world, target string, n *needs) (store.Swap, bool) {
	g := k.gates[target]
	held := g.GrantOf(k.id)
	want, now := n.begun+n.waiting, w.now()
	before := held.Firsts
	for ; held.Firsts > want; held.Firsts-- {
		g.State, _ = gate.Step(gateConfig, g.State, gate.Done{OK: true}, now, 0)
	}
	for ; held.Firsts < want; held.Firsts++ {
		next, v := gate.Step(gateConfig, g.State, gate.Ask{}, now, 0)
		if !v.Admit {
			break
		}
		g.State = next
	}
	if held.Firsts == before {
		return store.Swap{}, false
	}
	g.SetGrant(held)
	g.Room = callLimit - g.State.InFlight
	if g.OpenAt = (time.Time{}); !w.calm && w.chance(50) { // as after a Retry-After
		g.OpenAt = store.Instant(now.Add(w.upTo(10 * time.Second)))
	}
	old := k.gates[target]
	return store.Swap{Gate: g, Wake: old.Room <= 0 || !g.OpenAt.Equal(old.OpenAt)}, true
}

// swapped follows the answers to a turn's swaps.
func (k *worker) swapped(t store.Turn, answer store.Turned) {
	for i, sw := range t.Swaps {
		if answer.Swapped[i] {
			sw.Version++
			k.gates[sw.Target] = sw.Gate
		}
	}
	for _, g := range answer.Gates {
		k.gates[g.Target] = g
	}
}
