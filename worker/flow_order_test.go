package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/dispatch"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// TestQueueLimit: a queue's own limit holds over all its work, with targets
// and without, in all processes; a target's own limit holds within it.
func TestQueueLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		if err := s.LimitQueue(t.Context(), time.Time{}, "op", "mail", store.QueueLimit{Concurrency: 5}); err != nil {
			t.Fatal(err)
		}
		fleet(t, s, 3, Config{
			Queues: []string{"mail"}, Policies: []policy.Policy{calling("two", func(p *policy.Policy) { p.PerTarget.Concurrency = 2 })},
			Handlers: map[string]Handler{"k": func(ctx context.Context, _ *Task) error { return sleep(ctx, 300*time.Millisecond) }},
		})
		plain := enqueue(t, s, times(30, job.New{Kind: "k", Queue: "mail", Policy: "two"})...)
		a := enqueue(t, s, times(30, job.New{Kind: "k", Queue: "mail", Policy: "two", Target: "a"})...)
		b := enqueue(t, s, times(30, job.New{Kind: "k", Queue: "mail", Policy: "two", Target: "b"})...)
		pass(time.Minute)
		all := slices.Concat(plain, a, b)
		for _, seq := range all {
			state(t, s, seq, job.Succeeded, "")
		}
		for _, c := range []struct {
			name string
			seqs []int64
			most int
		}{{"the queue", all, 5}, {"a", a, 2}, {"b", b, 2}} {
			if most := mostAtOnce(starts(t, s, c.seqs)); most > c.most {
				t.Errorf("%s: %d at once, want at most %d", c.name, most, c.most)
			}
		}
		for _, target := range []string{"a", "b", store.QueueTarget("mail")} {
			noPermits(t, s, target)
		}
	})
}

// TestLimitWhileRunning: a limit that is set while work waits holds from then
// on, and one that is lifted does not.
func TestLimitWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var g gauge
		newRig(t, s, Config{
			Concurrency: 10, Policies: []policy.Policy{calling("free", nil)},
			Handlers: map[string]Handler{"k": g.handler(time.Second)},
		})
		enqueue(t, s, times(1000, job.New{Kind: "k", Policy: "free"})...)
		limit := func(l store.QueueLimit) {
			if err := s.LimitQueue(t.Context(), time.Time{}, "op", job.DefaultQueue, l); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []int32{10, 3, 10} {
			pass(5 * time.Second)
			if got := g.now.Load(); got != want {
				t.Errorf("%d run, want %d", got, want)
			}
			if limit(store.QueueLimit{Concurrency: 3}); want == 3 {
				limit(store.QueueLimit{})
			}
		}
	})
}

// TestPausedKindAndTarget: neither starts until it is resumed, and their time
// does not count as held.
func TestPausedKindAndTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		target := &server{}
		fleet(t, s, 2, Config{
			Policies: []policy.Policy{breaking("b", func(p *policy.Policy) { p.MaxHold = time.Minute })},
			Handlers: map[string]Handler{"k": target.handle, "other": target.handle},
		})
		swap := func(e gate.Event) {
			g := gateOf(t, s, "a")
			g.State, _ = gate.Step(gate.Config{}, g.State, e, time.Now(), 0)
			g.OpenAt = store.Never
			if _, resumed := e.(gate.Resume); resumed {
				g.OpenAt = time.Time{}
			}
			if ok, err := s.SwapGate(t.Context(), time.Time{}, store.AuditRow{Act: "target.pause", What: "a"}, store.Swap{Gate: g, Wake: true}); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
		swap(gate.Pause{})
		if err := s.PauseKind(t.Context(), time.Time{}, "op", "other", true); err != nil {
			t.Fatal(err)
		}
		held := enqueue(t, s, job.New{Kind: "k", Policy: "b", Target: "a"})[0]
		paused := enqueue(t, s, job.New{Kind: "other", Policy: "b", Target: "z"})[0]
		pass(10 * time.Minute)
		if n := len(target.called()); n != 0 {
			t.Errorf("%d calls while all is paused", n)
		}
		begin := time.Now()
		swap(gate.Resume{})
		if err := s.PauseKind(t.Context(), time.Time{}, "op", "other", false); err != nil {
			t.Fatal(err)
		}
		pass(20 * time.Second)
		state(t, s, held, job.Succeeded, "")
		state(t, s, paused, job.Succeeded, "")
		if row := ledger(t, s, held)[0]; row.Held != 0 {
			t.Errorf("an operator's pause counts as %s held by %s", row.Held, row.HeldBy)
		} else if lag := row.StartedAt.Sub(begin); lag > 15*time.Second {
			t.Errorf("it started %s after the target was resumed", lag)
		}
	})
}

