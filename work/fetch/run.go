package fetch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/wave"
	"github.com/ebbhq/ebb/worker"
)

// ErrLocal ends a run that our own machine keeps from saving anything. What is
// left is pending.
var ErrLocal = errors.New("fetch: this machine cannot go on")

// inWaves is the policy as waves apply it: the same contract for one page,
// with the waves' workers and spacing.
func inWaves(p policy.Policy) (policy.Policy, error) {
	if p.Waves.Count == 0 {
		return p, nil
	}
	p.Concurrency, p.Spacing = p.Waves.Concurrency, p.Waves.Spacing
	sealed, err := policy.Seal(p)
	if err != nil {
		return p, fmt.Errorf("fetch: policy %s: in waves: %w", p.Name, err)
	}
	return sealed, nil
}

// Run works until nothing is left that the policy would try, ctx ends, or our
// own machine cannot go on. Where it ended, another Run goes on.
func (r *Runner) Run(ctx context.Context) error {
	if r.o.Soft != nil {
		r.o.Soft.Known(r.Fetch().SameBody)
	}
	for {
		f := r.Fetch()
		var err error
		switch f.Phase {
		case Loading:
			return fmt.Errorf("fetch: %s: its input was not taken in whole; give it again", f.ID)
		case Passing:
			var taken int
			if err = r.pass(ctx); err == nil {
				taken, err = r.recall(ctx)
			}
			if err == nil && taken == 0 {
				err = r.plan(ctx)
			}
		case Cooling:
			err = r.cool(ctx)
		case Ended:
			return r.planned(ctx) // a process may have died before its account was written down
		}
		if err != nil {
			return err
		}
	}
}

// pass runs a worker until the fetch's queue is drained.
func (r *Runner) pass(ctx context.Context) error {
	f := r.Fetch()
	p := r.o.Policy
	if f.Wave() > 0 {
		p = r.gentle
	}
	left, err := r.left(ctx)
	if err != nil || left == 0 {
		return err
	}
	r.meter.begin(f.Wave(), left)
	r.o.Observe(Event{Type: EventPass, Wave: f.Wave(), Count: left})
	w, err := worker.New(r.o.Store, worker.Config{
		Handlers: map[string]worker.Handler{Kind: r.page}, Queues: []string{f.Queue()}, Policies: []policy.Policy{p},
		Classifiers: []failure.Classifier{resolver}, Concurrency: p.Concurrency, Turns: r.turns(), Seed: r.o.Seed, Clock: r.o.Clock,
		SucceededKept: -1, Drain: r.o.Drain, Observe: r.observe, Settings: "fetch",
	})
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	within, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var sides sync.WaitGroup
	sides.Go(func() { r.writeNotes(within) })
	done := make(chan error, 1)
	go func() { done <- w.Run(within) }()
	err = r.drained(within)
	stop(err)
	if ran := <-done; ran != nil {
		err = errors.Join(err, ran)
	}
	sides.Wait()
	r.writeNote(context.WithoutCancel(ctx))
	r.keepCount(context.WithoutCancel(ctx))
	return errors.Join(err, r.o.Sink.Flush())
}

// turns is how many round trips to the ledger are under way at once. One's own
// file takes them one by one anyway: then the results of many pages gather
// for one commit; 0 = the worker's default.
func (r *Runner) turns() int {
	if r.o.Exclusive {
		return 1
	}
	return 0
}

// lookEvery is how often the store is asked whether anything is left, next to
// the looks when everything known here has ended. Machine time.
const lookEvery = time.Second

// drained waits until nothing of the fetch is queued or runs.
func (r *Runner) drained(ctx context.Context) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.meter.empty:
		case <-look.C:
		}
		if since, why := r.meter.stuck(); since > r.o.LocalPatience {
			return fmt.Errorf("%w: for %s nothing could be saved: %s", ErrLocal, since.Round(time.Second), why)
		}
		left, err := r.left(ctx)
		switch {
		case err != nil:
			r.o.Log.Warn("fetch: counting what is left", "error", err)
		case left == 0:
			return nil
		default:
			r.meter.setLeft(left)
		}
		r.keepCount(ctx)
	}
}

// counts are the jobs of the fetch by state.
func (r *Runner) counts(ctx context.Context) (map[job.State]int64, error) {
	f := r.Fetch()
	return countsOf(ctx, r.o.Store, f.Queue())
}

func countsOf(ctx context.Context, s store.Reader, queue string) (map[job.State]int64, error) {
	queues, err := s.Queues(ctx)
	if err != nil {
		return nil, fmt.Errorf("fetch: counts: %w", err)
	}
	for _, q := range queues {
		if q.Name == queue {
			return q.Counts, nil
		}
	}
	return nil, nil
}

