package document

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/document/model"
	"github.com/ebbhq/ebb/work/document/normalise"
	"github.com/ebbhq/ebb/work/document/text"
	"github.com/ebbhq/ebb/worker"
)

// Reasons of failures of a document or of an answer; those of providers are in
// package model.
const (
	ReasonUnsupported = "unsupported_extension"
	ReasonCorrupt     = "corrupt_input"
	ReasonNoText      = "no_text"
	ReasonTextSize    = "text_too_large"
	ReasonMetadata    = "corrupt_metadata"
	ReasonProvider    = "unknown_provider"
	ReasonSchema      = "schema_violation"
	ReasonUnparseable = "unparseable"
)

// args are a job's arguments.
type args struct {
	Document string `json:"document"`
}

// outcome is a job's result.
type outcome struct {
	Document string      `json:"document"`
	Output   string      `json:"output"`
	Usage    model.Usage `json:"usage"`
	Cost     float64     `json:"cost"` // dollars
}

// start is one start of a document's job.
type start struct {
	*Service
	id       string
	row      row
	version  int64
	pipeline *ready
	provider *provider
	resumed  bool // an earlier start left an answer
	number   int  // of this start, over the job's whole life
	fresh    int  // how many starts were before these attempts
}

// Handle is the worker's handler of Kind.
func (s *Service) Handle(ctx context.Context, t *worker.Task) error {
	w, err := s.begin(ctx, t.Args())
	if err != nil {
		return err
	}
	if w.row.DoneAt.IsZero() {
		if err := w.equip(ctx); err != nil {
			return err
		}
		j := t.Job()
		w.row.Job = j.ID()
		w.number, w.fresh = t.Start(), startsBefore(&j.History)
		if err := w.run(ctx); err != nil {
			return err
		}
	}
	t.SetResult(body(outcome{w.id, w.row.Output.String(), w.row.Usage, w.row.Cost.dollars()}))
	return nil
}

// startsBefore is how many starts a job had before its attempts were last made
// fresh: a redrive keeps the number of starts and forgets what they cost.
func startsBefore(h *retry.History) int {
	n := h.Starts - h.Attempts - h.Waits
	for _, free := range h.Free {
		n -= int(free)
	}
	return n
}

// begin reads what is remembered of the document.
func (s *Service) begin(ctx context.Context, given []byte) (*start, error) {
	var a args
	if err := json.Unmarshal(given, &a); err != nil || a.Document == "" {
		return nil, failure.New(failure.InvalidInput, ReasonMetadata, errors.New("document: the job's arguments name no document"))
	}
	w := &start{Service: s, id: a.Document}
	var err error
	if w.row, w.version, err = load[row](ctx, s, rowKind, w.id); err != nil {
		return nil, err
	}
	if w.version == 0 {
		return nil, errCorrupt(rowKind, w.id, store.ErrNotFound)
	}
	return w, nil
}

// equip finds what the stages need. A document that is done needs none of it,
// whatever became of its provider since.
func (w *start) equip(ctx context.Context) (err error) {
	if w.pipeline, err = w.prepared(ctx, w.row.Pipeline); err != nil {
		return err
	}
	if w.provider = w.providers[w.pipeline.provider]; w.provider == nil {
		return failure.New(failure.Rejected, ReasonProvider, fmt.Errorf("document: provider %q: the configuration of this server has none of that name", w.pipeline.provider))
	}
	return nil
}

