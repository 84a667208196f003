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
	"github.com/ebbhq/ebb/store/memory"
)

// calling is a policy of work with a target, without a gate's holds unless the
// test adds them.
func calling(name string, change func(*policy.Policy)) policy.Policy {
	return wide(name, func(p *policy.Policy) {
		p.Breaker, p.Budget, p.FirstShare = policy.Breaker{}, policy.Budget{}, 0
		p.Backoff = policy.Backoff{Base: 30 * time.Second, Factor: 1}
		for _, rule := range []string{"jitter", "growth", "window", "budget", "floor"} {
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


var _ = gate.Open
var _ = memory.New
var _ = failure.Of
