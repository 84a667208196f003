package wave

import (
	"context"
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
)

// Result is the end of one item.
type Result[R any] struct {
	Value   R
	Err     error           // nil for success
	Failure failure.Failure // of Err
	Starts  int             // how often fn was called for it, over all waves
	Wave    int             // the wave that gave this result; 0 = the first pass
}

// Record tells what one wave did.
type Record struct {
	Number    int
	Planned   int // items that had failed
	Tried     int // of them, items that were started
	Recovered int // of them, items that succeeded
	StartedAt time.Time
	EndedAt   time.Time
}

// Report is what Run did: one result per item, in the items' order.
type Report[R any] struct {
	Results []Result[R]
	Waves   []Record
	Stopped Stop // why there was no further wave
}

// Failed returns the positions of the items that did not succeed.
func (r *Report[R]) Failed() []int {
	var failed []int
	for i := range r.Results {
		if r.Results[i].Err != nil {
			failed = append(failed, i)
		}
	}
	return failed
}

// Config changes how Run works. The zero value is ready to use.
type Config struct {
	Clock clock.Clock // the machine's if nil
	Seed  uint64      // of the draws; item i of start n has its own
	// Retry is passed to every item's tries, for a gate or a classifier.
	Retry []retry.Option
	// OnWave is called before a wave's cooldown.
	OnWave func(Wave)
}

// Run calls fn for every item with the policy's concurrency, spacing and
// in-slot tries, then in waves for what failed, as Next plans. The caller sees
// one result per item; a success in a wave overwrites the earlier failure.
// The error is the context's cause if it ended before the work did; what was
// not tried then carries it as its result.
func Run[T, R any](ctx context.Context, items []T, fn func(context.Context, T) (R, error), p *policy.Policy, cfg ...Config) (*Report[R], error) {
	run := &runner[T, R]{items: items, fn: fn, policy: p, report: &Report[R]{Results: make([]Result[R], len(items))}}
	if len(cfg) > 0 {
		run.Config = cfg[0]
	}
	if run.Clock == nil {
		run.Clock = clock.System{}
	}
	run.pass(ctx, First(p, len(items)))
	for done := 0; ; done++ {
		w, stop := Next(p, done, run.ledger())
		err := context.Cause(ctx)
		switch {
		case stop == Complete || stop != "" && err == nil:
			run.report.Stopped = stop
			return run.report, nil
		case err == nil:
			err = run.wave(ctx, w)
		}
		if err != nil {
			run.report.Stopped = Cancelled
			return run.report, err
		}
	}
}

type runner[T, R any] struct {
	Config
	items  []T
	fn     func(context.Context, T) (R, error)
	policy *policy.Policy
	report *Report[R]
}

func (r *runner[T, R]) ledger() []Entry {
	ledger := make([]Entry, len(r.report.Results))
	for i := range r.report.Results {
		ledger[i] = Entry{OK: r.report.Results[i].Err == nil, Class: r.report.Results[i].Failure.Class}
	}
	return ledger
}

// wave waits for the cooldown, runs the wave and records it.
func (r *runner[T, R]) wave(ctx context.Context, w Wave) error {
	if r.OnWave != nil {
		r.OnWave(w)
	}
	if err := clock.Sleep(ctx, r.Clock, w.Cooldown); err != nil {
		return err
	}
	rec := Record{Number: w.Number, Planned: len(w.Items), StartedAt: r.Clock.Now()}
	r.pass(ctx, w)
	for _, i := range w.Items {
		if r.report.Results[i].Wave != w.Number {
			continue
		}
		rec.Tried++
		if r.report.Results[i].Err == nil {
			rec.Recovered++
		}
	}
	rec.EndedAt = r.Clock.Now()
	r.report.Waves = append(r.report.Waves, rec)
	return nil
}

// pass tries every item of the wave once, in the order of the items.
func (r *runner[T, R]) pass(ctx context.Context, w Wave) {
	pace := &pacer{clock: r.Clock, spacing: w.Spacing}
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(max(w.Concurrency, 1), len(w.Items)) {
		workers.Go(func() {
			for i := range next {
				r.item(ctx, w.Number, i, pace)
			}
		})
	}
	for _, i := range w.Items {
		next <- i
	}
	close(next)
	workers.Wait()
}

// item gives one item its tries in the worker's slot. An item that the end of
// the context keeps from starting in a wave keeps its earlier failure.
func (r *runner[T, R]) item(ctx context.Context, wave, i int, pace *pacer) {
	result := r.report.Results[i]
	starts := result.Starts
	opts := append([]retry.Option{
		retry.WithClock(r.Clock), retry.WithSeed(r.Seed, uint64(i)), retry.WithHistory(retry.History{Starts: starts}),
	}, r.Retry...)
	v, err := retry.Do(ctx, r.policy, func(ctx context.Context) (R, error) {
		starts++
		return r.fn(ctx, r.items[i])
	}, append(opts, retry.WithPace(pace.wait))...)
	if starts == result.Starts && wave > 0 {
		return
	}
	r.report.Results[i] = Result[R]{Value: v, Err: err, Starts: starts, Wave: wave}
	if err != nil {
		r.report.Results[i].Failure = retry.FailureOf(err)
	}
}

// pacer keeps starts of all workers at least spacing apart.
type pacer struct {
	clock   clock.Clock
	spacing time.Duration

	mu   sync.Mutex
	next time.Time
}

// wait returns when the caller may start.
func (p *pacer) wait(ctx context.Context) error {
	if p.spacing == 0 {
		return context.Cause(ctx)
	}
	p.mu.Lock()
	now := p.clock.Now()
	at := p.next
	if at.Before(now) {
		at = now
	}
	p.next = at.Add(p.spacing)
	p.mu.Unlock()
	return clock.Sleep(ctx, p.clock, at.Sub(now))
}