// prepared returns the pipeline of that hash.
func (s *Service) prepared(ctx context.Context, hash string) (*ready, error) {
	s.mu.Lock()
	found := s.pipelines[hash]
	s.mu.Unlock()
	if found != nil {
		return found, nil
	}
	p, version, err := load[Pipeline](ctx, s, pipelineKind, hash)
	if err != nil {
		return nil, err
	}
	if version == 0 {
		return nil, errCorrupt(pipelineKind, hash, store.ErrNotFound)
	}
	r, err := prepare(&p)
	if err != nil {
		return nil, errCorrupt(pipelineKind, hash, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pipelines[hash] = r
	return r, nil
}

// run goes through the stages that are left.
func (w *start) run(ctx context.Context) error {
	if w.row.Invalid != "" && w.row.RefusedBy > w.fresh {
		return w.refusedBefore(ctx)
	}
	said := w.captured()
	if said == nil {
		var err error
		if said, err = w.ask(ctx); err != nil {
			return err
		}
	}
	value, steps, bad := w.check(said)
	if bad != nil {
		return w.refuse(ctx, said, bad)
	}
	if err := w.write(ctx, w.row.Output, append(value, '\n'), w.resumed); err != nil {
		return err
	}
	return w.finish(ctx, value, steps)
}

// captured returns the answer that an earlier start was given; nil if none
// was.
func (w *start) captured() *answer {
	if w.row.Answer != nil {
		w.resumed = true
		w.meter.resumed.WithLabelValues(w.provider.name).Inc()
	}
	return w.row.Answer
}

// ask reads the document, asks the model and keeps what it said before
// anything else is done with it.
func (w *start) ask(ctx context.Context) (*answer, error) {
	request, err := w.question(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.provider.pace.admit(ctx, w.Service, w.provider.name, w.id, request.Estimate()); err != nil {
		return nil, err
	}
	began := w.clock.Now()
	got, err := w.provider.client.Ask(ctx, request)
	w.meter.asked(w.provider.name, w.pipeline.model, w.clock.Now().Sub(began), got.Usage, w.provider.config.cost(w.pipeline.model, got.Usage))
	w.provider.pace.used(request.Estimate(), got.Usage.Input+got.Usage.Output)
	if err != nil {
		if f := failure.Classify(err); f.Class != failure.InvalidOutput {
			w.account(ctx, got.Usage)
			return nil, err
		}
		got.Problem = failure.Classify(err).Reason
	}
	said := answer{Text: strings.ToValidUTF8(got.Text, "\ufffd"), Model: got.Model, Request: got.ID, Problem: got.Problem}
	// It is paid for: neither the end of the attempt's time nor an order to
	// stop keeps it from being kept.
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), captureTime)
	defer cancel()
	jobID := w.row.Job
	err = w.update(keep, w.id, &w.row, &w.version, func(r *row) store.Write {
		now := w.clock.Now()
		r.Answer, r.Job, r.Invalid = &said, jobID, ""
		return store.Write{Puts: []store.Record{w.spend(r, got.Usage, now)}}
	})
	return &said, err
}

// captureTime is how long the database may take to keep an answer: less than a
// worker's grace.
const captureTime = 4 * time.Second

// account writes down what a call cost that brought no answer.
func (w *start) account(ctx context.Context, u model.Usage) {
	if u == (model.Usage{}) {
		return
	}
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), captureTime)
	defer cancel()
	err := w.update(keep, w.id, &w.row, &w.version, func(r *row) store.Write {
		return store.Write{Puts: []store.Record{w.spend(r, u, w.clock.Now())}}
	})
	if err != nil {
		w.log.Warn("document: tokens of a broken call are not in the accounts", "document", w.id, "error", err)
	}
}

// question reads the document and makes the prompt of it.
func (w *start) question(ctx context.Context) (model.Request, error) {
	if !text.Supported(w.row.Input.Key) {
		return model.Request{}, failure.New(failure.InvalidInput, ReasonUnsupported,
			fmt.Errorf("document: %s: one of %s can be read", w.row.Input, strings.Join(text.Extensions(), ", ")))
	}
	limits := textLimits(w.pipeline.Limits)
	raw, err := w.read(ctx, w.row.Input, limits.MaxBytes)
	if err != nil {
		return model.Request{}, err
	}
	plain, err := text.Extract(ctx, w.row.Input.Key, raw, limits)
	if err != nil {
		return model.Request{}, textError(w.row.Input, err)
	}
	request, err := w.pipeline.request(plain, w.row.Input.Key)
	if err != nil {
		return model.Request{}, failure.New(failure.InvalidInput, ReasonMetadata, err)
	}
	return request, nil
}

