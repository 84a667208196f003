package job

import (
	"slices"

	"github.com/ebbhq/ebb/retry"
)

// State is where a job stands.
type State string

const (
	Queued    State = "queued"    // waits for its due time or a worker
	Running   State = "running"   // leased
	Succeeded State = "succeeded" // done
	Failed    State = "failed"    // a dead letter: kept until told otherwise
	Parked    State = "parked"    // waits for a person, a probe or a new config
	Cancelled State = "cancelled" // told not to
)

// States lists all states.
func States() []State {
	return []State{Queued, Running, Succeeded, Failed, Parked, Cancelled}
}

// Live reports whether the job may still run without being told to.
func (s State) Live() bool { return s == Queued || s == Running || s == Parked }

// Cause says why a job failed or is parked: what retry.Decide names, and what
// happens to jobs that wait.
type Cause = retry.Cause

const (
	HostLost         = retry.CauseHostLost
	Disabled   Cause = "disabled"    // parked: its target was disabled
	HeadFailed Cause = "head_failed" // parked: an earlier job of its key failed
)

// Transition is one allowed change of state. Causes lists what the change may
// name; empty means that it names none.
type Transition struct {
	From, To State
	Causes   []Cause
}

// Transitions is the one table; every store refuses what it does not hold.
var Transitions = []Transition{
	{From: Queued, To: Running},
	{From: Running, To: Succeeded},
	{From: Running, To: Queued},
	{From: Running, To: Failed, Causes: []Cause{retry.CauseFatal, retry.CauseExhausted, retry.CausePoison, retry.CauseExpired}},
	{From: Running, To: Parked, Causes: []Cause{retry.CauseConfig, retry.CauseNoProgress, retry.CauseTargetDown, HostLost}},
	{From: Queued, To: Failed, Causes: []Cause{retry.CauseExpired}},
	{From: Queued, To: Parked, Causes: []Cause{retry.CauseTargetDown, Disabled, HeadFailed}},
	{From: Queued, To: Cancelled},
	{From: Running, To: Cancelled},
	{From: Parked, To: Cancelled},
	{From: Failed, To: Queued},
	{From: Parked, To: Queued},
}

// Allowed reports whether a job may go from one state to the other for the
// cause.
func Allowed(from, to State, cause Cause) bool {
	for _, t := range Transitions {
		if t.From == from && t.To == to {
			return slices.Contains(t.Causes, cause) || len(t.Causes) == 0 && cause == retry.CauseNone
		}
	}
	return false
}
