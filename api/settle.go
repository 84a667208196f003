package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/worker"
)

// stale answers for a lease that is over.
func stale(ref LeaseRef, why error) LeaseAnswer {
	return LeaseAnswer{
		LeaseRef: ref, Code: "stale",
		Error: fmt.Sprintf("lease: job %s, epoch %d: the lease is over: %v; stop working on it, nothing was changed", ref.ID, ref.Epoch, why),
	}
}

func refusedLease(ref LeaseRef, code string, err error) LeaseAnswer {
	return LeaseAnswer{LeaseRef: ref, Code: code, Error: fmt.Sprintf("lease: job %s, epoch %d: %v", ref.ID, ref.Epoch, err)}
}

// lease finds what the row is about, or answers for it.
func (l *Leases) lease(ctx context.Context, ref LeaseRef) (*held, LeaseAnswer) {
	h := l.find(ref)
	if h == nil {
		return nil, stale(ref, l.past(ctx, ref))
	}
	if err := may(ctx, access.Work, h.job.Queue); err != nil {
		return nil, refusedLease(ref, "forbidden", err)
	}
	return h, LeaseAnswer{LeaseRef: ref, OK: true}
}

var errNotHere = errors.New("this server has given no such lease")

// past tells what became of a lease, if the principal may know.
func (l *Leases) past(ctx context.Context, ref LeaseRef) error {
	seq, err := job.ParseID(ref.ID)
	if err != nil {
		return errNotHere
	}
	j, err := l.store.Job(ctx, seq)
	if err != nil || may(ctx, access.Work, j.Queue) != nil {
		return errNotHere
	}
	rows, err := l.store.Attempts(ctx, seq)
	if err != nil {
		return errNotHere
	}
	for _, a := range rows {
		switch {
		case a.Epoch != ref.Epoch:
		case a.OK:
			return fmt.Errorf("its start %d was settled and succeeded; the job is %s", a.Start, j.State)
		default:
			return fmt.Errorf("its start %d ended with %s (%s); the job is %s, epoch %d", a.Start, a.Class, a.Error, j.State, j.Epoch)
		}
	}
	if j.Epoch != ref.Epoch {
		return fmt.Errorf("the job is %s and its epoch is %d", j.State, j.Epoch)
	}
	return errNotHere
}

// beat keeps leases.
func (l *Leases) beat(ctx context.Context, refs []LeaseRef) []LeaseAnswer {
	out := make([]LeaseAnswer, len(refs))
	for i, ref := range refs {
		var h *held
		if h, out[i] = l.lease(ctx, ref); h != nil {
			h.beat(time.Now())
		}
	}
	return out
}

// progress stores a report.
func (l *Leases) progress(ctx context.Context, r *ProgressReport) LeaseAnswer {
	h, out := l.lease(ctx, r.LeaseRef)
	if h == nil {
		return out
	}
	h.beat(time.Now())
	report := []byte(r.Progress)
	if len(r.ProgressBase64) > 0 {
		report = r.ProgressBase64
	}
	switch err := h.task.Progress(ctx, report); {
	case errors.Is(err, worker.ErrLeaseLost):
		return stale(r.LeaseRef, err)
	case err != nil:
		l.config.Log.Error("lease progress", "job", r.ID, "error", err)
		return refusedLease(r.LeaseRef, "unavailable", errors.New("the store could not be reached; the same again in a moment"))
	}
	return out
}

// settle ends starts. Each row is answered when the store has it.
func (l *Leases) settle(ctx context.Context, rows []Settle) []LeaseAnswer {
	out := make([]LeaseAnswer, len(rows))
	waits := make([]*held, len(rows))
	for i := range rows {
		waits[i], out[i] = l.tell(ctx, &rows[i])
	}
	for i, h := range waits {
		if h == nil {
			continue
		}
		select {
		case out[i] = <-h.saved:
		case <-ctx.Done():
			out[i] = refusedLease(rows[i].LeaseRef, "unavailable", errors.New("the outcome is known here, but not saved yet"))
		}
	}
	return out
}

// tell gives one outcome to its handler; nil where the row is answered.
func (l *Leases) tell(ctx context.Context, s *Settle) (*held, LeaseAnswer) {
	h, out := l.lease(ctx, s.LeaseRef)
	if h == nil {
		return nil, out
	}
	err, bad := s.outcome()
	if bad != nil {
		return nil, refusedLease(s.LeaseRef, "invalid", bad)
	}
	if err == nil {
		result := []byte(s.Result)
		if len(s.ResultBase64) > 0 {
			result = s.ResultBase64
		}
		h.task.SetResult(result)
	}
	if !h.tell(err) {
		return nil, stale(s.LeaseRef, errors.New("it is being settled by an earlier request"))
	}
	return h, out
}

// outcome is what the handler returns; bad says what makes no sense.
func (s *Settle) outcome() (err, bad error) {
	f := s.Failure
	switch {
	case f == nil:
		return nil, nil
	case len(s.Result) > 0 || len(s.ResultBase64) > 0:
		return nil, errors.New("result and failure: give one")
	case f.Status != 0 && (f.Status < 300 || f.Status > 599):
		return nil, fmt.Errorf("status %d: must be 300 to 599", f.Status)
	case !span(f.RetryAfter) || !span(f.Snooze):
		return nil, errors.New("retry_after_s and snooze_s: must be 0 or more seconds, up to a year")
	case f.Order == "snooze":
		return f.snoozed()
	}
	failed := failure.Of(failure.Plain)
	if f.Status != 0 {
		failed = failure.Status(f.Status)
	}
	if f.Class != "" {
		class, err := failure.ParseClass(f.Class)
		if err != nil || class == failure.Unknown {
			return nil, fmt.Errorf("class %q: must be one of %v", f.Class, failure.Classes())
		}
		failed = failure.Of(class)
		failed.Status = f.Status
	}
	failed.Reason, failed.RetryAfter = f.Reason, seconds(f.RetryAfter)
	if f.Error != "" {
		failed.Err = errors.New(f.Error)
	}
	err = &failure.Error{Failure: failed}
	switch f.Order {
	case "":
		return err, nil
	case "fail":
		return failure.Fatal(err), nil
	case "park":
		return failure.Park(err), nil
	}
	return nil, fmt.Errorf("order %q: must be fail, park or snooze", f.Order)
}

// snoozed is the outcome of a start that comes back later. Nothing failed then:
// what a target did wrong waits by the policy, and no sooner.
func (f *LeaseFailure) snoozed() (err, bad error) {
	if f.Class != "" || f.Status != 0 || f.RetryAfter != 0 {
		return nil, errors.New("order snooze: says that nothing failed; leave class, status and retry_after_s out, or leave the order out and let the policy decide")
	}
	return failure.Snooze(seconds(f.Snooze)), nil
}

func span(s float64) bool { return s >= 0 && s <= 366*24*3600 }

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }
