package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Delivery is one event on its way to one endpoint: a job.
type Delivery struct {
	ID       string    `json:"id"` // the job's
	Event    string    `json:"event"`
	Type     string    `json:"type"`
	Endpoint string    `json:"endpoint"`
	State    job.State `json:"state"`
	Cause    job.Cause `json:"cause,omitempty"` // of failed and parked
	Attempts int       `json:"attempts"`        // spent so far
	// DueAt is when the next attempt may start, of a queued one.
	DueAt     time.Time `json:"due_at,omitzero"`
	CreatedAt time.Time `json:"created_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	LastClass string    `json:"last_class,omitempty"`
	LastError string    `json:"last_error,omitempty"`
	Blocked   bool      `json:"blocked,omitempty"` // an earlier one of its order goes first
	// Probe tells what became of an endpoint that was held; only the answer to a
	// redrive has it.
	Probe *engine.Probe `json:"probe,omitempty"`
}

func deliveryOf(j *job.Job) Delivery {
	d := Delivery{
		ID: j.ID(), Event: j.Batch, Endpoint: j.Target, State: j.State, Cause: j.Cause, Attempts: j.History.Attempts,
		CreatedAt: j.EnqueuedAt.UTC(), EndedAt: j.EndedAt, LastError: j.LastError, Blocked: j.Blocked,
	}
	if e, _, err := unpack(j.Args); err == nil {
		d.Event, d.Type = e.Event, e.Type
	}
	if j.State == job.Queued {
		d.DueAt = j.DueAt
	}
	if j.LastClass != 0 {
		d.LastClass = j.LastClass.String()
	}
	return d
}

// DeliveryFilter selects deliveries; empty parts select all.
type DeliveryFilter struct {
	Endpoint string    `json:"endpoint,omitempty"`
	Event    string    `json:"event,omitempty"`
	State    job.State `json:"state,omitempty"`
	Since    time.Time `json:"since,omitzero"` // created (living) or ended (others) at or after
	Until    time.Time `json:"until,omitzero"` // … and before
}

func (f *DeliveryFilter) jobs() engine.Filter {
	return engine.Filter{Kind: Kind, Queue: Queue, Target: f.Endpoint, Batch: f.Event, State: f.State, Since: f.Since, Until: f.Until}
}

// Deliveries is a part of a list.
type Deliveries struct {
	Deliveries []Delivery `json:"deliveries"`
	Next       string     `json:"next,omitempty"`
}

// Deliveries lists deliveries from the newest.
func (s *Service) Deliveries(ctx context.Context, f DeliveryFilter, p engine.Page) (Deliveries, error) {
	limit, err := pageLimit(p)
	if err != nil {
		return Deliveries{}, err
	}
	page := store.Page{Limit: limit + 1}
	if p.Cursor != "" {
		if page.Before, err = job.ParseID(p.Cursor); err != nil {
			return Deliveries{}, invalid("deliveries: cursor %q: is none", p.Cursor)
		}
	}
	if f.State != "" && !f.known() {
		return Deliveries{}, invalid("deliveries: state %q: there is none of that name; it is one of %s", f.State, stateNames())
	}
	filter := store.Filter{Kind: Kind, Queue: Queue, Target: f.Endpoint, Batch: f.Event, State: f.State, Since: store.Instant(f.Since), Until: store.Instant(f.Until)}
	jobs, err := s.store.List(ctx, filter, page)
	if err != nil {
		return Deliveries{}, fmt.Errorf("webhook: deliveries: %w", err)
	}
	out := Deliveries{Deliveries: []Delivery{}}
	if len(jobs) > limit {
		jobs = jobs[:limit]
		out.Next = jobs[limit-1].ID()
	}
	for i := range jobs {
		out.Deliveries = append(out.Deliveries, deliveryOf(&jobs[i]))
	}
	return out, nil
}

func (f *DeliveryFilter) known() bool { return slices.Contains(job.States(), f.State) }

// stateNames lists the states that a delivery can have.
func stateNames() string {
	var names []string
	for _, s := range job.States() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// DeliveryShown is one delivery with all that is known of it.
type DeliveryShown struct {
	Delivery
	URL         string `json:"url,omitempty"` // of its endpoint now
	ContentType string `json:"content_type"`
	Payload     []byte `json:"payload_base64"` // exact bytes
	// Log has a row for each start, oldest first.
	Log []LogRow `json:"log"`
}

// LogRow is one start: what the ledger has and, as long as it is kept, what
// was seen of the call.
type LogRow struct {
	Start     int       `json:"start"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	OK        bool      `json:"ok"`
	Class     string    `json:"class,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Status    int       `json:"status,omitempty"`
	Error     string    `json:"error,omitempty"`
	Action    string    `json:"action,omitempty"` // what was decided
	Rule      string    `json:"rule,omitempty"`
	Delay     float64   `json:"delay_s,omitempty"` // until the next attempt
	DueAt     time.Time `json:"due_at,omitzero"`   // of the next attempt
	HeldBy    string    `json:"held_by,omitempty"`
	Held      float64   `json:"held_s,omitempty"`
	Attempt   *Attempt  `json:"attempt,omitempty"`
}

// Delivery returns one delivery with its log.
func (s *Service) Delivery(ctx context.Context, id string) (DeliveryShown, error) {
	j, err := s.delivery(ctx, id)
	if err != nil {
		return DeliveryShown{}, err
	}
	out := DeliveryShown{Delivery: deliveryOf(&j), Log: []LogRow{}}
	if e, payload, err := unpack(j.Args); err == nil {
		out.ContentType, out.Payload = e.contentType(), payload
	}
	if doc, err := s.endpoint(ctx, j.Target); err == nil {
		out.URL = doc.URL
	}
	seen, err := s.attempts(ctx, &j)
	if err != nil {
		return DeliveryShown{}, err
	}
	rows, err := s.store.Attempts(ctx, j.Seq)
	if err != nil {
		return DeliveryShown{}, fmt.Errorf("webhook: delivery: %s: %w", id, err)
	}
	rows = j.Known(rows)
	for i := range rows {
		r := &rows[i]
		row := LogRow{
			Start: r.Start, StartedAt: r.StartedAt.UTC(), EndedAt: r.EndedAt.UTC(), OK: r.OK, Reason: r.Reason, Status: r.Status, Error: r.Error,
			Action: r.Action, Rule: r.Rule, Delay: r.Delay.Seconds(), DueAt: r.DueAt, HeldBy: r.HeldBy, Held: r.Held.Seconds(), Attempt: seen[r.Start],
		}
		if row.Attempt != nil && row.OK {
			row.Status = row.Attempt.Status
		}
		if !r.OK {
			row.Class = r.Class.String()
		}
		out.Log = append(out.Log, row)
	}
	return out, nil
}

// delivery reads the job of a delivery.
func (s *Service) delivery(ctx context.Context, id string) (job.Job, error) {
	seq, err := job.ParseID(id)
	if err != nil {
		return job.Job{}, notFound("delivery", id)
	}
	j, err := s.store.Job(ctx, seq)
	if errors.Is(err, store.ErrNotFound) || err == nil && j.Kind != Kind {
		return job.Job{}, notFound("delivery", id)
	}
	if err != nil {
		return job.Job{}, fmt.Errorf("webhook: delivery: %s: %w", id, err)
	}
	return j, nil
}

// attempts reads what is kept of the calls, by the number of the start.
func (s *Service) attempts(ctx context.Context, j *job.Job) (map[int]*Attempt, error) {
	rows, err := s.store.Records(ctx, store.RecordFilter{Kind: recordAttempt, Ref: j.ID(), Limit: 1000})
	if err != nil {
		return nil, fmt.Errorf("webhook: delivery: %s: %w", j.ID(), err)
	}
	seen := make(map[int]*Attempt, len(rows)+1)
	add := func(body []byte) {
		a := new(Attempt)
		if json.Unmarshal(body, a) == nil {
			seen[a.Start] = a
		}
	}
	for i := range rows {
		add(rows[i].Body)
	}
	if j.State == job.Succeeded {
		add(j.Result)
	}
	return seen, nil
}

// Redrive queues a delivery again with fresh attempts and the same webhook-id.
// A failed or parked one comes back itself, a waiting one is due now; one that
// succeeded or was cancelled is sent anew as a delivery of its own, which is
// the answer. An endpoint that breaker or Retry-After hold is called now, as the
// probe.
func (s *Service) Redrive(ctx context.Context, id string) (Delivery, error) {
	j, err := s.delivery(ctx, id)
	if err != nil {
		return Delivery{}, err
	}
	if j.State == job.Succeeded || j.State == job.Cancelled {
		return s.resend(ctx, &j)
	}
	retried, err := s.ops.Retry(s.acting(ctx), id)
	if err != nil {
		return Delivery{}, fmt.Errorf("webhook: delivery: %w", err)
	}
	if j, err = s.delivery(ctx, id); err != nil {
		return Delivery{}, err
	}
	d := deliveryOf(&j)
	d.Probe = hintEndpoint(retried.Probe)
	return d, nil
}

// probeFor lets an endpoint that breaker or Retry-After hold be called now, for
// the sake of an order about its deliveries.
func (s *Service) probeFor(ctx context.Context, id, why string) (*engine.Probe, error) {
	p, err := s.ops.ProbeFor(s.acting(ctx), id, why)
	if err != nil {
		return nil, fmt.Errorf("webhook: endpoint: %s: %w", id, err)
	}
	return hintEndpoint(p), nil
}

// hintEndpoint names the order that helps an endpoint which was paused or disabled.
func hintEndpoint(p *engine.Probe) *engine.Probe {
	if p != nil && (p.State == engine.ProbePaused || p.State == engine.ProbeDisabled) {
		p.Try = "ebb webhook endpoint resume " + p.Target
	}
	return p
}

func (s *Service) resend(ctx context.Context, j *job.Job) (Delivery, error) {
	doc, err := s.endpoint(ctx, j.Target)
	if err != nil {
		return Delivery{}, err
	}
	n := job.New{Kind: Kind, Queue: Queue, Target: doc.ID, Policy: doc.policy(), Batch: j.Batch, Args: j.Args, Trace: j.Trace}
	done, err := s.store.Write(ctx, s.storeNow(), store.Write{
		Jobs:  []job.New{n},
		Audit: []store.AuditRow{{Actor: s.by(ctx), Act: "webhook.delivery.resend", What: j.ID()}},
	})
	if err != nil {
		return Delivery{}, fmt.Errorf("webhook: delivery: %s: %w", j.ID(), err)
	}
	next, err := s.store.Job(ctx, done[0].Seq)
	if err != nil {
		return Delivery{}, fmt.Errorf("webhook: delivery: %s: %w", j.ID(), err)
	}
	d := deliveryOf(&next)
	d.Probe, err = s.probeFor(ctx, doc.ID, "resend of job "+j.ID())
	return d, err
}

// RedriveAll orders all dead letters that the filter selects to be queued
// again, or with State parked what was parked; in their order, so many a
// second (0 = at once). With dryRun they are only counted. The endpoint that the
// filter names, or those of up to 10 deliveries, are called now, as the probe.
func (s *Service) RedriveAll(ctx context.Context, f DeliveryFilter, rate float64, dryRun bool) (engine.Redrive, error) {
	r, err := s.ops.Redrive(s.acting(ctx), engine.Order{Filter: f.jobs(), Rate: rate, DryRun: dryRun})
	for i := range r.Probes {
		hintEndpoint(&r.Probes[i])
	}
	return r, err
}
