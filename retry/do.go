package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

// Do runs fn under the policy until it succeeds, the policy gives up or the
// context ends. Each try has the policy's timeout, in policy time. The error
// is an *Error that says why it ended and wraps fn's last error; when the
// context ends it wraps the context's cause too. Do takes the policy as it is:
// policy.Enforce says whether its retries could come too soon for its target.
func Do[T any](ctx context.Context, p *policy.Policy, fn func(context.Context) (T, error), opts ...Option) (T, error) {
	if len(opts) == 0 && !countsTime(p) {
		// Nothing to prepare: a success costs little more than the call.
		v, err := limited(ctx, clock.System{}, p.Timeout, fn)
		if err == nil {
			return v, nil
		}
		l := newLoop(p, nil)
		l.start()
		return again(ctx, l, fn, v, err)
	}
	l := newLoop(p, opts)
	v, err := try(ctx, l, fn)
	if err == nil {
		return v, nil
	}
	return again(ctx, l, fn, v, err)
}

// countsTime reports whether a limit counts from the first start, so that its
// instant must be known.
func countsTime(p *policy.Policy) bool {
	for i := range p.Classes {
		if p.Classes[i].Window > 0 {
			return true
		}
	}
	return p.Window > 0
}

// Run is Do for functions without a value.
func Run(ctx context.Context, p *policy.Policy, fn func(context.Context) error, opts ...Option) error {
	_, err := Do(ctx, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) }, opts...)
	return err
}

// again decides on a failed try and goes on until there is nothing to retry.
func again[T any](ctx context.Context, l *loop, fn func(context.Context) (T, error), v T, err error) (T, error) {
	for {
		wait, stop := l.failed(ctx, err)
		if stop != nil {
			return v, stop
		}
		if slept := clock.Sleep(ctx, l.clock, wait); slept != nil {
			return v, l.ended(slept, err)
		}
		if v, err = try(ctx, l, fn); err == nil {
			return v, nil
		}
	}
}

// try makes one start: through the gate, then fn within the timeout.
func try[T any](ctx context.Context, l *loop, fn func(context.Context) (T, error)) (v T, err error) {
	if err := l.admit(ctx); err != nil {
		return v, err
	}
	l.start()
	returned := false
	defer func() {
		if !returned {
			l.abandon() // fn panicked
		}
	}()
	v, err = limited(ctx, l.clock, l.policy.Timeout, fn)
	returned = true
	if err == nil {
		l.giveBack(failure.Failure{}, true, 0)
	}
	return v, err
}

// limited calls fn for at most so long on the clock; 0 = no limit. What the
// limit cut off is a timeout, even where fn only says that it was cancelled.
func limited[T any](ctx context.Context, c clock.Clock, limit time.Duration, fn func(context.Context) (T, error)) (T, error) {
	if limit <= 0 {
		return fn(ctx)
	}
	try := clock.WithTimeout(ctx, c, limit)
	defer try.End()
	v, err := fn(try) //nolint:contextcheck // try is made of ctx
	if err != nil && ctx.Err() == nil && errors.Is(err, context.Canceled) && errors.Is(try.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return v, err
}

// Option changes how Do runs.
type Option func(*loop)

// WithClock waits on another clock than the machine's.
func WithClock(c clock.Clock) Option { return func(l *loop) { l.clock = c } }

// WithSeed makes the draws reproducible: they derive from seed, sequence and
// the number of the start.
func WithSeed(seed, sequence uint64) Option {
	return func(l *loop) { l.seed, l.sequence = seed, sequence }
}

// WithHistory continues where an earlier call ended, so that start numbers
// and their draws go on.
func WithHistory(h History) Option { return func(l *loop) { l.history = h } }

// WithPace calls wait before every start, outside the try's timeout: the seam
// for spacing between starts of a process.
func WithPace(wait func(context.Context) error) Option { return func(l *loop) { l.pace = wait } }

// WithClassifier asks c before the built-in classifiers.
func WithClassifier(c failure.Classifier) Option {
	return func(l *loop) { l.classifiers = append(l.classifiers, c) }
}

// OnDecision is called after every failed start with its verdict.
func OnDecision(f func(failure.Failure, Decision)) Option { return func(l *loop) { l.observe = f } }

// Error says why Do gave up.
type Error struct {
	Failure  failure.Failure // of the last start
	Decision Decision        // that ended it
	cause    error           // the context's, or nil
}

func (e *Error) Error() string {
	starts := e.Decision.Next.Starts
	if e.cause != nil {
		return fmt.Sprintf("retry: stopped after %d starts: %v; last error: %v", starts, e.cause, e.Failure.Err)
	}
	return fmt.Sprintf("retry: %s after %d starts: %v", e.Decision.Cause, starts, e.Failure.Err)
}

// Unwrap gives fn's last error and, where the context ended the work, its cause.
func (e *Error) Unwrap() []error {
	if e.cause != nil {
		return []error{e.cause, e.Failure.Err}
	}
	return []error{e.Failure.Err}
}

// FailureOf returns the failure that an error of Do ended with, or classifies
// any other error.
func FailureOf(err error) failure.Failure {
	var e *Error
	if errors.As(err, &e) {
		return e.Failure
	}
	return failure.Classify(err)
}

// loop is the state of one Do.
type loop struct {
	policy      *policy.Policy
	clock       clock.Clock
	seed        uint64
	sequence    uint64
	history     History
	classifiers []failure.Classifier
	observe     func(failure.Failure, Decision)
	pace        func(context.Context) error
	last        Error

	gate     *gate.Local
	verdict  gate.Verdict  // of the start under way
	admitted bool          // its permit is out
	held     time.Duration // so far, by holds that count
}

func newLoop(p *policy.Policy, opts []Option) *loop {
	l := &loop{policy: p, clock: clock.System{}, seed: rand.Uint64()}
	for _, o := range opts {
		o(l)
	}
	return l
}

func (l *loop) start() { l.history = l.history.Started(l.clock.Now()) }

// failed decides on err: how long to wait, or the error to end with.
func (l *loop) failed(ctx context.Context, err error) (time.Duration, error) {
	var held *HeldError
	if !l.admitted && errors.As(err, &held) {
		return 0, l.overHeld(held)
	}
	f := failure.Classify(err, l.classifiers...)
	if ctx.Err() != nil {
		l.giveBack(f, false, 0)
		return 0, l.ended(context.Cause(ctx), err)
	}
	if f.Class == failure.Interrupted && errors.Is(err, context.Canceled) {
		// Nobody told us to stop: fn cancelled a context of its own. Taken
		// for an interruption it would be free, at once and for ever.
		f.Class, f.Reason, f.Blame = failure.Plain, "context_canceled", failure.Plain.Blame()
	}
	d := Decide(l.policy, l.history, f, l.clock.Now(), Derive(l.seed, l.sequence, l.history.Starts))
	l.history, l.last.Failure, l.last.Decision = d.Next, f, d
	var pause time.Duration
	if d.Action == policy.PauseTarget {
		pause = d.Delay
	}
	l.giveBack(f, false, pause)
	if l.observe != nil {
		l.observe(f, d)
	}
	if !d.Action.Retries() {
		return 0, &l.last
	}
	return d.Delay, nil
}

// ended is the error of a context that ended while work was left.
func (l *loop) ended(cause, err error) error {
	l.last.cause = cause
	if l.last.Failure.Err == nil {
		l.last.Failure = failure.Classify(err, l.classifiers...)
	}
	l.last.Decision.Next = l.history
	return &l.last
}
