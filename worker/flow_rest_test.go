package worker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// firstStarts lists when the jobs first started, since the given instant.
func (r *rig) firstStarts(since time.Time, seqs ...int64) []time.Duration {
	r.t.Helper()
	list := make([]time.Duration, len(seqs))
	for i, seq := range seqs {
		rows := ledger(r.t, r.store, seq)
		if len(rows) == 0 {
			r.t.Fatalf("job %d has not started", seq)
		}
		list[i] = rows[0].StartedAt.Sub(since)
	}
	return list
}

// lasting is a handler whose jobs, by their sequence, take that long.
func lasting(lengths ...time.Duration) map[string]Handler {
	return map[string]Handler{"k": func(ctx context.Context, task *Task) error {
		return sleep(ctx, lengths[task.Job().Seq-1])
	}}
}

// TestDiscoveryInTheTurnThatFreesItsGate: a turn's discovery is bounded by the
// room of the gate before the turn's own swap. What it left behind rested for
// a second, since by the room after the swap nothing was left.
func TestDiscoveryInTheTurnThatFreesItsGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := newStore(), time.Now()
		r := newRig(t, s, Config{
			Concurrency: 3, Turns: 1,
			Policies: []policy.Policy{
				calling(policy.DefaultName, func(p *policy.Policy) { p.Concurrency = 1 }), // no plain work is asked for beside b's
				calling("three", func(p *policy.Policy) { p.PerTarget.Concurrency = 3 }),
			},
			Handlers: lasting(10*time.Second, 10100*time.Millisecond, time.Minute, time.Second, time.Second),
		})
		a := job.New{Kind: "k", Policy: "three", Target: "a"}
		r.enqueue(a, a)
		pass(time.Second)
		r.enqueue(job.New{Kind: "k", Target: "b"}) // the last slot
		pass(time.Second)
		late := r.enqueue(a, a) // one start of a may begin, by its gate; there is no slot
		pass(time.Minute)
		want := []time.Duration{10 * time.Second, 10100 * time.Millisecond}
		if got := r.firstStarts(began, late...); !slices.Equal(got, want) {
			t.Errorf("started after %v, want %v: as slots became free", got, want)
		}
	})
}

// TestDiscoveryOfALaneServedByName: a discovery whose limit was used up by a
// lane that the same turn served by name was taken for one that found nothing,
// and the lanes behind it were not looked for before that one was empty.
func TestDiscoveryOfALaneServedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := newStore(), time.Now()
		found := make(chan time.Duration, 9)
		r := newRig(t, s, Config{
			Concurrency: 1, Turns: 1, Poll: 1000 * time.Hour,
			Policies: []policy.Policy{calling("free", nil)},
			Handlers: lasting(append([]time.Duration{10 * time.Second}, slices.Repeat([]time.Duration{time.Second / 2}, 8)...)...),
			Observe: func(e Event) {
				if e.What == Claimed && e.Job.Target == "b" {
					found <- time.Since(began)
				}
			},
		})
		r.enqueue(times(8, job.New{Kind: "k", Policy: "free", Target: "a"})...)
		pass(5 * time.Second)
		r.enqueue(job.New{Kind: "k", Policy: "free", Target: "b"})
		pass(2 * time.Minute)
		if got, want := <-found, 10500*time.Millisecond; got != want {
			t.Errorf("b was found after %v, want %v: with the second end of a", got, want)
		}
	})
}

// TestPermitOfAnotherLane: work that its queue's limit held was left to
// discovery for a second, though a start of this process, of another lane, was
// to bring the permit back.
func TestPermitOfAnotherLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := newStore(), time.Now()
		if err := s.LimitQueue(t.Context(), time.Time{}, "op", "mail", store.QueueLimit{Concurrency: 1}); err != nil {
			t.Fatal(err)
		}
		r := newRig(t, s, Config{
			Queues: []string{"mail"}, Concurrency: 3, Turns: 1,
			Policies: []policy.Policy{calling("free", nil)},
			Handlers: lasting(8500*time.Millisecond, time.Second),
		})
		r.enqueue(job.New{Kind: "k", Queue: "mail", Policy: "free", Target: "a"})
		pass(time.Second)
		b := r.enqueue(job.New{Kind: "k", Queue: "mail", Policy: "free", Target: "b"})
		pass(time.Minute)
		want := []time.Duration{8500 * time.Millisecond}
		if got := r.firstStarts(began, b...); !slices.Equal(got, want) {
			t.Errorf("b started after %v, want %v: when a ended", got, want)
		}
	})
}
