package worker

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
)

// ailment is a modelled downstream: well, but for a while.
type ailment struct {
	name        string
	from, until time.Duration
	latency     time.Duration
	status      int // 0 = it hangs
	retryAfter  time.Duration
}

var ailments = []ailment{
	{name: "outage", until: 5 * time.Minute, latency: 300 * time.Millisecond, status: 503},
	{name: "late-outage", from: time.Second, until: 7 * time.Minute, latency: 700 * time.Millisecond, status: 500},
	{name: "throttled", until: 2 * time.Minute, latency: 40 * time.Millisecond, status: 429, retryAfter: 33 * time.Second},
	{name: "hangs", until: 4 * time.Minute, latency: 100 * time.Millisecond},
}

func (a *ailment) sick(now time.Duration) bool { return a.from <= now && now < a.until }

// downstream is the ailment as the simulator knows it.
func (a *ailment) downstream(name string) simulate.Downstream {
	fault := simulate.Fault{
		Kind: simulate.FaultServed, From: a.from, Until: a.until,
		Answer: simulate.Answer{Status: a.status, RetryAfter: a.retryAfter},
	}
	if a.status == 0 {
		fault.Kind, fault.Answer = simulate.FaultHang, simulate.Answer{}
	}
	return simulate.Downstream{Name: name, Service: simulate.Always(a.latency), Faults: []simulate.Fault{fault}}
}

