package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestBackoff holds the webhook contract of seed 002: 60, 120, 240, 480,
// 960 s, each ± 20 %, never under 1 s. Continuous integration fails when one
// of these cases is skipped, renamed or removed.
func TestBackoff(t *testing.T) {
	b := MustPreset("webhook").Backoff
	draws := func(n, count int) []time.Duration {
		rng := rand.New(rand.NewPCG(247, 2))
		all := make([]time.Duration, count)
		for i := range all {
			all[i] = b.Draw(n, 0, rng.Float64())
		}
		return all
	}
	within := func(t *testing.T, n int, low, high time.Duration) {
		t.Helper()
		for _, d := range draws(n, 1000) {
			if d < low || d > high {
				t.Errorf("delay before try %d is %v, want %v to %v", n, d, low, high)
			}
		}
	}
	t.Run("first_retry_around_60s", func(t *testing.T) { within(t, 2, 48*time.Second, 72*time.Second) })
	t.Run("second_retry_around_120s", func(t *testing.T) { within(t, 3, 96*time.Second, 144*time.Second) })
	t.Run("backoff_is_exponential", func(t *testing.T) {
		for n := 2; n <= 6; n++ {
			want := time.Minute << (n - 2)
			if got := b.Nominal(n); got != want {
				t.Errorf("nominal delay before try %d is %v, want %v", n, got, want)
			}
			if n == 2 {
				continue
			}
			before, after := draws(n-1, 1000), draws(n, 1000)
			for i := range after { // ± 20 % on both sides
				if ratio := float64(after[i]) / float64(before[i]); ratio < 2*0.8/1.2 || ratio > 2*1.2/0.8 {
					t.Fatalf("try %d waits %v after %v: not about twice", n, after[i], before[i])
				}
			}
		}
	})
	t.Run("delay_never_negative", func(t *testing.T) {
		tiny := b
		tiny.Base = time.Millisecond // only the floor keeps it up
		for _, b := range []Backoff{b, tiny} {
			for n := 2; n <= 12; n++ {
				for _, u := range []float64{0, 0.5, math.Nextafter(1, 0)} {
					if d := b.Draw(n, 0, u); d.Seconds() < 1.0 {
						t.Errorf("base %v: delay before try %d is %v, under 1.0 s", b.Base, n, d)
					}
				}
			}
		}
	})
	t.Run("jitter_produces_variance", func(t *testing.T) {
		delays := draws(2, 100)
		for _, d := range delays {
			if d < 48*time.Second || d > 72*time.Second {
				t.Errorf("delay %v is outside 48 s to 72 s", d)
			}
		}
		slices.Sort(delays)
		if distinct := len(slices.Compact(delays)); distinct < 90 {
			t.Errorf("100 draws gave %d distinct delays: jitter must produce variance", distinct)
		}
	})
}

// randomKinds are the jitter kinds that draw.
var randomKinds = []Jitter{
	{JitterProportional, 0.2},
	{JitterAdditive, 0.5},
	{JitterEqual, 0},
	{JitterFull, 0},
	{JitterDecorrelated, 0},
}

// TestBackoffExactDelays pins what a seed gives, for presets and every kind.
func TestBackoffExactDelays(t *testing.T) {
	var out strings.Builder
	row := func(name string, b Backoff, tries int) {
		rng := rand.New(rand.NewPCG(1, 2))
		var last time.Duration
		fmt.Fprintf(&out, "%-13s", name)
		for n := 2; n <= tries; n++ {
			last = b.Draw(n, last, rng.Float64())
			fmt.Fprintf(&out, " %v", last)
		}
		out.WriteByte('\n')
	}
	for _, name := range PresetNames() {
		p := MustPreset(name)
		row(name, p.Backoff, p.Attempts)
	}
	row("none", Backoff{Base: 30 * time.Second, Factor: 2}, 9)
	row("steps", Backoff{Steps: []time.Duration{time.Second, time.Minute}, Jitter: Jitter{JitterProportional, 0.1}}, 6)
	row("cap, floor", Backoff{Base: time.Second, Factor: 3, Cap: 10 * time.Second, Floor: 2 * time.Second, Jitter: Jitter{JitterFull, 0}}, 9)
	for _, j := range randomKinds {
		row(string(j.Kind), Backoff{Base: 30 * time.Second, Factor: 2, Cap: 10 * time.Minute, Jitter: j}, 9)
	}
	golden(t, "delays.golden", out.String())
}

