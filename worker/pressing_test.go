package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// slow is a store whose turns take their time.
type slow struct {
	store.Store
	each  time.Duration
	turns atomic.Int32
	most  atomic.Int32 // that a claim of a lane asked for
}

func (s *slow) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	s.turns.Add(1)
	for _, c := range t.Lanes {
		s.most.Store(max(s.most.Load(), int32(c.Limit)))
	}
	answer, err := s.Store.Turn(ctx, t)
	if err == nil {
		err = sleep(ctx, s.each)
	}
	return answer, err
}

// TestLanesAreFedAhead: where starts end faster than turns, work is in hand for
// whoever ends while a turn is under way, and results go together: slots are
// hardly ever empty, and turns are few. Where turns take so long that all of it
// ends, none waits for results of what the last one brought. Never is more of a
// target in hand than fedAhead allows.
func TestLanesAreFedAhead(t *testing.T) {
	for _, tc := range []struct {
		turn, handler time.Duration
		share         float64 // of what the slots could do, at least
	}{
		{time.Millisecond, time.Millisecond, 0.85},
		{4 * time.Millisecond, 1600 * time.Microsecond, 0.8},
		{2 * time.Millisecond, 600 * time.Microsecond, 0.65},
	} {
		synctest.Test(t, func(t *testing.T) {
			const jobs, slots, targets, limit = 4000, 20, 10, 4
			s := &hands{slow: slow{Store: newStore(), each: tc.turn}, inHand: map[string]int{}}
			var g gauge
			work := g.handler(tc.handler)
			for i := range jobs {
				enqueue(t, s, job.New{Kind: "k", Policy: "p", Target: fmt.Sprint(i % targets)})
			}
			began := time.Now()
			r := newRig(t, s, Config{
				Policies: []policy.Policy{calling("p", func(p *policy.Policy) {
					p.Concurrency, p.PerTarget.Concurrency = slots, limit
				})},
				Handlers: map[string]Handler{"k": func(ctx context.Context, t *Task) error {
					return errors.Join(work(ctx, t), s.end(ctx, t))
				}},
			})
			if err := r.Quiet(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := g.total.Load(); n != jobs || g.most.Load() > slots || s.mostHand > fedAhead*limit {
				t.Errorf("%d starts, %d at once, %d of a target in hand; want %d, at most %d, at most %d", n, g.most.Load(), s.mostHand, jobs, slots, fedAhead*limit)
			}
			share := float64(jobs/slots*tc.handler) / float64(time.Since(began))
			t.Logf("turns of %s, handlers of %s: %.2f of what the slots could do, in %d turns", tc.turn, tc.handler, share, s.turns.Load())
			if n := s.turns.Load(); share < tc.share || n > jobs/slots*3/2 {
				t.Errorf("turns of %s, handlers of %s: %.2f of what the slots could do, in %d turns; want at least %.2f and at most %d",
					tc.turn, tc.handler, share, n, tc.share, jobs/slots*3/2)
			}
		})
	}
}

// TestUnlimitedLanesAreFedBySlots: a target without a limit would let this
// process take all that waits for it, and slots are few. What is asked for
// follows from free slots and from what ended, of which at most all jobs did.
func TestUnlimitedLanesAreFedBySlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, slots = 4000, 20
		s := &slow{Store: newStore(), each: time.Millisecond}
		var g gauge
		for range jobs {
			enqueue(t, s, job.New{Kind: "k", Policy: "p", Target: "x"})
		}
		r := newRig(t, s, Config{
			Policies: []policy.Policy{calling("p", func(p *policy.Policy) { p.Concurrency, p.PerTarget.Concurrency = slots, 0 })},
			Handlers: map[string]Handler{"k": g.handler(100 * time.Microsecond)},
		})
		if err := r.Quiet(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := g.total.Load(); n != jobs || s.most.Load() > 2*jobs+slots {
			t.Errorf("%d starts, %d claimed at once; want %d, at most %d", n, s.most.Load(), jobs, 2*jobs+slots)
		}
		t.Logf("%d claimed at once", s.most.Load())
	})
}

// enqueueTo enqueues jobs to so many targets, by turns.
func enqueueTo(t *testing.T, s store.Store, jobs, targets int) {
	t.Helper()
	all := make([]job.New, jobs)
	for i := range all {
		all[i] = job.New{Kind: "k", Policy: "p", Target: fmt.Sprint(i % targets)}
	}
	enqueue(t, s, all...)
}

// hands is a store that sees what is in hand of each target: claimed, and not
// ended yet.
type hands struct {
	slow
	mu       sync.Mutex
	inHand   map[string]int
	mostHand int
	all      int // in hand of all targets
	mostAll  int
	under    int // turns under way
	atOnce   int // the most of them
	beside   int // turns that left while another was under way
}

