package audit

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ebbhq/ebb/policy"
)

// law is how one wait is distributed: uniform from low to high, then raised
// to least and cut to most, where it has point masses.
type law struct{ low, high, least, most time.Duration }

// lawOf asks the schedule itself for its ends.
func lawOf(b *policy.Backoff, try int, last time.Duration) law {
	bare := *b
	bare.Floor = 0
	if bare.Jitter.Kind == policy.JitterDecorrelated {
		bare.Cap = 0
	}
	return law{
		low: bare.Draw(try, last, 0), high: bare.Draw(try, last, 1),
		least: b.Draw(try, last, 0), most: b.Draw(try, last, 1),
	}
}

// unit returns the wait's place in its law, uniform in [0, 1] if it follows
// it; inside a point mass the tie decides. sure is false there.
func (l law) unit(d time.Duration, tie float64) (u float64, sure bool) {
	share := func(d time.Duration) float64 {
		return min(1, max(0, float64(d-l.low)/float64(l.high-l.low)))
	}
	switch {
	case d <= l.least && l.least > l.low:
		return share(l.least) * tie, false
	case d >= l.most && l.most < l.high:
		from := share(l.most)
		return from + (1-from)*tie, false
	}
	return share(d), true
}

// group is the waits before one try under one schedule.
type group struct {
	Group
	jittered bool
	waits    []time.Duration // all
	free     []time.Duration // those that jitter alone decided, outside point masses
	units    []float64       // places in their laws of those that jitter alone decided
	width    time.Duration   // the least of their laws'
}

func (g *group) add(l law, d, floor time.Duration, tie float64) {
	g.waits = append(g.waits, d)
	least, most := l.least, l.most
	if floor > 0 {
		g.Asked++
		least, most = max(least, floor), max(most, floor)
	}
	switch {
	case d < least-exact:
		g.Short++
	case d > most+exact:
		g.Long++
	}
	if floor > 0 || l.high <= l.low {
		return
	}
	u, sure := l.unit(d, tie)
	g.units = append(g.units, u)
	if sure {
		g.free = append(g.free, d)
		if g.width == 0 || l.high-l.low < g.width {
			g.width = l.high - l.low
		}
	}
}

// finish fills in the figures and the tests.
func (g *group) finish() {
	slices.Sort(g.waits)
	slices.Sort(g.free)
	g.Waits = len(g.waits)
	g.Shortest, g.Median, g.Longest = g.waits[0], g.waits[len(g.waits)/2], g.waits[len(g.waits)-1]
	if !g.jittered {
		return
	}
	g.Distance, g.Chance = kolmogorov(g.units)
	g.Same, g.SameAt, g.SameChance = mass(g.free, g.width)
}

// MinTested is how many waits the distribution test wants at least.
const MinTested = 8

// kolmogorov tests numbers for being uniform in [0, 1]: the largest distance
// of their distribution from it, and how likely that or a larger one is. Too
// few prove nothing: chance 1.
func kolmogorov(units []float64) (distance, chance float64) {
	n := len(units)
	if n < MinTested {
		return 0, 1
	}
	sorted := slices.Sorted(slices.Values(units))
	for i, u := range sorted {
		distance = max(distance, float64(i+1)/float64(n)-u, u-float64(i)/float64(n))
	}
	root := math.Sqrt(float64(n))
	// Stephens' correction makes the limit law good from small n on.
	return distance, tail((root + 0.12 + 0.11/root) * distance)
}

// tail is the chance that Kolmogorov's variable exceeds x.
func tail(x float64) float64 {
	if x < 0.3 {
		return 1 // to nine digits, and the series is slow there
	}
	sum, sign := 0.0, 1.0
	for k := 1.0; k <= 100; k++ {
		term := math.Exp(-2 * k * k * x * x)
		sum += sign * term
		if sign = -sign; term < 1e-16 {
			break
		}
	}
	return min(1, max(0, 2*sum))
}

// grain is how near waits are the same.
const grain = time.Millisecond

// mass finds the most waits that are the same, and bounds the chance that as
// many meet anywhere: n points, each with the others that fall into its grain.
func mass(sorted []time.Duration, width time.Duration) (most int, at time.Duration, chance float64) {
	first := 0
	for i, d := range sorted {
		for d-sorted[first] > grain {
			first++
		}
		if i-first+1 > most {
			most, at = i-first+1, sorted[first]
		}
	}
	if most < 2 || width < 100*grain {
		return most, at, 1
	}
	n, k := float64(len(sorted)), float64(most-1)
	choose := lgamma(n) - lgamma(k+1) - lgamma(n-k) // n-1 over k
	return most, at, min(1, math.Exp(math.Log(n)+choose+k*math.Log(float64(grain)/float64(width))))
}

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}

func jitterWords(j policy.Jitter) string {
	switch j.Kind {
	case policy.JitterProportional:
		return fmt.Sprintf("proportional jitter of ±%g %%", j.Ratio*100)
	case policy.JitterAdditive:
		return fmt.Sprintf("additive jitter of up to %g %%", j.Ratio*100)
	case policy.JitterNone:
		return "no jitter"
	}
	return string(j.Kind) + " jitter"
}
