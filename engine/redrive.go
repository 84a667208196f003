package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/store"
)

const (
	// redriveStep is the most jobs moved in one transaction.
	redriveStep = 1000
	// redrivePause is the least time between two steps of a redrive with a
	// rate: a fast one moves more a step, not more steps.
	redrivePause = 100 * time.Millisecond
	// maxProbed is the most jobs that a redrive may select for their targets to
	// be called now. One that names a target may select any number.
	maxProbed = 10
)

// targetsOf lists the targets that are called now for a redrive's sake: the one
// that it names, or those of the few jobs that it selects.
func (e *Engine) targetsOf(ctx context.Context, f store.Filter, matching int) ([]string, error) {
	switch {
	case matching == 0 || ctx.Value(noProbeKey{}) != nil:
		return nil, nil
	case f.Target != "":
		return []string{f.Target}, nil
	case matching > maxProbed:
		return nil, nil
	}
	list, err := e.store.List(ctx, f, store.Page{Limit: maxProbed})
	if err != nil {
		return nil, err
	}
	var targets []string
	for i := range list {
		if t := list[i].Target; t != "" && !slices.Contains(targets, t) {
			targets = append(targets, t)
		}
	}
	slices.Sort(targets)
	return targets, nil
}

// probeAll lets the targets be called now. If one of them was held, the order
// takes its first step at once: the probe needs a job.
func (e *Engine) probeAll(ctx context.Context, r *Redrive, targets []string) error {
	sent := false
	for _, target := range targets {
		p, err := e.ProbeFor(ctx, target, "redrive "+r.ID)
		if err != nil {
			return fmt.Errorf("redrive: %s: %w", r.ID, err)
		}
		if p != nil {
			r.Probes = append(r.Probes, *p)
			sent = sent || p.State == ProbeSent
		}
	}
	if !sent {
		return nil
	}
	return e.stepRedrive(ctx, r)
}

// stepRedrive takes the first step of an order that was just given.
func (e *Engine) stepRedrive(ctx context.Context, r *Redrive) error {
	id, err := strconv.ParseInt(r.ID, 10, 64)
	if err != nil {
		return fmt.Errorf("redrive: %s: %w", r.ID, err)
	}
	n := redriveStep
	if r.Rate > 0 {
		n = 1
	}
	next, err := e.store.StepRedrive(ctx, e.storeNow(), id, n)
	if err != nil {
		return fmt.Errorf("redrive: %s: %w", r.ID, err)
	}
	stepped := redriveOf(&next)
	r.Moved, r.DoneAt = stepped.Moved, stepped.DoneAt
	return nil
}

// FinishRedrive steps an order at its rate until nothing is left. Each step
// is durable, so it can end at any point and be resumed by anybody; workers
// that step the same order share its rate.
func (e *Engine) FinishRedrive(ctx context.Context, id string, progress func(Redrive)) (Redrive, error) {
	r, err := e.redrive(ctx, id)
	if err != nil {
		return Redrive{}, err
	}
	now, err := e.now(ctx)
	if err != nil {
		return redriveOf(&r), fmt.Errorf("redrive: %s: %w", id, err)
	}
	waits := e.waits()
	pace := pace{rate: r.Rate, createdAt: r.CreatedAt, startedAt: now}
	began := waits.Now()
	for r.DoneAt.IsZero() {
		n, wait := pace.next(now.Add(waits.Now().Sub(began)), r.Moved)
		if n == 0 {
			left, err := e.left(ctx, &r, wait)
			if err != nil {
				return redriveOf(&r), fmt.Errorf("redrive: %s: %w", id, err)
			}
			if left {
				if err := clock.Sleep(ctx, waits, wait); err != nil {
					return redriveOf(&r), err
				}
				continue
			}
			n = 1 // moves nothing, and ends the order
		}
		next, err := e.store.StepRedrive(ctx, e.storeNow(), r.ID, n)
		if err != nil {
			return redriveOf(&r), fmt.Errorf("redrive: %s: %w", id, err)
		}
		r = next
		if progress != nil {
			progress(redriveOf(&r))
		}
	}
	return redriveOf(&r), nil
}

// left reports whether a wait is worth while: an order with nothing left need
// not wait for its next turn. Short waits are not worth the question.
func (e *Engine) left(ctx context.Context, r *store.Redrive, wait time.Duration) (bool, error) {
	if wait <= time.Second {
		return true, nil
	}
	n, err := e.store.Matching(ctx, r.Filter, 1)
	return n > 0, err
}

// redrive finds an order among the unfinished and the newest done.
func (e *Engine) redrive(ctx context.Context, id string) (store.Redrive, error) {
	rows, err := e.store.Redrives(ctx, MaxLimit)
	if err != nil {
		return store.Redrive{}, fmt.Errorf("redrive: %s: %w", id, err)
	}
	for _, r := range rows {
		if strconv.FormatInt(r.ID, 10) == id {
			return r, nil
		}
	}
	return store.Redrive{}, &unknownError{text: fmt.Sprintf("redrive: %s: no such redrive", id)}
}

// pace spreads a redrive over time. Two bounds hold: what this process has
// moved since it took the order up, so that an order resumed after a day does
// not catch up in one burst; and what the order as a whole has moved since it
// was given, so that several processes together keep the rate.
type pace struct {
	rate      float64 // a second; 0 = at once
	createdAt time.Time
	startedAt time.Time // when this process took it up
	asked     int64     // by this process
}

// next returns how many to move now, or how long to wait.
func (p *pace) next(now time.Time, moved int64) (n int, wait time.Duration) {
	if p.rate == 0 {
		return redriveStep, 0
	}
	ours, ourWait := due(p.rate, now.Sub(p.startedAt), p.asked)
	all, allWait := due(p.rate, now.Sub(p.createdAt), moved)
	if n = min(ours, all, redriveStep); n > 0 {
		p.asked += int64(n)
		return n, 0
	}
	return 0, max(ourWait, allWait, redrivePause)
}

// due returns how many of a steady rate are due after so long: the first at
// once, the next after 1/rate. With none due it says how long until one is.
func due(rate float64, after time.Duration, moved int64) (n int, wait time.Duration) {
	owed := math.Floor(rate*max(after, 0).Seconds()+1e-9) + 1 - float64(moved)
	if owed >= 1 {
		return int(min(owed, redriveStep)), 0
	}
	seconds := float64(moved)/rate - after.Seconds()
	return 0, time.Duration(min(max(seconds, 0), 3600) * float64(time.Second))
}
