package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Enqueue adds the jobs, all or none.
func (e *Engine) Enqueue(ctx context.Context, jobs ...NewJob) ([]Enqueued, error) {
	if len(jobs) == 0 {
		return nil, invalid("enqueue: no jobs given")
	}
	now, err := e.now(ctx)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	prepared := make([]job.New, len(jobs))
	for i := range jobs {
		if prepared[i], err = jobs[i].prepare(now); err != nil {
			return nil, err
		}
	}
	out, err := e.add(ctx, now, prepared)
	if errors.Is(err, ErrTaken) {
		return nil, &takenError{text: takenWords(err)}
	}
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	for i := range out {
		if out[i].Existing {
			if out[i].Job, err = e.Job(ctx, out[i].ID); err != nil {
				return nil, fmt.Errorf("enqueue: %w", err)
			}
		}
	}
	return out, nil
}

// prepare checks a job and fills its defaults.
func (n *NewJob) prepare(now time.Time) (job.New, error) {
	if err := n.checkNames(); err != nil {
		return job.New{}, err
	}
	args := []byte(n.Args)
	switch {
	case len(n.Args) > 0 && len(n.ArgsBase64) > 0:
		return job.New{}, invalid("enqueue: %s: args and args_base64: give one", n.Kind)
	case len(n.ArgsBase64) > 0:
		args = n.ArgsBase64
	case len(n.Args) > 0 && !isJSON(n.Args):
		return job.New{}, invalid("enqueue: %s: args are not JSON", n.Kind)
	}
	unique, err := secondsOf(n.UniqueFor)
	if err != nil {
		return job.New{}, invalid("enqueue: %s: unique_for_s %v: %v", n.Kind, n.UniqueFor, err)
	}
	prepared, err := store.Prepare(now, job.New{
		Kind: n.Kind, Queue: n.Queue, Target: n.Target, Key: n.Key, KeyRule: unless(n.KeyRule, "block"),
		Unique: n.Unique, UniqueScope: unless(n.UniqueScope, "everywhere"), UniqueFor: unique, Conflict: unless(n.OnConflict, "keep"),
		Policy: n.Policy, Priority: n.Priority,
		DueAt: n.DueAt, DeadlineAt: n.DeadlineAt, Batch: n.Batch, Args: args, Trace: n.Trace,
	})
	if err != nil {
		return prepared, &invalidError{text: trimmed(err)}
	}
	if prepared.DueAt.Unix() < 0 {
		return prepared, invalid("enqueue: %s: due_at %s: must be in 1970 or later; leave it out for now", n.Kind, prepared.DueAt.Format(time.RFC3339))
	}
	if at := prepared.DeadlineAt; !at.IsZero() && at.Before(prepared.DueAt) {
		return prepared, invalid("enqueue: %s: deadline %s is before the due time %s: it could never start",
			n.Kind, at.Format(time.RFC3339), prepared.DueAt.Format(time.RFC3339))
	}
	return prepared, nil
}

// unless is the word, empty where it is the one of the default.
func unless[T ~string](word, standard T) T {
	if word == standard {
		return ""
	}
	return word
}

// secondsOf reads a duration in seconds.
func secondsOf(s float64) (time.Duration, error) {
	const most = 100 * 365 * 24 * 3600
	if !(s >= 0 && s <= most) {
		return 0, errors.New("must be 0 or more seconds, up to 100 years")
	}
	return time.Duration(s * float64(time.Second)), nil
}

// takenWords names the key and the job that holds it.
func takenWords(err error) string {
	text := strings.TrimPrefix(trimmed(err), "enqueue: ")
	return "enqueue: the unique key " + strings.TrimSuffix(text, ": "+ErrTaken.Error())
}

// takenError is an ErrTaken that names the key and the job that holds it.
type takenError struct{ text string }

func (e *takenError) Error() string { return e.text }
func (e *takenError) Unwrap() error { return ErrTaken }

// find reads the job of an id. Every error names the id.
func (e *Engine) find(ctx context.Context, id string) (job.Job, error) {
	seq, err := job.ParseID(id)
	if err != nil {
		return job.Job{}, &unknownError{text: fmt.Sprintf("job: %s: no such job: an id has %d characters out of 0-9 and a-z", id, len(job.FormatID(0)))}
	}
	j, err := e.store.Job(ctx, seq)
	if err != nil {
		return j, e.failed(id, err)
	}
	return j, nil
}

