package document

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/worker"
)

// A process that dies on a document's last attempt, after the row says that it
// is done and before its job hears of it, leaves a dead letter whose work is
// done. The row is the truth: such a job is queued again, and its next start
// finds the result and settles succeeded without asking the model.

// mender is who queues them again, in the audit.
const mender = "ebb document: its result was kept"

// mendLate is how long after the end of a job its handler may still write its
// row; one that is later is found when a process starts.
const mendLate = 10 * time.Minute

// Mend queues failed jobs again whose documents are done, and returns how many.
// The first call of a process looks at all, each later one at what failed
// since the call before. A parked job is left alone: whoever releases it has
// it settled the same way.
func (s *Service) Mend(ctx context.Context) (int, error) {
	s.mending.Lock()
	defer s.mending.Unlock()
	now := s.storeNow()
	if now.IsZero() {
		var err error
		if now, err = s.store.Now(ctx); err != nil {
			return 0, fmt.Errorf("document: mend: %w", err)
		}
	}
	queues, err := s.store.Queues(ctx)
	if err != nil {
		return 0, fmt.Errorf("document: mend: %w", err)
	}
	mended := 0
	for i := range queues {
		if queues[i].Name != Queue || queues[i].Counts[job.Failed] == 0 {
			continue
		}
		if mended, err = s.mendSince(ctx, s.mendedTo); err != nil {
			return mended, err
		}
	}
	s.mendedTo = now.Add(-mendLate)
	return mended, nil
}

// mendSince mends what failed at or after an instant.
func (s *Service) mendSince(ctx context.Context, since time.Time) (int, error) {
	mended := 0
	for page := (store.Page{Limit: engine.MaxLimit}); ; {
		jobs, err := s.store.List(ctx, store.Filter{State: job.Failed, Kind: Kind, Queue: Queue, Since: since}, page)
		if err != nil {
			return mended, fmt.Errorf("document: mend: %w", err)
		}
		for i := range jobs {
			if jobs[i].Cause == retry.CauseFatal {
				continue // its handler said so, and had not done it
			}
			ok, err := s.mend(ctx, &jobs[i])
			if err != nil {
				return mended, err
			}
			if ok {
				mended++
			}
		}
		if len(jobs) < page.Limit {
			return mended, nil
		}
		page.Before = jobs[len(jobs)-1].Seq
	}
}

// mend queues a failed or parked job again if its document is done.
func (s *Service) mend(ctx context.Context, j *job.Job) (bool, error) {
	var a args
	if json.Unmarshal(j.Args, &a) != nil {
		return false, nil //nolint:nilerr // no document of ours
	}
	r, version, err := load[row](ctx, s, rowKind, a.Document)
	if version == 0 || r.DoneAt.IsZero() {
		if version > 0 {
			err = nil // a row that nobody can read is not done
		}
		return false, err
	}
	err = s.store.Retry(ctx, s.storeNow(), mender, j.Seq)
	switch {
	case errors.Is(err, store.ErrState), errors.Is(err, store.ErrNotFound):
		return false, nil // somebody else was faster
	case err != nil:
		return false, fmt.Errorf("document: mend: %s: %w", a.Document, err)
	}
	s.log.Info("document: done, but its job had failed: queued again to settle it", "document", a.Document, "job", j.ID(), "cause", j.Cause)
	return true, nil
}

// suspect hears of what may have left a job behind its document.
func (s *Service) suspect(e worker.Event) {
	switch e.What {
	case worker.Reaped, worker.Refused, worker.Stuck:
	default:
		return
	}
	select {
	case s.suspects <- struct{}{}:
	default:
	}
}
