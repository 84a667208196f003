package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/worker"
)

// Show returns one endpoint.
func (s *Service) Show(ctx context.Context, id string) (Endpoint, error) {
	doc, err := s.endpoint(ctx, id)
	if err != nil {
		return Endpoint{}, err
	}
	list, err := s.told(ctx, []*endpointDoc{doc})
	if err != nil {
		return Endpoint{}, err
	}
	return list[0], nil
}

// EndpointFilter selects endpoints.
type EndpointFilter struct {
	Owner string
	// AnyOwner selects whosever they are.
	AnyOwner bool
}

// Endpoints is a part of a list.
type Endpoints struct {
	Endpoints []Endpoint `json:"endpoints"`
	// Next is the cursor of the part that follows; empty = there is none.
	Next string `json:"next,omitempty"`
}

// List lists endpoints from the oldest.
func (s *Service) List(ctx context.Context, f EndpointFilter, p engine.Page) (Endpoints, error) {
	limit, err := pageLimit(p)
	if err != nil {
		return Endpoints{}, err
	}
	filter := store.RecordFilter{Kind: recordEndpoint, After: p.Cursor, Limit: limit + 1}
	if !f.AnyOwner {
		filter.Ref = ownerRef(f.Owner)
	}
	rows, err := s.store.Records(ctx, filter)
	if err != nil {
		return Endpoints{}, fmt.Errorf("webhook: endpoints: %w", err)
	}
	out := Endpoints{Endpoints: []Endpoint{}}
	if len(rows) > limit {
		rows = rows[:limit]
		out.Next = rows[limit-1].ID
	}
	docs := make([]*endpointDoc, len(rows))
	for i := range rows {
		if docs[i], err = endpointOf(&rows[i]); err != nil {
			return Endpoints{}, err
		}
	}
	if out.Endpoints, err = s.told(ctx, docs); err != nil {
		return Endpoints{}, err
	}
	return out, nil
}

func pageLimit(p engine.Page) (int, error) {
	switch {
	case p.Limit < 0 || p.Limit > engine.MaxLimit:
		return 0, invalid("limit %d: must be 1 to %d", p.Limit, engine.MaxLimit)
	case p.Limit == 0:
		return engine.DefaultLimit, nil
	}
	return p.Limit, nil
}

// told tells endpoints to people, with what their gates say.
func (s *Service) told(ctx context.Context, docs []*endpointDoc) ([]Endpoint, error) {
	ids := make([]string, len(docs))
	for i, d := range docs {
		ids[i] = d.ID
	}
	gates, err := s.store.Gates(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("webhook: endpoints: %w", err)
	}
	healths, err := s.healths(ctx, docs)
	if err != nil {
		return nil, err
	}
	now := s.now()
	list := make([]Endpoint, len(docs))
	for i, d := range docs {
		e := &list[i]
		*e = Endpoint{
			ID: d.ID, URL: d.URL, Description: d.Description, Owner: d.Owner, Types: d.Types, Headers: d.HeaderNames,
			Policy: d.policy(), CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt, Secrets: make([]Secret, len(d.Secrets)),
		}
		for k := range d.Secrets {
			e.Secrets[k] = d.Secrets[k].Secret
		}
		e.State, e.Reason, e.PausedUntil = stateOf(&gates[i], d, now)
		h := healths[d.ID]
		e.FailingSince, e.Failures = h.FailingSince, h.Failures
	}
	return list, nil
}

// stateOf reads the state off the gate: what holds the work is what is shown.
func stateOf(g *store.Gate, d *endpointDoc, now time.Time) (State, string, time.Time) {
	until := time.Time{}
	if g.State.StopUntil != 0 {
		until = g.State.StopUntil.Time()
	}
	switch {
	case g.Disabled != "":
		return Disabled, g.Disabled, time.Time{}
	case g.State.Stopped && (until.IsZero() || until.After(now)):
		return Paused, d.PauseReason, until
	}
	return Enabled, "", time.Time{}
}

