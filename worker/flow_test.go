package worker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// calling is a policy of work with a target, without a gate's holds unless the
// test adds them.
func calling(name string, change func(*policy.Policy)) policy.Policy {
	return wide(name, func(p *policy.Policy) {
		p.Breaker, p.Budget, p.FirstShare = policy.Breaker{}, policy.Budget{}, 0
		p.Backoff = policy.Backoff{Base: 30 * time.Second, Factor: 1}
		for _, rule := range []string{"jitter", "growth", "window", "budget", "floor", "hold"} {
			p.Waivers = append(p.Waivers, policy.Waiver{Rule: rule, Reason: "exact instants", Expires: time.Now().AddDate(1, 0, 0)})
		}
		if change != nil {
			change(p)
		}
	})
}

// starts lists the ledger of the jobs by the time of their starts.
func starts(t *testing.T, s store.Store, seqs []int64) []job.Attempt {
	t.Helper()
	var all []job.Attempt
	for _, seq := range seqs {
		all = append(all, ledger(t, s, seq)...)
	}
	slices.SortFunc(all, func(a, b job.Attempt) int { return a.StartedAt.Compare(b.StartedAt) })
	return all
}

// mostAtOnce is the greatest number of starts that overlap.
func mostAtOnce(rows []job.Attempt) int {
	most := 0
	for _, a := range rows {
		n := 0
		for _, b := range rows {
			if !b.StartedAt.After(a.StartedAt) && b.EndedAt.After(a.StartedAt) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func gateOf(t *testing.T, s store.Flow, target string) store.Gate {
	t.Helper()
	rows, err := s.Gates(t.Context(), []string{target})
	if err != nil {
		t.Fatal(err)
	}
	return rows[0]
}

// noPermits fails the test if a permit of the target is out.
func noPermits(t *testing.T, s store.Flow, target string) {
	t.Helper()
	if g := gateOf(t, s, target); len(g.Grants) > 0 || g.State.InFlight != 0 || g.State.Retries != 0 {
		t.Errorf("%s: grants %v, in flight %d, retries %d; want none", target, g.Grants, g.State.InFlight, g.State.Retries)
	}
}

// fleet runs workers on one store.
func fleet(t *testing.T, s store.Store, n int, c Config) []*rig {
	t.Helper()
	var rigs []*rig
	for range n {
		rigs = append(rigs, newRig(t, s, c))
	}
	return rigs
}

// TestTargetConcurrency: however many processes there are, a target never gets
// more calls at once than its limit, and gets about as many.
func TestTargetConcurrency(t *testing.T) {
	for _, workers := range []int{1, 4} {
		for _, length := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 3 * time.Second} {
			t.Run(fmt.Sprintf("%d workers, %s", workers, length), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const jobs, limit = 80, 4
					s := newStore()
					begin := time.Now()
					fleet(t, s, workers, Config{
						Concurrency: 10, Policies: []policy.Policy{calling("four", func(p *policy.Policy) { p.PerTarget.Concurrency = limit })},
						Handlers: map[string]Handler{"k": func(ctx context.Context, _ *Task) error { return sleep(ctx, length) }},
					})
					seqs := enqueue(t, s, times(jobs, job.New{Kind: "k", Policy: "four", Target: "a"})...)
					ideal := jobs / limit * length
					pass(ideal + ideal/5 + 5*time.Second)
					for _, seq := range seqs {
						state(t, s, seq, job.Succeeded, "")
					}
					rows := starts(t, s, seqs)
					if most := mostAtOnce(rows); most != limit {
						t.Errorf("%d at once, want %d", most, limit)
					}
					took := rows[len(rows)-1].EndedAt.Sub(begin)
					t.Logf("took %s of %s", took, ideal)
					if took > ideal+ideal/10+time.Second {
						t.Errorf("took %s, want about %s", took, ideal)
					}
					noPermits(t, s, "a")
				})
			})
		}
	}
}

// TestTargetRate: starts of a target come at its rate, whoever makes them.
func TestTargetRate(t *testing.T) {
	for _, rate := range []float64{2, 10, 200} {
		for _, workers := range []int{1, 3} {
			t.Run(fmt.Sprintf("%g a second, %d workers", rate, workers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStore()
					fleet(t, s, workers, Config{
						Policies: []policy.Policy{calling("paced", func(p *policy.Policy) { p.PerTarget.Rate = rate })},
						Handlers: map[string]Handler{"k": func(ctx context.Context, _ *Task) error { return sleep(ctx, 30*time.Millisecond) }},
					})
					n := int(10 * rate)
					seqs := enqueue(t, s, times(n, job.New{Kind: "k", Policy: "paced", Target: "a"})...)
					pass(20 * time.Second)
					rows := starts(t, s, seqs)
					if len(rows) != n {
						t.Fatalf("%d starts, want %d", len(rows), n)
					}
					every := time.Duration(float64(time.Second) / rate)
					for i := 1; i < n; i++ {
						if gap := rows[i].StartedAt.Sub(rows[i-1].StartedAt); gap < every-time.Microsecond {
							t.Fatalf("start %d came %s after the one before, want %s", i, gap, every)
						}
					}
					took, ideal := rows[n-1].StartedAt.Sub(rows[0].StartedAt), every*time.Duration(n-1)
					t.Logf("took %s of %s", took, ideal)
					if took > ideal+ideal/5 {
						t.Errorf("took %s, want about %s", took, ideal)
					}
					noPermits(t, s, "a")
				})
			})
		}
	}
}

