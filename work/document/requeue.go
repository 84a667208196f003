package document

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Requeue queues failed and parked documents again, with fresh attempts. What
// a model has said and was kept is not asked again.
func (s *Service) Requeue(ctx context.Context, o Selection) (Requeued, error) {
	if s.ops == nil {
		return Requeued{}, errors.New("document: requeue: this service takes no orders")
	}
	if o.State == "" {
		o.State = string(job.Failed)
	}
	if o.State != string(job.Failed) && o.State != string(job.Parked) {
		return Requeued{}, invalidf("document: requeue: state %q: must be failed or parked", o.State)
	}
	if (len(o.IDs) == 0) == (o.Batch == "") {
		return Requeued{}, invalidf("document: requeue: name documents, or a batch")
	}
	ids := o.IDs
	if o.Batch != "" {
		var err error
		if ids, err = s.inState(ctx, o); err != nil {
			return Requeued{}, err
		}
	}
	out := Requeued{Documents: []string{}}
	for i, id := range ids {
		each := ctx
		if i < len(ids)-1 { // the last one has their provider called now, for all
			each = engine.WithoutProbe(ctx)
		}
		if err := s.requeue(each, id); err != nil {
			return out, err
		}
		out.Documents = append(out.Documents, id)
	}
	return out, nil
}

func (s *Service) inState(ctx context.Context, o Selection) ([]string, error) {
	var ids []string
	f := Filter{Batch: o.Batch, State: o.State, Limit: engine.MaxLimit}
	for {
		part, err := s.Documents(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range part.Documents {
			ids = append(ids, part.Documents[i].ID)
		}
		if f.Cursor = part.Next; f.Cursor == "" {
			return ids, nil
		}
	}
}

func (s *Service) requeue(ctx context.Context, id string) error {
	d, err := s.Document(ctx, id)
	if err != nil {
		return err
	}
	if d.State == job.Succeeded && d.Job != "" { // perhaps its job does not know
		if left, err := s.leftBehind(ctx, d.Job); err != nil || left {
			return err
		}
	}
	if d.State != job.Failed && d.State != job.Parked {
		return fmt.Errorf("document: %s: is %s: %w", id, d.State, engine.ErrState)
	}
	_, err = s.ops.Retry(ctx, d.Job)
	if !errors.Is(err, engine.ErrNotFound) {
		return err
	}
	return s.enqueueAnew(ctx, id)
}

// leftBehind mends the job of a document that is done; false if it knows.
func (s *Service) leftBehind(ctx context.Context, id string) (bool, error) {
	seq, err := job.ParseID(id)
	if err != nil {
		return false, nil //nolint:nilerr // it was never linked to one
	}
	j, err := s.store.Job(ctx, seq)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil // kept no longer
	}
	if err != nil || j.State != job.Failed && j.State != job.Parked {
		return false, err
	}
	return s.mend(ctx, &j)
}

// enqueueAnew gives a document a new job where the old one was kept no longer.
func (s *Service) enqueueAnew(ctx context.Context, id string) error {
	r, version, err := load[row](ctx, s, rowKind, id)
	if err != nil {
		return err
	}
	p, err := s.prepared(ctx, r.Pipeline)
	if err != nil {
		return err
	}
	jobs, err := s.store.Write(ctx, s.storeNow(), store.Write{Jobs: []job.New{{
		Kind: Kind, Queue: Queue, Target: p.provider, Policy: s.settings.PolicyName(p.Policy, p.provider), Batch: r.Batch,
		Unique: "document:" + id, Args: body(args{id}),
	}}})
	if err != nil {
		return fmt.Errorf("document: %s: %w", id, err)
	}
	r.Job = job.FormatID(jobs[0].Seq)
	_, err = s.store.Write(ctx, time.Time{}, store.Write{Puts: []store.Record{{Kind: rowKind, ID: id, Ref: r.Batch, Version: version, Body: body(r)}}})
	if errors.Is(err, store.ErrConflict) { // it has started: it tells itself
		return nil
	}
	return err
}
