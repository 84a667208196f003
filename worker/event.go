package worker

import (
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Event is something that happened, for whoever watches.
type Event struct {
	What EventKind
	At   time.Time // policy time, as the store tells it
	// Process is the id of this process in the store.
	Process int64
	// Job is a copy without its args, but for events of the process itself. Of
	// Ended it may stand for Count jobs that are alike: then it has no number,
	// and only Kind, Queue, Target and Policy are set.
	Job job.Job
	// Failure and Decision are of Settled: zero where the job succeeded.
	Failure  failure.Failure
	Decision retry.Decision
	// To is the state that Settled and Ended left behind, Cause why, where it
	// is Failed or Parked.
	To    job.State
	Cause job.Cause
	// Untried says that what Ended had not started since it was enqueued or
	// given fresh attempts.
	Untried bool
	// Took is how long the handler ran.
	Took time.Duration
	// HeldBy is what held a Started job back before, and Held for how long it
	// did so by what max_hold counts; empty and 0 = nothing did.
	HeldBy string
	Held   time.Duration
	// Count is how many leases Reaped ended, jobs Redriven moved, Ended failed
	// or parked and Fired enqueued, and handlers that were given up and have not
	// returned when one got Stuck.
	Count int
	// Target is whose gate an event is of; queue:NAME is a queue's own.
	Target string
	// Text says why a job was Held, what Ended jobs (one of the By constants),
	// until when a gate opened or was paused, which schedule Fired, and where
	// in the store an Erred call was.
	Text string
	// Err is what went wrong in the store or in taking part.
	Err error
}

// EventKind names an event; telemetry uses it as a label.
type EventKind string

const (
	Registered EventKind = "registered" // the process is known to the store
	Claimed    EventKind = "claimed"    // a lease arrived
	Started    EventKind = "started"    // the handler begins
	Held       EventKind = "held"       // the lease goes back unspent, or waits its turn: see Text
	Settled    EventKind = "settled"    // the store has the outcome
	Refused    EventKind = "refused"    // the store refused the outcome: the lease was lost
	Stuck      EventKind = "stuck"      // the handler outlived its context by the grace
	Ordered    EventKind = "ordered"    // an operator's cancel reached the handler
	Reaped     EventKind = "reaped"     // another process was taken for dead
	Lost       EventKind = "lost"       // this process was taken for dead
	Redriven   EventKind = "redriven"   // dead letters or parked jobs were queued again
	Ended      EventKind = "ended"      // jobs were failed or parked by something else than the settle of a start: see Cause
	Fired      EventKind = "fired"      // a schedule enqueued its jobs

	Probing        EventKind = "probing"         // the job starts as the probe of an open breaker
	GateOpened     EventKind = "gate_opened"     // the breaker of a target opened, by a result of this process
	GateClosed     EventKind = "gate_closed"     // … closed: the target is well
	GatePaused     EventKind = "gate_paused"     // a target asked for a pause
	TargetDisabled EventKind = "target_disabled" // a target takes no work any more

	Erred    EventKind = "erred"    // a call of the store failed; it is made again
	Draining EventKind = "draining" // the first stop
	Stopping EventKind = "stopping" // the second: contexts end
	Stopped  EventKind = "stopped"  // nothing is left
)

// observe tells of a job: what is said of it in e, and the rest.
func (w *Worker) observe(r *run, e Event) {
	if w.config.Observe == nil {
		return
	}
	e.At, e.Process, e.Job = w.now(), r.process, r.job
	e.Job.Args = nil
	w.config.Observe(e)
}

// tell tells of the process.
func (w *Worker) tell(e Event) {
	if w.config.Observe == nil {
		return
	}
	e.At = w.now()
	if e.Process == 0 {
		e.Process = w.process.Load()
	}
	w.config.Observe(e)
}

// What ended jobs without the settle of a start.
const (
	ByDeadline = "deadline" // their own deadline passed
	ByHold     = "max_hold" // their target held them for longer than their policy allows
	ByTarget   = "disabled" // their target takes no work any more
	ByKey      = "key"      // the job ahead in their key failed, and its rule parks those behind
	ByCrash    = "crash"    // their process died
)

// EndedEvents says of jobs that the store failed or parked while they waited
// what an observer of a worker hears of them.
func EndedEvents(ended []store.EndCount) []Event {
	events := make([]Event, len(ended))
	for i, n := range ended {
		by := ByHold
		switch n.Cause {
		case job.Disabled:
			by = ByTarget
		case job.HeadFailed:
			by = ByKey
		}
		events[i] = Event{
			What: Ended, To: n.To, Cause: n.Cause, Untried: n.Untried, Count: n.Count, Target: n.Target, Text: by,
			Job: job.Job{New: job.New{Kind: n.Kind, Queue: n.Queue, Target: n.Target, Policy: n.Policy}},
		}
	}
	return events
}

// ExpiredEvents is EndedEvents of jobs whose own deadline has passed.
func ExpiredEvents(ended []store.EndCount) []Event {
	events := EndedEvents(ended)
	for i := range events {
		events[i].Text = ByDeadline
	}
	return events
}

// tellAll tells of the process, event by event.
func (w *Worker) tellAll(events []Event) {
	for _, e := range events {
		w.tell(e)
	}
}
