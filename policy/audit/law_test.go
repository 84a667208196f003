package audit

import (
	"math"
	"testing"
	"time"

	"github.com/ebbhq/ebb/policy"
)

func TestTailOfKolmogorov(t *testing.T) {
	// The usual critical values.
	for x, want := range map[float64]float64{0.1: 1, 1.2239: 0.1, 1.3581: 0.05, 1.6276: 0.01, 1.9495: 0.001} {
		if got := tail(x); math.Abs(got-want) > want*0.001 {
			t.Errorf("tail(%g) = %g, want %g", x, got, want)
		}
	}
}

func TestKolmogorov(t *testing.T) {
	if d, chance := kolmogorov([]float64{0.5, 0.5, 0.5}); d != 0 || chance != 1 {
		t.Errorf("too few: %g, %g; want 0, 1", d, chance)
	}
	even := []float64{0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95}
	if d, chance := kolmogorov(even); math.Abs(d-0.05) > 1e-12 || chance < 0.999 {
		t.Errorf("even: %g, %g; want 0.05, 1", d, chance)
	}
	low := []float64{0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08}
	if d, chance := kolmogorov(low); math.Abs(d-0.92) > 1e-12 || chance > 1e-5 {
		t.Errorf("low: %g, %g; want 0.92, under 1e-5", d, chance)
	}
}

func TestMass(t *testing.T) {
	sec := func(list ...float64) []time.Duration {
		var out []time.Duration
		for _, s := range list {
			out = append(out, time.Duration(s*float64(time.Second)))
		}
		return out
	}
	n, at, chance := mass(sec(50, 60, 60, 60.0005, 61), 24*time.Second)
	// 5 points, 4 over 2, twice a millisecond of 24 s.
	if want := 5 * 6 * (1e-3 / 24) * (1e-3 / 24); n != 3 || at != time.Minute || math.Abs(chance-want) > want*1e-9 {
		t.Errorf("got %d at %s, chance %g; want 3 at 1m0s, %g", n, at, chance, want)
	}
	if _, _, chance := mass(sec(0.001, 0.001), 50*time.Millisecond); chance != 1 {
		t.Errorf("in a narrow band: chance %g, want 1: it proves nothing", chance)
	}
}

func TestLaw(t *testing.T) {
	full := policy.Backoff{Base: 100 * time.Second, Factor: 1, Jitter: policy.Jitter{Kind: policy.JitterFull}, Floor: 25 * time.Second}
	decorrelated := policy.Backoff{Base: 10 * time.Second, Factor: 1, Cap: 60 * time.Second, Jitter: policy.Jitter{Kind: policy.JitterDecorrelated}}
	cases := []struct {
		name string
		law  law
		wait time.Duration
		want float64
		sure bool
	}{
		{"inside", lawOf(&full, 2, 0), 50 * time.Second, 0.5, true},
		{"on the floor: the tie's part of its mass", lawOf(&full, 2, 0), 25 * time.Second, 0.125, false},
		{"decorrelated, after 10 s: 10 to 30", lawOf(&decorrelated, 3, 10*time.Second), 15 * time.Second, 0.25, true},
		{"decorrelated, after 30 s: 10 to 90, cut to 60", lawOf(&decorrelated, 4, 30*time.Second), 60 * time.Second, 0.8125, false},
	}
	for _, c := range cases {
		if u, sure := c.law.unit(c.wait, 0.5); math.Abs(u-c.want) > 1e-9 || sure != c.sure {
			t.Errorf("%s: got %g, %t; want %g, %t", c.name, u, sure, c.want, c.sure)
		}
	}
}
