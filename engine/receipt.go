package engine

import (
	"context"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Receipt is a record that becomes durable with an enqueue, or not at all, and
// says what was enqueued: an idempotency key with its answer.
type Receipt struct {
	// Record is the put; store.ErrConflict refuses the enqueue if its version
	// has moved.
	Record store.Record
	// Body makes the record's body from the answers. Of a job that was there
	// already only ID and Existing are known then. It must not ask the store.
	Body func([]Enqueued) []byte
}

type receiptKey struct{}

// WithReceipt returns a context for one Enqueue of an Engine that keeps the
// receipt in its transaction.
func WithReceipt(ctx context.Context, r Receipt) context.Context {
	return context.WithValue(ctx, receiptKey{}, r)
}

// add enqueues, with the context's receipt if it has one.
func (e *Engine) add(ctx context.Context, now time.Time, jobs []job.New) ([]Enqueued, error) {
	r, ok := ctx.Value(receiptKey{}).(Receipt)
	if !ok {
		answers, err := e.store.Enqueue(ctx, now, jobs)
		return enqueuedOf(now, jobs, answers), err
	}
	answers, err := e.store.Write(ctx, now, store.Write{
		Puts: []store.Record{r.Record}, Jobs: jobs,
		Receipt: func(answers []store.Enqueued) []byte { return r.Body(enqueuedOf(now, jobs, answers)) },
	})
	return enqueuedOf(now, jobs, answers), err
}

// enqueuedOf is the answers for the jobs; of those that were there already,
// the id alone.
func enqueuedOf(now time.Time, jobs []job.New, answers []store.Enqueued) []Enqueued {
	out := make([]Enqueued, len(answers))
	for i, a := range answers {
		out[i] = Enqueued{Job: Job{ID: job.FormatID(a.Seq)}, Existing: true}
		if !a.Existing {
			out[i] = Enqueued{Job: jobOf(&job.Job{Seq: a.Seq, New: jobs[i], State: job.Queued, EnqueuedAt: store.Instant(now)})}
		}
	}
	return out
}