// TestKeysStayInOrder: jobs of a key run one after the other in their order,
// whatever fails, in any number of processes and whatever else goes on.
func TestKeysStayInOrder(t *testing.T) {
	for _, slot := range []policy.Slot{policy.SlotRelease, policy.SlotKeep} {
		for _, target := range []string{"", "a"} {
			t.Run(fmt.Sprintf("%s, target %q", slot, target), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStore()
					var mu sync.Mutex
					began := map[string][]int64{}
					c := Config{
						Policies: []policy.Policy{calling("keyed", func(p *policy.Policy) {
							p.Slot, p.PerTarget.Concurrency = slot, 3
							p.Backoff.Base = 2 * time.Second
						})},
						Handlers: map[string]Handler{"k": func(ctx context.Context, task *Task) error {
							j := task.Job()
							mu.Lock()
							began[j.Key] = append(began[j.Key], j.Seq)
							mu.Unlock()
							if err := sleep(ctx, 100*time.Millisecond); err != nil {
								return err
							}
							if j.Seq%3 == 0 && task.Start() < 3 {
								return failure.New(failure.Plain, "again", nil)
							}
							return nil
						}},
					}
					old := fleet(t, s, 3, c)
					var seqs []int64
					for i := range 60 {
						seqs = append(seqs, enqueue(t, s, job.New{Kind: "k", Policy: "keyed", Target: target, Key: fmt.Sprint("key", i%4)})...)
					}
					pass(5 * time.Second)
					old[0].stop() // its waiting retries go back, to their places
					fleet(t, s, 1, c)
					pass(5 * time.Minute)
					byKey := map[string][]job.Attempt{}
					for _, seq := range seqs {
						j := state(t, s, seq, job.Succeeded, "")
						byKey[j.Key] = append(byKey[j.Key], ledger(t, s, seq)...)
					}
					for key, list := range began {
						if !slices.IsSorted(list) {
							t.Errorf("%s ran in the order %v", key, list)
						}
						if most := mostAtOnce(byKey[key]); most != 1 {
							t.Errorf("%s: %d at once", key, most)
						}
					}
				})
			})
		}
	}
}

// TestCatchUp: after all processes were down, overdue retries of a target go
// out in batches, and first attempts at once.
func TestCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		c := Config{
			Policies: []policy.Policy{calling("batched", func(p *policy.Policy) { p.Batch = 10 })},
			Handlers: map[string]Handler{"k": func(_ context.Context, task *Task) error {
				if task.Start() == 1 && string(task.Args()) != "first" {
					return failure.New(failure.Plain, "again", nil)
				}
				return nil
			}},
		}
		old := newRig(t, s, c)
		seqs := enqueue(t, s, times(35, job.New{Kind: "k", Policy: "batched", Target: "a"})...)
		pass(10 * time.Second)
		old.stop()
		pass(10 * time.Minute)
		begin := time.Now()
		fresh := enqueue(t, s, times(50, job.New{Kind: "k", Policy: "batched", Target: "a", Args: []byte("first")})...)
		newRig(t, s, c)
		pass(3 * time.Minute)
		for _, seq := range fresh {
			if row := ledger(t, s, seq)[0]; !row.StartedAt.Equal(begin) {
				t.Fatalf("a first attempt started after %s", row.StartedAt.Sub(begin))
			}
		}
		var again []time.Time
		for _, seq := range seqs {
			state(t, s, seq, job.Succeeded, "")
			again = append(again, ledger(t, s, seq)[1].StartedAt)
		}
		slices.SortFunc(again, time.Time.Compare)
		for i := 10; i < len(again); i++ {
			if gap := again[i].Sub(again[i-10]); gap < dispatch.CatchUpEvery {
				t.Errorf("retry %d came %s after the tenth before it, want %s", i, gap, dispatch.CatchUpEvery)
			}
		}
		if last := again[len(again)-1].Sub(begin); last > 2*time.Minute {
			t.Errorf("the last retry came after %s, want about 90s", last)
		}
	})
}

// TestPlainAndLanesShare: neither side starves the other of slots.
func TestPlainAndLanesShare(t *testing.T) {
	for _, slots := range []int{1, 2, 9} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				var plain, lane gauge
				newRig(t, s, Config{
					Concurrency: slots, Policies: []policy.Policy{calling("free", nil)},
					Handlers: map[string]Handler{"p": plain.handler(time.Second), "l": lane.handler(time.Second)},
				})
				enqueue(t, s, times(1000, job.New{Kind: "p", Policy: "free"})...)
				for i := range 1000 {
					enqueue(t, s, job.New{Kind: "l", Policy: "free", Target: fmt.Sprint("t", i%7)})
				}
				pass(50 * time.Second)
				p, l := plain.total.Load(), lane.total.Load()
				if total := int(p + l); total < 48*slots || p < int32(total)*3/10 || l < int32(total)*3/10 {
					t.Errorf("%d plain and %d lane starts in 50 s of %d slots, want half each", p, l, slots)
				}
			})
		})
	}
}

