package simulate_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/simulate"
)

// arrivalsOf returns the instants of a stream's jobs in seconds.
func arrivalsOf(t *testing.T, length time.Duration, a ...simulate.Arrivals) (at []float64) {
	t.Helper()
	s := batchOf(1, calls(once(t), "server"), simulate.Downstream{})
	s.Callers[0].Arrivals, s.Length.Time = a, length
	for _, e := range traced(t, s) {
		if e.Kind == simulate.Arrived {
			at = append(at, e.At.Seconds())
		}
	}
	return at
}

func at(s float64, v float64) simulate.Point {
	return simulate.Point{At: time.Duration(s * float64(time.Second)), Value: v}
}

func TestRegularArrivals(t *testing.T) {
	for _, c := range []struct {
		name string
		a    simulate.Arrivals
		want []float64
	}{
		{"constant", simulate.Arrivals{Rate: simulate.Constant(2)}, []float64{0.5, 1, 1.5, 2, 2.5, 3, 3.5}},
		{"from and until", simulate.Arrivals{Rate: simulate.Constant(2), From: time.Second, Until: 3 * time.Second}, []float64{1.5, 2, 2.5}},
		{"jobs", simulate.Arrivals{Rate: simulate.Constant(2), Jobs: 2}, []float64{0.5, 1}},
		{"step", simulate.Arrivals{Rate: simulate.Steps(1, at(2, 4))}, []float64{1, 2, 2.25, 2.5, 2.75, 3, 3.25, 3.5, 3.75}},
		{"pause", simulate.Arrivals{Rate: simulate.Steps(1, at(1.5, 0), at(3, 2))}, []float64{1, 3.25, 3.75}},
		// Rate t: the integral t²/2 is a whole number at sqrt(2n).
		{"ramp", simulate.Arrivals{Rate: simulate.Curve{Points: []simulate.Point{at(0, 0), at(10, 10)}}}, []float64{math.Sqrt2, 2, math.Sqrt(6), math.Sqrt(8), math.Sqrt(10), math.Sqrt(12), math.Sqrt(14)}},
		{"period", simulate.Arrivals{Rate: simulate.Curve{Points: []simulate.Point{at(0, 4), at(0.5, 4), at(0.5, 0)}, Period: 2 * time.Second}}, []float64{0.25, 2, 2.25}},
	} {
		c.a.Kind = simulate.Regular
		got := arrivalsOf(t, 4*time.Second, c.a)
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 2e-9 }) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestRegularDoesNotDrift: the n-th of a rate of 3 a second comes at n/3 s, to
// the nanosecond, also after a million.
func TestRegularDoesNotDrift(t *testing.T) {
	s := batchOf(1, calls(once(t), "server"), simulate.Downstream{})
	s.Callers[0].Arrivals = []simulate.Arrivals{{Kind: simulate.Regular, Rate: simulate.Constant(3), Jobs: 300_000}}
	if o := run(t, s, 1).Runs[0]; math.Abs(o.EndedAt-100_000) > 1e-6 {
		t.Errorf("job 300000 came at %v", o.EndedAt)
	}
}

func TestOtherArrivals(t *testing.T) {
	if got := arrivalsOf(t, 10*time.Second, simulate.Arrivals{Kind: simulate.Batch, Jobs: 2, From: time.Second, Every: 4 * time.Second}); !slices.Equal(got, []float64{1, 1, 5, 5, 9, 9}) {
		t.Errorf("batches at %v", got)
	}
	if got := arrivalsOf(t, 0, simulate.Arrivals{Kind: simulate.Trace, From: time.Second, Times: []time.Duration{0, 0, 3 * time.Second}}); !slices.Equal(got, []float64{1, 1, 4}) {
		t.Errorf("trace at %v", got)
	}
	if got := arrivalsOf(t, 4*time.Second, simulate.Arrivals{Kind: simulate.Renewal, Gap: simulate.Always(1500 * ms)}); !slices.Equal(got, []float64{1.5, 3}) {
		t.Errorf("renewals at %v", got)
	}
	users := simulate.Arrivals{Kind: simulate.Closed, Users: 2, Think: simulate.Always(time.Second), Jobs: 5}
	if got := arrivalsOf(t, 0, users); !slices.Equal(got, []float64{0, 0, 1, 1, 2}) {
		t.Errorf("closed users at %v", got)
	}
}

// TestPoissonOfAChangingRate: the number in any stretch is Poisson of the
// rate's integral: mean and variance are equal to it.
func TestPoissonOfAChangingRate(t *testing.T) {
	const runs = 400
	curve := simulate.Curve{Points: []simulate.Point{at(0, 0), at(4, 20), at(4, 2), at(8, 2)}}
	var counts [2][]float64 // in [0, 4) the integral is 40, in [4, 8) it is 8
	s := batchOf(1, calls(once(t), "server"), simulate.Downstream{})
	s.Callers[0].Arrivals = []simulate.Arrivals{{Kind: simulate.Poisson, Rate: curve}}
	s.Length.Time, s.Bucket = 8*time.Second, 4*time.Second
	for _, o := range run(t, s, runs).Runs {
		for i := range counts {
			counts[i] = append(counts[i], float64(o.Callers[0].Series.Arrived[i]))
		}
	}
	for i, want := range []float64{40, 8} {
		mean, variance := moments(counts[i])
		if math.Abs(mean-want) > 4*math.Sqrt(want/runs) || math.Abs(variance-want) > 4*want*math.Sqrt(2.2/runs) {
			t.Errorf("stretch %d: mean %v, variance %v, want both %v", i, mean, variance, want)
		}
	}
}

func moments(v []float64) (mean, variance float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		variance += (x - mean) * (x - mean) / float64(len(v)-1)
	}
	return mean, variance
}