func total(counts map[job.State]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// left is how many jobs are queued or run.
func (r *Runner) left(ctx context.Context) (int64, error) {
	counts, err := r.counts(ctx)
	return counts[job.Queued] + counts[job.Running], err
}

// failures counts what failed since an instant, by class, and what its host's
// gate held for so long that it was parked: waves take up both.
type failures struct {
	classes []failure.Class
	counts  map[failure.Class]int64
	held    int64 // of them, held too long to be tried
}

// heldClass is the class under which waves know work that a gate held.
const heldClass = failure.Unavailable

// heldBack selects the pages that are parked because their host was down.
func (f *Fetch) heldBack() store.Filter {
	return store.Filter{State: job.Parked, Cause: retry.CauseTargetDown, Batch: f.ID}
}

// maxGroups bounds the groups of failures that are read at once.
const maxGroups = 1 << 20

func (r *Runner) failed(ctx context.Context, since time.Time) (failures, error) {
	f, fetch := failures{counts: map[failure.Class]int64{}}, r.Fetch()
	groups, err := r.o.Store.Groups(ctx, store.Filter{State: job.Failed, Queue: fetch.Queue(), Since: since}, maxGroups)
	if err != nil {
		return f, fmt.Errorf("fetch: failures: %w", err)
	}
	for _, g := range groups {
		f.add(g.Class, g.Count)
	}
	held, err := r.o.Store.Matching(ctx, fetch.heldBack(), maxGroups)
	if err != nil {
		return f, fmt.Errorf("fetch: what was held: %w", err)
	}
	f.held = int64(held)
	f.add(heldClass, f.held)
	return f, nil
}

func (f *failures) add(class failure.Class, n int64) {
	if n > 0 && f.counts[class] == 0 {
		f.classes = append(f.classes, class)
	}
	f.counts[class] += n
}

func (f *failures) sum() (n int64) {
	for _, c := range f.counts {
		n += c
	}
	return n
}

// plan notes what the pass did and plans the next wave, or ends the fetch.
func (r *Runner) plan(ctx context.Context) error {
	now, err := r.instant(ctx)
	if err != nil {
		return err
	}
	f := r.Fetch()
	var again failures
	if n := f.Wave(); n > 0 {
		if again, err = r.failed(ctx, f.Waves[n-1].StartAt); err != nil {
			return err
		}
	}
	all, err := r.failed(ctx, time.Time{})
	if err != nil {
		return err
	}
	ledger := make([]wave.Entry, len(all.classes))
	for i, c := range all.classes {
		ledger[i] = wave.Entry{Class: c}
	}
	next, stop := wave.Next(&r.o.Policy, f.Wave(), ledger)
	err = r.change(ctx, func(f *Fetch) bool {
		if f.Phase != Passing {
			return false // somebody else did
		}
		if n := f.Wave(); n > 0 {
			w := &f.Waves[n-1]
			w.Recovered, w.EndedAt = max(0, w.Planned-again.sum()), now
			w.Tried = max(0, w.Planned-again.held)
		}
		if stop != "" {
			f.Phase, f.Stopped, f.EndedAt = Ended, stop, now
			return true
		}
		f.Phase = Cooling
		w := Wave{
			Number: next.Number, Cooldown: next.Cooldown, Concurrency: next.Concurrency, Spacing: next.Spacing,
			PlannedAt: now, StartAt: now.Add(next.Cooldown),
		}
		for _, i := range next.Items {
			w.Planned += all.counts[all.classes[i]]
			w.Classes = append(w.Classes, all.classes[i].String())
		}
		f.Waves = append(f.Waves, w)
		return true
	})
	if err != nil {
		return err
	}
	return r.planned(ctx)
}

// planned tells what plan decided, and settles the account of a fetch that
// ended.
func (r *Runner) planned(ctx context.Context) error {
	f := r.Fetch()
	if n := f.Wave(); n > 0 && f.Phase == Cooling {
		r.o.Observe(Event{Type: EventCooling, Wave: n, Count: f.Waves[n-1].Planned, Until: f.Waves[n-1].StartAt})
	}
	if f.Phase != Ended || f.Tally != nil {
		return nil
	}
	tally, err := settle(ctx, r.o.Store, &f)
	if err != nil {
		return err
	}
	if err := r.foldCount(ctx, &f, &tally); err != nil {
		return err
	}
	r.o.Observe(Event{Type: EventEnded, Wave: f.Wave(), Text: string(f.Stopped), Tally: &tally})
	return r.change(ctx, func(f *Fetch) bool {
		f.Tally = &tally
		return true
	})
}

// cool waits for the cooldown and queues again what the wave takes up. Jobs
// that ended since the wave was planned are not its own, so that doing it
// twice, after a crash, does it once.
func (r *Runner) cool(ctx context.Context) error {
	f := r.Fetch()
	w := f.Waves[f.Wave()-1]
	now, err := r.instant(ctx)
	if err != nil {
		return err
	}
	r.meter.cooling(w.StartAt)
	if err := clock.Sleep(ctx, r.o.clock(), w.StartAt.Sub(now)); err != nil {
		return err
	}
	for _, name := range w.Classes {
		class, err := failure.ParseClass(name)
		if err != nil {
			return fmt.Errorf("fetch: %s: wave %d: %w", f.ID, w.Number, err)
		}
		filters := []store.Filter{{State: job.Failed, Batch: f.ID, Class: class}}
		if class == heldClass {
			filters = append(filters, f.heldBack())
		}
		for _, filter := range filters {
			filter.Until = w.StartAt
			if _, err := r.redrive(ctx, filter, fmt.Sprintf("ebb fetch: wave %d", w.Number)); err != nil {
				return err
			}
		}
	}
	return r.change(ctx, func(f *Fetch) bool {
		if f.Phase != Cooling {
			return false
		}
		f.Phase = Passing
		return true
	})
}

// redrive queues again what the filter selects, and returns how many.
func (r *Runner) redrive(ctx context.Context, filter store.Filter, actor string) (int64, error) {
	const step = 1000
	order, err := r.o.Store.StartRedrive(ctx, r.o.now(), store.Redrive{Filter: filter, Actor: actor})
	for err == nil && order.DoneAt.IsZero() {
		order, err = r.o.Store.StepRedrive(ctx, r.o.now(), order.ID, step)
	}
	if err != nil {
		return order.Moved, fmt.Errorf("fetch: redrive: %w", err)
	}
	return order.Moved, nil
}
