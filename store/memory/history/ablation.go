package history

import (
	"time"

	"github.com/ebbhq/ebb/store/memory/internal/fault"
)

// Ablation is the core without one of the things that keep its promises. The
// zero value is the whole core.
type Ablation struct {
	Name       string
	faults     fault.Set
	leaseTime  time.Duration // instead of lease
	neverReap  bool
	noCrashCap bool // the reaper forgets earlier crashes
}

// Ablations lists what a history must notice.
func Ablations() []Ablation {
	return []Ablation{
		{Name: "stale epochs are accepted", faults: fault.Set{NoFence: true}},
		{Name: "anybody's writes are accepted", faults: fault.Set{NoHolder: true}},
		{Name: "a claim does not raise the epoch", faults: fault.Set{SameEpoch: true}},
		{Name: "a claim takes what another runs", faults: fault.Set{DoubleLease: true}},
		{Name: "leases never expire", neverReap: true},
		{Name: "leases expire too early", leaseTime: 2 * time.Second},
		{Name: "the reaper ignores a beat that moved", faults: fault.Set{IgnoreBeat: true}},
		{Name: "a reaped process stays registered", faults: fault.Set{KeepProcess: true}},
		{Name: "a reap forgets unbegun leases", faults: fault.Set{LoseLeases: true}},
		{Name: "jobs start before they are due", faults: fault.Set{NoDue: true}},
		{Name: "a retry forgets its delay", faults: fault.Set{LateDue: true}},
		{Name: "attempts are not counted", faults: fault.Set{FreeAttempts: true}},
		{Name: "crashes are not counted", faults: fault.Set{NoCrashCount: true}},
		{Name: "the crash cap is off", noCrashCap: true},
		{Name: "the ledger is written without the state", faults: fault.Set{TornLedger: true}},
		{Name: "the state is written without the ledger", faults: fault.Set{TornState: true}},
		{Name: "ties go to the newest", faults: fault.Set{NewestFirst: true}},
		{Name: "a lease that goes back loses its place", faults: fault.Set{LateRelease: true}},
		{Name: "a kept lease stays under its epoch", faults: fault.Set{KeepEpoch: true}},
		{Name: "a kept lease begins before it is due", faults: fault.Set{EarlyBegin: true}},
		{Name: "unique keys are given twice", faults: fault.Set{NoUnique: true}},
		{Name: "a strict queue has more than one slot", faults: fault.Set{NoStrict: true}},
		{Name: "a late commit is stranded by a cursor", faults: fault.Set{SkipLate: true}},
		{Name: "cancel orders are lost", faults: fault.Set{LoseOrders: true}},
		{Name: "counters drift", faults: fault.Set{DriftCounts: true}},
		{Name: "a gate is swapped whatever its version", faults: fault.Set{BlindSwap: true}},
		{Name: "a reap keeps permits", faults: fault.Set{KeepGrants: true}},
		{Name: "a blocked job can be claimed", faults: fault.Set{BlockedClaimable: true}},
		{Name: "the newest of a key is promoted", faults: fault.Set{PromoteNewest: true}},
		{Name: "a settle loses the look of its lane", faults: fault.Set{LoseLooks: true}},
	}
}
