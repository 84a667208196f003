package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

// gauge counts what runs at once.
type gauge struct{ now, most, total atomic.Int32 }

func (g *gauge) handler(d time.Duration) Handler {
	return func(ctx context.Context, _ *Task) error {
		n := g.now.Add(1)
		defer g.now.Add(-1)
		for m := g.most.Load(); n > m && !g.most.CompareAndSwap(m, n); m = g.most.Load() {
		}
		g.total.Add(1)
		return sleep(ctx, d)
	}
}

func times(n int, j job.New) []job.New {
	list := make([]job.New, n)
	for i := range list {
		list[i] = j
	}
	return list
}

// TestPolicyConcurrency: a policy without a free slot holds up nobody else,
// and its jobs do not go back and forth.
func TestPolicyConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var narrow, broad gauge
		narrowPolicy := wide("narrow", func(p *policy.Policy) { p.Concurrency = 3 })
		enqueue(t, s, times(60, job.New{Kind: "narrow", Policy: "narrow"})...)
		enqueue(t, s, times(60, job.New{Kind: "broad", Policy: "wide"})...)
		r := newRig(t, s, Config{
			Concurrency: 20, Policies: []policy.Policy{narrowPolicy, wide("wide", nil)},
			Handlers: map[string]Handler{"narrow": narrow.handler(time.Second), "broad": broad.handler(time.Second)},
		})
		pass(10500 * time.Millisecond)
		if narrow.most.Load() != 3 || broad.most.Load() > 20 || broad.total.Load() != 60 {
			t.Errorf("narrow: %d at once; broad: %d at once, %d done; want 3, at most 20, 60", narrow.most.Load(), broad.most.Load(), broad.total.Load())
		}
		// All slots may be taken by others for a second, but not for long.
		if got := narrow.total.Load(); got < 25 || got > 33 {
			t.Errorf("%d narrow starts in 10.5 s of 3 a second, want about 33", got)
		}
		pass(time.Minute)
		if narrow.total.Load() != 60 {
			t.Errorf("%d narrow jobs ran, want 60", narrow.total.Load())
		}
		if held := len(r.seen(Held)); held > 40 {
			t.Errorf("%d leases went back, want those of the first guess at most", held)
		}
	})
}

// TestMixedPolicies: jobs of one kind under two policies share claims and
// still come to an end, without leases going back and forth for ever.
func TestMixedPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var g gauge
		for range 30 {
			enqueue(t, s, job.New{Kind: "k", Policy: "one"}, job.New{Kind: "k", Policy: "wide"})
		}
		one := wide("one", func(p *policy.Policy) { p.Concurrency = 1 })
		r := newRig(t, s, Config{
			Concurrency: 10, Policies: []policy.Policy{one, wide("wide", nil)},
			Handlers: map[string]Handler{"k": g.handler(time.Second)},
		})
		pass(2 * time.Minute)
		if g.total.Load() != 60 {
			t.Errorf("%d ran, want 60", g.total.Load())
		}
		if held := len(r.seen(Held)); held > 120 {
			t.Errorf("%d leases went back for 60 jobs", held)
		}
	})
}

func TestSpacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var g gauge
		enqueue(t, s, times(10, job.New{Kind: "k", Policy: "scrape"})...)
		r := newRig(t, s, Config{Handlers: map[string]Handler{"k": g.handler(time.Second)}})
		pass(time.Minute)
		started := r.seen(Started)
		if len(started) != 10 || g.most.Load() > 5 {
			t.Fatalf("%d starts, %d at once; want 10, at most 5", len(started), g.most.Load())
		}
		for i := 1; i < len(started); i++ {
			if gap := started[i].At.Sub(started[i-1].At); gap < 150*time.Millisecond {
				t.Errorf("start %d came %s after the last, want 150ms", i+1, gap)
			}
		}
	})
}

// TestSlotKeep: a job that waits for its next try keeps its policy's slot.
func TestSlotKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		one := wide("one", func(p *policy.Policy) { p.Concurrency, p.Slot = 1, policy.SlotKeep })
		r := newRig(t, s, Config{Policies: []policy.Policy{one}, Handlers: map[string]Handler{"k": func(_ context.Context, task *Task) error {
			if task.Start() < 3 {
				return errors.New("again")
			}
			return nil
		}}})
		seqs := r.enqueue(job.New{Kind: "k", Policy: "one", Args: []byte("a")})
		pass(time.Second)
		seqs = append(seqs, r.enqueue(job.New{Kind: "k", Policy: "one", Args: []byte("b"), DueAt: time.Now().Add(time.Second)})...)
		pass(20 * time.Second)
		if n := len(r.seen(Started)); n != 1 {
			t.Fatalf("%d starts, want a alone while it waits in its slot", n)
		}
		pass(time.Hour)
		if n := len(r.seen(Started)); n != 6 {
			t.Errorf("%d starts, want 3 of each", n)
		}
		for _, seq := range seqs {
			state(t, s, seq, job.Succeeded, "")
			if n := len(ledger(t, s, seq)); n != 3 {
				t.Errorf("job %d has %d ledger rows, want 3", seq, n)
			}
		}
	})
}

