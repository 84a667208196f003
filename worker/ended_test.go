package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// end is what is known of a job that failed or was parked.
type end struct {
	to                          job.State
	cause                       job.Cause
	kind, queue, target, policy string
}

// endsKept counts them as the store has them.
func endsKept(t *testing.T, s store.Store) map[end]int {
	t.Helper()
	counts := map[end]int{}
	for _, state := range []job.State{job.Failed, job.Parked} {
		jobs, err := s.List(t.Context(), store.Filter{State: state}, store.Page{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for i := range jobs {
			j := &jobs[i]
			counts[end{state, j.Cause, j.Kind, j.Queue, j.Target, j.Policy}]++
		}
	}
	return counts
}

// endsTold counts them as observers were told of them.
func endsTold(events []Event) map[end]int {
	counts := map[end]int{}
	for _, e := range events {
		n := 1
		switch {
		case e.To != job.Failed && e.To != job.Parked:
			continue
		case e.What == Ended:
			n = e.Count
		case e.What != Settled:
			continue
		}
		counts[end{e.To, e.Cause, e.Job.Kind, e.Job.Queue, e.Job.Target, e.Job.Policy}] += n
	}
	return counts
}

// endsBy lists what told of Ended jobs, each once.
func endsBy(events []Event) []string {
	by := map[string]bool{}
	for _, e := range events {
		if e.What == Ended {
			by[e.Text] = true
		}
	}
	return slices.Sorted(maps.Keys(by))
}

// TestEveryEndIsTold: whatever fails or parks a job, observers hear of it once,
// with its cause, kind, queue, target and policy.
func TestEveryEndIsTold(t *testing.T) {
	down := func(context.Context, *Task) error { return errDown }
	one := calling("one", func(p *policy.Policy) {
		p.Attempts = 1
		p.Classes = []policy.Rule{{Match: policy.Match{Classes: policy.SetOf(failure.Crash)}, Action: policy.Retry, Counts: policy.CountsAttempt}}
	})
	held := breaking("held", func(p *policy.Policy) {
		p.Attempts, p.MaxHold = 1, 20*time.Second
		p.Breaker.Consecutive, p.Breaker.Open, p.Breaker.Cap = 1, time.Minute, time.Minute
	})
	for _, way := range []struct {
		name  string
		takes time.Duration
		play  func(t *testing.T, s store.Store) *rig
		ends  map[end]int
		by    []string
	}{
		{"a settle", 50 * time.Second, func(t *testing.T, s store.Store) *rig {
			enqueue(t, s, job.New{Kind: "k", Policy: "one", Args: []byte("s")}, job.New{Kind: "k", Args: []byte("f")}, job.New{Kind: "k", Args: []byte("p")})
			return newRig(t, s, Config{Policies: []policy.Policy{one}, Handlers: map[string]Handler{"k": func(_ context.Context, task *Task) error {
				switch string(task.Args()) {
				case "f":
					return failure.Fatal(errors.New("broken"))
				case "p":
					return failure.Park(errors.New("a person must look"))
				}
				return errDown
			}}})
		}, map[end]int{
			{job.Failed, retry.CauseExhausted, "k", "default", "", "one"}:  1,
			{job.Failed, retry.CauseFatal, "k", "default", "", "default"}:  1,
			{job.Parked, retry.CauseConfig, "k", "default", "", "default"}: 1,
		}, nil},
		{"the reaper", 50 * time.Second, func(t *testing.T, s store.Store) *rig {
			enqueue(t, s, job.New{Kind: "k", Policy: "one"}, job.New{Kind: "k", Policy: "one"}, job.New{Kind: "k"})
			crash(t, s, Config{Policies: []policy.Policy{one}})
			return newRig(t, s, Config{Policies: []policy.Policy{one}, Handlers: map[string]Handler{"k": func(context.Context, *Task) error { return nil }}})
		}, map[end]int{{job.Failed, retry.CauseExhausted, "k", "default", "", "one"}: 2}, []string{ByCrash}},
		{"a deadline", 50 * time.Second, func(t *testing.T, s store.Store) *rig {
			late := job.New{Kind: "k", Queue: "later", DeadlineAt: time.Now().Add(5 * time.Second), DueAt: time.Now().Add(time.Hour)}
			enqueue(t, s, late, late)
			return newRig(t, s, Config{Handlers: map[string]Handler{"k": down}})
		}, map[end]int{{job.Failed, retry.CauseExpired, "k", "later", "", "default"}: 2}, []string{ByDeadline}},
		{"a key", 50 * time.Second, func(t *testing.T, s store.Store) *rig {
			enqueue(t, s, times(3, job.New{Kind: "k", Policy: "one", Key: "order-7", KeyRule: job.KeyPark})...)
			return newRig(t, s, Config{Policies: []policy.Policy{one}, Handlers: map[string]Handler{"k": down}})
		}, map[end]int{
			{job.Failed, retry.CauseExhausted, "k", "default", "", "one"}: 1,
			{job.Parked, job.HeadFailed, "k", "default", "", "one"}:       2,
		}, []string{ByKey}},
		{"a disabled target", 50 * time.Second, func(t *testing.T, s store.Store) *rig {
			g := gateOf(t, s, "a")
			g.Disabled, g.OpenAt, g.Room = "410", store.Never, 0
			if _, err := s.SwapGate(t.Context(), time.Time{}, store.AuditRow{Actor: "ann", Act: "target.disable", What: "a"}, store.Swap{Gate: g}); err != nil {
				t.Fatal(err)
			}
			enqueue(t, s, times(3, job.New{Kind: "k", Target: "a", Policy: "webhook"})...)
			return newRig(t, s, Config{Handlers: map[string]Handler{"k": down}})
		}, map[end]int{{job.Parked, job.Disabled, "k", "default", "a", "webhook"}: 3}, []string{ByTarget}},
		// before it goes out as a probe
		{"the head of a strict queue", 21 * time.Second, func(t *testing.T, s store.Store) *rig {
			if err := s.StrictQueue(t.Context(), "strict", true); err != nil {
				t.Fatal(err)
			}
			r := newRig(t, s, Config{Queues: []string{"strict"}, Policies: []policy.Policy{held}, Handlers: map[string]Handler{"k": down}})
			enqueue(t, s, times(2, job.New{Kind: "k", Queue: "strict", Policy: "held", Target: "a"})...)
			return r
		}, map[end]int{
			{job.Failed, retry.CauseExhausted, "k", "strict", "a", "held"}:  1,
			{job.Parked, retry.CauseTargetDown, "k", "strict", "a", "held"}: 1,
		}, []string{ByHold}},
	} {
		t.Run(way.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				r := way.play(t, s)
				pass(way.takes)
				if kept := endsKept(t, s); !maps.Equal(kept, way.ends) {
					t.Errorf("the store has %v, want %v", kept, way.ends)
				}
				events := r.seen("")
				if told := endsTold(events); !maps.Equal(told, way.ends) {
					t.Errorf("told of %v, want %v", told, way.ends)
				}
				if by := endsBy(events); !slices.Equal(by, way.by) {
					t.Errorf("ended by %v, want %v", by, way.by)
				}
			})
		})
	}
}

// TestHeldEndsAreTold: of work that was held too long, observers hear as often
// as it was parked, probes that were let out between counted.
func TestHeldEndsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		p := breaking("held", func(p *policy.Policy) { p.MaxHold, p.Attempts = 5*time.Minute, 2 })
		r := newRig(t, s, Config{Policies: []policy.Policy{p}, Handlers: map[string]Handler{"k": func(context.Context, *Task) error { return errDown }}})
		enqueue(t, s, times(40, job.New{Kind: "k", Policy: "held", Target: "a"})...)
		pass(5*time.Minute + 10*time.Second)
		parked := end{job.Parked, retry.CauseTargetDown, "k", "default", "a", "held"}
		released, untried := 0, 0
		for _, e := range r.seen(Redriven) {
			released += e.Count
		}
		for _, e := range r.seen(Ended) {
			if e.Untried {
				untried += e.Count
			}
		}
		kept, told := endsKept(t, s)[parked], endsTold(r.seen(""))[parked]
		if kept < 20 || told != kept+released {
			t.Errorf("%d are parked and %d were let out again; told of %d", kept, released, told)
		}
		if untried < 20 || untried > told {
			t.Errorf("%d of %d had never started, want most", untried, told)
		}
	})
}
