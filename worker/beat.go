package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// beat moves this process's counter so that others see that it lives, and
// brings the cancel orders back. Nothing else runs on its goroutine.
func (w *Worker) beat(ctx context.Context) {
	for w.untilBeat(ctx) {
		process := w.process.Load()
		if process == 0 {
			continue // being registered
		}
		sent, unsure := w.machine(), w.unsure()
		call, cancel := context.WithTimeout(ctx, w.config.Lease)
		orders, err := w.store.Beat(call, w.storeNow(), process)
		cancel()
		switch {
		case errors.Is(err, store.ErrLostProcess):
			w.mail.post(func(l *loop) { l.lost(process) })
			continue
		case err != nil:
			if ctx.Err() == nil {
				w.tell(Event{What: Erred, Text: "beat", Err: err})
			}
			continue
		}
		w.beatAt.Store(&sent)
		if len(orders) > 0 || unsure { // the loop may hold starts back
			w.mail.post(func(l *loop) { l.order(process, orders) })
		}
	}
}

// untilBeat waits until the next beat is due, or wanted.
func (w *Worker) untilBeat(ctx context.Context) bool {
	fired, stop := w.config.Machine.Timer(w.config.Beat)
	defer stop()
	select {
	case <-fired:
	case <-w.beatNow:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// unsure reports whether this process may have been taken for dead: the last
// beat that the store took is older than the lease. It was stopped, or the
// store was away. What it claimed before may be others' by now.
func (w *Worker) unsure() bool {
	at := w.beatAt.Load()
	return at != nil && w.machine().Sub(*at) >= w.config.Lease
}

// listen passes the store's wake-ups on.
func (w *Worker) listen(ctx context.Context) {
	for n := 1; ; n++ {
		wakes, err := w.store.Wakes(ctx)
		if err == nil {
			for range wakes {
				n = 1
				w.Wake()
			}
		} else if ctx.Err() == nil {
			w.tell(Event{What: Erred, Text: "wakes", Err: err})
		}
		if !w.pause(ctx, w.delay(n)) {
			return
		}
		w.Wake() // what was missed meanwhile
	}
}

// neighbour is another process as seen from here.
type neighbour struct {
	beat  int64
	since time.Time // machine time at which the beat was first seen
}

// watch looks after everybody: it takes over from processes that died, from
// those of this host as soon as it starts, and, in the eldest living process,
// keeps house.
func (w *Worker) watch(ctx context.Context) {
	seen := make(map[int64]neighbour)
	house := upkeep{Worker: w}
	wait := time.Duration(0)
	for w.pause(ctx, wait) {
		eldest, next, err := w.look(ctx, seen)
		if err != nil && ctx.Err() == nil {
			w.tell(Event{What: Erred, Text: "watch", Err: err})
		}
		w.mail.post(func(l *loop) { l.keepsHouse(eldest && err == nil) })
		wait = min(w.config.Beat, next)
		if eldest && err == nil {
			wait = min(wait, house.keep(ctx))
		}
		house.compare(ctx)
	}
}

// look notes the beats of all processes. It reaps those whose beat stands
// still for the lease, and at once those that this host knows to be gone. It
// reports whether this process is the eldest alive and when the next neighbour
// may have to be reaped.
func (w *Worker) look(ctx context.Context, seen map[int64]neighbour) (eldest bool, next time.Duration, err error) {
	next = w.config.Lease
	own := w.process.Load()
	call, cancel := w.call(ctx)
	defer cancel()
	processes, err := w.store.Processes(call)
	if err != nil {
		return false, next, err
	}
	now := w.machine()
	listed := make(map[int64]bool, len(processes))
	eldest = own != 0
	for i := range processes {
		p := &processes[i]
		listed[p.ID] = true
		before, known := seen[p.ID]
		if !known || before.beat != p.Beat {
			before = neighbour{p.Beat, now}
			seen[p.ID] = before
		}
		if p.ID == own {
			continue
		}
		still := now.Sub(before.since)
		if still < w.config.Lease && !identityOf(p).isGone(w.self, w.sight) {
			next = min(next, w.config.Lease-still)
			eldest = eldest && p.ID > own
			continue
		}
		if err := w.reap(call, *p); err != nil {
			return false, next, err
		}
	}
	for id := range seen {
		if !listed[id] {
			delete(seen, id)
		}
	}
	return eldest, next, nil
}

// reap takes over from a dead process.
func (w *Worker) reap(ctx context.Context, p store.Process) error {
	laws, err := w.readLaws(ctx)
	if err != nil {
		return err
	}
	decide, ended := inPlace(w.crashed(p, w.now()), laws), make(map[int64]Event)
	n, done, err := w.store.Reap(ctx, w.storeNow(), p.ID, p.Beat, func(j job.Job) store.Settle {
		s := decide(j)
		if s.To == job.Failed || s.To == job.Parked {
			j.Args = nil
			ended[j.Seq] = Event{What: Ended, To: s.To, Cause: s.Cause, Count: 1, Target: j.Target, Text: ByCrash, Job: j}
		}
		return s
	})
	if err != nil || !done {
		return err
	}
	w.tell(Event{What: Reaped, Process: p.ID, Count: n})
	for _, seq := range slices.Sorted(maps.Keys(ended)) {
		w.tell(ended[seq])
	}
	w.Wake()
	return nil
}