func (h *hands) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	h.mu.Lock()
	if h.under++; h.under > 1 {
		h.beside++
	}
	h.atOnce = max(h.atOnce, h.under)
	h.mu.Unlock()
	answer, err := h.slow.Turn(ctx, t)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.under--
	for i := range answer.Claimed {
		target := answer.Claimed[i].Target
		h.inHand[target]++
		h.mostHand = max(h.mostHand, h.inHand[target])
	}
	for _, released := range answer.Released {
		if released {
			h.all--
		}
	}
	h.all += len(answer.Claimed)
	h.mostAll = max(h.mostAll, h.all)
	return answer, err
}

func (h *hands) end(_ context.Context, t *Task) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inHand[t.Job().Target]--
	h.all--
	return nil
}

// TestManyLanesAreFedBySlots: however many targets there are whose limits would
// let this process take their work, about twice heldSlots times what its slots can
// run is in hand, or twice leastHeld. (What is on its way back, or was just
// discovered, comes on top.)
func TestManyLanesAreFedBySlots(t *testing.T) {
	for name, c := range map[string]struct {
		slots, limit int
		takes        time.Duration
	}{
		"many slots": {1000, 40, 50 * time.Millisecond},
		"few slots":  {20, 40, 100 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const jobs, targets = 30_000, 300
				s := &hands{slow: slow{Store: newStore(), each: 10 * time.Millisecond}, inHand: map[string]int{}}
				var g gauge
				work := g.handler(c.takes)
				enqueueTo(t, s, jobs, targets)
				r := newRig(t, s, Config{
					Concurrency: c.slots,
					Policies: []policy.Policy{calling("p", func(p *policy.Policy) {
						p.Concurrency, p.Batch, p.PerTarget.Concurrency = c.slots, c.slots, c.limit
					})},
					Handlers: map[string]Handler{"k": func(ctx context.Context, t *Task) error {
						return errors.Join(work(ctx, t), s.end(ctx, t))
					}},
				})
				if err := r.Quiet(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n, most := g.total.Load(), 2*max(heldSlots*c.slots, leastHeld)+2*c.slots; n != jobs || s.mostAll > most {
					t.Errorf("%d starts, %d in hand; want %d, at most %d", n, s.mostAll, jobs, most)
				}
				t.Logf("%d in hand, %d turns", s.mostAll, s.turns.Load())
			})
		})
	}
}

// TestTurnsOfManyLanesOverlap: where starts end faster than turns and are many,
// two turns are under way while the answer of a third is taken in, for the same
// lanes; and no more of a target is in hand than what may run at once and twice
// as much again. Who wants one turn at a time has one. Where the limits of all lanes
// let ten times as many run as there are slots, turns are as few: lanes take turns
// at them.
func TestTurnsOfManyLanesOverlap(t *testing.T) {
	for _, tc := range []struct{ targets, turns, most int }{{50, 0, 3}, {50, 1, 1}, {500, 0, 3}} {
		t.Run(fmt.Sprint(tc.targets, " targets, turns ", tc.turns), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { turnsOverlap(t, tc.targets, tc.turns, tc.most) })
		})
	}
}

func turnsOverlap(t *testing.T, targets, turns, most int) {
	const jobs, limit, slots = 60_000, 40, 2000
	s := &hands{slow: slow{Store: newStore(), each: 10 * time.Millisecond}, inHand: map[string]int{}}
	enqueueTo(t, s, jobs, targets)
	r := newRig(t, s, Config{
		Concurrency: slots, Turns: turns,
		Policies: []policy.Policy{calling("p", func(p *policy.Policy) {
			p.Concurrency, p.Batch, p.PerTarget.Concurrency = slots, slots, limit
		})},
		Handlers: map[string]Handler{"k": s.end},
	})
	if err := r.Quiet(t.Context()); err != nil {
		t.Fatal(err)
	}
	n, left := s.turns.Load(), 0
	for _, n := range s.inHand {
		left += n
	}
	t.Logf("%d turns, %d beside another, %d at once, %d of a target in hand, %d of all", n, s.beside, s.atOnce, s.mostHand, s.mostAll)
	if s.mostAll > 4*slots {
		t.Errorf("%d in hand, at most %d", s.mostAll, 4*slots)
	}
	if left != 0 || s.mostHand > 3*limit || s.atOnce != most {
		t.Errorf("%d were claimed and not run, %d of a target in hand, %d turns at once; want 0, at most %d, %d", left, s.mostHand, s.atOnce, 3*limit, most)
	}
	if want := 3 * jobs / slots; most > 1 && s.beside < int(n)/4 || int(n) > want {
		t.Errorf("%d turns, %d beside another; want at most %d, at least a quarter beside another", n, s.beside, want)
	}
}

