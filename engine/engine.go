// Package engine answers "what can be asked?": one interface, Ops, for the
// CLI, the API and the console. Engine implements it over a store; enginetest
// is the one suite of every implementation.
//
// Values are plain and JSON-friendly: ids are strings, instants RFC 3339 in
// UTC, durations seconds in fields that end in _s.
package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// Ops is everything that can be asked and ordered. Errors wrap ErrInvalid,
// ErrNotFound, ErrState or ErrTaken where the caller is at fault; any other means that
// the store could not be reached.
type Ops interface {
	// Enqueue adds the jobs, all or none, and answers in their order.
	Enqueue(ctx context.Context, jobs ...NewJob) ([]Enqueued, error)
	Job(ctx context.Context, id string) (Job, error)
	// Attempts returns the ledger of a job in the order of its starts.
	Attempts(ctx context.Context, id string) ([]Attempt, error)
	// Jobs lists from newest to oldest.
	Jobs(ctx context.Context, f Filter, p Page) (Jobs, error)
	// Why tells why a job is where it is and when it will run next.
	Why(ctx context.Context, id string) (Why, error)
	// Retry queues a failed or parked job again with fresh attempts, or makes
	// a waiting one due now. Its target is called now, as the probe, though
	// breaker or Retry-After held it.
	Retry(ctx context.Context, id string) (Job, error)
	// Cancel ends a waiting job and orders a running one to stop; the answer
	// is still running then.
	Cancel(ctx context.Context, id string) (Job, error)

	// Recent tells how the jobs that ended lately ended; without queues, those
	// of all.
	Recent(ctx context.Context, queues []string) (Recent, error)

	Queues(ctx context.Context) ([]Queue, error)
	PauseQueue(ctx context.Context, name string) (Queue, error)
	ResumeQueue(ctx context.Context, name string) (Queue, error)
	// ExplainQueue tells what is in a queue, who serves it, and why nothing
	// moves if nothing does.
	ExplainQueue(ctx context.Context, name string) (QueueExplained, error)
	// LimitQueue bounds a queue over all processes; the zero limit ends that.
	LimitQueue(ctx context.Context, name string, l QueueLimit) (Queue, error)

	// Workers lists the registered processes, oldest first.
	Workers(ctx context.Context) ([]Worker, error)

	// Kinds lists the kinds that are paused or that a live worker handles.
	Kinds(ctx context.Context) ([]Kind, error)
	// PauseKind starts nothing of a kind, in any queue, until it is resumed.
	PauseKind(ctx context.Context, kind string) (Kind, error)
	ResumeKind(ctx context.Context, kind string) (Kind, error)

	// Targets lists by name; the page's cursor is a name.
	Targets(ctx context.Context, p Page) (Targets, error)
	// Target tells all about one: what holds its work, until when, who has
	// permits, what waits.
	Target(ctx context.Context, name string) (TargetExplained, error)
	// PauseTarget starts nothing that calls the target before until; zero =
	// until it is resumed.
	PauseTarget(ctx context.Context, name string, until time.Time) (TargetExplained, error)
	// ResumeTarget ends a pause and a target's being disabled, and orders what
	// was parked for it to come back unless that is to be kept. If breaker or
	// Retry-After hold the target, it is probed too.
	ResumeTarget(ctx context.Context, name string, keepParked bool) (Resumed, error)
	// ProbeTarget lets the next call to a target that breaker or Retry-After
	// hold go out now, as the probe. ErrState if it is paused or disabled.
	ProbeTarget(ctx context.Context, name string) (Probed, error)
	// CloseTarget closes a target's breaker, ends a Retry-After, and orders what
	// was parked because it was down to come back.
	CloseTarget(ctx context.Context, name string) (Resumed, error)

	// Periodics lists the schedules by name.
	Periodics(ctx context.Context) ([]Periodic, error)
	// PutPeriodic adds a schedule or replaces the one of its name.
	PutPeriodic(ctx context.Context, p Periodic) (Periodic, error)
	DropPeriodic(ctx context.Context, name string) error

	// Dead lists dead letters from newest to oldest, or parked jobs if the
	// filter's state says so.
	Dead(ctx context.Context, f Filter, p Page) (Jobs, error)
	// Groups gathers dead letters by what went wrong, most first. With Rows a
	// filter by target, batch, key or time gathers the newest so many alone.
	Groups(ctx context.Context, f Filter, p Page) ([]Group, error)
	// Redrive orders dead letters or parked jobs to be queued again, or with
	// DryRun only counts them. The order is durable: workers carry it out,
	// and so does FinishRedrive. If it names a target or selects at most 10
	// jobs, their targets are called now, as Retry does.
	Redrive(ctx context.Context, o Order) (Redrive, error)
	// FinishRedrive sees an order through and reports progress on the way.
	// When the context ends the order stays, to be resumed by anybody.
	FinishRedrive(ctx context.Context, id string, progress func(Redrive)) (Redrive, error)
	// Redrives lists the unfinished, oldest first, then the newest done.
	Redrives(ctx context.Context, limit int) ([]Redrive, error)

	// Acts lists what was ordered and by whom, newest first.
	Acts(ctx context.Context, limit int) ([]Act, error)

	// Policies lists the policies known here.
	Policies(ctx context.Context) ([]Policy, error)
}

