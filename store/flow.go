package store

import (
	"context"
	"math"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
)

// Flow is what work with a target, a key, a limited queue or a schedule needs
// beyond the queue. Plain work never touches it. FLOW.md tells the whole.
type Flow interface {
	Gates
	Limiter
	Holds
	Periodics
}

// NoLimit is the Room of a gate that limits nothing.
const NoLimit = math.MaxInt32

// LaneRest is how long a lane rests from discovery after a claim that left
// due jobs behind: meanwhile whoever claimed them serves it by name.
const LaneRest = time.Second

// QueueTarget names the gate of a queue with limits of its own. Targets of
// jobs may not begin so.
func QueueTarget(queue string) string { return QueuePrefix + queue }

// QueuePrefix begins the names of the gates of queues.
const QueuePrefix = "queue:"

// Gate is the row of one target. It changes only by a Swap.
type Gate struct {
	Target  string
	Version int64 // counts swaps; 0 = there is no row yet
	State   gate.State
	Grants  []Grant // permits out, by process, in its order; none of size 0
	// OpenAt is when discovery may look at the target's lanes again; zero =
	// now, Never = not before a swap.
	OpenAt time.Time
	// Room is how many more permits the gate would give; discovery passes a
	// target over whose room is 0. NoLimit = any number.
	Room     int
	Disabled string // why the target takes no work at all; empty = it does
	Policy   string // the policy whose limits were applied last, for people
}

// Never is an OpenAt that time does not bring.
var Never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Grant is what one process holds of a gate.
type Grant struct {
	Process int64
	Firsts  int
	Retries int
	Probe   bool
}

// Size is the number of permits.
func (g Grant) Size() int { return g.Firsts + g.Retries }

// Swap replaces a gate, if its version is still Gate.Version: the one that
// the new content was made from. The row then has the next version.
type Swap struct {
	Gate
	// Wake makes the target's lanes be looked at from OpenAt on, whatever
	// they rested for.
	Wake bool
}

// LaneClaim asks for jobs of lanes, as leases that have not begun but for the
// first Begin of them: a lane's job starts when its gate gives it a permit.
//
// With a Target it is that lane's alone, whatever its gate says. Without, it
// discovers: of the lanes whose time has come, that no gate keeps shut, the
// ones that have waited longest.
type LaneClaim struct {
	Queue   string
	Kinds   []string
	Target  string
	Lanes   int // most lanes; discovery only
	Firsts  int // most first attempts of each lane
	Retries int // most retries of each lane
	Limit   int // most in all
	Begin   int // with a Target: so many of the claimed are begun
	// Known is the version of the Target's gate that the caller has: while the
	// gate has it still, the answer leaves it out. 0 = none.
	Known int64
}

// LaneName names a lane: its target may be a queue's (QueueTarget).
type LaneName struct{ Queue, Target string }

// LaneHold keeps a lane, or its retries alone, from discovery until an
// instant: the gate holds them, and a look would only claim and give back.
type LaneHold struct {
	Queue   string
	Target  string
	Retries bool // retries alone; else the whole lane
	Until   time.Time
}

// Lane is what waits for a target in a queue.
type Lane struct {
	Queue   string
	Target  string
	Firsts  int       // queued first attempts, counted up to the asker's limit
	Retries int       // queued retries, counted up to it too
	LookAt  time.Time // when discovery looks at it next; zero = nothing waits
}

// Gates keeps what guards targets.
type Gates interface {
	// Gates returns the rows of the targets, in their order; a target without
	// a row is answered with version 0 and Room NoLimit.
	Gates(ctx context.Context, targets []string) ([]Gate, error)
	// Targets lists, by name, the targets above after that have a gate or
	// waiting work.
	Targets(ctx context.Context, after string, limit int) ([]Gate, error)
	// Lanes lists the lanes of a target with what waits in each, counted up to
	// limit.
	Lanes(ctx context.Context, target string, limit int) ([]Lane, error)
	// LanesOf is Lanes of several targets in one question, in their order.
	LanesOf(ctx context.Context, targets []string, limit int) ([][]Lane, error)
	// SwapGate swaps one gate by an operator's order and writes the audit row;
	// false, and no row, if the version has moved.
	SwapGate(ctx context.Context, now time.Time, order AuditRow, s Swap) (bool, error)
}

// QueueLimit bounds a queue over all processes; zero parts do not.
type QueueLimit struct {
	Concurrency int
	Rate        float64 // starts a second
}

// Limiter holds back queues and kinds.
type Limiter interface {
	// LimitQueue bounds a queue. From then on its jobs without a target wait
	// in the lane of QueueTarget(queue); the zero limit ends that.
	LimitQueue(ctx context.Context, now time.Time, actor, queue string, l QueueLimit) error
	// PauseKind starts nothing of a kind until it is resumed.
	PauseKind(ctx context.Context, now time.Time, actor, kind string, paused bool) error
	// PausedKinds lists them by name.
	PausedKinds(ctx context.Context) ([]string, error)
}

// Ending selects queued jobs of a target that will not start: they were held
// too long, or the target is disabled.
type Ending struct {
	Target string
	Policy string    // only of this one; empty = of any
	DueBy  time.Time // due at or before
	// Retries selects retries, else first attempts; with Any both.
	Retries bool
	Any     bool
	// Seqs, if not empty, selects these alone; else jobs that were held before
	// (History.Held over 0) are left out: their time is shorter.
	Seqs  []int64
	To    job.State // Failed or Parked
	Cause job.Cause
	Limit int
}

// Holds ends work that was held too long.
type Holds interface {
	// EndWaiting ends up to Limit of the selected jobs and counts them.
	EndWaiting(ctx context.Context, now time.Time, e Ending) ([]EndCount, error)
	// HeldBefore lists up to limit queued jobs of the target whose
	// History.Held is over 0, by sequence above after.
	HeldBefore(ctx context.Context, target string, after int64, limit int) ([]job.Job, error)
}

// Periodic is a schedule that enqueues a job at its times, once for all
// processes.
type Periodic struct {
	Name   string
	Cron   string // five fields, or @hourly and the like
	Zone   string // IANA name; empty = UTC
	Missed job.Missed
	Job    job.New
	NextAt time.Time // the next time to fire
	LastAt time.Time // the last one fired; zero = none yet
}

// Periodics keeps schedules.
type Periodics interface {
	// PutPeriodic adds a schedule, or replaces the one of its name; where Cron
	// and Zone are what they were, NextAt and LastAt stay.
	PutPeriodic(ctx context.Context, now time.Time, actor string, p Periodic) error
	// DropPeriodic forgets it; ErrNotFound if there is none.
	DropPeriodic(ctx context.Context, now time.Time, actor, name string) error
	// Periodics lists all by name.
	Periodics(ctx context.Context) ([]Periodic, error)
	// Fire enqueues the jobs and moves NextAt from one instant to the next, in
	// one transaction. False, and nothing is done, if NextAt was not from.
	Fire(ctx context.Context, now time.Time, name string, from, to time.Time, jobs []job.New) (bool, error)
}
