package engine

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Group is the dead letters that failed alike.
type Group struct {
	Fingerprint string    `json:"fingerprint"`
	Kind        string    `json:"kind"`
	Queue       string    `json:"queue"`
	Class       string    `json:"class,omitempty"`
	Cause       job.Cause `json:"cause"`
	Error       string    `json:"error"` // of the newest
	Count       int64     `json:"count"`
	FirstAt     time.Time `json:"first_at"`
	LastAt      time.Time `json:"last_at"`
}

// Order asks for dead letters to be queued again: fresh attempts, same id, in
// the order in which they were enqueued.
type Order struct {
	// Filter selects them. State is failed, or parked to release parked jobs;
	// empty means failed.
	Filter Filter `json:"filter"`
	// Rate is jobs a second; 0 = all at once.
	Rate float64 `json:"rate,omitempty"`
	// DryRun only counts.
	DryRun bool `json:"dry_run,omitempty"`
}

// Redrive is an order with its progress.
type Redrive struct {
	ID     string  `json:"id,omitempty"` // empty of a dry run
	Filter Filter  `json:"filter"`
	Rate   float64 `json:"rate"`
	Actor  string  `json:"actor,omitempty"`
	// Matching is how many the filter selected when the order was given; only
	// the answer to the order has it.
	Matching  int       `json:"matching,omitempty"`
	Moved     int64     `json:"moved"`
	DryRun    bool      `json:"dry_run,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	DoneAt    time.Time `json:"done_at,omitzero"`
	// Probes tell which targets are called now for the order's sake, though
	// breaker or Retry-After held them; only the answer to the order has them.
	Probes []Probe `json:"probes,omitempty"`
}

// Done reports whether nothing is left to do.
func (r *Redrive) Done() bool { return !r.DoneAt.IsZero() }

func redriveOf(r *store.Redrive) Redrive {
	return Redrive{
		ID: strconv.FormatInt(r.ID, 10), Filter: filterOf(&r.Filter), Rate: r.Rate, Actor: r.Actor,
		Moved: r.Moved, CreatedAt: utc(r.CreatedAt), DoneAt: utc(r.DoneAt),
	}
}

// ended checks that a filter selects dead letters or parked jobs; without a
// state it means dead letters.
func (f Filter) ended() (Filter, error) {
	switch f.State {
	case "":
		f.State = job.Failed
	case job.Failed, job.Parked:
	default:
		return f, invalid("state %q: must be failed or parked", f.State)
	}
	return f, nil
}

// Dead lists dead letters from newest to oldest.
func (e *Engine) Dead(ctx context.Context, f Filter, p Page) (Jobs, error) {
	f, err := f.ended()
	if err != nil {
		return Jobs{}, err
	}
	return e.Jobs(ctx, f, p)
}

// Groups gathers dead letters by what went wrong, most first.
func (e *Engine) Groups(ctx context.Context, f Filter, p Page) ([]Group, error) {
	if f.State != "" && f.State != job.Failed {
		return nil, invalid("state %q: only dead letters are grouped; leave it out", f.State)
	}
	f.State = job.Failed
	selection, err := f.selection()
	if err != nil {
		return nil, err
	}
	bounds, err := Page{Limit: p.Limit}.bounds()
	if err != nil {
		return nil, err
	}
	if p.Rows > 0 && f.byRow() {
		if selection.From, err = e.store.Floor(ctx, store.Filter{State: job.Failed}, 0, p.Rows); err != nil {
			return nil, fmt.Errorf("groups: %w", err)
		}
	}
	rows, err := e.store.Groups(ctx, selection, bounds.Limit)
	if err != nil {
		return nil, fmt.Errorf("groups: %w", err)
	}
	list := make([]Group, len(rows))
	for i, g := range rows {
		list[i] = Group{
			Fingerprint: g.Fingerprint, Kind: g.Kind, Queue: g.Queue, Class: className(g.Class), Cause: g.Cause,
			Error: g.Error, Count: g.Count, FirstAt: utc(g.FirstAt), LastAt: utc(g.LastAt),
		}
	}
	return list, nil
}

// Redrive gives the order, or with DryRun only counts.
func (e *Engine) Redrive(ctx context.Context, o Order) (Redrive, error) {
	if o.Rate < 0 || math.IsNaN(o.Rate) || math.IsInf(o.Rate, 0) {
		return Redrive{}, invalid("redrive: rate %v: must be 0 (at once) or more jobs a second", o.Rate)
	}
	filter, err := o.Filter.ended()
	if err != nil {
		return Redrive{}, err
	}
	selection, err := filter.selection()
	if err != nil {
		return Redrive{}, err
	}
	matching, err := e.store.Matching(ctx, selection, math.MaxInt32)
	if err != nil {
		return Redrive{}, fmt.Errorf("redrive: %w", err)
	}
	if o.DryRun {
		return Redrive{Filter: filter, Rate: o.Rate, Actor: e.by(ctx), Matching: matching, DryRun: true}, nil
	}
	targets, err := e.targetsOf(ctx, selection, matching)
	if err != nil {
		return Redrive{}, fmt.Errorf("redrive: %w", err)
	}
	r, err := e.store.StartRedrive(ctx, e.storeNow(), store.Redrive{Filter: selection, Rate: o.Rate, Actor: e.by(ctx)})
	if err != nil {
		return Redrive{}, fmt.Errorf("redrive: %w", err)
	}
	out := redriveOf(&r)
	out.Matching = matching
	err = e.probeAll(ctx, &out, targets)
	return out, err
}

// Redrives lists the unfinished, oldest first, then the newest done.
func (e *Engine) Redrives(ctx context.Context, limit int) ([]Redrive, error) {
	bounds, err := Page{Limit: limit}.bounds()
	if err != nil {
		return nil, err
	}
	rows, err := e.store.Redrives(ctx, bounds.Limit)
	if err != nil {
		return nil, fmt.Errorf("redrives: %w", err)
	}
	list := make([]Redrive, len(rows))
	for i := range rows {
		list[i] = redriveOf(&rows[i])
	}
	return list, nil
}