// failed names the job in an error of the store.
func (e *Engine) failed(id string, err error) error {
	if errors.Is(err, ErrNotFound) {
		return &unknownError{text: fmt.Sprintf("job: %s: no such job", id)}
	}
	return fmt.Errorf("job: %s: %w", id, err)
}

// unknownError is an ErrNotFound that says what does not exist.
type unknownError struct{ text string }

func (e *unknownError) Error() string { return e.text }
func (e *unknownError) Unwrap() error { return ErrNotFound }

// Job returns one job.
func (e *Engine) Job(ctx context.Context, id string) (Job, error) {
	j, err := e.find(ctx, id)
	if err != nil {
		return Job{}, err
	}
	return jobOf(&j), nil
}

// Attempts returns the ledger of a job.
func (e *Engine) Attempts(ctx context.Context, id string) ([]Attempt, error) {
	j, err := e.find(ctx, id)
	if err != nil {
		return nil, err
	}
	rows, err := e.store.Attempts(ctx, j.Seq)
	if err != nil {
		return nil, e.failed(id, err)
	}
	list := make([]Attempt, len(rows))
	for i := range rows {
		list[i] = attemptOf(&rows[i])
	}
	return list, nil
}

// Jobs lists from newest to oldest.
func (e *Engine) Jobs(ctx context.Context, f Filter, p Page) (Jobs, error) {
	selection, err := f.selection()
	if err != nil {
		return Jobs{}, err
	}
	bounds, err := p.bounds()
	if err != nil {
		return Jobs{}, err
	}
	limit := bounds.Limit
	bounds.Limit++ // one more tells whether another part follows
	if p.Rows > 0 && f.searches() {
		if bounds.From, err = e.store.Floor(ctx, selection, bounds.Before, f.LooksAt(p.Rows)); err != nil {
			return Jobs{}, fmt.Errorf("jobs: %w", err)
		}
	}
	rows, err := e.store.List(ctx, selection, bounds)
	if err != nil {
		return Jobs{}, fmt.Errorf("jobs: %w", err)
	}
	out := Jobs{Jobs: []Job{}}
	if len(rows) > limit {
		rows = rows[:limit]
		out.Next = rows[limit-1].ID()
	} else if bounds.From > 0 {
		out.Next = job.FormatID(bounds.From)
	}
	for i := range rows {
		out.Jobs = append(out.Jobs, jobOf(&rows[i]))
	}
	return out, nil
}

// Retry queues a failed or parked job again, or makes a waiting one due now. A
// target that breaker or Retry-After hold is called now, as the probe.
func (e *Engine) Retry(ctx context.Context, id string) (Job, error) {
	j, err := e.order(ctx, "retry", id, func(seq int64) error { return e.store.Retry(ctx, e.storeNow(), e.by(ctx), seq) })
	if err != nil {
		return j, err
	}
	j.Probe, err = e.ProbeFor(ctx, j.Target, "retry of job "+j.ID)
	return j, err
}

// Cancel ends a waiting job and orders a running one to stop.
func (e *Engine) Cancel(ctx context.Context, id string) (Job, error) {
	return e.order(ctx, "cancel", id, func(seq int64) error {
		_, err := e.store.Cancel(ctx, e.storeNow(), e.by(ctx), seq)
		return err
	})
}

// order carries out an order and returns the job as it is afterwards.
func (e *Engine) order(ctx context.Context, what, id string, do func(seq int64) error) (Job, error) {
	before, err := e.find(ctx, id)
	if err != nil {
		return Job{}, err
	}
	refused := do(before.Seq)
	if refused != nil && !errors.Is(refused, ErrState) {
		return Job{}, e.failed(id, refused)
	}
	after, err := e.find(ctx, id)
	if err != nil {
		return Job{}, err
	}
	if refused != nil {
		return jobOf(&after), &stateError{order: what, id: id, state: after.State, unique: after.Unique}
	}
	return jobOf(&after), nil
}

// stateError tells what the job's state forbids.
type stateError struct {
	order, id, unique string
	state             job.State
}

func (e *stateError) Error() string {
	text := fmt.Sprintf("%s: %s: it is %s; ", e.order, e.id, e.state)
	switch {
	case e.order == "cancel":
		return text + "only queued, running and parked jobs can be cancelled"
	case e.state == job.Failed && e.unique != "":
		return text + fmt.Sprintf("its unique key %q is taken by a living job", e.unique)
	}
	return text + "only failed, parked and queued jobs can be retried"
}

func (e *stateError) Unwrap() error { return ErrState }