var (
	// ErrInvalid is returned for a question or an order that makes no sense.
	ErrInvalid = errors.New("invalid")
	// ErrNotFound is returned for what does not exist.
	ErrNotFound = store.ErrNotFound
	// ErrState is returned where the job's state forbids the order.
	ErrState = store.ErrState
	// ErrTaken is returned by an enqueue that refuses a unique key which is
	// taken.
	ErrTaken = store.ErrUnique
)

// invalid makes an ErrInvalid that says what would be right.
func invalid(format string, args ...any) error {
	return &invalidError{text: fmt.Sprintf(format, args...)}
}

type invalidError struct{ text string }

func (e *invalidError) Error() string { return e.text }
func (e *invalidError) Unwrap() error { return ErrInvalid }

// Config is how an engine asks. The zero value is ready for use.
type Config struct {
	// Clock is policy time, also what a redrive's rate is measured by;
	// nil = the store's own clock, and the machine's for waiting.
	Clock clock.Clock
	// Actor is who is named in the audit; default "unknown".
	Actor string
	// Lease is after how long without a heartbeat workers take a process for
	// dead; it must be theirs. Default 20 s.
	Lease time.Duration
}

const defaultLease = 20 * time.Second

// Engine implements Ops over a store.
type Engine struct {
	store    store.Store
	policies []policy.Policy
	byName   map[string]*policy.Policy
	clock    clock.Clock // nil = the store's own
	actor    string
	lease    time.Duration
}

var _ Ops = (*Engine)(nil)

// New returns an engine over the store. It knows the given policies, which
// must be sealed, and the presets that none of them replaces; it judges
// nothing by them, but explains. The store stays the caller's to close.
func New(s store.Store, policies []policy.Policy, c Config) *Engine {
	e := &Engine{store: s, byName: map[string]*policy.Policy{}, clock: c.Clock, actor: c.Actor, lease: c.Lease}
	if e.actor == "" {
		e.actor = "unknown"
	}
	if e.lease <= 0 {
		e.lease = defaultLease
	}
	given := map[string]bool{}
	for i := range policies {
		given[policies[i].Name] = true
	}
	e.policies = append(e.policies, policies...)
	for _, name := range policy.PresetNames() {
		if !given[name] {
			e.policies = append(e.policies, policy.MustPreset(name))
		}
	}
	for i := range e.policies {
		e.byName[e.policies[i].Name] = &e.policies[i]
	}
	return e
}

// now is the time that explanations are told in.
func (e *Engine) now(ctx context.Context) (time.Time, error) {
	if e.clock != nil {
		return store.Instant(e.clock.Now()), nil
	}
	return e.store.Now(ctx)
}

// storeNow is what the store's calls are given: zero lets it take its own.
func (e *Engine) storeNow() time.Time {
	if e.clock != nil {
		return e.clock.Now()
	}
	return time.Time{}
}

// waits is the clock that waiting is done on.
func (e *Engine) waits() clock.Clock {
	if e.clock != nil {
		return e.clock
	}
	return clock.System{}
}

// Policies lists the policies known here.
func (e *Engine) Policies(context.Context) ([]Policy, error) {
	list := make([]Policy, 0, len(e.policies))
	for i := range e.policies {
		p := &e.policies[i]
		list = append(list, Policy{Name: p.Name, Version: p.Version, Attempts: p.Attempts, Preset: policy.IsPreset(p.Name)})
	}
	return list, nil
}

// Policy is one policy that the engine knows.
type Policy struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Attempts int    `json:"attempts"` // 0 = no cap
	Preset   bool   `json:"preset"`   // its name is a preset's
}
