package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/simulate"
	"github.com/ebbhq/ebb/wave"
)

// traced runs a scenario and returns its trace.
func traced(t *testing.T, s simulate.Scenario) []simulate.Event {
	t.Helper()
	var events []simulate.Event
	if _, err := simulate.Run(context.Background(), s, simulate.Options{Trace: func(e simulate.Event) { events = append(events, e) }}); err != nil {
		t.Fatal(err)
	}
	return events
}

// starts lists the starts of a trace: job, number and instant.
func starts(events []simulate.Event, first int64) (list []string) {
	for _, e := range events {
		if e.Kind == simulate.Started {
			list = append(list, fmt.Sprintf("item %d start %d at %s", e.Job-first, e.Start, e.At))
		}
	}
	slices.Sort(list)
	return list
}

// downUntil is a downstream that answers 503 after latency until it is well.
func downUntil(well, latency time.Duration) simulate.Downstream {
	return simulate.Downstream{
		Service: simulate.Always(latency),
		Faults: []simulate.Fault{{
			Kind: simulate.FaultServed, Until: well, Answer: simulate.Answer{Status: 503},
		}},
	}
}

// TestAgreesWithDo: each preset under the simulator and under retry.Do makes
// the same starts at the same nanoseconds, through a gate or without.
func TestAgreesWithDo(t *testing.T) {
	for _, preset := range policy.PresetNames() {
		for _, scope := range []simulate.GateScope{simulate.GateNone, simulate.GateCaller} {
			t.Run(preset+"/"+string(scope), func(t *testing.T) {
				const seed = 11
				p := policy.MustPreset(preset)
				well, latency := 7*time.Minute, 300*ms
				s := batchOf(1, calls(p, "server"), downUntil(well, latency))
				s.Callers[0].Seed, s.Callers[0].Gate = seed, scope
				got := starts(traced(t, s), 1)

				var want []string
				synctest.Test(t, func(t *testing.T) {
					begin := time.Now()
					opts := []retry.Option{retry.WithSeed(seed, 1)}
					if scope == simulate.GateCaller {
						opts = append(opts, retry.WithGate(gate.NewLocal(gate.Of(&p))))
					}
					_ = retry.Run(context.Background(), &p, func(ctx context.Context) error {
						want = append(want, fmt.Sprintf("item 0 start %d at %s", len(want)+1, time.Since(begin)))
						down := time.Since(begin) < well
						_ = clock.Sleep(ctx, clock.System{}, latency)
						if down {
							return &failure.Error{Failure: failure.Status(503)}
						}
						return nil
					}, opts...)
				})
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("simulated\n%q, retry.Do\n%q", got, want)
				}
			})
		}
	}
}

// TestAgreesWithWaves: the same for wave.Run over many items. One worker,
// since which of several goes first in one instant is not wave.Run's promise.
func TestAgreesWithWaves(t *testing.T) {
	for _, preset := range []string{"scrape", "polite"} {
		t.Run(preset, func(t *testing.T) {
			p := policy.MustPreset(preset)
			p.Concurrency, p.Waves.Concurrency = 1, 1
			p, err := policy.Seal(p)
			if err != nil {
				t.Fatal(err)
			}
			const seed, items = 5, 11
			well, latency := 3*time.Minute, 700*ms
			s := batchOf(items, calls(p, "server"), downUntil(well, latency))
			s.Callers[0].Seed, s.Callers[0].Mode = seed, simulate.Waves
			r := run(t, s, 1).Runs[0].Caller("caller")
			got := starts(traced(t, s), 1)

			var want []string
			var report *wave.Report[int]
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				begin := time.Now()
				numbers := make([]int, items)
				report, _ = wave.Run(context.Background(), slices.Collect(count(items)), func(ctx context.Context, i int) (int, error) {
					mu.Lock()
					numbers[i]++
					want = append(want, fmt.Sprintf("item %d start %d at %s", i, numbers[i], time.Since(begin)))
					mu.Unlock()
					down := time.Since(begin) < well
					_ = clock.Sleep(ctx, clock.System{}, latency)
					if down {
						return 0, &failure.Error{Failure: failure.Status(503)}
					}
					return i, nil
				}, &p, wave.Config{Seed: seed})
			})
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("simulated %d starts\n%q, wave.Run %d\n%q", len(got), got, len(want), want)
			}
			if len(r.Waves) != len(report.Waves)+1 || int(r.Totals.Dead) != len(report.Failed()) {
				t.Errorf("simulated waves %+v and %d failures, wave.Run %+v and %d", r.Waves, r.Totals.Dead, report.Waves, len(report.Failed()))
			}
			for i, w := range report.Waves {
				if g := r.Waves[i+1]; int(g.Planned) != w.Planned || int(g.Recovered) != w.Recovered {
					t.Errorf("wave %d: simulated %+v, wave.Run %+v", i+1, g, w)
				}
			}
		})
	}
}

func count(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// TestDurableAgreesWithDecide: a durable job's starts are the chain of Decide
// with the worker's draws, due in whole microseconds, rounded up.
func TestDurableAgreesWithDecide(t *testing.T) {
	for _, preset := range policy.PresetNames() {
		p := policy.MustPreset(preset)
		const seed, latency = 99, 137 * time.Microsecond
		s := batchOf(1, calls(p, "server"), downUntil(0, latency))
		s.Callers[0].Seed, s.Callers[0].Mode, s.Callers[0].Workers = seed, simulate.Durable, 1
		events := traced(t, s)
		var want []string
		now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		begin, h := now, retry.History{}
		for {
			h = h.Started(now)
			want = append(want, fmt.Sprintf("item 0 start %d at %s", h.Starts, now.Sub(begin)))
			now = now.Add(latency)
			d := retry.Decide(&p, h, failure.Status(503), now, retry.Derive(seed, 1, h.Starts))
			h = d.Next
			if !d.Action.Retries() {
				if end := events[len(events)-1]; end.Kind != simulate.Finish || end.Cause != d.Cause || end.At != now.Sub(begin) {
					t.Errorf("%s: ended %+v, Decide says %s at %s", preset, end, d.Cause, now.Sub(begin))
				}
				break
			}
			now = now.Add(d.Delay + time.Microsecond - 1).Truncate(time.Microsecond)
		}
		slices.Sort(want)
		if got := starts(events, 1); !slices.Equal(got, want) {
			t.Errorf("%s: simulated\n%q, Decide\n%q", preset, got, want)
		}
	}
}

// TestTraceIsOfOneRun: a trace of several runs would be a mixture.
func TestTraceIsOfOneRun(t *testing.T) {
	s := batchOf(1, calls(once(t), "server"), failing(1))
	_, err := simulate.Run(context.Background(), s, simulate.Options{Seeds: 2, Trace: func(simulate.Event) {}})
	if err == nil {
		t.Error("two seeds with a trace were accepted")
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	s = queue(t, 8, simulate.Downstream{Servers: 1, Service: simulate.Exp(100 * ms)})
	if _, err := simulate.Run(ctx, s, simulate.Options{}); err == nil || err.Error() != "enough" {
		t.Errorf("a cancelled run: %v", err)
	}
	if _, err := simulate.Run(context.Background(), s, simulate.Options{MaxEvents: 1000}); err == nil {
		t.Error("a run over its limit of events was accepted")
	}
}