// TestStrictQueueWithATarget: the head of a strict queue waits for its
// target's gate, nothing overtakes it, and max_hold ends its wait.
func TestStrictQueueWithATarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		if err := s.StrictQueue(t.Context(), "strict", true); err != nil {
			t.Fatal(err)
		}
		target := &server{down: errDown}
		fleet(t, s, 2, Config{
			Queues: []string{"strict"},
			Policies: []policy.Policy{breaking("b", func(p *policy.Policy) {
				p.Attempts, p.MaxHold, p.Breaker.Consecutive = 1, 10*time.Minute, 1
			})},
			Handlers: map[string]Handler{"k": target.handle},
		})
		begin := time.Now()
		seqs := enqueue(t, s, times(4, job.New{Kind: "k", Queue: "strict", Policy: "b", Target: "a"})...)
		other := enqueue(t, s, job.New{Kind: "k", Queue: "strict", Policy: "b", Target: "b"})[0]
		pass(20 * time.Second)
		state(t, s, seqs[0], job.Failed, retry.CauseExhausted)
		if n := len(target.called()); n != 1 {
			t.Errorf("%d calls, want the one that opened the breaker", n)
		}
		pass(time.Minute)
		calls := target.called()
		if len(calls) < 2 {
			t.Fatal("no probe came")
		}
		target.set(nil)
		pass(10 * time.Minute)
		rows := starts(t, s, append(seqs, other))
		for i, row := range rows {
			if row.Seq != append(seqs, other)[i] {
				t.Errorf("start %d was of job %d", i, row.Seq)
			}
		}
		state(t, s, other, job.Succeeded, "")
		if rows[1].Held <= 0 || !rows[1].StartedAt.Equal(begin.Add(rows[1].Held)) {
			t.Errorf("the probe was held for %s and started after %s", rows[1].Held, rows[1].StartedAt.Sub(begin))
		}
	})
}

// TestSpacingOfLanes: starts of a policy keep their distance whatever targets
// they call.
func TestSpacingOfLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		newRig(t, s, Config{Handlers: map[string]Handler{"k": func(ctx context.Context, _ *Task) error { return sleep(ctx, time.Second) }}})
		begin := time.Now()
		var seqs []int64
		for i := range 30 {
			seqs = append(seqs, enqueue(t, s, job.New{Kind: "k", Policy: "polite", Target: fmt.Sprint("host", i%3)})...)
		}
		seqs = append(seqs, enqueue(t, s, times(10, job.New{Kind: "k", Policy: "polite"})...)...)
		pass(time.Minute)
		rows := starts(t, s, seqs)
		if len(rows) != 40 {
			t.Fatalf("%d starts, want 40", len(rows))
		}
		for i := 1; i < len(rows); i++ {
			if gap := rows[i].StartedAt.Sub(rows[i-1].StartedAt); gap < 150*time.Millisecond {
				t.Errorf("start %d came %s after the last, want 150ms", i+1, gap)
			}
		}
		if most := mostAtOnce(rows); most > 5 {
			t.Errorf("%d at once, want at most 5", most)
		}
		if took := rows[39].StartedAt.Sub(begin); took > 12*time.Second {
			t.Errorf("the last started after %s, want about 8s", took)
		}
	})
}

// TestLanesArriveInTurns: of what one claim brought of several lanes, the first
// of each comes first. Lane by lane, the last one would be late at every claim.
func TestLanesArriveInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		of := func(target string) job.New { return job.New{Kind: "k", Policy: "free", Target: target} }
		jobs := append(times(3, of("a")), append(times(2, of("b")), of("c"))...)
		if _, err := s.Enqueue(t.Context(), time.Time{}, jobs); err != nil {
			t.Fatal(err)
		}
		var order []string
		newRig(t, s, Config{
			Concurrency: 20, Turns: 1, Policies: []policy.Policy{calling("free", nil)}, Handlers: lasting(time.Second),
			Observe: func(e Event) {
				if e.What == Claimed {
					order = append(order, e.Job.Target)
				}
			},
		})
		pass(time.Minute)
		if want := []string{"a", "b", "c", "a", "b", "a"}; !slices.Equal(order[:min(6, len(order))], want) {
			t.Errorf("claimed %v, want %v", order, want)
		}
	})
}
