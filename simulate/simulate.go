// Package simulate answers "what would happen?": it runs production policies
// against modelled downstreams on virtual time, with the same retry, gate,
// wave and dispatch code that production runs.
//
// A Scenario is composed of callers, which have arrivals and a policy, and of
// downstreams, which have servers, queues, faults and limits. Run plays it
// once for each seed. Nothing is drawn, limited, delayed, gated or retried
// unless the scenario says so; a zero field means "none" or is documented.
//
// The kernel is a heap of typed events on virtual time in whole nanoseconds.
// It has no goroutine, reads no clock and owns no global randomness: the same
// scenario and seed give the same result, byte for byte in JSON. Memory does
// not grow with the number of events, only with what is in the system at once.
//
// DESIGN.md beside this file states the model exactly: order of simultaneous
// events, tie-breaks, and the definition of every measure.
package simulate

import (
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
)

// Scenario is one experiment. Paths of FieldErrors are the fields in snake
// case: "callers[0].arrivals[1].rate".
type Scenario struct {
	// Name identifies the scenario in results.
	Name string
	// About says in a sentence what it shows. It changes nothing.
	About string
	// Seed is the first seed; seed i of a run of n is Seed + i. 0 is a seed.
	Seed uint64
	// Origin is the instant of virtual time 0, for comparison with a real
	// worker. Zero = 2000-01-01T00:00:00Z.
	Origin time.Time

	// Length says when arrivals end and whether work then drains.
	Length Length
	// WarmUp is how much of the beginning is discarded: integrals and
	// counters of what happens start then, jobs that arrived before do not
	// count among jobs. 0 = nothing is discarded.
	WarmUp time.Duration
	// Bucket is the width of the series' buckets, doubled whenever more than
	// MaxBuckets would be needed. 0 = 1 s.
	Bucket time.Duration
	// Recovery is what "recovered" means here; the zero value is documented
	// at its fields.
	Recovery Recovery

	Callers     []Caller
	Downstreams []Downstream
}

// MaxBuckets bounds every series: its bucket width doubles instead.
const MaxBuckets = 600

// Length says when a run ends. Time or Jobs is needed, unless every arrival
// ends by itself (a batch, a trace); with both the earlier ends the arrivals.
type Length struct {
	// Time is when arrivals end. 0 = not by time.
	Time time.Duration
	// Jobs is the number of jobs of all callers after which no more arrive,
	// warm-up included. 0 = not by number.
	Jobs int64
	// End says what happens to the work in the system when the arrivals end
	// by Length: "" and Cut stop the run there, Drain lets all of it end.
	// Where every arrival ends by itself and nothing of Length is reached,
	// the run goes on until nothing is left to happen.
	End End
	// MaxTime cuts a run that drains. 0 = no limit.
	MaxTime time.Duration
}

// End is what happens when the arrivals have ended.
type End string

const (
	Cut   End = "cut"   // the run stops at that instant
	Drain End = "drain" // the run goes on until no work is left
)

// Recovery defines "time to recover": see DESIGN.md.
type Recovery struct {
	// BeganAt and EndedAt are the first and the last instant of the
	// disturbance. Both 0 = computed: the earliest beginning and the latest
	// end of all faults and of all curves that change.
	BeganAt, EndedAt time.Duration
	// Share is how much of the success share before the disturbance a bucket
	// must reach. 0 = 0.9.
	Share float64
	// For is how long every bucket must be good. 0 = until the run's end.
	For time.Duration
}

// Options say how a scenario is run; none changes what one seed gives.
type Options struct {
	// Seeds is the number of independent runs. 0 = 1.
	Seeds int
	// Parallel is the number of runs at a time, each on its own goroutine.
	// 0 = 1. Results are merged in the order of seeds.
	Parallel int
	// Trace is called for every start and its end, in order, if not nil. It
	// needs Seeds ≤ 1.
	Trace func(Event)
	// Progress is called with the number of runs done, never concurrently.
	Progress func(done, seeds int)
	// MaxEvents ends a run with an error, as a guard against a scenario that
	// never ends. 0 = no limit.
	MaxEvents int64
}

// EventKind is what a trace tells.
type EventKind string

const (
	Arrived EventKind = "arrived" // a job arrived (was enqueued)
	Started EventKind = "started" // a start began
	Ended   EventKind = "ended"   // a start ended; the decision is in it
	Parked  EventKind = "parked"  // it was held too long and waits for its target, off the queue
	Finish  EventKind = "finish"  // the job ended
)

// Event is one step of a job, for comparison with a real worker.
type Event struct {
	Kind   EventKind
	At     time.Duration // virtual time
	Caller string        // or "downstream/dependency" inside a layer
	Job    int64         // sequence, 1 and up in the order of arrival at the caller
	Start  int           // number of the start, 1 and up; 0 for Arrived
	Target string
	Wave   int // the wave of the start; 0 = the first pass

	OK    bool          // of Ended and Finish
	Class failure.Class // of a failed start, or the last one of a failed job
	// Status is the HTTP status of a failed start, 0 for none.
	Status int
	Action policy.Action // of Ended: what was decided; empty where OK
	Cause  retry.Cause   // why the job ended; empty where OK or not ended
	Delay  time.Duration // of Ended: before the next start
}
