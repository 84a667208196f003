package worker

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

// shaky is a store whose turns fail now and then: some are done and their
// answers lost, some are not done. Of others the swaps are lost.
type shaky struct {
	*memory.Store
	turns           atomic.Int64
	lose, fail, hit int64 // every so many turns; 0 = never
}

func (s *shaky) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	n := s.turns.Add(1)
	every := func(k int64) bool { return k > 0 && n%k == 0 }
	if every(s.fail) {
		return store.Turned{}, errCut
	}
	if every(s.hit) { // somebody else swaps first
		for i := range t.Swaps {
			other := gateNow(s.Store, t.Swaps[i].Target) //nolint:contextcheck // a look from beside
			other.State.SeenAt++
			if _, err := s.SwapGate(ctx, t.Now, store.AuditRow{Act: "target.touch"}, store.Swap{Gate: other}); err != nil {
				return store.Turned{}, err
			}
		}
	}
	answer, err := s.Store.Turn(ctx, t)
	if every(s.lose) {
		return store.Turned{}, errCut
	}
	return answer, err
}

func gateNow(s store.Flow, target string) store.Gate {
	rows, err := s.Gates(context.Background(), []string{target})
	if err != nil {
		panic(err)
	}
	return rows[0]
}

// TestLostSwaps: swaps that are lost, turns that fail and answers that do not
// come never exceed a limit, lose no outcome of a swap, and leave no permit
// behind.
func TestLostSwaps(t *testing.T) {
	for name, s := range map[string]*shaky{
		"swaps are lost":   {hit: 2},
		"turns fail":       {fail: 3},
		"answers are lost": {lose: 3},
		"all of it":        {hit: 2, fail: 7, lose: 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s.Store = newStore()
				rigs := fleet(t, s, 3, Config{
					Concurrency: 10, Policies: []policy.Policy{calling("four", func(p *policy.Policy) { p.PerTarget.Concurrency = 4 })},
					Handlers: map[string]Handler{"k": func(ctx context.Context, _ *Task) error { return sleep(ctx, 20*time.Millisecond) }},
				})
				var seqs []int64
				for i := range 200 {
					seqs = append(seqs, enqueue(t, s, job.New{Kind: "k", Policy: "four", Target: fmt.Sprint("t", i%3)})...)
				}
				pass(5 * time.Minute)
				byTarget := map[string][]job.Attempt{}
				for _, seq := range seqs {
					j := state(t, s, seq, job.Succeeded, "")
					byTarget[j.Target] = append(byTarget[j.Target], ledger(t, s, seq)...)
				}
				for target, rows := range byTarget {
					if most := mostAtOnce(rows); most > 4 {
						t.Errorf("%s: %d at once, want at most 4", target, most)
					}
				}
				for _, r := range rigs {
					r.stop()
				}
				for target := range byTarget {
					noPermits(t, s, target)
				}
			})
		})
	}
}

// TestLostSwapKeepsOutcomes: failures that a lost swap was to tell are told by
// the next.
func TestLostSwapKeepsOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shaky{Store: newStore(), hit: 2}
		target := &server{down: errDown, takes: 10 * time.Millisecond}
		newRig(t, s, Config{
			Policies: []policy.Policy{breaking("b", func(p *policy.Policy) { p.PerTarget.Concurrency = 1 })},
			Handlers: map[string]Handler{"k": target.handle},
		})
		enqueue(t, s, times(10, job.New{Kind: "k", Policy: "b", Target: "a"})...)
		pass(10 * time.Second)
		if n := len(target.called()); n != 3 {
			t.Errorf("%d calls, want 3: each failure was told", n)
		}
		if g := gateNow(s, "a"); g.State.Phase != gate.Open {
			t.Errorf("the breaker is %s", g.State.Phase)
		}
	})
}

// cutFlow is cut with the store's flow control.
type cutFlow struct {
	cut
	store.Flow
}

