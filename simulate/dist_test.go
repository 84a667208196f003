package simulate

import (
	"math"
	"testing"
	"time"
)

// TestDistributions: mean and standard deviation of every kind, over 200,000
// draws, within four standard errors.
func TestDistributions(t *testing.T) {
	const n = 200_000
	second := time.Second
	gaussian := func(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
	// A normal of mean 1 and deviation 1, given that it is positive.
	upper := 0.5 * math.Erfc(-1/math.Sqrt2)
	lambda := gaussian(1) / upper
	for name, c := range map[string]struct {
		d        Dist
		mean, sd float64
	}{
		"constant":    {Always(3 * second), 3, 0},
		"offset":      {Dist{Kind: Exponential, Mean: second, Offset: 2 * second}, 3, 1},
		"exponential": {Exp(2 * second), 2, 2},
		"normal":      {Dist{Kind: Normal, Mean: 10 * second, SD: second}, 10, 1},
		"truncated":   {Dist{Kind: Normal, Mean: second, SD: second}, 1 + lambda, math.Sqrt(1 - lambda - lambda*lambda)},
		"absolute":    {Dist{Kind: Normal, SD: second, Negative: Absolute}, math.Sqrt(2 / math.Pi), math.Sqrt(1 - 2/math.Pi)},
		"clamped":     {Dist{Kind: Normal, SD: second, Negative: Clamp}, gaussian(0), math.Sqrt(0.5 - 1/(2*math.Pi))},
		"lognormal":   {Dist{Kind: Lognormal, Mean: 2 * second, SD: second}, 2, 1},
		"median":      {Dist{Kind: Lognormal, Median: second, Sigma: 0.5}, math.Exp(0.125), math.Exp(0.125) * math.Sqrt(math.Expm1(0.25))},
		"uniform":     {Dist{Kind: Uniform, Min: second, Max: 3 * second}, 2, 1 / math.Sqrt(3)},
		"pareto":      {Dist{Kind: Pareto, Min: second, Shape: 5}, 1.25, math.Sqrt(5.0 / 48)},
		"bounded":     {Dist{Kind: Pareto, Min: second, Max: 2 * second, Shape: 1}, 2 * math.Ln2, math.Sqrt(2 - 4*math.Ln2*math.Ln2)},
		"erlang":      {Dist{Kind: Gamma, Mean: 4 * second, Shape: 4}, 4, 2},
		"gamma":       {Dist{Kind: Gamma, Mean: 2 * second, Shape: 0.5}, 2, 2 * math.Sqrt2},
		"big gamma":   {Dist{Kind: Gamma, Mean: 2 * second, Shape: 2.5}, 2, 2 / math.Sqrt(2.5)},
		"weibull":     {Dist{Kind: Weibull, Scale: second, Shape: 2}, math.Gamma(1.5), math.Sqrt(1 - math.Gamma(1.5)*math.Gamma(1.5))},
		"mixture":     {Dist{Kind: Mixture, Parts: []Part{{Weight: 3, Dist: Always(second)}, {Weight: 1, Dist: Always(5 * second)}}}, 2, math.Sqrt(3)},
		"empirical":   {Dist{Kind: Empirical, Values: []Value{{Value: second}, {Value: 3 * second}}}, 2, 1},
	} {
		draws, random := newSampler(&c.d), newStream(1, name, 0)
		var all sketch
		for range n {
			all.add(draws.draw(&random))
		}
		h := all.histogram()
		if math.Abs(h.Mean-c.mean) > 4*c.sd/math.Sqrt(n)+1e-9 {
			t.Errorf("%s: mean %v, want %v", name, h.Mean, c.mean)
		}
		if math.Abs(h.SD-c.sd) > 0.03*c.sd+1e-9 {
			t.Errorf("%s: deviation %v, want %v", name, h.SD, c.sd)
		}
	}
}

// TestTimelineReaches: reach is the inverse of integral, and the pieces of a
// curve are found at jumps, at its ends and over periods.
func TestTimelineReaches(t *testing.T) {
	s := func(x float64) time.Duration { return time.Duration(x * second) }
	for name, c := range map[string]Curve{
		"constant": Constant(3),
		"steps":    Steps(1, Point{s(2), 0}, Point{s(5), 4}),
		"ramps":    {Points: []Point{{s(1), 2}, {s(3), 0}, {s(7), 8}}},
		"periodic": {Points: []Point{{0, 1}, {s(2), 5}, {s(2), 0}, {s(3), 0}}, Period: s(3)},
	} {
		line := newTimeline(&c, 1)
		for from := range 10 {
			for _, need := range []float64{0.25, 1, 2.5, 17} {
				begin := int64(from) * second
				end, rest, ok := line.reach(begin, 0, need*second)
				if !ok {
					t.Fatalf("%s never reaches %v from %d s", name, need, from)
				}
				if got := (line.integral(begin, end) + rest*line.at(end)) / second; math.Abs(got-need) > 1e-7 {
					t.Errorf("%s: from %d s to %v s it is %v, want %v", name, from, seconds(end), got, need)
				}
			}
		}
	}
	stopped := newTimeline(&Curve{Points: []Point{{0, 1}, {s(1), 0}}}, 1)
	if _, _, ok := stopped.reach(0, 0, second); ok {
		t.Error("a curve that ends at 0 reached more than its area")
	}
}

// TestNextWhole: the instants at which a number of servers changes.
func TestNextWhole(t *testing.T) {
	line := newTimeline(&Curve{Points: []Point{{0, 1}, {10 * time.Second, 0}, {20 * time.Second, 0}, {20 * time.Second, 1}}}, 1)
	var at []float64
	for now := int64(0); ; {
		next, ok := line.nextWhole(now, 2)
		if !ok {
			break
		}
		now = next
		at = append(at, math.Round(seconds(now)*1e6)/1e6)
	}
	// 2 servers until 1.5 are left, 1 until 0.5 are, none, 2 again.
	if len(at) != 3 || at[0] != 2.5 || at[1] != 7.5 || at[2] != 20 {
		t.Errorf("changes at %v", at)
	}
}

// TestAgenda: events come in the order of instant, rank and scheduling, and
// those taken out do not come.
func TestAgenda(t *testing.T) {
	var a agenda
	random := newStream(3, "agenda", 0)
	type key struct {
		at   int64
		rank rank
		n    int32
	}
	keys := map[handle]key{}
	for n := range int32(2000) {
		k := key{int64(random.unit() * 50), rank(random.bits()%4) << 56, n}
		keys[a.add(k.at, k.rank, doStart, n)] = k
		if n%3 == 0 {
			for h := range keys {
				delete(keys, h)
				a.cancel(&h)
				break
			}
		}
	}
	last := key{at: -1}
	for range len(keys) {
		at, _, n := a.next()
		var k key
		for h := range keys {
			if keys[h].n == n {
				k = keys[h]
				delete(keys, h)
				break
			}
		}
		if k.at != at || k.at < last.at || k.at == last.at && (k.rank < last.rank || k.rank == last.rank && k.n < last.n) {
			t.Fatalf("%+v came after %+v", k, last)
		}
		last = k
	}
	if len(a.heap) != 0 || len(a.free) != len(a.events)-1 {
		t.Errorf("%d left, %d of %d free", len(a.heap), len(a.free), len(a.events)-1)
	}
}
