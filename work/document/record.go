package document

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/document/model"
	"github.com/ebbhq/ebb/work/document/normalise"
)

// Kinds of records.
const (
	rowKind      = "document"          // by id; ref = batch
	batchKind    = "document.batch"    // by id
	pipelineKind = "document.pipeline" // by hash
	rawKind      = "document.raw"      // by document: what broke its schema
	usageKind    = "document.usage"    // one a call; ref = day; folded into days
	dayKind      = "document.day"      // by day, provider and model
	paceKind     = "document.pace"     // by provider
)

// row is what is remembered of a document.
type row struct {
	Batch       string    `json:"batch"`
	Pipeline    string    `json:"pipeline"`
	Model       string    `json:"model"` // PROVIDER/MODEL, as the pipeline says
	Input       Object    `json:"input"`
	Output      Object    `json:"output"`
	SubmittedAt time.Time `json:"submitted_at"`
	Job         string    `json:"job,omitempty"`

	// Answer is what a model said, kept until it is worked off.
	Answer     *answer          `json:"answer,omitempty"`
	DoneAt     time.Time        `json:"done_at,omitzero"`
	Calls      int              `json:"calls,omitempty"` // that a model answered
	Usage      model.Usage      `json:"usage,omitzero"`
	Cost       money            `json:"cost,omitempty"`
	Normalised []normalise.Step `json:"normalised,omitempty"`
	Invalid    string           `json:"invalid,omitempty"`    // why the last answer was refused
	RefusedBy  int              `json:"refused_by,omitempty"` // the start that did
	Raw        int              `json:"raw,omitempty"`        // bytes kept of it
	Bytes      int              `json:"bytes,omitempty"`      // of the result
}

// answer is what a model said, as it is kept.
type answer struct {
	Text    string `json:"text"`
	Model   string `json:"model,omitempty"`
	Request string `json:"request,omitempty"` // the provider's id
	Problem string `json:"problem,omitempty"`
}

func body(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("document: a record cannot be written: %v", err)) // plain values of our own
	}
	return b
}

// errCorrupt is of a record that is not ours to read.
func errCorrupt(kind, id string, err error) error {
	return failure.New(failure.InvalidInput, "corrupt_metadata", fmt.Errorf("document: record %s %s: %w", kind, id, err))
}

// load reads a record; version 0 if there is none.
func load[T any](ctx context.Context, s *Service, kind, id string) (T, int64, error) {
	var v T
	r, err := s.store.Record(ctx, kind, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return v, 0, nil
	case err != nil:
		return v, 0, ourFault(fmt.Errorf("document: %w", err))
	}
	if err := json.Unmarshal(r.Body, &v); err != nil {
		return v, r.Version, errCorrupt(kind, id, err)
	}
	return v, r.Version, nil
}

// patience is how a write is tried again within a start: what was paid for is
// not thrown away for a database that is busy for a moment.
var patience = policy.Policy{
	Attempts: 6,
	Backoff: policy.Backoff{
		Base: 100 * time.Millisecond, Factor: 2, Cap: 2 * time.Second,
		Jitter: policy.Jitter{Kind: policy.JitterEqual},
	},
}

// save writes, again where the database cannot for a moment. ErrConflict is
// the caller's.
func (s *Service) save(ctx context.Context, w store.Write) error {
	_, err := retry.Do(ctx, &patience, func(ctx context.Context) (struct{}, error) {
		err := s.scribe.write(ctx, w)
		if errors.Is(err, store.ErrConflict) {
			err = failure.Fatal(err)
		}
		return struct{}{}, err
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrConflict):
		return err
	}
	return ourFault(fmt.Errorf("document: write: %w", err))
}

// maxRaces bounds how often a row that others change is read again.
const maxRaces = 8

// update changes a row that nobody else changed meanwhile. change returns what
// is written with it.
func (s *Service) update(ctx context.Context, id string, r *row, version *int64, change func(r *row) store.Write) error {
	for range maxRaces {
		w := change(r)
		w.Puts = append(w.Puts, store.Record{Kind: rowKind, ID: id, Ref: r.Batch, Version: *version, Body: body(r)})
		err := s.save(ctx, w)
		if err == nil {
			*version++
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		var fresh row
		if fresh, *version, err = load[row](ctx, s, rowKind, id); err != nil {
			return err
		}
		if *version == 0 {
			return errCorrupt(rowKind, id, store.ErrNotFound)
		}
		*r = fresh
	}
	return failure.New(failure.Unavailable, "row_contended", fmt.Errorf("document: %s: others change its row all the time", id))
}