// TestJitterDistribution compares 100,000 draws of every random kind with the
// distribution that its name promises, by Kolmogorov and Smirnov. The limit
// is that of one false alarm in 10,000; seeds are fixed, so there is none.
func TestJitterDistribution(t *testing.T) {
	const draws = 100_000
	limit := math.Sqrt(-math.Log(0.0001/2)/2) / math.Sqrt(draws)
	uniform := func(low, high float64) func(float64) float64 {
		return func(x float64) float64 { return min(max((x-low)/(high-low), 0), 1) }
	}
	const last = 50 * time.Second
	promised := map[JitterKind]func(float64) float64{ // of try 3 of base 30 s, factor 2; seconds
		JitterProportional: uniform(48, 72),
		JitterAdditive:     uniform(60, 90),
		JitterEqual:        uniform(30, 60),
		JitterFull:         uniform(0, 60),
		JitterDecorrelated: uniform(30, 150), // base to 3 × the last delay
	}
	sample := func(j Jitter) []float64 {
		b := Backoff{Base: 30 * time.Second, Factor: 2, Jitter: j}
		rng := rand.New(rand.NewPCG(42, 42))
		all := make([]float64, draws)
		for i := range all {
			all[i] = b.Draw(3, last, rng.Float64()).Seconds()
		}
		slices.Sort(all)
		return all
	}
	for _, j := range randomKinds {
		t.Run(string(j.Kind), func(t *testing.T) {
			got := sample(j)
			for kind, cdf := range promised {
				d := distance(got, cdf)
				if kind == j.Kind && d > limit {
					t.Errorf("distance to its own distribution is %.5f, over %.5f", d, limit)
				}
				if kind != j.Kind && d <= limit {
					t.Errorf("distance to %s is %.5f: the test cannot tell them apart", kind, d)
				}
			}
		})
	}
	t.Run("decorrelated cut to its cap", func(t *testing.T) {
		b := Backoff{Base: 30 * time.Second, Factor: 1, Cap: time.Minute, Jitter: Jitter{Kind: JitterDecorrelated}}
		rng := rand.New(rand.NewPCG(42, 42))
		capped := 0
		for range draws {
			if b.Draw(3, last, rng.Float64()) == time.Minute {
				capped++
			}
		}
		if share := float64(capped) / draws; math.Abs(share-0.75) > 0.005 { // 60..150 of 30..150
			t.Errorf("share at the cap is %.4f, want 0.75", share)
		}
	})
}

// distance is the largest gap between the sorted sample's distribution and cdf.
func distance(sorted []float64, cdf func(float64) float64) float64 {
	var most float64
	n := float64(len(sorted))
	for i, x := range sorted {
		f := cdf(x)
		most = max(most, f-float64(i)/n, float64(i+1)/n-f)
	}
	return most
}

// TestDecorrelatedStartsSpread: a first retry has no last delay, and was once
// drawn without any jitter for it.
func TestDecorrelatedStartsSpread(t *testing.T) {
	b := Backoff{Base: 10 * time.Second, Factor: 1, Jitter: Jitter{Kind: JitterDecorrelated}}
	if low, high := b.Draw(2, 0, 0), b.Draw(2, 0, 1); low != 10*time.Second || high != 30*time.Second {
		t.Errorf("first delay is %v to %v, want 10s to 30s", low, high)
	}
	if got, want := b.Band(2), (Band{20 * time.Second, 10 * time.Second, 30 * time.Second}); got != want {
		t.Errorf("Band(2) = %v, want %v", got, want)
	}
	b.Cap = 20 * time.Second
	// 10 of the 20 s between 10 and 30 lie under the cap: 15 on average, else 20.
	if got, want := b.Band(2), (Band{17500 * time.Millisecond, 10 * time.Second, 20 * time.Second}); got != want {
		t.Errorf("Band(2) with a cap = %v, want %v", got, want)
	}
}

// anyBackoff draws schedules that Seal accepts, far beyond sensible ones.
func anyBackoff(t *rapid.T) Backoff {
	long := rapid.Int64Range(1, math.MaxInt64)
	kind := rapid.SampledFrom([]JitterKind{
		JitterNone, JitterProportional, JitterAdditive, JitterEqual, JitterFull, JitterDecorrelated,
	}).Draw(t, "kind")
	b := Backoff{
		Jitter: Jitter{kind, rapid.Float64Range(0, 1).Draw(t, "ratio")},
		Floor:  time.Duration(rapid.OneOf(rapid.Just(int64(0)), long).Draw(t, "floor")),
	}
	if kind != JitterDecorrelated && rapid.Bool().Draw(t, "steps") {
		for _, step := range rapid.SliceOfN(long, 1, 5).Draw(t, "list") {
			b.Steps = append(b.Steps, time.Duration(step))
		}
		return b
	}
	b.Base = time.Duration(long.Draw(t, "base"))
	b.Factor = rapid.OneOf(rapid.Just(1.0), rapid.Float64Range(1, 10), rapid.Float64Range(1, math.MaxFloat64)).Draw(t, "factor")
	if rapid.Bool().Draw(t, "capped") {
		b.Cap = time.Duration(rapid.Int64Range(int64(b.Base), math.MaxInt64).Draw(t, "cap"))
	}
	return b
}