// TestReapedPermitsReturn: the permits of a process that died are others' when
// it is reaped, and the probe's place is free.
func TestReapedPermitsReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		dying := &cutFlow{cut: cut{Store: s}, Flow: s}
		c := Config{Policies: []policy.Policy{calling("two", func(p *policy.Policy) { p.PerTarget.Concurrency = 2 })}}
		c.Handlers = map[string]Handler{"k": func(ctx context.Context, _ *Task) error { <-ctx.Done(); return ctx.Err() }}
		a := newRig(t, dying, c)
		seqs := enqueue(t, s, times(4, job.New{Kind: "k", Policy: "two", Target: "a"})...)
		pass(time.Second)
		if g := gateOf(t, s, "a"); len(g.Grants) != 1 || g.Grants[0].Size() != 2 {
			t.Fatalf("grants %v, want two permits", g.Grants)
		}
		dying.gone.Store(true)
		var done gauge
		c.Handlers = map[string]Handler{"k": done.handler(time.Second)}
		newRig(t, s, c)
		pass(26 * time.Second)
		if n := done.total.Load(); n == 0 {
			t.Error("nobody has the dead process's permits")
		}
		pass(2 * time.Minute)
		for _, seq := range seqs {
			state(t, s, seq, job.Succeeded, "")
		}
		if done.most.Load() > 2 {
			t.Errorf("%d at once, want 2", done.most.Load())
		}
		noPermits(t, s, "a")
		dying.gone.Store(false)
		a.stop()
	})
}

// TestLostProcessStartsAnew: a process that was taken for dead holds nothing,
// and goes on as a new one.
func TestLostProcessStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var g gauge
		r := newRig(t, s, Config{
			Policies: []policy.Policy{calling("two", func(p *policy.Policy) { p.PerTarget.Concurrency = 2 })},
			Handlers: map[string]Handler{"k": g.handler(10 * time.Second)},
		})
		seqs := enqueue(t, s, times(6, job.New{Kind: "k", Policy: "two", Target: "a"})...)
		pass(time.Second)
		all, err := s.Processes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, done, err := s.Reap(t.Context(), time.Time{}, all[0].ID, all[0].Beat, r.crashed(all[0], time.Now())); err != nil || !done {
			t.Fatal(done, err)
		}
		pass(5 * time.Minute)
		for _, seq := range seqs {
			state(t, s, seq, job.Succeeded, "")
		}
		noPermits(t, s, "a")
	})
}

// TestDrainGivesPermitsBack: a process that stops leaves no permit, no lease
// and no row behind.
func TestDrainGivesPermitsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := newRig(t, s, Config{
			Policies: []policy.Policy{calling("two", func(p *policy.Policy) { p.PerTarget.Concurrency = 2 }), calling("slow", func(p *policy.Policy) { p.PerTarget.Rate = 15 })},
			Handlers: map[string]Handler{"k": func(ctx context.Context, _ *Task) error { return sleep(ctx, 700*time.Millisecond) }},
		})
		seqs := enqueue(t, s, times(10, job.New{Kind: "k", Policy: "two", Target: "a"})...)
		seqs = append(seqs, enqueue(t, s, times(10, job.New{Kind: "k", Policy: "slow", Target: "b"})...)...)
		pass(100 * time.Millisecond)
		r.Stop()
		pass(2 * time.Second)
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
		r.ended <- nil
		noPermits(t, s, "a")
		noPermits(t, s, "b")
		if all, err := s.Processes(t.Context()); err != nil || len(all) > 0 {
			t.Errorf("%d processes are left, %v", len(all), err)
		}
		for _, seq := range seqs {
			if j := jobOf(t, s, seq); j.State != job.Succeeded && (j.State != job.Queued || j.History.Starts != 0) {
				t.Errorf("job %d is %s after %d starts", seq, j.State, j.History.Starts)
			}
		}
	})
}

// TestCancelWhileHeld: an order reaches work that waits for its permit here.
func TestCancelWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		newRig(t, s, Config{
			Policies: []policy.Policy{calling("one", func(p *policy.Policy) { p.PerTarget.Concurrency = 1 })},
			Handlers: map[string]Handler{"k": func(ctx context.Context, _ *Task) error { return sleep(ctx, time.Minute) }},
		})
		seqs := enqueue(t, s, times(3, job.New{Kind: "k", Policy: "one", Target: "a"})...)
		pass(100 * time.Millisecond)
		if _, err := s.Cancel(t.Context(), time.Time{}, "somebody", seqs[1]); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		state(t, s, seqs[1], job.Cancelled, "")
		pass(3 * time.Minute)
		state(t, s, seqs[2], job.Succeeded, "")
		noPermits(t, s, "a")
	})
}

