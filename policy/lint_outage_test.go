package policy

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// sampleLoss plays jobs through an outage: the share whose last try is still
// inside it.
func sampleLoss(p *Policy, outage time.Duration, jobs int) float64 {
	rng := rand.New(rand.NewPCG(2, 7))
	tries := p.Attempts
	if tries == 0 {
		tries = math.MaxInt
	}
	lost := 0
	for range jobs {
		left := time.Duration(rng.Float64() * float64(outage)) // until the outage ends
		var at time.Duration
	waves:
		for pass := 0; pass <= p.Waves.Count; pass++ {
			if pass > 0 {
				at += p.Waves.Cooldown
			}
			var last time.Duration
			for n := 2; n <= tries && at < outage; n++ {
				last = p.Backoff.Draw(n, last, rng.Float64())
				if p.Window > 0 && at+last > p.Window {
					break waves
				}
				at += last
			}
		}
		if at < left {
			lost++
		}
	}
	return float64(lost) / float64(jobs)
}

func TestOutageLossMatchesSampling(t *testing.T) {
	schedule := func(b Backoff, attempts int, window time.Duration) Policy {
		return Policy{Backoff: b, Attempts: attempts, Window: window}
	}
	second, minute := time.Second, time.Minute
	doubling := func(j JitterKind, ratio float64) Backoff {
		return Backoff{Base: 30 * second, Factor: 2, Jitter: Jitter{j, ratio}}
	}
	with := func(b Backoff, edit func(*Backoff)) Backoff { edit(&b); return b }
	scrape, wavy := MustPreset("scrape"), MustPreset("scrape")
	wavy.Backoff.Jitter, wavy.Backoff.Cap = Jitter{Kind: JitterDecorrelated}, 20*second
	tests := []struct {
		name   string
		p      Policy
		outage time.Duration
	}{
		{"processing", MustPreset("processing"), 10 * minute},
		{"webhook", MustPreset("webhook"), 32 * minute},
		{"one wide delay", schedule(doubling(JitterFull, 0), 2, 0), 20 * second},
		{"full", schedule(doubling(JitterFull, 0), 5, 0), 5 * minute},
		{"equal", schedule(doubling(JitterEqual, 0), 5, 0), 8 * minute},
		{"additive", schedule(doubling(JitterAdditive, 0.5), 4, 0), 4 * minute},
		{"floor gathers draws", schedule(with(doubling(JitterFull, 0), func(b *Backoff) { b.Floor = 45 * second }), 5, 0), 6 * minute},
		{"window shorter than the outage", schedule(doubling(JitterProportional, 0.5), 0, 4*minute), 10 * minute},
		{"window longer than the outage", schedule(doubling(JitterProportional, 0.5), 0, 12*minute), 10 * minute},
		{"scrape", scrape, 6 * minute},
		{"decorrelated", schedule(doubling(JitterDecorrelated, 0), 5, 0), 8 * minute},
		{"decorrelated with a cap", schedule(with(doubling(JitterDecorrelated, 0), func(b *Backoff) { b.Cap = 2 * minute }), 9, 0), 12 * minute},
		{"decorrelated with a floor", schedule(with(doubling(JitterDecorrelated, 0), func(b *Backoff) { b.Floor = minute }), 5, 0), 6 * minute},
		{"decorrelated in a window", schedule(doubling(JitterDecorrelated, 0), 0, 9*minute), 8 * minute},
		{"decorrelated in a short window", schedule(doubling(JitterDecorrelated, 0), 0, 3*minute), 8 * minute},
		{"decorrelated waves", wavy, 7 * minute},
	}
	const jobs = 200_000
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, want := tt.p.OutageLoss(tt.outage), sampleLoss(&tt.p, tt.outage, jobs)
			if want < 0.001 || want > 0.999 {
				t.Fatalf("sampled share %g tells nothing; choose another outage", want)
			}
			if tolerance := 4*math.Sqrt(want*(1-want)/jobs) + 2e-4; math.Abs(got-want) > tolerance {
				t.Errorf("OutageLoss = %.5f, sampled %.5f ± %.5f", got, want, tolerance)
			}
		})
	}
}

func TestOutageLossExact(t *testing.T) {
	fixed := Policy{Attempts: 9, Backoff: Backoff{Base: 5 * time.Second, Factor: 1, Jitter: Jitter{Kind: JitterNone}}}
	once := fixed
	once.Attempts = 1
	windowed := fixed
	windowed.Attempts, windowed.Window = 0, 32*time.Second
	one := Policy{Attempts: 2, Backoff: Backoff{Base: time.Minute, Factor: 1, Jitter: Jitter{Kind: JitterFull}}}
	webhook := MustPreset("webhook")
	tests := []struct {
		name   string
		p      Policy
		outage time.Duration
		want   float64
	}{
		{"40 s of retries in 10 min", fixed, 10 * time.Minute, 1 - 40.0/600},
		{"no retry", once, 10 * time.Minute, 1},
		{"window ends the last whole delay", windowed, 10 * time.Minute, 1 - 30.0/600},
		{"survived", webhook, 10 * time.Minute, 0},
		{"no outage", webhook, 0, 0},
		// E[(1 - U)+] for U uniform on 0..1 is 1/2, for 0..2 of the outage 1/4.
		{"full jitter as long as the outage", one, time.Minute, 0.5},
		{"full jitter twice as long", one, 30 * time.Second, 0.25},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.p.OutageLoss(tt.outage); math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("OutageLoss = %.12f, want %.12f", got, tt.want)
			}
		})
	}
}

// TestOutageLossOfAbsurdSchedules is about ending at all.
func TestOutageLossOfAbsurdSchedules(t *testing.T) {
	for _, kind := range []JitterKind{JitterNone, JitterFull, JitterDecorrelated} {
		p := Policy{Attempts: 1_000_000, Backoff: Backoff{Base: 1, Factor: 1, Cap: 2, Jitter: Jitter{Kind: kind}}}
		if got := p.OutageLoss(time.Hour); got < 0.99 || got > 1 {
			t.Errorf("%s: OutageLoss = %g, want nearly 1", kind, got)
		}
	}
	// A thousand waves of a thousand tries each once took minutes.
	p := Policy{
		Attempts: 1000, Backoff: Backoff{Base: 5 * time.Second, Factor: 2, Jitter: Jitter{Kind: JitterDecorrelated}},
		Waves: Waves{Count: 1000, Concurrency: 1},
	}
	if got := p.OutageLoss(4 * time.Minute); got > 1e-9 {
		t.Errorf("1000 tries over hours: OutageLoss = %g, want nearly 0", got)
	}
}