// Pause makes an endpoint's deliveries wait, until the instant or, if it is
// zero, until it is resumed. Waiting so costs nothing: neither attempts nor
// the time that a delivery may be held.
func (s *Service) Pause(ctx context.Context, id, reason string, until time.Time) (Endpoint, error) {
	if err := checkText("reason", reason); err != nil {
		return Endpoint{}, err
	}
	if _, err := s.endpoint(ctx, id); err != nil {
		return Endpoint{}, err
	}
	if _, err := s.ops.PauseTarget(s.acting(ctx), id, until); err != nil {
		return Endpoint{}, fmt.Errorf("webhook: endpoint: %s: %w", id, err)
	}
	return s.edit(ctx, id, "webhook.endpoint.pause", func(doc *endpointDoc) error {
		doc.PauseReason = reason
		return nil
	})
}

func (s *Service) acting(ctx context.Context) context.Context {
	return engine.WithActor(ctx, s.by(ctx))
}

// Resume enables an endpoint that was paused or disabled. What was parked for
// it comes back in its order, unless that is to be kept for a redrive. The
// endpoint has Health.Grace before it can be disabled for failing again. If its
// breaker or a Retry-After hold it, it is called now, as the probe; so is one
// that is enabled.
func (s *Service) Resume(ctx context.Context, id string, keepParked bool) (Endpoint, error) {
	before, err := s.Show(ctx, id)
	if err != nil {
		return Endpoint{}, err
	}
	if before.State == Enabled {
		return s.goOn(ctx, before, keepParked)
	}
	if before.State == Disabled {
		if err := s.forgive(ctx, id); err != nil {
			return Endpoint{}, err
		}
	}
	if before.State == Disabled && keepParked { // also what came in the last minute
		if err := s.parkWaiting(ctx, id); err != nil {
			return Endpoint{}, err
		}
	}
	resumed, err := s.ops.ResumeTarget(s.acting(ctx), id, keepParked)
	if err != nil {
		return Endpoint{}, fmt.Errorf("webhook: endpoint: %s: %w", id, err)
	}
	e, err := s.edit(ctx, id, "webhook.endpoint.resume", func(doc *endpointDoc) error {
		doc.PauseReason = ""
		return nil
	})
	e.Probe = resumed.Probe
	return e, err
}

// goOn lets an endpoint that is enabled, and may be held all the same, be called
// now.
func (s *Service) goOn(ctx context.Context, e Endpoint, keepParked bool) (Endpoint, error) {
	resumed, err := s.ops.ResumeTarget(s.acting(ctx), e.ID, keepParked)
	if errors.Is(err, engine.ErrNotFound) { // it was never called
		return e, nil
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("webhook: endpoint: %s: %w", e.ID, err)
	}
	e.Probe = resumed.Probe
	return e, nil
}

// Disable stops an endpoint. Its deliveries are parked: kept, listed, and
// sent when it is resumed or they are redriven. Its owner is told.
func (s *Service) Disable(ctx context.Context, id, reason string) (Endpoint, error) {
	if err := checkText("reason", reason); err != nil {
		return Endpoint{}, err
	}
	doc, err := s.endpoint(ctx, id)
	if err != nil {
		return Endpoint{}, err
	}
	if reason == "" {
		reason = "by " + s.by(ctx)
	}
	if err := errors.Join(s.shut(ctx, id, reason), s.parkWaiting(ctx, id)); err != nil {
		return Endpoint{}, err
	}
	if err := s.announce(ctx, doc); err != nil {
		return Endpoint{}, err
	}
	return s.Show(ctx, id)
}