// TestStrictQueue: two processes, one strict queue: one job at a time, in
// order, and without waiting for a poll between them.
func TestStrictQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		if err := s.StrictQueue(t.Context(), "line", true); err != nil {
			t.Fatal(err)
		}
		var g gauge
		seqs := enqueue(t, s, times(20, job.New{Kind: "k", Queue: "line"})...)
		c := Config{Queues: []string{"line"}, Handlers: map[string]Handler{"k": g.handler(time.Second)}}
		newRig(t, s, c)
		newRig(t, s, c)
		pass(25 * time.Second)
		if g.most.Load() != 1 || g.total.Load() != 20 {
			t.Errorf("%d at once, %d done after 25 s; want 1, 20", g.most.Load(), g.total.Load())
		}
		var last time.Time
		for _, seq := range seqs {
			a := ledger(t, s, seq)[0]
			if a.StartedAt.Before(last) {
				t.Errorf("job %d started at %s, before its elder ended at %s", seq, a.StartedAt, last)
			}
			last = a.EndedAt
		}
	})
}

// TestQueuesTakeTurns: a long queue does not starve a short one.
func TestQueuesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var long, short gauge
		enqueue(t, s, times(100, job.New{Kind: "long", Queue: "long"})...)
		enqueue(t, s, times(4, job.New{Kind: "short", Queue: "short"})...)
		newRig(t, s, Config{
			Concurrency: 2, Queues: []string{"long", "short"},
			Handlers: map[string]Handler{"long": long.handler(time.Second), "short": short.handler(time.Second)},
		})
		pass(10 * time.Second)
		if short.total.Load() != 4 {
			t.Errorf("%d short jobs ran in 10 s beside %d long ones, want 4", short.total.Load(), long.total.Load())
		}
		pass(time.Minute)
		if long.total.Load() != 100 {
			t.Errorf("%d long jobs ran, want 100", long.total.Load())
		}
	})
}

// counting counts the calls that reach a store.
type counting struct {
	*memory.Store
	calls atomic.Int32
}

func (c *counting) QueueRules(ctx context.Context) ([]store.QueueRule, error) {
	c.calls.Add(1)
	return c.Store.QueueRules(ctx)
}

func (c *counting) Periodics(ctx context.Context) ([]store.Periodic, error) {
	c.calls.Add(1)
	return c.Store.Periodics(ctx)
}

func (c *counting) Targets(ctx context.Context, after string, limit int) ([]store.Gate, error) {
	c.calls.Add(1)
	return c.Store.Targets(ctx, after, limit)
}

func (c *counting) Matching(ctx context.Context, f store.Filter, limit int) (int, error) {
	c.calls.Add(1)
	return c.Store.Matching(ctx, f, limit)
}

func (c *counting) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	c.calls.Add(1)
	return c.Store.Turn(ctx, t)
}

func (c *counting) Beat(ctx context.Context, now time.Time, process int64) ([]store.Ref, error) {
	c.calls.Add(1)
	return c.Store.Beat(ctx, now, process)
}

func (c *counting) Processes(ctx context.Context) ([]store.Process, error) {
	c.calls.Add(1)
	return c.Store.Processes(ctx)
}

func (c *counting) NextDue(ctx context.Context, queues, kinds []string) (time.Time, error) {
	c.calls.Add(1)
	return c.Store.NextDue(ctx, queues, kinds)
}

func (c *counting) Redrives(ctx context.Context, limit int) ([]store.Redrive, error) {
	c.calls.Add(1)
	return c.Store.Redrives(ctx, limit)
}

func (c *counting) Maintain(ctx context.Context, m store.Maintenance) (store.Maintained, error) {
	c.calls.Add(1)
	return c.Store.Maintain(ctx, m)
}

func (c *counting) Now(ctx context.Context) (time.Time, error) {
	c.calls.Add(1)
	return c.Store.Now(ctx)
}

// TestIdleCost: 59 calls a minute in the eldest process, 41 in the others, as
// DESIGN.md says; a job enqueued meanwhile starts at once all the same.
func TestIdleCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		eldest, other := &counting{Store: s}, &counting{Store: s}
		c := Config{Handlers: map[string]Handler{"k": func(context.Context, *Task) error { return nil }}}
		a := newRig(t, eldest, c)
		pass(time.Second)
		newRig(t, other, c)
		pass(time.Second)
		eldest.calls.Store(0)
		other.calls.Store(0)
		pass(10 * time.Minute)
		if got := eldest.calls.Load(); got < 585 || got > 595 {
			t.Errorf("the eldest made %d calls in 10 idle minutes, want about 590", got)
		}
		if got := other.calls.Load(); got < 405 || got > 415 {
			t.Errorf("the other made %d calls in 10 idle minutes, want about 410", got)
		}
		start := time.Now()
		seq := a.enqueue(job.New{Kind: "k"})[0]
		pass(time.Millisecond)
		state(t, s, seq, job.Succeeded, "")
		if at := ledger(t, s, seq)[0].StartedAt; !at.Equal(store.Instant(start)) {
			t.Errorf("started %s after the enqueue, want at once", at.Sub(start))
		}
	})
}

// TestUnknownKindsAreIdle: a due job of a kind that nobody here handles is no
// reason to look for work once a second.
func TestUnknownKindsAreIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{Store: newStore()}
		r := newRig(t, s, Config{Handlers: map[string]Handler{"k": func(context.Context, *Task) error { return nil }}})
		r.enqueue(job.New{Kind: "unknown"})
		due := r.enqueue(job.New{Kind: "k", DueAt: time.Now().Add(10 * time.Minute)})[0]
		pass(time.Second)
		s.calls.Store(0)
		pass(9 * time.Minute)
		if got := s.calls.Load(); got < 522 || got > 540 {
			t.Errorf("%d calls in 9 minutes, want about 531 as of an idle process", got)
		}
		pass(time.Minute)
		j := state(t, s, due, job.Succeeded, "")
		if at := ledger(t, s, due)[0].StartedAt; !at.Equal(j.DueAt) {
			t.Errorf("started %s after its due time", at.Sub(j.DueAt))
		}
	})
}
