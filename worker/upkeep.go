package worker

import (
	"context"
	"time"

	"github.com/ebbhq/ebb/store"
)

const (
	// maintainEvery is the time between two looks for what has expired; work
	// left over is done in steps of maintainRows, one after the other.
	maintainEvery = 15 * time.Second
	maintainRows  = 1000
	// redriveEvery is the time between two steps of a redrive with a rate.
	redriveEvery = time.Second
	// redriveRows is the most that one step moves.
	redriveRows = 1000
	// compareEvery is the time between two comparisons of the clocks.
	compareEvery = time.Minute
)

// upkeep is what one process does for all: deadlines, retention, counters and
// redrives. The eldest living process does it. Two may for a moment both
// think that they are: then steps are smaller and a redrive is faster for
// some seconds, and nothing is done twice.
type upkeep struct {
	*Worker
	maintainAt time.Time           // machine time
	compareAt  time.Time           // machine time
	steps      map[int64]time.Time // redrive → policy time of its last step here
	owed       map[int64]float64   // redrive → jobs its rate allows by now
}

// keep does what is to be done now and returns when to look again.
func (u *upkeep) keep(ctx context.Context) time.Duration {
	call, cancel := u.call(ctx)
	defer cancel()
	next := u.config.Beat
	if now := u.machine(); !now.Before(u.maintainAt) {
		more, err := u.store.Maintain(call, store.Maintenance{
			Now: u.storeNow(), SucceededKept: u.config.SucceededKept, FailedKept: u.config.FailedKept, Limit: maintainRows,
		})
		switch {
		case err != nil:
			u.erred(ctx, "maintain", err)
		case more:
			next = 0
		default:
			u.maintainAt = now.Add(maintainEvery)
		}
	}
	if wait, err := u.redrive(call); err != nil {
		u.erred(ctx, "redrive", err)
	} else {
		next = min(next, wait)
	}
	return next
}

// redrive moves every unfinished redrive by one step at its rate. Where it
// stands is in the store, so it goes on after a crash.
func (u *upkeep) redrive(ctx context.Context) (time.Duration, error) {
	const most = 100
	all, err := u.store.Redrives(ctx, most)
	if err != nil {
		return 0, err
	}
	next := u.config.Beat
	live := make(map[int64]bool)
	for _, r := range all {
		if !r.DoneAt.IsZero() {
			break // the unfinished come first
		}
		live[r.ID] = true
		n := u.allowed(r)
		if n == 0 {
			next = min(next, redriveEvery)
			continue
		}
		after, err := u.store.StepRedrive(ctx, u.storeNow(), r.ID, n)
		if err != nil {
			return 0, err
		}
		u.tell(Event{What: Redriven, Count: int(after.Moved - r.Moved)})
		switch {
		case !after.DoneAt.IsZero():
		case r.Rate > 0:
			next = min(next, redriveEvery)
		default:
			next = 0
		}
		u.Wake()
	}
	for id := range u.steps {
		if !live[id] {
			delete(u.steps, id)
			delete(u.owed, id)
		}
	}
	return next, nil
}

// allowed returns how many jobs the redrive's rate allows now. Time in which
// nobody stepped is not caught up: it would be a burst.
func (u *upkeep) allowed(r store.Redrive) int {
	if r.Rate <= 0 {
		return redriveRows
	}
	if u.steps == nil {
		u.steps, u.owed = make(map[int64]time.Time), make(map[int64]float64)
	}
	now := u.now()
	last, known := u.steps[r.ID]
	u.steps[r.ID] = now
	if !known {
		u.owed[r.ID] = max(1, min(r.Rate, redriveRows)) // its first second
	} else {
		u.owed[r.ID] = min(u.owed[r.ID]+r.Rate*now.Sub(last).Seconds(), max(1, r.Rate*u.config.Beat.Seconds()), redriveRows)
	}
	n := int(u.owed[r.ID])
	u.owed[r.ID] -= float64(n)
	return n
}

// compare measures the store's clock now and then.
func (u *upkeep) compare(ctx context.Context) {
	now := u.machine()
	if now.Before(u.compareAt) {
		return
	}
	if !u.compareAt.IsZero() {
		call, cancel := u.call(ctx)
		defer cancel()
		if err := u.compareClocks(call); err != nil {
			u.erred(ctx, "now", err)
		}
	}
	u.compareAt = now.Add(compareEvery)
}

func (u *upkeep) erred(ctx context.Context, call string, err error) {
	if ctx.Err() == nil {
		u.tell(Event{What: Erred, Text: call, Err: err})
	}
}
