package engine

import (
	"context"
	"fmt"
	"math"
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
)

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
