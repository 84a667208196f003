package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Target is whom work calls, with what guards it and what waits for it.
type Target struct {
	Name string `json:"name"`
	// Held is what keeps the next first attempt from starting: "none",
	// "disabled" or the name of a hold; Until is when time alone ends that,
	// zero if something else must happen.
	Held  string    `json:"held"`
	Until time.Time `json:"until,omitzero"`
	// RetryHeld and RetryUntil are the same of the next retry.
	RetryHeld  string    `json:"retry_held"`
	RetryUntil time.Time `json:"retry_until,omitzero"`

	Disabled string        `json:"disabled,omitempty"` // why it takes no work at all
	Breaker  TargetBreaker `json:"breaker"`
	// AskedUntil ends the pause that the target asked for by Retry-After.
	AskedUntil time.Time `json:"asked_until,omitzero"`
	// Paused is an operator's pause, until PausedUntil or, if that is zero,
	// until it is resumed.
	Paused      bool      `json:"paused"`
	PausedUntil time.Time `json:"paused_until,omitzero"`

	InFlight        int `json:"in_flight"` // permits out, over all processes
	InFlightRetries int `json:"in_flight_retries"`

	// Firsts and Retries wait in all its lanes; with More there are further
	// ones that were not counted.
	Firsts  int    `json:"firsts"`
	Retries int    `json:"retries"`
	More    bool   `json:"more,omitempty"`
	Policy  string `json:"policy,omitempty"` // whose limits were applied last
}

// TargetBreaker is where a target's breaker stands.
type TargetBreaker struct {
	Phase     gate.Phase `json:"phase"`
	OpenUntil time.Time  `json:"open_until,omitzero"` // then it lets one probe through
	Trips     int        `json:"trips"`               // openings since it was last closed
	Failed    int        `json:"failed"`              // failures in a row while closed
	Probing   bool       `json:"probing,omitempty"`   // the one probe is out
	Ramp      int        `json:"ramp,omitempty"`      // most calls at once while ramping
}

// Targets is a part of a list.
type Targets struct {
	Targets []Target `json:"targets"`
	// Next is the cursor of the part that follows; empty = there is none.
	Next string `json:"next,omitempty"`
}

const (
	// listCount bounds the count of what waits in each lane in lists,
	// showCount where one target is shown.
	listCount = 100
	showCount = 10_000
)

// queueOfGate returns the queue whose limits the gate keeps; false if it is
// a target's.
func queueOfGate(target string) (string, bool) { return strings.CutPrefix(target, store.QueuePrefix) }

// Targets lists by name the targets that have a gate or waiting work. The
// page's cursor is a name.
func (e *Engine) Targets(ctx context.Context, p Page) (Targets, error) {
	bounds, err := Page{Limit: p.Limit}.bounds()
	if err != nil {
		return Targets{}, err
	}
	if p.Cursor != "" {
		if err := checkName("cursor", p.Cursor, maxLong); err != nil {
			return Targets{}, err
		}
	}
	now, err := e.now(ctx)
	if err != nil {
		return Targets{}, fmt.Errorf("targets: %w", err)
	}
	looks := bounds.Limit
	if p.Held {
		looks = MaxLimit
	}
	rows, err := e.store.Targets(ctx, p.Cursor, looks+1)
	if err != nil {
		return Targets{}, fmt.Errorf("targets: %w", err)
	}
	out := Targets{Targets: []Target{}}
	if len(rows) > looks {
		rows = rows[:looks]
		out.Next = rows[looks-1].Target
	}
	var names []string
	for i := range rows {
		t, err := e.targetOf(ctx, now, &rows[i])
		if err != nil {
			return Targets{}, fmt.Errorf("targets: %s: %w", rows[i].Target, err)
		}
		if p.Held && t.Held == gate.NotHeld.String() {
			continue
		}
		names, out.Targets = append(names, t.Name), append(out.Targets, t)
		if len(names) == bounds.Limit && i < len(rows)-1 {
			out.Next = t.Name
			break
		}
	}
	lanes, err := e.store.LanesOf(ctx, names, listCount)
	if err != nil {
		return Targets{}, fmt.Errorf("targets: %w", err)
	}
	for i := range out.Targets {
		out.Targets[i].add(lanes[i], listCount)
	}
	return out, nil
}

// targetOf tells a gate's row to people.
func (e *Engine) targetOf(ctx context.Context, now time.Time, g *store.Gate) (Target, error) {
	limit, err := e.queueLimit(ctx, g.Target)
	if err != nil {
		return Target{}, err
	}
	config, _ := e.limits(g, limit)
	out := Target{Name: g.Target, Disabled: g.Disabled, Policy: g.Policy}
	out.fill(g, config, now)
	return out, nil
}

// add counts what waits in the target's lanes, which were counted up to most.
func (t *Target) add(lanes []store.Lane, most int) {
	for _, l := range lanes {
		t.Firsts += l.Firsts
		t.Retries += l.Retries
		t.More = t.More || l.Firsts >= most || l.Retries >= most
	}
}

// fill tells what the state says now.
func (t *Target) fill(g *store.Gate, c gate.Config, now time.Time) {
	s := &g.State
	t.Breaker = TargetBreaker{
		Phase: s.Phase, OpenUntil: ahead(now, instant(s.OpenUntil)), Trips: s.Trips, Failed: s.Failed, Probing: s.Probing, Ramp: s.Ramp,
	}
	t.AskedUntil = ahead(now, instant(s.PauseUntil))
	t.PausedUntil = ahead(now, instant(s.StopUntil))
	t.Paused = s.Stopped && (s.StopUntil == 0 || !t.PausedUntil.IsZero())
	t.InFlight, t.InFlightRetries = s.InFlight, s.Retries
	first, retry := asked(c, *s, false, now), asked(c, *s, true, now)
	t.Held, t.Until = first.Held.String(), utc(first.Until)
	t.RetryHeld, t.RetryUntil = retry.Held.String(), utc(retry.Until)
	if g.Disabled != "" {
		t.Held, t.RetryHeld = heldDisabled, heldDisabled
		t.Until, t.RetryUntil = time.Time{}, time.Time{}
	}
}

// heldDisabled is the hold of a target that takes no work at all.
const heldDisabled = "disabled"

// gateOf finds a target; not found if it has no gate and nothing waits.
func (e *Engine) gateOf(ctx context.Context, name string) (store.Gate, error) {
	if err := checkName("target", name, maxLong); err != nil {
		return store.Gate{}, err
	}
	rows, err := e.store.Gates(ctx, []string{name})
	if err != nil {
		return store.Gate{}, fmt.Errorf("target: %s: %w", name, err)
	}
	if len(rows) == 1 && rows[0].Version > 0 {
		return rows[0], nil
	}
	lanes, err := e.store.Lanes(ctx, name, 1)
	if err != nil {
		return store.Gate{}, fmt.Errorf("target: %s: %w", name, err)
	}
	g := store.Gate{Target: name, Room: store.NoLimit}
	if len(lanes) > 0 {
		return g, nil
	}
	for _, state := range []job.State{job.Running, job.Parked} { // of a gate that nobody asked yet
		list, err := e.store.List(ctx, store.Filter{Target: name, State: state}, store.Page{Limit: 1})
		if err != nil {
			return g, fmt.Errorf("target: %s: %w", name, err)
		}
		if len(list) > 0 {
			return g, nil
		}
	}
	return g, &unknownError{text: fmt.Sprintf("target: %s: no such target: no job that waits calls it, and none was ever called", name)}
}
