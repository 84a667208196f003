package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ebbhq/ebb/store"
)

// QueueLimit bounds a queue over all processes; zero parts do not.
type QueueLimit struct {
	Concurrency int     `json:"concurrency,omitempty"` // jobs at once
	Rate        float64 `json:"rate,omitempty"`        // starts a second
}

// LimitQueue bounds a queue over all processes; the zero limit ends that. Jobs
// that have a target are bounded by their target instead.
func (e *Engine) LimitQueue(ctx context.Context, name string, l QueueLimit) (Queue, error) {
	if err := checkName("queue", name, maxName); err != nil {
		return Queue{}, err
	}
	switch {
	case l.Concurrency < 0:
		return Queue{}, invalid("queue: %s: concurrency %d: must be 0 (no limit) or more", name, l.Concurrency)
	case !(l.Rate >= 0) || math.IsInf(l.Rate, 0):
		return Queue{}, invalid("queue: %s: rate %v: must be 0 (no limit) or more starts a second", name, l.Rate)
	}
	if err := e.store.LimitQueue(ctx, e.storeNow(), e.by(ctx), name, store.QueueLimit{Concurrency: l.Concurrency, Rate: l.Rate}); err != nil {
		return Queue{}, fmt.Errorf("queue: %s: %w", name, err)
	}
	q, _, err := e.queueState(ctx, name)
	if err != nil {
		return Queue{}, fmt.Errorf("queue: %s: %w", name, err)
	}
	return queueOf(&q), nil
}

// queueLimit is the limit of the queue that a gate is of; zero for targets.
func (e *Engine) queueLimit(ctx context.Context, target string) (store.QueueLimit, error) {
	queue, ok := queueOfGate(target)
	if !ok {
		return store.QueueLimit{}, nil
	}
	q, err := e.queueRule(ctx, queue)
	return q.Limit, err
}

// Kind is a kind of jobs that is held back.
type Kind struct {
	Name     string    `json:"name"`
	Paused   bool      `json:"paused"`
	PausedAt time.Time `json:"paused_at,omitzero"`
	PausedBy string    `json:"paused_by,omitempty"`
	// Workers counts the live processes that handle it.
	Workers int `json:"workers"`
}

// Kinds lists by name the kinds that are paused or that a live worker handles.
func (e *Engine) Kinds(ctx context.Context) ([]Kind, error) {
	now, err := e.now(ctx)
	if err != nil {
		return nil, fmt.Errorf("kinds: %w", err)
	}
	paused, err := e.store.PausedKinds(ctx)
	if err != nil {
		return nil, fmt.Errorf("kinds: %w", err)
	}
	processes, err := e.store.Processes(ctx)
	if err != nil {
		return nil, fmt.Errorf("kinds: %w", err)
	}
	rows, err := e.store.Audit(ctx, auditLimit)
	if err != nil {
		return nil, fmt.Errorf("kinds: %w", err)
	}
	workers := map[string]int{}
	names := slices.Clone(paused)
	for i := range processes {
		if now.Sub(processes[i].SeenAt) > e.lease {
			continue
		}
		for _, k := range processes[i].Kinds {
			workers[k]++
			names = append(names, k)
		}
	}
	slices.Sort(names)
	list := []Kind{}
	for _, name := range slices.Compact(names) {
		k := Kind{Name: name, Paused: slices.Contains(paused, name), Workers: workers[name]}
		if order := firstPause(rows, "kind", name); k.Paused && order != nil {
			k.PausedAt, k.PausedBy = utc(order.At), order.Actor
		}
		list = append(list, k)
	}
	return list, nil
}

// PauseKind starts nothing of a kind, in any queue, until it is resumed. One
// that nobody knows yet can be paused too.
func (e *Engine) PauseKind(ctx context.Context, kind string) (Kind, error) {
	return e.setKind(ctx, kind, true)
}

// ResumeKind lets a paused kind go; one that is not paused is not found.
func (e *Engine) ResumeKind(ctx context.Context, kind string) (Kind, error) {
	return e.setKind(ctx, kind, false)
}

func (e *Engine) setKind(ctx context.Context, kind string, paused bool) (Kind, error) {
	if err := checkName("kind", kind, maxName); err != nil {
		return Kind{}, err
	}
	if !paused {
		held, err := e.store.PausedKinds(ctx)
		if err != nil {
			return Kind{}, fmt.Errorf("kind: %s: %w", kind, err)
		}
		if !slices.Contains(held, kind) {
			return Kind{}, &unknownError{text: fmt.Sprintf("kind: %s: it is not paused", kind)}
		}
	}
	if err := e.store.PauseKind(ctx, e.storeNow(), e.by(ctx), kind, paused); err != nil {
		return Kind{}, fmt.Errorf("kind: %s: %w", kind, err)
	}
	all, err := e.Kinds(ctx)
	if err != nil {
		return Kind{}, err
	}
	if i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == kind }); i >= 0 {
		return all[i], nil
	}
	return Kind{Name: kind}, nil
}

// firstPause returns the order that paused a thing: the oldest since it was
// last resumed, as pausing twice changes nothing.
func firstPause(rows []store.AuditRow, noun, what string) *store.AuditRow {
	var first *store.AuditRow
	for i := range rows {
		if r := &rows[i]; r.What == what {
			switch r.Act {
			case noun + ".resume":
				return first
			case noun + ".pause":
				first = r
			}
		}
	}
	return first
}