// parkWaiting parks what waits for an endpoint that is disabled. Workers do so
// too, once a minute: nobody who looks at once is to find it queued.
func (s *Service) parkWaiting(ctx context.Context, id string) error {
	page := store.Page{Limit: engine.MaxLimit}
	e := store.Ending{Target: id, Any: true, DueBy: store.Never, To: job.Parked, Cause: job.Disabled, Limit: page.Limit}
	for {
		jobs, err := s.store.List(ctx, store.Filter{Kind: Kind, Target: id, State: job.Queued}, page)
		if err != nil {
			return fmt.Errorf("webhook: endpoint: %s: park: %w", id, err)
		}
		if len(jobs) == 0 {
			return nil
		}
		e.Seqs = e.Seqs[:0]
		for i := range jobs {
			e.Seqs = append(e.Seqs, jobs[i].Seq)
		}
		parked, err := s.store.EndWaiting(ctx, s.storeNow(), e)
		if err != nil {
			return fmt.Errorf("webhook: endpoint: %s: park: %w", id, err)
		}
		s.tellParked(parked)
		page.Before = e.Seqs[len(e.Seqs)-1]
	}
}

// tellParked tells the observer of deliveries that were parked here.
func (s *Service) tellParked(parked []store.EndCount) {
	if s.config.Observe == nil {
		return
	}
	for _, e := range worker.EndedEvents(parked) {
		e.At = s.now()
		s.config.Observe(e)
	}
}

// shut disables the gate.
func (s *Service) shut(ctx context.Context, id, reason string) error {
	for range editTries {
		rows, err := s.store.Gates(ctx, []string{id})
		if err != nil {
			return fmt.Errorf("webhook: endpoint: %s: %w", id, err)
		}
		g := rows[0]
		if g.Disabled != "" {
			return nil
		}
		g.Disabled, g.OpenAt, g.Room = reason, store.Never, 0
		order := store.AuditRow{Actor: s.by(ctx), Act: "webhook.endpoint.disable", What: id, Detail: reason}
		done, err := s.store.SwapGate(ctx, s.storeNow(), order, store.Swap{Gate: g, Wake: true})
		if err != nil {
			return fmt.Errorf("webhook: endpoint: %s: %w", id, err)
		}
		if done {
			return nil
		}
	}
	return fmt.Errorf("webhook: endpoint: %s: its gate changed %d times while it was being disabled; try again", id, editTries)
}

// Remove forgets an endpoint and cancels what waits for it. Deliveries that
// were made stay listed.
func (s *Service) Remove(ctx context.Context, id string) error {
	doc, err := s.endpoint(ctx, id)
	if err != nil {
		return err
	}
	drops := []store.Record{{Kind: recordEndpoint, ID: id, Version: store.AnyVersion}, {Kind: recordHealth, ID: id, Version: store.AnyVersion}}
	_, err = s.store.Write(ctx, s.storeNow(), store.Write{
		Drops: drops,
		Puts:  []store.Record{{Kind: recordOwner, ID: ownerRef(doc.Owner), Version: store.AnyVersion}},
		Audit: []store.AuditRow{{Actor: s.by(ctx), Act: "webhook.endpoint.remove", What: id, Detail: doc.URL}},
	})
	s.cache.forget(id, doc.Owner)
	if err != nil {
		return fmt.Errorf("webhook: endpoint: %s: %w", id, err)
	}
	for _, state := range []job.State{job.Queued, job.Parked} {
		if err := s.cancelAll(ctx, id, state); err != nil {
			return err
		}
	}
	return nil
}

// cancelAll cancels what waits for the endpoint. What starts meanwhile fails
// by itself: its endpoint is gone.
func (s *Service) cancelAll(ctx context.Context, id string, state job.State) error {
	page := store.Page{Limit: engine.MaxLimit}
	for {
		jobs, err := s.store.List(ctx, store.Filter{Kind: Kind, Target: id, State: state}, page)
		if err != nil {
			return fmt.Errorf("webhook: endpoint: %s: cancel: %w", id, err)
		}
		for i := range jobs {
			page.Before = jobs[i].Seq
			_, err := s.store.Cancel(ctx, s.storeNow(), s.by(ctx), jobs[i].Seq)
			if err != nil && !errors.Is(err, store.ErrState) && !errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("webhook: delivery: %s: cancel: %w", jobs[i].ID(), err)
			}
		}
		if len(jobs) < page.Limit {
			return nil
		}
	}
}