// TestSuspectsPassTheGate: a job that crashed twice runs alone, and by its
// target's leave.
func TestSuspectsPassTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var g gauge
		rest := g.handler(time.Second)
		seqs := crashedTwice(t, s, times(4, job.New{Kind: "k", Policy: "two", Target: "a"})...)
		newRig(t, s, Config{
			Policies: []policy.Policy{calling("two", func(p *policy.Policy) { p.PerTarget.Concurrency = 2 })},
			Queues:   []string{"elsewhere"}, Handlers: map[string]Handler{"k": rest},
		})
		pass(time.Minute)
		for _, seq := range seqs {
			state(t, s, seq, job.Succeeded, "")
		}
		if g.most.Load() != 1 {
			t.Errorf("%d suspects at once, want 1", g.most.Load())
		}
		noPermits(t, s, "a")
	})
}

// TestSuspectsAreHeldElsewhere: a suspect whose target's breaker is open waits
// in the store like everybody else, and comes back in time.
func TestSuspectsAreHeldElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		target := &server{down: errDown}
		seqs := crashedTwice(t, s, times(6, job.New{Kind: "k", Policy: "b", Target: "a"})...)
		// What crashed before opens no breaker, so others do.
		enqueue(t, s, times(3, job.New{Kind: "k", Queue: "elsewhere", Policy: "b", Target: "a"})...)
		newRig(t, s, Config{
			Policies: []policy.Policy{breaking("b", nil)}, Queues: []string{"elsewhere"},
			Handlers: map[string]Handler{"k": target.handle},
		})
		pass(10 * time.Second)
		before := len(target.called())
		if before < 3 || before > 5 {
			t.Errorf("%d calls before the breaker opened, want 3 to 5", before)
		}
		for _, seq := range seqs {
			if j := jobOf(t, s, seq); j.State != job.Queued {
				t.Errorf("job %d is %s, want it to wait in the store", seq, j.State)
			}
		}
		target.set(nil)
		until := gateOf(t, s, "a").State.OpenUntil.Time()
		pass(5 * time.Minute)
		for _, seq := range seqs {
			state(t, s, seq, job.Succeeded, "")
		}
		if at := target.called()[before]; !at.Equal(until) {
			t.Errorf("the probe came %s after the breaker's time", at.Sub(until))
		}
	})
}

// crashedTwice enqueues jobs that two processes died of.
func crashedTwice(t *testing.T, s store.Store, jobs ...job.New) []int64 {
	t.Helper()
	ctx := t.Context()
	for i := range jobs {
		jobs[i].Queue = "elsewhere"
	}
	seqs := enqueue(t, s, jobs...)
	for range 2 {
		p, err := s.Register(ctx, time.Time{}, store.Process{Kinds: []string{"k"}, Queues: []string{"elsewhere"}})
		if err != nil {
			t.Fatal(err)
		}
		n := len(jobs)
		answer, err := s.Turn(ctx, store.Turn{Process: p.ID, Lanes: []store.LaneClaim{{Queue: "elsewhere", Kinds: []string{"k"}, Target: jobs[0].Target, Firsts: n, Retries: n, Limit: n, Begin: n}}})
		if err != nil || len(answer.Claimed) != n {
			t.Fatal(len(answer.Claimed), err)
		}
		crash := func(j job.Job) store.Settle {
			h := j.History.Started(time.Now())
			h.Crashes++
			return store.Settle{Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Queued, History: h, Attempt: &job.Attempt{Class: failure.Crash}}
		}
		if _, _, err := s.Reap(ctx, time.Time{}, p.ID, p.Beat, crash); err != nil {
			t.Fatal(err)
		}
	}
	return seqs
}
