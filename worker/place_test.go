package worker

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store/memory"
)

// strictly returns a store with three jobs in a strict queue, each due a
// second after the one before, and a handler that writes down whom it started.
func strictly(t *testing.T, name string) (s *memory.Store, seqs []int64, started func() []int64, handle Handler) {
	t.Helper()
	s = newStore()
	if err := s.StrictQueue(t.Context(), "strict", true); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		seqs = append(seqs, enqueue(t, s, job.New{Kind: "k", Queue: "strict", Policy: name, DueAt: time.Now().Add(time.Duration(i) * time.Second)})...)
	}
	var mu sync.Mutex
	var list []int64
	started = func() []int64 {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
	handle = func(_ context.Context, task *Task) error {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, task.Job().Seq)
		return nil
	}
	return s, seqs, started, handle
}

// TestStrictQueueAfterACrash: the job of a process that died is the next one,
// though others are due since before its crash.
func TestStrictQueueAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seqs, started, handle := strictly(t, "")
		crash(t, s, Config{Queues: []string{"strict"}})
		newRig(t, s, Config{Queues: []string{"strict"}, Handlers: map[string]Handler{"k": handle}})
		pass(time.Minute)
		if got := started(); !slices.Equal(got, seqs) {
			t.Errorf("jobs %v were started, want %v", got, seqs)
		}
		if j := state(t, s, seqs[0], job.Succeeded, ""); j.History.Crashes != 1 {
			t.Errorf("history %+v, want a crash", j.History)
		}
	})
}

// TestStrictQueueAfterARestart: the same of a job that was stopped. Its due
// time had moved before: it had failed once and kept its slot.
func TestStrictQueueAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeping := wide("keeping", func(p *policy.Policy) { p.Slot = policy.SlotKeep })
		s, seqs, started, handle := strictly(t, keeping.Name)
		c := Config{Queues: []string{"strict"}, Policies: []policy.Policy{keeping}}
		c.Handlers = map[string]Handler{"k": func(ctx context.Context, task *Task) error {
			if task.Attempt() == 1 {
				return errDown
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		first := newRig(t, s, c)
		pass(time.Minute)
		if j := jobOf(t, s, seqs[0]); j.State != job.Running || !j.Begun || j.History.Starts != 1 {
			t.Fatalf("job %d is %s after %d starts, want running for the second time", j.Seq, j.State, j.History.Starts)
		}
		first.stop()
		c.Handlers = map[string]Handler{"k": handle}
		newRig(t, s, c)
		pass(time.Minute)
		if got := started(); !slices.Equal(got, seqs) {
			t.Errorf("jobs %v were started, want %v", got, seqs)
		}
	})
}
