package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// TestFlowChaos: while processes die, stop and come back and targets fail and
// recover, no target is above its limit or its budget in any window, no key
// runs out of order, and in the end all work is done and no permit is out. The
// ledger is the judge. A process that died may have calls out that nobody
// counts any more, so the dead stop their handlers here, as a crash would.
func TestFlowChaos(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaos(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

const (
	chaosLimit = 3
	chaosFloor = 6
	chaosTTL   = 10 * time.Second
)

func chaos(t *testing.T, random *rand.Rand) {
	s := newStore()
	targets := []string{"a", "b", "c"}
	down := map[string]*server{}
	for _, name := range targets {
		down[name] = &server{takes: 300 * time.Millisecond}
	}
	c := Config{
		Concurrency: 8, Lease: 2 * time.Second, Grace: time.Millisecond, Seed: 7,
		Policies: []policy.Policy{breaking("limited", func(p *policy.Policy) {
			p.PerTarget.Concurrency, p.Breaker.Open, p.Breaker.Cap = chaosLimit, 2*time.Second, 8*time.Second
			p.Attempts, p.Backoff.Base, p.MaxHold = 500, time.Second, 24*time.Hour
			p.Budget = policy.Budget{Kind: policy.BudgetWindow, Ratio: 0.2, Floor: chaosFloor, TTL: chaosTTL}
		})},
		Handlers: map[string]Handler{"k": func(ctx context.Context, task *Task) error {
			j := task.Job()
			return down[j.Target].handle(ctx, task)
		}},
	}
	type member struct {
		*rig
		store *cutFlow
	}
	join := func() member {
		st := &cutFlow{cut: cut{Store: s}, Flow: s}
		return member{newRig(t, st, c), st}
	}
	members := []member{join(), join(), join(), join()}
	var seqs []int64
	for step := range 300 {
		if step < 200 {
			for range random.IntN(4) {
				n := job.New{Kind: "k", Policy: "limited", Target: targets[random.IntN(len(targets))]}
				if random.IntN(3) == 0 {
					n.Key = fmt.Sprint(n.Target, " key ", random.IntN(2))
				}
				seqs = append(seqs, enqueue(t, s, n)...)
			}
		}
		if random.IntN(12) == 0 {
			target := down[targets[random.IntN(len(targets))]]
			if target.set(nil); random.IntN(2) == 0 {
				target.set(errDown)
			}
		}
		if random.IntN(25) == 0 { // one goes, for good or without a word
			i := random.IntN(len(members))
			if random.IntN(2) == 0 {
				members[i].store.gone.Store(true)
			}
			members[i].stop()
			members[i] = join()
		}
		pass(time.Duration(random.IntN(600)) * time.Millisecond)
	}
	for _, target := range down {
		target.set(nil)
	}
	pass(time.Hour)
	judge(t, s, seqs)
	for _, m := range members {
		m.stop()
	}
	for _, target := range targets {
		noPermits(t, s, target)
	}
}

// judge reads the ledger.
func judge(t *testing.T, s store.Store, seqs []int64) {
	t.Helper()
	rows := map[string][]job.Attempt{}
	keys := map[string][]job.Attempt{}
	for _, seq := range seqs {
		j := state(t, s, seq, job.Succeeded, "")
		list := ledger(t, s, seq)
		rows[j.Target] = append(rows[j.Target], list...)
		if j.Key != "" {
			keys[j.Key] = append(keys[j.Key], list...)
		}
	}
	byStart := func(a, b job.Attempt) int { return a.StartedAt.Compare(b.StartedAt) }
	for target, list := range rows {
		// What a dead process had marked as begun may not have begun, and ended
		// when it died, not when that was found.
		list = slices.DeleteFunc(list, func(a job.Attempt) bool { return a.Class == failure.Crash })
		if most := mostAtOnce(list); most > chaosLimit {
			t.Errorf("%s: %d at once, want at most %d", target, most, chaosLimit)
		}
		slices.SortFunc(list, byStart)
		for i, from := range list {
			allowed, spent := float64(chaosFloor), 0
			for _, r := range list[i:] {
				if r.StartedAt.Sub(from.StartedAt) >= chaosTTL {
					break
				}
				if r.Start == 1 {
					allowed += 0.2
				} else if spent++; float64(spent) > allowed+1e-9 {
					t.Errorf("%s: %d retries within %s, allowed %g", target, spent, r.StartedAt.Sub(from.StartedAt), allowed)
					return
				}
			}
		}
	}
	for key, list := range keys {
		slices.SortFunc(list, byStart)
		if !slices.IsSortedFunc(list, func(a, b job.Attempt) int { return int(a.Seq - b.Seq) }) {
			t.Errorf("%s ran out of order", key)
		}
	}
}