// call is the ailment as a handler meets it.
func (a *ailment) call(ctx context.Context, now time.Duration) error {
	sick := a.sick(now)
	if sick && a.status == 0 {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	_ = clock.Sleep(ctx, clock.System{}, a.latency)
	if !sick {
		return nil
	}
	f := failure.Status(a.status)
	f.RetryAfter = a.retryAfter
	return &failure.Error{Failure: f}
}

const (
	agreeSeed = 11
	agreeJobs = 9
)

// agreement is one comparison.
type agreement struct {
	policy  policy.Policy
	slots   int
	targets []string // none = jobs without a target
	ailment
}

// simulated returns what the simulator makes of it, and when it is over.
func (c *agreement) simulated(t *testing.T) (events []string, over time.Duration) {
	t.Helper()
	caller := simulate.Caller{
		Name: "worker", Mode: simulate.Durable, Workers: c.slots, Seed: agreeSeed,
		Arrivals: []simulate.Arrivals{{Kind: simulate.Batch, Jobs: agreeJobs}},
		Client:   simulate.Client{Policy: c.policy, Gate: simulate.GateNone},
	}
	s := simulate.Scenario{Name: "agreement", Origin: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}
	names := c.targets
	if len(names) == 0 {
		names = []string{"plain"}
	} else {
		caller.Gate = simulate.GateShared
	}
	for _, name := range names {
		caller.Targets = append(caller.Targets, simulate.Target{Downstream: name})
		s.Downstreams = append(s.Downstreams, c.downstream(name))
	}
	s.Callers = []simulate.Caller{caller}
	_, err := simulate.Run(t.Context(), s, simulate.Options{Trace: func(e simulate.Event) {
		over = e.At
		switch e.Kind {
		case simulate.Started:
			events = append(events, fmt.Sprintf("%15s job %d start %d begins", e.At, e.Job, e.Start))
		case simulate.Ended:
			outcome := "ok"
			if !e.OK {
				outcome = fmt.Sprintf("%s %d %s", e.Class, e.Status, e.Action)
			}
			events = append(events, fmt.Sprintf("%15s job %d start %d ends: %s", e.At, e.Job, e.Start, outcome))
		case simulate.Finish:
			events = append(events, fmt.Sprintf("%15s job %d is over: %s", e.At, e.Job, e.Cause))
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(events)
	return events, over
}

// worked returns what a real worker makes of it. Waiting is over when all
// jobs are, or some time after the simulator says so.
func (c *agreement) worked(t *testing.T, over time.Duration, open func(*testing.T) store.Store) (events []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		begin := time.Now()
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, fmt.Sprintf("%15s ", time.Since(begin))+fmt.Sprintf(format, args...))
		}
		s := open(t)
		jobs := make([]job.New, agreeJobs)
		for i := range jobs {
			jobs[i] = job.New{Kind: "k", Policy: c.policy.Name}
			if n := len(c.targets); n > 0 {
				jobs[i].Target = c.targets[i%n]
			}
		}
		enqueue(t, s, jobs...)
		newRig(t, s, Config{
			Concurrency: c.slots, Turns: 1, Seed: agreeSeed, Clock: clock.System{}, Poll: 1000 * time.Hour, Lease: 1000 * time.Hour,
			Policies: []policy.Policy{c.policy},
			Handlers: map[string]Handler{"k": func(ctx context.Context, task *Task) error {
				note("job %d start %d begins", task.Job().Seq, task.Start())
				return c.call(ctx, time.Since(begin))
			}},
			Observe: func(e Event) {
				switch {
				case e.What != Settled && e.What != Ended:
					return
				case e.What == Ended:
					note("%d held too long", e.Count)
				case e.To == job.Succeeded:
					note("job %d start %d ends: ok", e.Job.Seq, e.Job.History.Starts+1)
				default:
					note("job %d start %d ends: %s %d %s", e.Job.Seq, e.Job.History.Starts+1, e.Failure.Class, e.Failure.Status, e.Decision.Action)
				}
				if e.What == Settled && e.To != job.Queued {
					note("job %d is over: %s", e.Job.Seq, e.Decision.Cause)
				}
			},
		})
		pass(over + time.Hour)
	})
	slices.Sort(events)
	return events
}

// agrees fails the test with the first differences.
func (c *agreement) agrees(t *testing.T, open func(*testing.T) store.Store) {
	t.Helper()
	want, over := c.simulated(t)
	got := c.worked(t, over, open)
	if slices.Equal(got, want) {
		return
	}
	shown := 0
	only := func(side string, a, b []string) {
		for _, e := range a {
			if !slices.Contains(b, e) && shown < 12 {
				shown++
				t.Errorf("only the %s: %s", side, e)
			}
		}
	}
	only("simulator", want, got)
	shown = 0
	only("worker", got, want)
	if !t.Failed() {
		t.Errorf("the same events, not as often: %d simulated, %d worked", len(want), len(got))
	}
}

// TestWorkerAgreesWithSimulator: one policy, seed and modelled downstream make
// the same starts at the same instants, with the same outcomes.
func TestWorkerAgreesWithSimulator(t *testing.T) {
	for _, preset := range policy.PresetNames() {
		for _, slots := range []int{1, 3, 100} {
			for _, targets := range [][]string{nil, {"a"}, {"a", "b", "c"}} {
				// Which of several targets has the next slot, where slots are short,
				// depends on what was claimed.
				if len(targets) > 1 && (slots < 100 || policy.MustPreset(preset).Slot == policy.SlotKeep) {
					continue
				}
				for _, sick := range ailments {
					t.Run(fmt.Sprintf("%s/slots=%d/targets=%d/%s", preset, slots, len(targets), sick.name), func(t *testing.T) {
						c := agreement{policy: policy.MustPreset(preset), slots: slots, targets: targets, ailment: sick}
						if c.status == 0 && c.policy.Timeout == 0 {
							c.policy.Timeout = 45 * time.Second
							var err error
							if c.policy, err = policy.Seal(c.policy); err != nil {
								t.Fatal(err)
							}
						}
						c.agrees(t, func(*testing.T) store.Store { return newStore() })
					})
				}
			}
		}
	}
}

// TestWorkerAgreesWithSimulatorOnSQLite: the same over a database, which
// results of one instant may reach in several turns.
func TestWorkerAgreesWithSimulatorOnSQLite(t *testing.T) {
	for _, targets := range [][]string{nil, {"a"}} {
		for _, sick := range ailments {
			t.Run(fmt.Sprintf("targets=%d/%s", len(targets), sick.name), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "ebb.db")
				c := agreement{policy: policy.MustPreset("webhook"), slots: 3, targets: targets, ailment: sick}
				c.agrees(t, func(t *testing.T) store.Store {
					s, err := sqlite.Open(t.Context(), path, sqlite.Options{WakeEvery: time.Hour})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = s.Close() })
					return s
				})
			})
		}
	}
}
