package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// ordered changes a gate as a person's order does, in another process.
func ordered(t *testing.T, s store.Store, p *policy.Policy, target string, orders ...gate.Event) {
	t.Helper()
	g := gateOf(t, s, target)
	config := gate.Of(p)
	for _, o := range orders {
		g.State, _ = gate.Step(config, g.State, o, time.Now(), 0)
	}
	g.OpenAt, g.Room = outlook(&config, g.State, time.Now())
	if ok, err := s.SwapGate(t.Context(), time.Time{}, store.AuditRow{Actor: "ann", Act: "target.probe", What: target}, store.Swap{Gate: g, Wake: true}); err != nil || !ok {
		t.Fatalf("the gate was not swapped: %v", err)
	}
}

// lasts opens for 10 min after the first failure.
func lasts(change func(*policy.Policy)) policy.Policy {
	return breaking("b", func(p *policy.Policy) {
		p.Breaker = policy.Breaker{Consecutive: 1, Open: 10 * time.Minute, Cap: 10 * time.Minute}
		if change != nil {
			change(p)
		}
	})
}

// TestOrderedProbeIsNoticed: whatever way a job waits for its target's breaker,
// an order of another process lets the probe go within a second.
func TestOrderedProbeIsNoticed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		queue  string
		change func(*policy.Policy)
	}{
		{"in the lane", "default", nil},
		{"at the head of a strict queue", "strict", func(p *policy.Policy) { p.Attempts = 1 }},
		{"in the slot that it kept", "default", func(p *policy.Policy) {
			p.Slot, p.Backoff = policy.SlotKeep, policy.Backoff{Base: time.Second, Factor: 1}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				if err := s.StrictQueue(t.Context(), "strict", true); err != nil {
					t.Fatal(err)
				}
				target, p := &server{down: errDown}, lasts(tc.change)
				newRig(t, s, Config{
					Queues: []string{"default", "strict"}, Policies: []policy.Policy{p}, Concurrency: 1,
					Handlers: map[string]Handler{"k": target.handle},
				})
				seqs := enqueue(t, s, times(3, job.New{Kind: "k", Queue: tc.queue, Policy: "b", Target: "a"})...)
				pass(time.Minute)
				if n := len(target.called()); n != 1 {
					t.Fatalf("%d calls, want the one that opened the breaker", n)
				}
				ordered(t, s, &p, "a", gate.Probe{}) // it is still down
				pass(time.Second)
				if n := len(target.called()); n != 2 {
					t.Fatalf("%d calls after the order, want one more: the probe", n)
				}
				pass(time.Minute)
				if n := len(target.called()); n != 2 {
					t.Fatalf("%d calls after the probe failed, want no more", n)
				}
				target.set(nil)
				ordered(t, s, &p, "a", gate.Probe{})
				pass(time.Second)
				if n := len(target.called()); n < 3 {
					t.Fatalf("%d calls after the target was mended and a probe ordered, want one more", n)
				}
				pass(2 * time.Minute)
				for _, seq := range seqs[2:] {
					state(t, s, seq, job.Succeeded, "")
				}
				noPermits(t, s, "a")
			})
		})
	}
}

// TestResumeIsNoticedByAStrictQueue: the head waited for a pause to end that
// another process had ended long ago.
func TestResumeIsNoticedByAStrictQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		if err := s.StrictQueue(t.Context(), "strict", true); err != nil {
			t.Fatal(err)
		}
		target, p := &server{}, lasts(nil)
		ordered(t, s, &p, "a", gate.Pause{})
		newRig(t, s, Config{Queues: []string{"strict"}, Policies: []policy.Policy{p}, Handlers: map[string]Handler{"k": target.handle}})
		seq := enqueue(t, s, job.New{Kind: "k", Queue: "strict", Policy: "b", Target: "a"})[0]
		pass(time.Minute)
		if n := len(target.called()); n != 0 {
			t.Fatalf("%d calls of a paused target", n)
		}
		ordered(t, s, &p, "a", gate.Resume{})
		pass(time.Second)
		state(t, s, seq, job.Succeeded, "")
	})
}

// TestClosedByHandIsNoticed: when a person closes the breaker all goes at once,
// as many as the target may get.
func TestClosedByHandIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		target, p := &server{down: errDown}, lasts(nil)
		newRig(t, s, Config{Policies: []policy.Policy{p}, Handlers: map[string]Handler{"k": target.handle}})
		seqs := enqueue(t, s, times(20, job.New{Kind: "k", Policy: "b", Target: "a"})...)
		pass(time.Minute)
		target.set(nil)
		before := len(target.called())
		ordered(t, s, &p, "a", gate.Close{})
		pass(time.Second)
		if got, want := len(target.called())-before, len(seqs); got != want {
			t.Errorf("%d calls after the breaker was closed, want all %d that waited", got, want)
		}
	})
}
