package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// TestKeptSlotIsKeptWithATarget: while a job waits in its slot for the next
// try, nobody else has the slot, though its permit went back to the target.
func TestKeptSlotIsKeptWithATarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		target := &server{down: errDown}
		newRig(t, s, Config{Concurrency: 1, Handlers: map[string]Handler{"k": target.handle}})
		begin := time.Now()
		seqs := enqueue(t, s, times(2, job.New{Kind: "k", Policy: "annual-crawl", Target: "a"})...)
		pass(time.Minute)
		if rows := starts(t, s, seqs); len(rows) != 1 || rows[0].Seq != seqs[0] {
			t.Fatalf("%d starts while the first waits in the only slot, want its own: %+v", len(rows), rows)
		}
		noPermits(t, s, "a")
		target.set(nil)
		pass(2 * time.Minute)
		rows := starts(t, s, seqs)
		if len(rows) != 3 || rows[1].Seq != seqs[0] || rows[2].Seq != seqs[1] {
			t.Fatalf("starts %+v, want the first twice, then the second", rows)
		}
		for _, row := range rows[1:] {
			if at := row.StartedAt.Sub(begin); at != 2*time.Minute {
				t.Errorf("job %d started after %s, want 2m", row.Seq, at)
			}
		}
	})
}

// TestRetriesUseTheRoomOfAnIdlePermit: a permit that came back and may serve
// first attempts only, while retries are all that waits, holds up nobody: what
// the ramp allows starts at once.
func TestRetriesUseTheRoomOfAnIdlePermit(t *testing.T) {
	c := agreement{policy: policy.MustPreset("default"), slots: 100, targets: []string{"a"}, ailment: ailments[0]}
	c.agrees(t, func(*testing.T) store.Store { return newStore() })
}

// TestStrictHeadHeldTooLongIsParked: the head of a strict queue whose target
// holds it longer than max_hold is parked where its policy says so, and the
// next one is the head.
func TestStrictHeadHeldTooLongIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		if err := s.StrictQueue(t.Context(), "strict", true); err != nil {
			t.Fatal(err)
		}
		called := 0
		newRig(t, s, Config{
			Queues: []string{"strict"},
			Policies: []policy.Policy{breaking("b", func(p *policy.Policy) {
				p.Attempts, p.MaxHold, p.OnHoldEnd = 1, 20*time.Second, policy.HoldPark
				p.Breaker.Consecutive, p.Breaker.Open, p.Breaker.Cap = 1, time.Minute, time.Minute
			})},
			Handlers: map[string]Handler{"k": func(context.Context, *Task) error {
				if called++; called == 1 {
					return errDown
				}
				return nil
			}},
		})
		seqs := enqueue(t, s, times(2, job.New{Kind: "k", Queue: "strict", Policy: "b", Target: "a"})...)
		free := enqueue(t, s, job.New{Kind: "k", Queue: "strict", Policy: "b", Target: "b"})[0]
		pass(19 * time.Second)
		state(t, s, seqs[0], job.Failed, retry.CauseExhausted)
		state(t, s, seqs[1], job.Running, "")
		pass(3 * time.Second)
		state(t, s, seqs[1], job.Parked, retry.CauseTargetDown)
		state(t, s, free, job.Succeeded, "")
	})
}

// TestBusyTargetDoesNotHideAnother: while one target's work takes every slot
// as soon as it is free, another target's work is found and has its turn.
func TestBusyTargetDoesNotHideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		newRig(t, s, Config{
			Concurrency: 1, Policies: []policy.Policy{calling("free", nil)},
			Handlers: map[string]Handler{"k": func(ctx context.Context, _ *Task) error { return sleep(ctx, 100*time.Millisecond) }},
		})
		busy := enqueue(t, s, times(50, job.New{Kind: "k", Policy: "free", Target: "busy"})...)
		pass(1050 * time.Millisecond)
		other := enqueue(t, s, job.New{Kind: "k", Policy: "free", Target: "other"})[0]
		pass(time.Minute)
		for i, row := range starts(t, s, append(busy, other)) {
			if row.Seq == other && i > 15 {
				t.Errorf("the other target's job was start %d, want it soon after the eleventh, when it came", i+1)
			}
		}
		state(t, s, other, job.Succeeded, "")
	})
}
