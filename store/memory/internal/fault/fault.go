// Package fault breaks the in-memory store on purpose, one promise at a time,
// so that tests can prove that they would notice. It is internal: nothing
// outside store/memory can set a switch.
package fault

// Set is which promises are broken. The zero value breaks none.
type Set struct {
	NoFence      bool // a lease's epoch is not compared
	NoHolder     bool // neither epoch nor process is compared
	SameEpoch    bool // a claim does not raise the epoch
	NoDue        bool // a claim takes jobs before their due time
	FreeAttempts bool // a settle forgets the attempt that was spent
	NoCrashCount bool // a reap forgets the crash
	TornLedger   bool // now and then a settle writes the ledger but not the state
	TornState    bool // now and then a settle writes the state but not the ledger
	LateDue      bool // a settle to queued forgets the delay
	NewestFirst  bool // equal priority and due time: the newest goes first
	LateRelease  bool // a released job is due now instead of when it was
	NoUnique     bool // unique keys are not compared
	NoStrict     bool // a strict queue gives more than one slot
	IgnoreBeat   bool // a reap does not compare the beat
	KeepProcess  bool // a reap leaves the process registered
	LoseLeases   bool // a reap forgets the leases that had not begun
	SkipLate     bool // a claim goes by a cursor: what commits late is never seen
	LoseOrders   bool // a cancel of a running job orders nothing
	DriftCounts  bool // a cancel forgets to count
	KeepEpoch    bool // a kept lease stays under its epoch
	EarlyBegin   bool // a kept lease begins before its due time
	DoubleLease  bool // a claim that finds too little takes what another process runs

	BlindSwap        bool // a gate is replaced whatever its version
	KeepGrants       bool // a reap does not give permits back
	BlockedClaimable bool // a job behind its key's head can be claimed
	PromoteNewest    bool // the newest of a key is promoted
	LoseLooks        bool // a settle to queued brings no look
}
