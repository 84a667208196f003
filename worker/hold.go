package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

const (
	// sweepEvery is how often work of held targets is looked over for what was
	// held too long. Policy time.
	sweepEvery = time.Second
	// lookEvery is how often all targets are looked over. Machine time.
	lookEvery = time.Minute
	// endRows is the most that one step ends.
	endRows = 1000
	// targetPage is how many gates are read at once.
	targetPage = 500
	// probeActor signs the releases of parked work.
	probeActor = "ebb: target probe"
)

// A sweep ends the work of targets that was held longer than its policy's
// max_hold, parks that of disabled targets, and sends a probe of what was
// parked so. The eldest process does it for all, once a minute and, while a
// target holds its work, on policy time. Two may do it at once: every step is
// a transaction of the store's own.

// sweepResult is what a sweep found.
type sweepResult struct {
	nextAt time.Time // policy time of the next one; zero = with the next poll
	ended  []store.EndCount
	moved  int // so many parked jobs were queued again
}

// askSweep sweeps if it is time.
func (l *loop) askSweep() {
	if l.sweeping || !l.eldest || l.process == 0 || l.phase != working {
		return
	}
	now := l.now()
	timely := l.sweepDue || !l.sweepAt.IsZero() && !now.Before(l.sweepAt)
	if !timely || l.machine().Before(l.pauseUntil) {
		return
	}
	l.sweepDue, l.sweepAt, l.sweeping = false, time.Time{}, true
	l.group.Go(func() {
		ctx, cancel := l.call(l.side)
		defer cancel()
		found, err := l.sweep(ctx, now)
		l.mail.post(func(l *loop) { l.swept(found, err) })
	})
}

func (l *loop) swept(found sweepResult, err error) {
	l.sweeping = false
	l.tellAll(EndedEvents(store.SumEnds(found.ended))) // also what was ended before an error
	if err != nil {
		l.failures++
		l.pauseUntil = l.machine().Add(l.delay(l.failures))
		l.sweepDue = true
		l.tell(Event{What: Erred, Text: "holds", Err: err})
		return
	}
	l.sweepAt = found.nextAt
	if found.moved > 0 {
		l.tell(Event{What: Redriven, Count: found.moved})
		l.wake()
	}
}

// expectSweep sees to it that work is looked over when it may have been held
// too long by a gate that this process has shut.
func (l *loop) expectSweep(b *booth, now time.Time) {
	p := l.policies[b.policy]
	switch {
	case b.row.Disabled != "":
		l.sweepAt = earlier(l.sweepAt, now)
	case p == nil || !p.Gate || p.MaxHold <= 0:
	default:
		if left := holdLeft(&b.state, now, p.MaxHold, true); left >= 0 {
			l.sweepAt = earlier(l.sweepAt, now.Add(max(left, sweepEvery)))
		}
	}
}

// sweep looks over all targets.
func (w *Worker) sweep(ctx context.Context, now time.Time) (sweepResult, error) {
	var found sweepResult
	parked, err := w.store.Matching(ctx, parkedOf(""), 1)
	if err != nil {
		return found, err
	}
	for after := ""; ; {
		page, err := w.store.Targets(ctx, after, targetPage)
		if err != nil {
			return found, err
		}
		for i := range page {
			g := &page[i]
			if after = g.Target; strings.HasPrefix(after, store.QueuePrefix) {
				continue
			}
			ended, next, err := w.endHeld(ctx, g, now)
			found.ended = append(found.ended, ended...)
			if err != nil {
				return found, err
			}
			found.nextAt = earlier(found.nextAt, next)
			if parked == 0 && len(ended) == 0 {
				continue
			}
			moved, next, err := w.probeParked(ctx, g, now)
			if err != nil {
				return found, err
			}
			found.moved += moved
			found.nextAt = earlier(found.nextAt, next)
		}
		if len(page) < targetPage {
			return found, nil
		}
	}
}

