// Package wave answers "all together, again, gently?": after a pass over many
// items it plans the next pass over what failed, after a cooldown and with
// less load (seed 000). Next is pure; Run does the whole for any work in one
// process.
package wave

import (
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
)

// Entry is the state of one item after a pass.
type Entry struct {
	OK    bool
	Class failure.Class // of the failure, where not OK
}

// Wave is one planned pass over the items that failed.
type Wave struct {
	Number      int   // 1 and up
	Items       []int // positions in the ledger, ascending
	Cooldown    time.Duration
	Concurrency int
	Spacing     time.Duration
}

// Stop says why there is no further wave.
type Stop string

const (
	Complete  Stop = "complete"  // nothing is left
	Permanent Stop = "permanent" // only failures that no wave tries again are left
	Spent     Stop = "spent"     // the policy's waves are used up
	Cancelled Stop = "cancelled" // the context ended
)

// Next plans the wave after `done` waves, given the state of every item. It
// returns either a wave with at least one item, or the reason to stop. Each
// item of the ledger that failed in one of the policy's wave classes is in the
// wave exactly once, no other is.
func Next(p *policy.Policy, done int, ledger []Entry) (Wave, Stop) {
	var items []int
	failed := false
	for i, e := range ledger {
		if e.OK {
			continue
		}
		failed = true
		if p.Waves.Classes.Has(e.Class) {
			items = append(items, i)
		}
	}
	switch {
	case !failed:
		return Wave{}, Complete
	case len(items) == 0 && p.Waves.Count > 0:
		return Wave{}, Permanent
	case done >= p.Waves.Count:
		return Wave{}, Spent
	}
	return Wave{
		Number: done + 1, Items: items, Cooldown: p.Waves.Cooldown,
		Concurrency: p.Waves.Concurrency, Spacing: p.Waves.Spacing,
	}, ""
}

// First is the pass that precedes every wave, as a wave of number 0 without
// a cooldown.
func First(p *policy.Policy, items int) Wave {
	all := make([]int, items)
	for i := range all {
		all[i] = i
	}
	return Wave{Items: all, Concurrency: p.Concurrency, Spacing: p.Spacing}
}