// TestWindowBudget: in any window the retries of a target are at most the
// floor and its share of the first attempts, over all processes.
func TestWindowBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const floor, ratio, ttl = 5, 0.2, 10 * time.Second
		s := newStore()
		fleet(t, s, 3, Config{
			Policies: []policy.Policy{calling("budgeted", func(p *policy.Policy) {
				p.Budget = policy.Budget{Kind: policy.BudgetWindow, Ratio: ratio, Floor: floor, TTL: ttl}
				p.Backoff = policy.Backoff{Base: 2 * time.Second, Factor: 1}
				p.MaxHold = time.Hour
			})},
			Handlers: map[string]Handler{"k": func(ctx context.Context, task *Task) error {
				if err := sleep(ctx, 50*time.Millisecond); err != nil || task.Start() > 2 {
					return err
				}
				return failure.New(failure.Plain, "once more", nil)
			}},
		})
		var seqs []int64
		for range 60 {
			seqs = append(seqs, enqueue(t, s, times(2, job.New{Kind: "k", Policy: "budgeted", Target: "a"})...)...)
			pass(time.Second)
		}
		pass(15 * time.Minute)
		retries := 0
		rows := starts(t, s, seqs)
		for i, from := range rows {
			allowed, spent := float64(floor), 0
			for _, r := range rows[i:] {
				if r.StartedAt.Sub(from.StartedAt) >= ttl {
					break
				}
				if r.Start == 1 {
					allowed += ratio
				} else if spent++; float64(spent) > allowed+1e-9 {
					t.Fatalf("%d retries within %s of %s, allowed %g", spent, r.StartedAt.Sub(from.StartedAt), from.StartedAt, allowed)
				}
			}
			if from.Start > 1 {
				retries++
			}
		}
		if retries != 2*len(seqs) {
			t.Errorf("%d retries in a quarter of an hour, want %d", retries, 2*len(seqs))
		}
		held := 0
		for _, r := range rows {
			if r.HeldBy == gate.HeldBudget.String() && r.Held > 0 {
				held++
			}
		}
		if held == 0 {
			t.Error("no start says that the budget held it")
		}
		noPermits(t, s, "a")
	})
}

// TestHangingTarget: one target that does not answer takes no slot from
// another beyond its own limit.
func TestHangingTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		fleet(t, s, 2, Config{
			Concurrency: 10, Policies: []policy.Policy{calling("four", func(p *policy.Policy) { p.PerTarget.Concurrency = 4 })},
			Handlers: map[string]Handler{"k": func(ctx context.Context, task *Task) error {
				if task.Job().Target == "dead" {
					<-ctx.Done()
					return ctx.Err()
				}
				return sleep(ctx, 10*time.Millisecond)
			}},
		})
		enqueue(t, s, times(500, job.New{Kind: "k", Policy: "four", Target: "dead"})...)
		pass(time.Second)
		for i := range 200 {
			seq := enqueue(t, s, job.New{Kind: "k", Policy: "four", Target: fmt.Sprint("well", i%5)})[0]
			pass(50 * time.Millisecond)
			j := state(t, s, seq, job.Succeeded, "")
			if lag := ledger(t, s, seq)[0].StartedAt.Sub(j.DueAt); lag > 0 {
				t.Fatalf("job %d started %s late", i, lag)
			}
		}
	})
}

// TestFirstShare: retries leave slots of their policy to first attempts.
func TestFirstShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var g gauge
		work := g.handler(10 * time.Second)
		newRig(t, s, Config{
			Policies: []policy.Policy{calling("shared", func(p *policy.Policy) { p.Concurrency, p.FirstShare = 8, 0.25 })},
			Handlers: map[string]Handler{"k": func(ctx context.Context, task *Task) error {
				if task.Start() == 1 && string(task.Args()) == "retry" {
					return failure.New(failure.Plain, "again", nil)
				}
				return work(ctx, task)
			}},
		})
		enqueue(t, s, times(20, job.New{Kind: "k", Policy: "shared", Target: "a", Args: []byte("retry")})...)
		pass(40 * time.Second)
		running := g.now.Load()
		fresh := enqueue(t, s, times(2, job.New{Kind: "k", Policy: "shared", Target: "b"})...)
		pass(time.Millisecond)
		for _, seq := range fresh {
			if j := jobOf(t, s, seq); !j.Begun {
				t.Errorf("a first attempt waits: %s", j.State)
			}
		}
		if running != 6 {
			t.Errorf("%d retries run, want 6 of 8 slots", running)
		}
	})
}
