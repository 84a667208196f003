package document

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

var _ Ops = (*Service)(nil)

// Providers lists those that can be asked.
func (s *Service) Providers() []string { return slices.Sorted(maps.Keys(s.providers)) }

// Batches lists from newest to oldest.
func (s *Service) Batches(ctx context.Context, limit int) ([]Batch, error) {
	limit, err := bounded(limit)
	if err != nil {
		return nil, err
	}
	list, err := s.store.Records(ctx, store.RecordFilter{Kind: batchKind, Down: true, Limit: limit})
	if err != nil {
		return nil, fmt.Errorf("document: batches: %w", err)
	}
	all := make([]Batch, len(list))
	for i := range list {
		if err := json.Unmarshal(list[i].Body, &all[i]); err != nil {
			return nil, errCorrupt(batchKind, list[i].ID, err)
		}
	}
	return all, nil
}

func bounded(limit int) (int, error) {
	if limit == 0 {
		return engine.DefaultLimit, nil
	}
	if limit < 0 || limit > engine.MaxLimit {
		return 0, invalidf("document: limit %d: must be from 1 to %d", limit, engine.MaxLimit)
	}
	return limit, nil
}

// Documents lists a batch in its order, or all from newest to oldest.
func (s *Service) Documents(ctx context.Context, f Filter) (Documents, error) {
	limit, err := bounded(f.Limit)
	if err != nil {
		return Documents{}, err
	}
	if f.State != "" && !slices.Contains(States(), job.State(f.State)) {
		return Documents{}, invalidf("document: state %q: must be one of %v", f.State, States())
	}
	out := Documents{Documents: []Document{}}
	after := f.Cursor
	for {
		list, err := s.store.Records(ctx, store.RecordFilter{Kind: rowKind, Ref: f.Batch, After: after, Down: f.Batch == "", Limit: engine.MaxLimit})
		if err != nil {
			return Documents{}, fmt.Errorf("document: list: %w", err)
		}
		part, err := s.views(ctx, list)
		if err != nil {
			return Documents{}, err
		}
		for i := range part {
			if f.State != "" && part[i].State != job.State(f.State) {
				continue
			}
			if len(out.Documents) == limit {
				out.Next = out.Documents[limit-1].ID
				return out, nil
			}
			out.Documents = append(out.Documents, part[i])
		}
		if len(list) < engine.MaxLimit {
			break
		}
		after = list[len(list)-1].ID
	}
	if f.Batch != "" && f.Cursor == "" && len(out.Documents) == 0 {
		if _, err := s.store.Record(ctx, batchKind, f.Batch); err != nil {
			return Documents{}, unknown("batch", f.Batch, err)
		}
	}
	return out, nil
}

// States lists those that a document can be in.
func States() []job.State {
	return []job.State{job.Queued, job.Running, job.Succeeded, job.Failed, job.Parked, job.Cancelled}
}

func unknown(what, id string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return &unknownError{fmt.Sprintf("document: %s %s: there is none", what, id)}
	}
	return fmt.Errorf("document: %s %s: %w", what, id, err)
}

type unknownError struct{ text string }

func (e *unknownError) Error() string { return e.text }
func (e *unknownError) Unwrap() error { return engine.ErrNotFound }

// views joins rows with their jobs.
func (s *Service) views(ctx context.Context, list []store.Record) ([]Document, error) {
	rows := make([]row, len(list))
	var seqs []int64
	for i := range list {
		if err := json.Unmarshal(list[i].Body, &rows[i]); err != nil {
			return nil, errCorrupt(rowKind, list[i].ID, err)
		}
		if seq, err := job.ParseID(rows[i].Job); err == nil {
			seqs = append(seqs, seq)
		}
	}
	jobs := map[string]*job.Job{}
	if len(seqs) > 0 {
		found, err := s.store.List(ctx, store.Filter{Seqs: seqs}, store.Page{Limit: len(seqs)})
		if err != nil {
			return nil, fmt.Errorf("document: jobs: %w", err)
		}
		for i := range found {
			jobs[found[i].ID()] = &found[i]
		}
	}
	all := make([]Document, len(list))
	for i := range list {
		j := jobs[rows[i].Job]
		if rows[i].older(j) {
			var err error
			if rows[i], _, err = load[row](ctx, s, rowKind, list[i].ID); err != nil {
				return nil, err
			}
		}
		all[i] = view(list[i].ID, &rows[i], j)
	}
	return all, nil
}

