package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// TargetExplained is a target with everything a person asks about it.
type TargetExplained struct {
	Target
	Limits TargetLimits `json:"limits"`
	// RetryRoom is how many retries the budget would admit now, counted up to
	// MaxLimit; it is missing where no budget is kept.
	RetryRoom *int `json:"retry_room,omitempty"`
	// Grants are the permits out, by process.
	Grants []TargetGrant `json:"grants"`
	Lanes  []TargetLane  `json:"lanes"`
	// Parked is how many jobs wait until it is well, counted as Firsts and
	// Retries are; they are parked, cause target_down.
	Parked int `json:"parked,omitempty"`
	// LookAt is when the first of its lanes is looked at next; zero = nothing
	// waits.
	LookAt time.Time `json:"look_at,omitzero"`
	// Holds are the times in which it held work back, newest first; one
	// without an end lasts.
	Holds   []TargetHold `json:"holds"`
	Orders  []Act        `json:"orders"` // the newest, of any actor
	Reasons []Reason     `json:"reasons"`
	Text    string       `json:"text"`
}

// TargetGrant is what one process holds.
type TargetGrant struct {
	Process int64  `json:"process"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Alive   bool   `json:"alive"`
	Firsts  int    `json:"firsts"`
	Retries int    `json:"retries"`
	Probe   bool   `json:"probe,omitempty"`
}

// TargetLane is what waits for a target in one queue.
type TargetLane struct {
	Queue   string    `json:"queue"`
	Firsts  int       `json:"firsts"`
	Retries int       `json:"retries"`
	More    bool      `json:"more,omitempty"` // there are further ones
	LookAt  time.Time `json:"look_at,omitzero"`
}

// TargetHold is a time in which a target held work back. An open breaker
// ("all") and an empty budget ("retries") count towards max_hold, a pause that
// the target asked for ("asked") does not.
type TargetHold struct {
	Of   string    `json:"of"`
	From time.Time `json:"from"`
	To   time.Time `json:"to,omitzero"`
}

// DownSince is from when on its breaker has held all work; zero = it does not.
func (t *TargetExplained) DownSince() time.Time {
	for _, h := range t.Holds {
		if h.Of == heldAll && h.To.IsZero() {
			return h.From
		}
	}
	return time.Time{}
}

// What a TargetHold is of.
const (
	heldAll     = "all"
	heldRetries = "retries"
	heldAsked   = "asked"
)

// maxOrders and maxHolds bound what is told of the past.
const (
	maxOrders = 5
	maxHolds  = 8
)

// Target tells everything about one target.
func (e *Engine) Target(ctx context.Context, name string) (TargetExplained, error) {
	g, err := e.gateOf(ctx, name)
	if err != nil {
		return TargetExplained{}, err
	}
	out, err := e.showTarget(ctx, &g)
	if err != nil {
		return out, fmt.Errorf("target: %s: %w", name, err)
	}
	return out, nil
}

func (e *Engine) showTarget(ctx context.Context, g *store.Gate) (TargetExplained, error) {
	out := TargetExplained{Grants: []TargetGrant{}, Lanes: []TargetLane{}, Holds: []TargetHold{}, Orders: []Act{}}
	now, err := e.now(ctx)
	if err != nil {
		return out, err
	}
	var lanes []store.Lane
	if lanes, err = e.store.Lanes(ctx, g.Target, showCount); err != nil {
		return out, err
	}
	if out.Target, err = e.targetOf(ctx, now, g); err != nil {
		return out, err
	}
	out.add(lanes, showCount)
	if out.Parked, err = e.store.Matching(ctx, store.Filter{State: job.Parked, Cause: retry.CauseTargetDown, Target: g.Target}, showCount); err != nil {
		return out, err
	}
	processes, err := e.store.Processes(ctx)
	if err != nil {
		return out, err
	}
	rows, err := e.store.Audit(ctx, auditLimit)
	if err != nil {
		return out, err
	}
	limit, err := e.queueLimit(ctx, g.Target)
	if err != nil {
		return out, err
	}
	config, p := e.limits(g, limit)
	out.Limits = limitsOf(config, p)
	out.RetryRoom = retryRoom(config, g.State, now)
	for _, held := range g.Grants {
		out.Grants = append(out.Grants, e.grantOf(held, processes, now))
	}
	for _, l := range sortedLanes(lanes) {
		if g.OpenAt.After(now) && l.LookAt.Before(g.OpenAt) && !l.LookAt.IsZero() {
			l.LookAt = g.OpenAt // an earlier look finds the gate shut
		}
		out.Lanes = append(out.Lanes, TargetLane{
			Queue: l.Queue, Firsts: l.Firsts, Retries: l.Retries, More: l.Firsts >= showCount || l.Retries >= showCount, LookAt: utc(l.LookAt),
		})
		if !l.LookAt.IsZero() && (out.LookAt.IsZero() || l.LookAt.Before(out.LookAt)) {
			out.LookAt = utc(l.LookAt)
		}
	}
	out.Holds = holdsOf(&g.State, now)
	out.Orders = ordersOn(rows, "target.", g.Target)
	tellTarget(&out, g, config, pauseOrder(rows, g.Target), handOrder(rows, g.Target), now)
	return out, nil
}

func (e *Engine) grantOf(held store.Grant, processes []store.Process, now time.Time) TargetGrant {
	out := TargetGrant{Process: held.Process, Firsts: held.Firsts, Retries: held.Retries, Probe: held.Probe}
	i := slices.IndexFunc(processes, func(p store.Process) bool { return p.ID == held.Process })
	if i >= 0 {
		p := &processes[i]
		out.Host, out.PID, out.Alive = p.Host, p.PID, now.Sub(p.SeenAt) <= e.lease
	}
	return out
}

// retryRoom is how many retries the budget admits now, whatever else holds
// them.
func retryRoom(c gate.Config, s gate.State, now time.Time) *int {
	if budgetWords(c.Budget) == "" {
		return nil
	}
	s, _ = gate.Step(gate.Config{}, s, gate.Resume{}, now, 0)
	const generous = 1
	_, got := gate.Carve(gate.Config{Budget: c.Budget}, s, gate.Want{Retries: MaxLimit}, now, generous)
	return &got.Retries
}

// holdsOf tells the times in which a gate held its work, newest first.
func holdsOf(s *gate.State, now time.Time) []TargetHold {
	list := slices.Concat(
		spansOf(heldAll, s.Held, time.Time{}, now), spansOf(heldRetries, s.Dry, time.Time{}, now), spansOf(heldAsked, s.Paused, instant(s.PauseUntil), now))
	slices.SortStableFunc(list, func(a, b TargetHold) int {
		return cmp.Or(b.From.Compare(a.From), strings.Compare(a.Of, b.Of))
	})
	if len(list) == 0 {
		return []TargetHold{}
	}
	return list[:min(len(list), maxHolds)]
}

// spansOf reads spans as they are kept: a hold that lasts may have its
// beginning among the past ones.
func spansOf(of string, spans gate.Spans, ends, now time.Time) []TargetHold {
	var kept struct {
		Since gate.Instant      `json:"since"`
		Past  [][2]gate.Instant `json:"past"`
	}
	text, err := json.Marshal(spans)
	if err != nil || json.Unmarshal(text, &kept) != nil {
		return nil // its own writer and reader: it cannot happen
	}
	var list []TargetHold
	for _, p := range kept.Past {
		list = append(list, TargetHold{Of: of, From: instant(p[0]), To: instant(p[1])})
	}
	if ends.After(now) {
		ends = time.Time{}
	}
	since := instant(kept.Since)
	switch {
	case since.IsZero() || since.After(now):
	case len(list) > 0 && !list[0].To.Before(since):
		list[0].To = ends
	default:
		list = append([]TargetHold{{Of: of, From: since, To: ends}}, list...)
	}
	return list
}

// ordersOn returns the newest orders about a thing.
func ordersOn(rows []store.AuditRow, acts, what string) []Act {
	list := []Act{}
	for i := range rows {
		if r := &rows[i]; r.What == what && strings.HasPrefix(r.Act, acts) && len(list) < maxOrders {
			list = append(list, Act{At: utc(r.At), Actor: r.Actor, Act: r.Act, Detail: r.Detail})
		}
	}
	return list
}

// pauseOrder returns the newest order that paused a target, if none resumed
// it since.
func pauseOrder(rows []store.AuditRow, target string) *store.AuditRow {
	for i := range rows {
		if r := &rows[i]; r.What == target {
			switch r.Act {
			case actPauseTarget:
				return r
			case actResumeTarget:
				return nil
			}
		}
	}
	return nil
}

// sortedLanes puts lanes in the order of their queues.
func sortedLanes(lanes []store.Lane) []store.Lane {
	return slices.SortedFunc(slices.Values(lanes), func(a, b store.Lane) int { return strings.Compare(a.Queue, b.Queue) })
}
