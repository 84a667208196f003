package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// verdict is what the observer hears when the store has the settle.
type verdict struct {
	to        job.State
	why       *judgement // nil where the job succeeded, or nobody listens
	completed bool       // perhaps: in the handler's own transaction
}

type judgement struct {
	failure  failure.Failure
	decision retry.Decision
}

var errUncommitted = failure.New(failure.Plain, "not_committed",
	errors.New("the handler completed the job in a transaction and returned, but the transaction was not committed"))

// panicked is the failure of a handler that panicked. It does not wrap v: an
// order in it was not returned.
func panicked(v error) error {
	return failure.New(failure.Plain, "panic", errors.New("panic: "+v.Error()))
}

// because names what ended the handler where we ended it: its error tells a
// timeout from a stop no more than "context canceled" does. What the handler
// named or ordered itself stands.
func because(cause, err error, classifiers []failure.Classifier) error {
	if cause == nil && !errors.Is(err, context.Canceled) {
		return err
	}
	var named *failure.Error
	f := failure.Classify(err, classifiers...)
	vague := f.Class == failure.Plain || f.Class == failure.Interrupted || f.Class == failure.Timeout
	switch {
	case errors.As(err, &named) || f.Order != failure.OrderNone || !vague:
		return err
	case errors.Is(cause, ErrTimeout):
		return failure.New(failure.Timeout, "", err)
	case cause != nil:
		return failure.New(failure.Interrupted, "", err)
	}
	// Nobody told it to stop: it was a context of its own. As an interruption
	// it would be free, at once and for ever.
	return failure.New(failure.Plain, "context_canceled", err)
}

// succeeded writes the settle of a start that is done, and its ledger row.
func (r *run) succeeded(now time.Time, s *store.Settle, a *job.Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*s = store.Settle{Ref: r.ref(), To: job.Succeeded, History: r.counted(), Result: r.result, Attempt: a}
	s.History.Attempts++
	by, held := r.hold()
	*a = job.Attempt{
		HeldBy: by, Held: held,
		Seq: r.job.Seq, Start: s.History.Starts, Epoch: r.job.Epoch, Process: r.process,
		StartedAt: r.began(), EndedAt: now, OK: true, Counted: retry.CountedAttempt, Version: r.policy.Version,
	}
}

// failed decides on a start that did not succeed.
func (r *run) failed(now time.Time, err error, stack string) {
	w := r.worker
	f := failure.Classify(err, w.config.Classifiers...)
	r.mu.Lock()
	h, began := r.counted(), r.began()
	r.mu.Unlock()
	d := retry.Decide(r.policy, h, f, now, retry.Derive(w.config.Seed, uint64(r.job.Seq), h.Starts))
	s := settleOf(r.ref(), f, d, w.fingerprint)
	s.Attempt = attemptOf(&r.job, r.process, began, now, f, d)
	s.Attempt.Stack = stack
	s.Attempt.HeldBy, s.Attempt.Held = r.hold()
	r.settle, r.verdict = &s, verdict{to: s.To}
	if w.config.Observe != nil || r.entry != nil {
		r.verdict.why = &judgement{f, d}
	}
}

// cancelled ends a start that an operator cancelled.
func (r *run) cancelled(now time.Time, err error) {
	f := failure.Of(failure.Interrupted)
	f.Reason, f.Err = "cancelled", err
	r.mu.Lock()
	h, began := r.counted(), r.began()
	r.mu.Unlock()
	a := attemptOf(&r.job, r.process, began, now, f, retry.Decision{Counted: retry.CountedApart, Rule: "operator/cancel", Version: r.policy.Version, Next: h})
	a.Action = "cancel"
	a.HeldBy, a.Held = r.hold()
	r.settle = &store.Settle{Ref: r.ref(), To: job.Cancelled, History: h, Attempt: a, Fingerprint: Fingerprint(f)}
	r.verdict = verdict{to: job.Cancelled, why: &judgement{failure: f}}
}

// settleOf turns a decision into what the store does.
func settleOf(ref store.Ref, f failure.Failure, d retry.Decision, config string) store.Settle {
	s := store.Settle{Ref: ref, Cause: d.Cause, History: d.Next, Fingerprint: Fingerprint(f)}
	switch d.Action {
	case policy.Retry, policy.PauseTarget:
		s.To, s.Delay = job.Queued, d.Delay
	case policy.Park:
		s.To, s.Config = job.Parked, config
	default:
		s.To = job.Failed
	}
	return s
}

// attemptOf is the ledger's row of a start that did not succeed.
func attemptOf(j *job.Job, process int64, started, ended time.Time, f failure.Failure, d retry.Decision) *job.Attempt {
	a := &job.Attempt{
		Seq: j.Seq, Start: d.Next.Starts, Epoch: j.Epoch, Process: process,
		StartedAt: started, EndedAt: ended,
		Class: f.Class, Reason: f.Reason, Status: f.Status, RetryAfter: f.RetryAfter,
		Action: string(d.Action), Cause: d.Cause, Delay: d.Delay,
		Counted: d.Counted, Rule: d.Rule, Version: d.Version,
	}
	if f.Err != nil {
		a.Error = f.Err.Error()
	}
	return a
}

// policyOf returns the policy of a job; nil if nobody knows it.
func (w *Worker) policyOf(j *job.Job) *policy.Policy {
	if j.Policy == "" {
		return w.policies[policy.DefaultName]
	}
	return w.policies[j.Policy]
}

// unknownPolicy parks a job that nothing can judge: somebody must add the
// policy or name another.
func (w *Worker) unknownPolicy(r *run, now time.Time) {
	r.policy, r.startedAt = w.policies[policy.DefaultName], now
	r.failed(now, failure.New(failure.Config, "unknown_policy",
		fmt.Errorf("no policy %q; add it to the policy file and start the worker again, or enqueue under another", r.job.Policy)), "")
	r.settle.Attempt.Version = ""
}

// crashed decides on a lease whose process died while the handler may have
// been running. A policy that this process does not know is judged as the
// default: it may be known to whoever runs the job next.
func (w *Worker) crashed(process store.Process, now time.Time) func(job.Job) store.Settle {
	return func(j job.Job) store.Settle {
		p := w.policyOf(&j)
		if p == nil {
			p = w.policies[policy.DefaultName]
		}
		f := failure.Of(failure.Crash)
		f.Err = fmt.Errorf("process %d (pid %d on %s) died or lost the store", process.ID, process.PID, process.Host)
		h := j.History.Started(j.LeasedAt)
		d := retry.Decide(p, h, f, now, retry.Derive(w.config.Seed, uint64(j.Seq), h.Starts))
		s := settleOf(store.Ref{Seq: j.Seq, Epoch: j.Epoch}, f, d, w.fingerprint)
		s.Attempt = attemptOf(&j, process.ID, j.LeasedAt, now, f, d)
		return s
	}
}