// checkDelay states what holds for the delay before any try.
func checkDelay(t interface{ Errorf(string, ...any) }, b *Backoff, n int, last time.Duration, u float64) {
	band, nominal, drawn := b.Band(n), b.Nominal(n), b.Draw(n, last, u)
	for name, d := range map[string]time.Duration{
		"Nominal": nominal, "Draw": drawn, "Band.Nominal": band.Nominal, "Band.Least": band.Least, "Band.Most": band.Most,
	} {
		if d < 0 || d > MaxDelay {
			t.Errorf("%s(%d) of %+v is %v, outside 0 to %v", name, n, *b, d, MaxDelay)
		}
	}
	// Delays over 104 days are rounded to what a float64 can hold.
	if rounding := nominal >> 52; band.Least > band.Nominal+rounding && b.Jitter.Kind != JitterEqual && b.Jitter.Kind != JitterFull || band.Least > band.Most {
		t.Errorf("Band(%d) of %+v is not in order: %+v", n, *b, band)
	}
	if n >= 2 && last <= band.Most && (drawn < band.Least || drawn > band.Most) && b.Jitter.Kind != JitterDecorrelated {
		t.Errorf("Draw(%d, %v, %g) of %+v is %v, outside %v to %v", n, last, u, *b, drawn, band.Least, band.Most)
	}
	if n >= 2 && drawn < min(b.Floor, MaxDelay) {
		t.Errorf("Draw(%d) of %+v is %v, under its floor", n, *b, drawn)
	}
	if next := b.Nominal(n + 1); len(b.Steps) == 0 && b.Factor >= 1 && next < nominal {
		t.Errorf("nominal delays of %+v shrink from %v to %v at try %d", *b, nominal, next, n+1)
	}
}

func TestScheduleProperties(t *testing.T) {
	tries := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 1_000_000), rapid.Just(1_000_000))
	rapid.Check(t, func(t *rapid.T) {
		b := anyBackoff(t)
		n := tries.Draw(t, "n")
		u := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "u")
		last := time.Duration(rapid.Int64Range(0, int64(MaxDelay)).Draw(t, "last"))
		checkDelay(t, &b, n, last, u)
	})
}

// TestDrawsStayInTheirBand follows a whole course of tries, so that the last
// delay of decorrelated jitter is one that was drawn.
func TestDrawsStayInTheirBand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := anyBackoff(t)
		var last time.Duration
		for n := 2; n < 30; n++ {
			u := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "u")
			last = b.Draw(n, last, u)
			if band := b.Band(n); last < band.Least || last > band.Most {
				t.Fatalf("Draw(%d) of %+v is %v, outside %v to %v", n, b, last, band.Least, band.Most)
			}
		}
	})
}

// TestSpansDoNotOverflow sums schedules of up to a million tries.
func TestSpansDoNotOverflow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{Backoff: anyBackoff(t), Attempts: rapid.IntRange(1, 1_000_000).Draw(t, "attempts")}
		p.Window = time.Duration(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, math.MaxInt64)).Draw(t, "window"))
		p.Waves = Waves{Count: rapid.IntRange(0, 1000).Draw(t, "waves"), Cooldown: time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "cooldown"))}
		for name, s := range map[string]Band{"Span": p.Span(), "Reach": p.Reach()} {
			if s.Least < 0 || s.Nominal < 0 || s.Most < s.Least || s.Most > MaxDelay {
				t.Fatalf("%s of %+v is %+v", name, p, s)
			}
		}
	})
}

// TestLongScheduleIsListedWhole: of more than a hundred tries only the first
// hundred were listed and summed, the rest guessed.
func TestLongScheduleIsListedWhole(t *testing.T) {
	p := seal(t, "default", func(p *Policy) {
		p.Attempts, p.Backoff.Factor = 300, 1.01
	})
	var sum time.Duration
	for n := 2; n <= 300; n++ {
		sum += p.Backoff.Nominal(n)
	}
	if got := len(p.Delays()); got != 299 {
		t.Errorf("%d delays of 299", got)
	}
	if got := p.Span().Nominal; got != sum {
		t.Errorf("Span is %s, the delays sum to %s", got, sum)
	}
}

func FuzzSchedule(f *testing.F) {
	f.Add(int64(time.Minute), 2.0, int64(0), int64(time.Second), uint8(1), 0.2, 6, int64(0), 0.5)
	f.Add(int64(math.MaxInt64), math.MaxFloat64, int64(math.MaxInt64), int64(math.MaxInt64), uint8(5), 1.0, 1_000_000, int64(math.MaxInt64), 0.999)
	f.Add(int64(1), 1.0000000000000002, int64(1), int64(0), uint8(0), 0.0, 22, int64(1), 0.0)
	kinds := []JitterKind{JitterNone, JitterProportional, JitterAdditive, JitterEqual, JitterFull, JitterDecorrelated}
	f.Fuzz(func(t *testing.T, base int64, factor float64, limit, floor int64, kind uint8, ratio float64, n int, last int64, u float64) {
		p := Policy{Name: "fuzz"}
		p = Base(p.Name)
		p.Attempts, p.Backoff = 1_000_000, Backoff{
			Base: time.Duration(base), Factor: factor, Cap: time.Duration(limit), Floor: time.Duration(floor),
			Jitter: Jitter{kinds[int(kind)%len(kinds)], ratio},
		}
		p, err := Seal(p)
		if err != nil || !(u >= 0 && u < 1) || last < 0 || n < 0 || n > 1_000_000 {
			return // what Seal refuses never runs
		}
		checkDelay(t, &p.Backoff, n, time.Duration(last), u)
	})
}