// older reports whether the job has ended since the row was read: a row is
// written before its job is settled.
func (r *row) older(j *job.Job) bool {
	if j == nil {
		return false
	}
	return j.State == job.Succeeded && r.DoneAt.IsZero() ||
		j.State == job.Failed && j.LastClass == failure.InvalidOutput && r.Invalid == ""
}

func view(id string, r *row, j *job.Job) Document {
	d := Document{
		ID: id, Batch: r.Batch, Job: r.Job, State: job.Queued, Stage: StageRead, SubmittedAt: r.SubmittedAt,
		Input: r.Input.String(), Output: r.Output.String(), Model: r.Model,
		Invalid: r.Invalid, Raw: r.Raw, Normalised: r.Normalised, Calls: r.Calls, Usage: r.Usage, Cost: r.Cost.dollars(),
	}
	if r.Answer != nil {
		d.Stage = StageValidate
	}
	switch {
	case j != nil:
		d.State, d.Cause, d.Policy, d.Attempts = j.State, j.Cause, j.Policy, j.History.Attempts
		d.EndedAt = j.EndedAt
		if j.State == job.Queued {
			d.DueAt = j.DueAt
		}
		if j.State != job.Succeeded && j.LastClass != failure.Unknown {
			d.Class, d.Error = j.LastClass.String(), j.LastError
		}
	case r.Job != "" && r.DoneAt.IsZero():
		d.State = job.Failed // its job is beyond the time that jobs are kept
	}
	if r.DoneAt.IsZero() {
		return d
	}
	d.Stage = StageDone
	if j != nil && (j.State == job.Queued || j.State == job.Running) {
		return d // its job is about to hear of it
	}
	d.State, d.Cause, d.Class, d.Error = job.Succeeded, "", "", ""
	if d.EndedAt.IsZero() {
		d.EndedAt = r.DoneAt
	}
	return d
}

// Document returns one.
func (s *Service) Document(ctx context.Context, id string) (Document, error) {
	r, err := s.store.Record(ctx, rowKind, id)
	if err != nil {
		return Document{}, unknown("document", id, err)
	}
	all, err := s.views(ctx, []store.Record{r})
	if err != nil {
		return Document{}, err
	}
	return all[0], nil
}

// Result returns the result object of a document that is done.
func (s *Service) Result(ctx context.Context, id string) (json.RawMessage, error) {
	r, version, err := load[row](ctx, s, rowKind, id)
	switch {
	case err != nil:
		return nil, err
	case version == 0:
		return nil, unknown("document", id, store.ErrNotFound)
	case r.DoneAt.IsZero():
		return nil, fmt.Errorf("document: %s: has no result yet: %w", id, engine.ErrState)
	}
	b, err := s.read(ctx, r.Output, int64(s.settings.MaxAnswer)+1)
	if err != nil {
		return nil, fmt.Errorf("document: %s: result: %w", id, err)
	}
	if !json.Valid(b) {
		return nil, fmt.Errorf("document: %s: somebody changed %s: it is no JSON", id, r.Output)
	}
	return b, nil
}

// Raw returns what is kept of an answer that was refused.
func (s *Service) Raw(ctx context.Context, id string) (RawAnswer, error) {
	r, version, err := load[RawAnswer](ctx, s, rawKind, id)
	if err != nil || version > 0 {
		return r, err
	}
	return r, unknown("raw answer of", id, store.ErrNotFound)
}

// DropRaw forgets what is kept of an answer that was refused.
func (s *Service) DropRaw(ctx context.Context, id string) error {
	if _, err := s.Raw(ctx, id); err != nil {
		return err
	}
	r, version, err := load[row](ctx, s, rowKind, id)
	if err != nil {
		return err
	}
	return s.update(ctx, id, &r, &version, func(r *row) store.Write {
		r.Raw = 0
		return store.Write{Drops: []store.Record{{Kind: rawKind, ID: id, Version: store.AnyVersion}}}
	})
}
