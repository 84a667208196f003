package store

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
)

// SuspectCrashes is the number of crashes since the last progress from which
// on a claim does not begin a job: it runs one at a time per process.
const SuspectCrashes = 2

// Prepare checks one job to be enqueued and fills its defaults, the same in
// every store. now must not be zero.
func Prepare(now time.Time, n job.New) (job.New, error) {
	if n.Kind == "" {
		return n, fmt.Errorf("store: enqueue: the kind is empty; name the handler")
	}
	if n.Priority < 0 || n.Priority > job.MaxPriority {
		return n, fmt.Errorf("store: enqueue: %s: priority %d is out of range; 0 to %d", n.Kind, n.Priority, job.MaxPriority)
	}
	for _, f := range []struct{ name, text string }{
		{"kind", n.Kind},
		{"queue", n.Queue},
		{"target", n.Target},
		{"key", n.Key},
		{"unique", n.Unique},
		{"policy", n.Policy},
		{"batch", n.Batch},
		{"trace", n.Trace},
	} {
		if !utf8.ValidString(f.text) || strings.ContainsRune(f.text, 0) {
			return n, fmt.Errorf("store: enqueue: %s %q: must be UTF-8 without zero bytes; only args are opaque", f.name, f.text)
		}
	}
	if n.Queue == "" {
		n.Queue = job.DefaultQueue
	}
	if err := prepareFlow(&n); err != nil {
		return n, err
	}
	if n.Policy == "" {
		n.Policy = policy.DefaultName
	}
	if n.DueAt.IsZero() {
		n.DueAt = Instant(now)
	} else {
		n.DueAt = Due(n.DueAt, 0)
	}
	n.DeadlineAt = Instant(n.DeadlineAt)
	return n, nil
}

// CheckSettles refuses what the one table of transitions does not hold. A
// store calls it before it writes anything.
func CheckSettles(settles []Settle) error {
	for i := range settles {
		s := &settles[i]
		if !job.Allowed(job.Running, s.To, s.Cause) {
			return fmt.Errorf("store: settle: %s: from running to %q with cause %q: %w", job.FormatID(s.Seq), s.To, s.Cause, ErrState)
		}
		if s.Keep && s.To != job.Queued {
			return fmt.Errorf("store: settle: %s: to %q with the lease kept: only a job that is tried again keeps it: %w", job.FormatID(s.Seq), s.To, ErrState)
		}
		if !s.DueAt.IsZero() && (s.To != job.Queued || s.Keep || s.Delay != 0) {
			return fmt.Errorf("store: settle: %s: to %q with a due time: only a job that is tried again at once goes back to its place: %w", job.FormatID(s.Seq), s.To, ErrState)
		}
	}
	return nil
}

// DueAgain is when a job is due that is settled to queued.
func DueAgain(now time.Time, s *Settle) time.Time {
	if !s.DueAt.IsZero() {
		return Instant(s.DueAt)
	}
	return Due(now, s.Delay)
}

// CheckRedrive refuses a redrive of anything but dead letters or parked jobs.
func CheckRedrive(f Filter) error {
	if f.State != job.Failed && f.State != job.Parked {
		return fmt.Errorf("store: redrive: state %q: only failed and parked jobs can be queued again: %w", f.State, ErrState)
	}
	return nil
}

// Requeued is the history of a failed or parked job that is queued again: the
// starts are remembered, everything else begins anew. One that was parked
// because its target was down goes on where it was, since it did not fail:
// spent attempts stay spent. Only the time that it was held begins anew.
func Requeued(h retry.History, cause job.Cause) retry.History {
	if cause == retry.CauseTargetDown {
		h.Held = 0
		return h
	}
	return retry.History{Starts: h.Starts}
}

// Recorded is the ledger's row of a settle that was applied: the lease's own
// numbers, instants cut, texts made storable, due set where the job waits. Of
// a start that succeeded only process, times, what held it, and the policy's
// version are kept.
func Recorded(s Settle, process int64, due time.Time) job.Attempt {
	a := *s.Attempt
	a.Seq, a.Epoch, a.Process, a.DueAt = s.Seq, s.Epoch, process, due
	a.StartedAt, a.EndedAt = Instant(a.StartedAt), Instant(a.EndedAt)
	a.HeldBy = Text(a.HeldBy)
	if a.OK {
		return job.Attempt{
			Seq: a.Seq, Start: a.Start, Epoch: a.Epoch, Process: a.Process, StartedAt: a.StartedAt, EndedAt: a.EndedAt,
			OK: true, HeldBy: a.HeldBy, Held: a.Held, Version: a.Version,
		}
	}
	a.Reason, a.Error, a.Stack = Text(a.Reason), Text(a.Error), Text(a.Stack)
	return a
}

// Text makes any text storable: UTF-8 without zero bytes. A handler's error
// may hold whatever a target sent, and must not fail its settle.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Matches reports whether the filter selects the job.
func (f *Filter) Matches(j *job.Job) bool {
	at := j.EndedAt
	if j.State.Live() {
		at = j.EnqueuedAt
	}
	return selects(f.State, j.State) && selects(f.Cause, j.Cause) && selects(f.Kind, j.Kind) && selects(f.Queue, j.Queue) &&
		selects(f.Target, j.Target) && selects(f.Batch, j.Batch) && selects(f.Class, j.LastClass) &&
		selects(f.Fingerprint, j.Fingerprint) &&
		(f.Since.IsZero() || !at.Before(f.Since)) &&
		(f.Until.IsZero() || at.Before(f.Until)) &&
		j.Seq >= f.From &&
		(strings.Contains(j.Key, f.Key) || strings.Contains(j.Unique, f.Key)) &&
		(len(f.Seqs) == 0 || slices.Contains(f.Seqs, j.Seq))
}

// selects reports whether a part of a filter matches; its zero value matches
// everything.
func selects[T comparable](part, value T) bool {
	var all T
	return part == all || part == value
}