// endHeld ends what the target has held too long, and returns when to look
// again; zero = nothing of it is held by what counts.
func (w *Worker) endHeld(ctx context.Context, g *store.Gate, now time.Time) (ended []store.EndCount, next time.Time, err error) {
	if g.Disabled != "" {
		return w.parkDisabled(ctx, g.Target)
	}
	soon := time.Duration(-1)
	for _, name := range slices.Sorted(maps.Keys(w.policies)) {
		p := w.policies[name]
		if !p.Gate || p.MaxHold <= 0 {
			continue
		}
		for _, isRetry := range []bool{false, true} {
			if left := holdLeft(&g.State, now, p.MaxHold, isRetry); left >= 0 && (soon < 0 || left < soon) {
				soon = left
			}
			cutoff, ok := g.State.HeldCutoff(now, p.MaxHold, isRetry)
			if !ok {
				continue
			}
			more, err := w.endAll(ctx, endingOf(p, isRetry, store.Ending{Target: g.Target, Policy: name, DueBy: cutoff, Retries: isRetry}))
			ended = append(ended, more...)
			if err != nil {
				return ended, next, err
			}
		}
	}
	if soon < 0 {
		return ended, next, nil
	}
	if len(ended) == 0 && soon < sweepEvery { // who else could it be?
		lanes, err := w.store.Lanes(ctx, g.Target, 1)
		if err != nil || !slices.ContainsFunc(lanes, func(n store.Lane) bool { return n.Firsts+n.Retries > 0 }) {
			return nil, next, err
		}
	}
	next = now.Add(max(soon, sweepEvery))
	more, first, err := w.endHeldBefore(ctx, g, now)
	if !first.IsZero() && first.Before(next) {
		next = first
		if least := now.Add(sweepEvery); next.Before(least) {
			next = least
		}
	}
	return append(ended, more...), next, err
}

// holdLeft is how long the present hold must still last until work that was
// due before it has been held for so long; negative where nothing is held now.
func holdLeft(s *gate.State, now time.Time, limit time.Duration, isRetry bool) time.Duration {
	const moment = time.Microsecond
	if s.HeldBetween(now, now.Add(moment), isRetry) == 0 {
		return -1
	}
	return max(0, limit-s.HeldBetween(time.Time{}, now, isRetry))
}

// endHeldBefore ends jobs that earlier holds had taken a part of the time of.
func (w *Worker) endHeldBefore(ctx context.Context, g *store.Gate, now time.Time) (ended []store.EndCount, next time.Time, err error) {
	type heldOver struct {
		policy *policy.Policy
		retry  bool
	}
	over := make(map[heldOver][]int64)
	for after := int64(0); ; {
		jobs, err := w.store.HeldBefore(ctx, g.Target, after, endRows)
		if err != nil {
			return nil, next, err
		}
		for i := range jobs {
			j := &jobs[i]
			after = j.Seq
			p := w.policyOf(j)
			if p == nil || !p.Gate || p.MaxHold <= 0 {
				continue
			}
			isRetry := store.Retrying(j.History)
			left := p.MaxHold - j.History.Held - g.State.HeldBetween(j.DueAt, now, isRetry)
			switch {
			case j.DueAt.After(now):
			case left <= 0:
				k := heldOver{p, isRetry}
				over[k] = append(over[k], j.Seq)
			default:
				next = earlier(next, now.Add(left))
			}
		}
		if len(jobs) < endRows {
			break
		}
	}
	for k, seqs := range over {
		for part := range slices.Chunk(seqs, endRows) {
			e := endingOf(k.policy, k.retry, store.Ending{Target: g.Target, Seqs: part, Any: true, DueBy: store.Never, Limit: endRows})
			more, err := w.store.EndWaiting(ctx, w.storeNow(), e)
			ended = append(ended, more...)
			if err != nil {
				return ended, next, err
			}
		}
	}
	return ended, next, nil
}

// endingOf says what becomes of work that was held for max_hold.
func endingOf(p *policy.Policy, isRetry bool, e store.Ending) store.Ending {
	e.To, e.Cause = job.Parked, retry.CauseTargetDown
	if p.FailsHeld(isRetry) {
		e.To, e.Cause = job.Failed, retry.CauseExpired
	}
	return e
}

// endAll ends all that is selected, step by step.
func (w *Worker) endAll(ctx context.Context, e store.Ending) (ended []store.EndCount, err error) {
	for e.Limit = endRows; ; {
		more, err := w.store.EndWaiting(ctx, w.storeNow(), e)
		if ended = append(ended, more...); err != nil || store.EndTotal(more) < endRows {
			return ended, err
		}
	}
}

// parkDisabled parks what waits for a target that takes no work any more.
func (w *Worker) parkDisabled(ctx context.Context, target string) (ended []store.EndCount, next time.Time, err error) {
	e := store.Ending{Target: target, Any: true, DueBy: store.Never, To: job.Parked, Cause: job.Disabled}
	if ended, err = w.endAll(ctx, e); err != nil {
		return ended, next, err
	}
	for e.Limit = endRows; ; {
		jobs, err := w.store.HeldBefore(ctx, target, 0, endRows)
		if err != nil || len(jobs) == 0 {
			return ended, next, err
		}
		e.Seqs = e.Seqs[:0]
		for i := range jobs {
			e.Seqs = append(e.Seqs, jobs[i].Seq)
		}
		more, err := w.store.EndWaiting(ctx, w.storeNow(), e)
		if ended = append(ended, more...); err != nil || len(more) == 0 {
			return ended, next, err
		}
	}
}

