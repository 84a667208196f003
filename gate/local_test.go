package gate_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

func TestLocalHoldsItsLimitAmongGoroutines(t *testing.T) {
	const limit = 3
	l := gate.NewLocal(gate.Config{PerTarget: policy.PerTarget{Concurrency: limit}})
	var inFlight, over, admitted atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				changed := l.Changed()
				v := l.Ask(t0, false, 0.5)
				for !v.Admit {
					<-changed
					changed = l.Changed()
					v = l.Ask(t0, false, 0.5)
				}
				if inFlight.Add(1) > limit {
					over.Add(1)
				}
				admitted.Add(1)
				inFlight.Add(-1)
				l.Done(t0, v.Success(), 0.5)
			}
		})
	}
	wg.Wait()
	if over.Load() != 0 || admitted.Load() != 4000 {
		t.Errorf("%d times over the limit, %d admitted; want 0 and 4000", over.Load(), admitted.Load())
	}
	if s := l.State(); s.InFlight != 0 {
		t.Errorf("in flight %d after all ended", s.InFlight)
	}
}

func TestLocalEqualsStep(t *testing.T) {
	c := inARow
	c.Pause, c.RetryAfter.Honour, c.PerTarget.Rate = true, true, 1
	l, g := gate.NewLocal(c), newTarget(t, c)
	same := func() {
		t.Helper()
		if l.State() != g.s {
			t.Fatalf("local %+v, step %+v", l.State(), g.s)
		}
	}
	for i := range 20 {
		g.at(time.Duration(i*700) * time.Millisecond)
		v := l.Ask(g.now, i%2 == 0, g.draw)
		if w := g.ask(i%2 == 0); v != w {
			t.Fatalf("local %+v, step %+v", v, w)
		}
		same()
		switch {
		case v.Admit && i%3 == 0:
			l.Abandon(g.now, v.Unused())
			g.apply(v.Unused())
		case v.Admit:
			l.Done(g.now, v.Failure(serverDown), g.draw)
			g.apply(v.Failure(serverDown))
		}
		same()
	}
	l.Pause(g.now, t0.Add(time.Hour))
	g.apply(gate.Pause{Until: t0.Add(time.Hour)})
	same()
	l.Resume(g.now)
	g.apply(gate.Resume{})
	same()
	l.Probe(g.now)
	g.apply(gate.Probe{})
	same()
	l.Close(g.now)
	g.apply(gate.Close{})
	same()
}

func TestLocalTellsWaitersOfEveryChange(t *testing.T) {
	l := gate.NewLocal(gate.Config{})
	for name, change := range map[string]func(){
		"done":    func() { l.Done(t0, gate.Done{OK: true}, 0.5) },
		"abandon": func() { l.Abandon(t0, gate.Abandon{}) },
		"pause":   func() { l.Pause(t0, time.Time{}) },
		"resume":  func() { l.Resume(t0) },
		"probe":   func() { l.Probe(t0) },
		"close":   func() { l.Close(t0) },
	} {
		changed := l.Changed()
		select {
		case <-changed:
			t.Fatalf("%s: told before it happened", name)
		default:
		}
		change()
		select {
		case <-changed:
		default:
			t.Errorf("%s: not told", name)
		}
	}
}

func TestAskAndDoneAllocateNothing(t *testing.T) {
	p := policy.MustPreset("webhook")
	c, now := gate.Of(&p), t0
	l := gate.NewLocal(c)
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(time.Second)
		v := l.Ask(now, true, 0.5)
		l.Done(now, v.Success(), 0.5)
	}); n != 0 {
		t.Errorf("Local: %g allocations", n)
	}
	var s gate.State
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(time.Second)
		var v gate.Verdict
		s, v = gate.Step(c, s, gate.Ask{Retry: true}, now, 0.5)
		s, _ = gate.Step(c, s, v.Failure(ourFault), now, 0.5)
	}); n != 0 {
		t.Errorf("Step: %g allocations", n)
	}
}

func benchmarkConfig() gate.Config {
	p := policy.MustPreset("webhook")
	return gate.Of(&p)
}

func BenchmarkLocal(b *testing.B) {
	for _, retry := range []bool{false, true} {
		b.Run(fmt.Sprintf("retry=%t", retry), func(b *testing.B) {
			l, now := gate.NewLocal(benchmarkConfig()), t0
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Second)
				v := l.Ask(now, retry, 0.5)
				l.Done(now, v.Success(), 0.5)
			}
		})
	}
}

func BenchmarkStep(b *testing.B) {
	c, now := benchmarkConfig(), t0
	var s gate.State
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		var v gate.Verdict
		s, v = gate.Step(c, s, gate.Ask{}, now, 0.5)
		s, _ = gate.Step(c, s, v.Success(), now, 0.5)
	}
}

func Example() {
	p := policy.MustPreset("polite")
	g := gate.NewLocal(gate.Of(&p))
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const draw = 0.5 // from the caller's randomness

	for range 5 {
		v := g.Ask(now, false, draw)
		g.Done(now, v.Failure(failure.Of(failure.Server)), draw)
	}
	v := g.Ask(now, false, draw)
	fmt.Println(v)
	fmt.Println("counts towards max_hold:", v.CountsHold())

	now = v.Until
	v = g.Ask(now, false, draw)
	fmt.Println(v)
	g.Done(now, v.Success(), draw)
	fmt.Println(g.State().Phase)
	// Output:
	// held: the target keeps failing and its breaker is open until 2026-01-01T12:00:10Z
	// counts towards max_hold: true
	// may start, as the probe that decides whether the target is back
	// ramping
}
