package worker

import (
	"context"
	"maps"
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
// think that they are: nothing is done twice, and a redrive keeps its rate.
type upkeep struct {
	*Worker
	maintainAt time.Time // machine time
	compareAt  time.Time // machine time
	redrives   map[int64]*taken
}

// taken is a redrive as this process carries it on.
type taken struct {
	at    time.Time // policy time at which it took it up
	asked int64     // moved by it since then
}

// keep does what is to be done now and returns when to look again.
func (u *upkeep) keep(ctx context.Context) time.Duration {
	call, cancel := u.call(ctx)
	defer cancel()
	next := u.config.Beat
	if now := u.machine(); !now.Before(u.maintainAt) {
		done, err := u.store.Maintain(call, store.Maintenance{
			Now: u.storeNow(), SucceededKept: u.config.SucceededKept, FailedKept: u.config.FailedKept, Limit: maintainRows,
		})
		u.tellAll(ExpiredEvents(done.Expired))
		switch {
		case err != nil:
			u.erred(ctx, "maintain", err)
		case done.More:
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
	maps.DeleteFunc(u.redrives, func(id int64, _ *taken) bool { return !live[id] })
	return next, nil
}

// allowed returns how many jobs the redrive's rate allows now. Two bounds
// hold: what this process has moved since it took the order up, so that one
// resumed after a day is no burst; and what was moved since the order was
// given, so that all who step it share the rate.
func (u *upkeep) allowed(r store.Redrive) int {
	if r.Rate <= 0 {
		return redriveRows
	}
	if u.redrives == nil {
		u.redrives = make(map[int64]*taken)
	}
	now := u.now()
	t := u.redrives[r.ID]
	if t == nil {
		t = &taken{at: now}
		u.redrives[r.ID] = t
	}
	ours := steady(r.Rate, now.Sub(t.at)) - t.asked
	all := steady(r.Rate, now.Sub(r.CreatedAt)) - r.Moved
	n := max(0, min(ours, all, redriveRows))
	t.asked += n
	return int(n)
}

// steady returns how many of a steady rate are due after so long: the first
// at once, the next after 1/rate.
func steady(rate float64, after time.Duration) int64 {
	return int64(min(rate*max(after, 0).Seconds()+1e-9, 1e15)) + 1
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
