package gate_test

import (
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

// paced is a host's gate under polite, called as fast as it lets us.
type paced struct {
	t   *testing.T
	c   gate.Config
	s   gate.State
	now time.Time
}

func newPaced(t *testing.T) *paced {
	t.Helper()
	p := policy.MustPreset("polite")
	return &paced{t: t, c: gate.Of(&p), now: time.Date(2026, 2, 21, 0, 0, 0, 0, time.UTC)}
}

// call makes one call and returns whether it was let through.
func (p *paced) call(done gate.Done) bool {
	p.t.Helper()
	s, v := gate.Step(p.c, p.s, gate.Ask{}, p.now, 0.5)
	p.s = s
	if !v.Admit {
		return false
	}
	done.Probe = v.Probe
	p.s, _ = gate.Step(p.c, p.s, done, p.now, 0.5)
	return true
}

var (
	good = gate.Done{OK: true}
	down = gate.Done{Failure: failure.Of(failure.Server)}
	ours = gate.Done{Failure: failure.Of(failure.LocalIO)}
)

// for a while it is called every so often; it returns how many calls began.
func (p *paced) busy(d, every time.Duration, done gate.Done) (n int) {
	p.t.Helper()
	for end := p.now.Add(d); p.now.Before(end); p.now = p.now.Add(every) {
		if p.call(done) {
			n++
		}
	}
	return n
}

func (p *paced) rate() float64 { return float64(p.s.Pace.Rate) / 1000 }

// open lets the breaker open and its open time pass.
func (p *paced) open() {
	p.t.Helper()
	for range 5 {
		p.call(down)
	}
	if p.s.Phase != gate.Open {
		p.t.Fatalf("the breaker is %s after 5 failures", p.s.Phase)
	}
	p.now = p.s.OpenUntil.Time()
}

// After an outage: half of what was good, up by a tenth of it for a window
// that used it and passed, never up for errors or idleness, lifted at what it
// was.
func TestResumesAtHalf(t *testing.T) {
	p := newPaced(t)
	p.busy(31*time.Second, 100*time.Millisecond, good)
	if p.rate() != 0 || p.s.Pace.Good != 10_000 {
		t.Fatalf("before any outage: rate %g, goodput %d, want 0 and 10000", p.rate(), p.s.Pace.Good)
	}
	p.open()
	if p.rate() != 5 {
		t.Fatalf("resumes at %g a second, want half of 10", p.rate())
	}
	p.now = p.now.Add(3 * time.Minute) // nobody asked
	p.busy(9*time.Second, 3*time.Second, good)
	if p.rate() != 5 {
		t.Errorf("idleness moved the rate to %g", p.rate())
	}
	p.busy(25*time.Second, time.Second, ours)
	if p.rate() != 5 {
		t.Errorf("faults of our own moved the rate to %g", p.rate())
	}
	p.now = p.now.Add(time.Minute)
	p.call(good) // closes that window
	for _, want := range []float64{6, 7, 8, 9, 0} {
		before, began, n := p.rate(), p.now, 0
		for p.rate() == before && p.now.Sub(began) < time.Minute {
			n += p.busy(time.Millisecond, time.Millisecond, good)
		}
		if took := p.now.Sub(began); p.rate() != want || took < 10*time.Second || took > 11*time.Second {
			t.Fatalf("rate %g after %d calls in %s, want %g after a window of 10s", p.rate(), n, took, want)
		}
	}
}

// A failure under a lowered rate halves it, down to one call in 2 s.
func TestFailuresHalveTheRate(t *testing.T) {
	p := newPaced(t)
	p.busy(21*time.Second, 100*time.Millisecond, good)
	p.open()
	p.busy(25*time.Second, 10*time.Millisecond, good) // through the ramp
	before := p.rate()
	for i := 0; before > 0.5 && i < 8; i++ {
		for !p.call(down) {
			p.now = p.now.Add(time.Millisecond)
		}
		for began := p.now; p.rate() == before && p.now.Sub(began) < time.Minute; {
			p.busy(time.Millisecond, time.Millisecond, good)
		}
		if got, want := p.rate(), max(before/2, 0.5); got != want {
			t.Fatalf("window %d with a failure: rate %g, want %g", i+1, got, want)
		}
		before = p.rate()
	}
	if before != 0.5 {
		t.Errorf("the least rate is %g, want 0.5", before)
	}
}

// No two starts are closer than the rate says, whoever asks how often.
func TestStartsKeepTheRate(t *testing.T) {
	p := newPaced(t)
	p.busy(21*time.Second, 100*time.Millisecond, good)
	p.open()
	if n := p.busy(20*time.Second, time.Millisecond, good); n < 95 || n > 110 {
		t.Errorf("%d starts in 20 s at 5 to 6 a second", n)
	}
}

// A Retry-After slows the host down as an open breaker does.
func TestRetryAfterEases(t *testing.T) {
	p := newPaced(t)
	p.busy(21*time.Second, 100*time.Millisecond, good)
	f := failure.Of(failure.Throttled)
	f.RetryAfter = 30 * time.Second
	p.call(gate.Done{Failure: f})
	if p.rate() != 5 {
		t.Errorf("rate %g after a Retry-After, want half of 10", p.rate())
	}
}

// What a target asks for between two starts holds everybody, under any policy.
func TestSlow(t *testing.T) {
	p := newPaced(t)
	p.c = gate.Config{}
	p.s, _ = gate.Step(p.c, p.s, gate.Slow{Every: 2 * time.Second}, p.now, 0)
	if p.call(good) {
		t.Error("a start at once: that one is of whoever told the gate")
	}
	if _, v := gate.Step(p.c, p.s, gate.Ask{}, p.now, 0); v.Held != gate.HeldRate || v.Until.Sub(p.now) != 2*time.Second {
		t.Errorf("held by %s until %s", v.Held, v.Until)
	}
	if n := p.busy(20*time.Second, 100*time.Millisecond, good); n != 9 {
		t.Errorf("%d starts in 20 s, want 9: from 2 s on, 2 s apart", n)
	}
	if every := p.c.Every(p.s); every != 2*time.Second {
		t.Errorf("every %s", every)
	}
	p.s, _ = gate.Step(p.c, p.s, gate.Slow{}, p.now, 0)
	p.now = p.now.Add(2 * time.Second)
	if n := p.busy(time.Second, 100*time.Millisecond, good); n != 10 {
		t.Errorf("%d starts in 1 s after the delay was lifted, want 10", n)
	}
}

// Without a gate nothing is learnt: scrape is the seed to the letter.
func TestOffLearnsNothing(t *testing.T) {
	p := newPaced(t)
	scrape := policy.MustPreset("scrape")
	p.c = gate.Of(&scrape)
	p.busy(21*time.Second, 100*time.Millisecond, good)
	for range 50 {
		p.call(down)
	}
	if p.s.Pace != (gate.Pace{}) {
		t.Errorf("learnt %+v", p.s.Pace)
	}
}