// noted is a store that notes how many jobs of lanes each turn claims by name,
// and how many of them begin.
type noted struct {
	slow
	mu     sync.Mutex
	claims [][2]int
}

func (s *noted) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	var sum [2]int
	for _, c := range t.Lanes {
		if c.Target != "" {
			sum[0], sum[1] = sum[0]+c.Limit, sum[1]+c.Begin
		}
	}
	if sum[0] > 0 {
		s.mu.Lock()
		s.claims = append(s.claims, sum)
		s.mu.Unlock()
	}
	return s.slow.Turn(ctx, t)
}

// TestTheFirstEndsAreNoticed: handlers of a backlog that end at once are known to
// do so by their first results. The claim that goes with those is of as many as
// may run at once, and all of it begins.
func TestTheFirstEndsAreNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, targets, limit, slots = 20_000, 50, 40, 2000
		s := &noted{slow: slow{Store: newStore(), each: 10 * time.Millisecond}}
		enqueueTo(t, s, jobs, targets)
		r := newRig(t, s, Config{
			Concurrency: slots,
			Policies:    []policy.Policy{calling("p", func(p *policy.Policy) { p.Concurrency, p.Batch, p.PerTarget.Concurrency = slots, slots, limit })},
			Handlers:    map[string]Handler{"k": func(context.Context, *Task) error { return nil }},
		})
		if err := r.Quiet(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The first claim goes with the permits of what was discovered; perhaps one more
		// for the slots in which plain work was looked for.
		first := slices.IndexFunc(s.claims, func(c [2]int) bool { return c[1] > 0 })
		if want := [2]int{targets * limit, targets * limit}; first < 1 || first > 2 || s.claims[first] != want {
			t.Errorf("claims of %v jobs, of which so many begin; want %v the second time, or the third", s.claims[:min(4, len(s.claims))], want)
		}
	})
}

// TestPlainWorkBesideLanesThatFlow: a plain job that comes while turns serve
// the lanes goes with the next one. It does not wait for long, and turns stay as
// big as they were.
func TestPlainWorkBesideLanesThatFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, targets, limit, slots, each = 60_000, 50, 40, 2000, 10 * time.Millisecond
		s := &hands{slow: slow{Store: newStore(), each: each}, inHand: map[string]int{}}
		enqueueTo(t, s, jobs, targets)
		var mu sync.Mutex
		var came time.Time
		var longest time.Duration
		r := newRig(t, s, Config{
			Concurrency: 2 * slots,
			Policies: []policy.Policy{
				calling("p", func(p *policy.Policy) { p.Concurrency, p.Batch, p.PerTarget.Concurrency = slots, slots, limit }),
				policy.Base("plain"),
			},
			Handlers: map[string]Handler{"k": s.end, "plain": func(context.Context, *Task) error {
				mu.Lock()
				defer mu.Unlock()
				longest = max(longest, time.Since(came))
				return nil
			}},
		})
		for range 20 {
			pass(7 * time.Millisecond)
			mu.Lock()
			came = time.Now()
			mu.Unlock()
			enqueue(t, s, job.New{Kind: "plain", Policy: "plain"})
			pass(7 * time.Millisecond)
		}
		if err := r.Quiet(t.Context()); err != nil {
			t.Fatal(err)
		}
		// As many as carry the lanes' work, two for each plain job, whose result
		// waits for nobody, and a few at both ends.
		n, want := s.turns.Load(), int32(jobs/slots+2*20+10)
		t.Logf("%d turns, plain work started after %s at most", n, longest)
		if n > want || longest > 3*each {
			t.Errorf("%d turns, plain work started after %s at most; want at most %d and %s", n, longest, want, 3*each)
		}
	})
}

// TestPermitsDoNotWaitForResults: while slots are free, work that waits here for its
// permits gets them at once; the results of what has just started gather meanwhile.
func TestPermitsDoNotWaitForResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, each = 400, time.Millisecond
		s := &slow{Store: newStore(), each: each}
		enqueue(t, s, slices.Repeat([]job.New{{Kind: "k", Policy: "p", Target: "x"}}, slots)...)
		began := time.Now()
		var soon atomic.Int32
		newRig(t, s, Config{
			Concurrency: slots,
			Policies:    []policy.Policy{calling("p", func(p *policy.Policy) { p.PerTarget.Concurrency = slots })},
			Handlers: map[string]Handler{"k": func(ctx context.Context, _ *Task) error {
				if time.Since(began) <= 3*each {
					soon.Add(1)
				}
				return sleep(ctx, time.Second)
			}},
		})
		<-time.After(time.Second / 2)
		// Discovered, begun with permits for a half, then for the other; but for 20
		// slots in which plain work is looked for.
		if got := soon.Load(); got < slots-20 {
			t.Errorf("%d of %d slots are taken after three turns", got, slots)
		}
	})
}