// parkedOf selects what was parked because its target was down.
func parkedOf(target string) store.Filter {
	return store.Filter{State: job.Parked, Cause: retry.CauseTargetDown, Target: target}
}

// probeParked keeps an eye on a target whose work was parked. When it is well
// all go, in their order, by a redrive, which goes on whoever carries it. While
// it is not, one of them is let out when a probe may start, unless other work
// that is due waits for the target anyway.
func (w *Worker) probeParked(ctx context.Context, g *store.Gate, now time.Time) (moved int, next time.Time, err error) {
	if g.Disabled != "" {
		return 0, next, nil
	}
	jobs, err := w.store.List(ctx, parkedOf(g.Target), store.Page{Limit: 1})
	if err != nil || len(jobs) == 0 {
		return 0, next, err
	}
	interval := w.probeEvery(g.Policy)
	next = now.Add(min(interval, time.Minute))
	if g.State.Phase == gate.Closed || g.State.Phase == gate.Ramping {
		moved, err = w.releaseParked(ctx, g.Target)
		return moved, next, err
	}
	if g.OpenAt.After(now) { // no probe may start before
		return 0, earlier(next, g.OpenAt), nil
	}
	lanes, err := w.store.Lanes(ctx, g.Target, 1)
	if err != nil {
		return 0, next, err
	}
	for _, l := range lanes {
		if !l.LookAt.IsZero() && !l.LookAt.After(now.Add(sweepEvery)) {
			return 0, next, nil // something else is the probe
		}
	}
	switch err = w.store.Retry(ctx, w.storeNow(), probeActor, jobs[0].Seq); {
	case errors.Is(err, store.ErrState), errors.Is(err, store.ErrNotFound): // somebody else was faster
		return 0, next, nil
	case err != nil:
		return 0, next, err
	}
	return 1, next, nil
}

// releaseParked lets all go that was parked because the target was down: the
// first of them now, the others as any redrive, whoever carries it.
func (w *Worker) releaseParked(ctx context.Context, target string) (moved int, err error) {
	redrives, err := w.store.Redrives(ctx, targetPage)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(redrives, func(r store.Redrive) bool {
		return r.DoneAt.IsZero() && r.Actor == probeActor && r.Filter.Target == target
	})
	var order store.Redrive
	if i >= 0 {
		order = redrives[i]
	} else if order, err = w.store.StartRedrive(ctx, w.storeNow(), store.Redrive{Filter: parkedOf(target), Actor: probeActor}); err != nil {
		return 0, err
	}
	after, err := w.store.StepRedrive(ctx, w.storeNow(), order.ID, endRows)
	return int(after.Moved - order.Moved), err
}

// probeEvery is the time between two probes of parked work.
func (w *Worker) probeEvery(name string) time.Duration {
	p := w.policies[name]
	if p == nil {
		p = w.policies[policy.DefaultName]
	}
	return max(p.Breaker.Open, sweepEvery)
}

// Work of a strict queue is held here, with its lease: nothing may overtake
// it. So this process ends it.

// expiresAt is when max_hold will be over for such a job, if its target goes
// on holding it; zero if that does not count.
func (l *loop) expiresAt(r *run, now time.Time) time.Time {
	p := r.policy
	if !p.Gate || p.MaxHold <= 0 || r.job.Target == "" {
		return time.Time{}
	}
	s := &r.entry.track.booths[0].state
	if s.HeldBetween(now, now.Add(time.Microsecond), r.entry.retry) == 0 {
		return time.Time{}
	}
	return now.Add(p.MaxHold - r.job.History.Held - s.HeldBetween(r.job.DueAt, now, r.entry.retry))
}

// expire fails or parks it when its time is over, and reports whether it did.
func (l *loop) expire(r *run, now time.Time) bool {
	if at := l.expiresAt(r, now); at.IsZero() || at.After(now) {
		return false
	}
	l.unline(r)
	l.vacate(r)
	to := endingOf(r.policy, r.entry.retry, store.Ending{})
	r.settle = &store.Settle{Ref: r.ref(), To: to.To, Cause: to.Cause, History: r.job.History}
	r.verdict = verdict{to: to.To}
	l.pending = append(l.pending, r)
	return true
}