func textError(o Object, err error) error {
	err = fmt.Errorf("document: %s: %w", o, err)
	switch {
	case errors.Is(err, text.ErrUnsupported):
		return failure.New(failure.InvalidInput, ReasonUnsupported, err)
	case errors.Is(err, text.ErrTooLarge):
		return failure.New(failure.TooLarge, ReasonTextSize, err)
	case errors.Is(err, text.ErrCorrupt):
		return failure.New(failure.InvalidInput, ReasonCorrupt, err)
	case errors.Is(err, text.ErrEmpty):
		return failure.New(failure.InvalidInput, ReasonNoText, err)
	}
	return ourFault(err)
}

// badAnswer is why an answer is refused.
type badAnswer struct {
	reason string
	err    error
}

// check normalises the answer and holds it against the schema.
func (w *start) check(said *answer) (json.RawMessage, []normalise.Step, *badAnswer) {
	if said.Problem != "" {
		return nil, nil, &badAnswer{said.Problem, errors.New("the model gave no whole answer")}
	}
	value, steps, err := normalise.JSON(said.Text)
	if err != nil {
		return nil, nil, &badAnswer{ReasonUnparseable, errors.New(strings.TrimPrefix(err.Error(), normalise.ErrUnparseable.Error()+": "))}
	}
	if err := w.pipeline.validate(value); err != nil {
		return nil, nil, &badAnswer{ReasonSchema, schemaError(err)}
	}
	for _, step := range steps {
		w.meter.normalised.WithLabelValues(string(step)).Inc()
	}
	return value, steps, nil
}

// refuse keeps the raw answer for people and gives up on it: fresh attempts, if
// somebody orders them, ask the model anew.
func (w *start) refuse(ctx context.Context, said *answer, bad *badAnswer) error {
	now := w.clock.Now().UTC()
	raw := w.raw(said, bad, now)
	err := w.update(ctx, w.id, &w.row, &w.version, func(r *row) store.Write {
		r.Answer, r.Invalid, r.RefusedBy, r.Raw = nil, bad.reason, w.number, 0
		var out store.Write
		if w.settings.Raw.MaxBytes > 0 {
			r.Raw = len(raw.Text)
			out.Puts = []store.Record{{Kind: rawKind, ID: w.id, Ref: r.Batch, Version: store.AnyVersion, ExpiresAt: raw.ExpiresAt, Body: body(raw)}}
		}
		return out
	})
	if err != nil {
		return err
	}
	w.meter.refused(w.provider.name, bad.reason, w.settings.Raw.MaxBytes > 0)
	return failure.New(failure.InvalidOutput, bad.reason, bad.err)
}

// refusedBefore is the end of a start whose process died after it had refused
// the answer and before its job heard of it: the model is not asked again.
func (w *start) refusedBefore(ctx context.Context) error {
	why := "the answer was refused"
	raw, version, err := load[RawAnswer](ctx, w.Service, rawKind, w.id)
	if err != nil {
		return err
	}
	if version > 0 {
		why = raw.Error
	}
	return failure.New(failure.InvalidOutput, w.row.Invalid, errors.New(why))
}

// raw bounds and redacts what is kept of an answer.
func (w *start) raw(said *answer, bad *badAnswer, now time.Time) RawAnswer {
	r := RawAnswer{
		Document: w.id, At: now, Reason: bad.reason, Error: w.clean(bad.err.Error(), nil), Model: said.Model, Request: said.Request,
		ExpiresAt: now.Add(time.Duration(w.settings.Raw.Keep)),
	}
	r.Text = w.clean(said.Text, &r.Redacted)
	if most := max(0, w.settings.Raw.MaxBytes); len(r.Text) > most {
		r.Text, r.Cut = strings.ToValidUTF8(r.Text[:most], ""), true
	}
	return r
}

const redacted = "[redacted]"

func (s *Service) clean(value string, n *int) string {
	for _, re := range s.redact {
		value = re.ReplaceAllStringFunc(value, func(string) string {
			if n != nil {
				*n++
			}
			return redacted
		})
	}
	return value
}

// finish says that the document is done and lets its answer go.
func (w *start) finish(ctx context.Context, value json.RawMessage, steps []normalise.Step) error {
	return w.update(ctx, w.id, &w.row, &w.version, func(r *row) store.Write {
		r.DoneAt, r.Normalised, r.Bytes, r.Invalid, r.Answer = w.clock.Now().UTC(), steps, len(value)+1, "", nil
		return store.Write{}
	})
}
