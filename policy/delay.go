package policy

import (
	"math"
	"time"
)

// MaxDelay is where every delay saturates, about 73 years: low enough that
// doubling it cannot overflow a time.Duration.
const MaxDelay = time.Duration(1 << 61)

// decorrelatedSpread is the factor between the last delay and the upper end
// of the next in decorrelated jitter.
const decorrelatedSpread = 3

// Band is the delay before a try: what is written, and the least and most
// that jitter can make of it.
type Band struct {
	Nominal, Least, Most time.Duration
}

// Add returns the sums of two bands, each at most MaxDelay.
func (b Band) Add(c Band) Band {
	return Band{Nominal: addSat(b.Nominal, c.Nominal), Least: addSat(b.Least, c.Least), Most: addSat(b.Most, c.Most)}
}

// Nominal returns the delay before try n (the first retry is try 2), before
// jitter and floor. For n < 2 it is 0.
func (b *Backoff) Nominal(n int) time.Duration {
	if n < 2 {
		return 0
	}
	k := n - 2
	if len(b.Steps) > 0 {
		return max(0, min(b.Steps[min(k, len(b.Steps)-1)], MaxDelay))
	}
	if b.Base <= 0 {
		return 0
	}
	limit := MaxDelay
	if b.Cap > 0 && b.Cap < limit {
		limit = b.Cap
	}
	d := float64(b.Base) * power(b.Factor, k)
	if !(d < float64(limit)) {
		return limit
	}
	return time.Duration(d)
}

// power is factor^k: by multiplication, exact for the seeds' factors, as far
// as schedules commonly go, then by math.Pow, so that a million tries cost
// no more than twenty.
func power(factor float64, k int) float64 {
	if factor == 1 || k == 0 {
		return 1
	}
	if k > 20 {
		return math.Pow(factor, float64(k))
	}
	p := factor
	for range k - 1 {
		p *= factor
	}
	return p
}

// Draw returns the delay before try n for the uniform draw u in [0, 1).
// last is the delay drawn before, used by decorrelated jitter; 0 = none.
func (b *Backoff) Draw(n int, last time.Duration, u float64) time.Duration {
	nominal := b.Nominal(n)
	d := float64(nominal)
	switch b.Jitter.Kind {
	case JitterNone:
		return b.bounded(nominal) // exact, also where a float64 is not
	case JitterProportional:
		d += d * b.Jitter.Ratio * (2*u - 1)
	case JitterAdditive:
		d += d * b.Jitter.Ratio * u
	case JitterEqual:
		d = d/2 + d/2*u
	case JitterFull:
		d *= u
	case JitterDecorrelated:
		low, high := b.decorrelated(last)
		d = low + (high-low)*u
		if b.Cap > 0 {
			d = min(d, float64(b.Cap))
		}
	}
	return b.settle(d)
}

// decorrelated returns the ends of the next delay, before the cap. Without a
// last delay it starts from base, so that first retries are spread as well.
func (b *Backoff) decorrelated(last time.Duration) (low, high float64) {
	low = float64(b.Base)
	return low, decorrelatedSpread * max(low, float64(last))
}

// settle applies floor and saturation to a jittered delay in nanoseconds.
func (b *Backoff) settle(d float64) time.Duration {
	if !(d < float64(MaxDelay)) {
		return MaxDelay
	}
	return b.bounded(time.Duration(d))
}

// bounded raises a delay to the floor and cuts it to MaxDelay.
func (b *Backoff) bounded(d time.Duration) time.Duration { return min(max(d, b.Floor, 0), MaxDelay) }

// Band returns the delay before try n with the ends of its jitter.
// Decorrelated jitter has no fixed nominal delay: about its mean is given.
func (b *Backoff) Band(n int) Band {
	if n < 2 {
		return Band{}
	}
	if b.Jitter.Kind == JitterDecorrelated {
		return b.decorrelatedBand(n)
	}
	return Band{Nominal: b.bounded(b.Nominal(n)), Least: b.Draw(n, 0, 0), Most: b.Draw(n, 0, 1)}
}

// decorrelatedBand follows the mean and the most delay from try to try. The
// mean of the next delay is taken at the mean of the last: exact until the
// cap is reached, a little high from there.
func (b *Backoff) decorrelatedBand(n int) Band {
	limit := float64(MaxDelay)
	if b.Cap > 0 {
		limit = min(limit, float64(b.Cap))
	}
	base, floor := float64(b.Base), float64(b.Floor)
	mean, most := base, base
	for range n - 1 {
		next := max(cappedMean(base, decorrelatedSpread*mean, limit), floor)
		most = max(min(decorrelatedSpread*most, limit), floor)
		if next-mean < 1 && most >= limit {
			break // settled, to the nanosecond
		}
		mean = next
	}
	return Band{Nominal: b.settle(mean), Least: b.settle(min(base, limit)), Most: b.settle(most)}
}

// cappedMean is the mean of a uniform draw between low and high that is cut
// to limit.
func cappedMean(low, high, limit float64) float64 {
	if high <= limit || low >= limit {
		return min((low+high)/2, limit)
	}
	below := (limit - low) / (high - low)
	return below*(low+limit)/2 + (1-below)*limit
}

// Delay returns the band before try n under the policy's own schedule.
func (p *Policy) Delay(n int) Band { return p.Backoff.Band(n) }

// MaxShownDelays bounds what Delays lists. It is the most that lint lets a job
// be tried, so only what is refused anyway is not listed in full.
const MaxShownDelays = maxTries

// Delays lists the bands of tries 2 and up. Without an attempt cap it lists
// what fits into the window nominally, at most MaxShownDelays.
func (p *Policy) Delays() []Band {
	var bands []Band
	var sum time.Duration
	for n := 2; len(bands) < MaxShownDelays && (p.Attempts == 0 || n <= p.Attempts); n++ {
		band := p.Delay(n)
		if sum = addSat(sum, band.Nominal); p.Window > 0 && sum > p.Window {
			break
		}
		bands = append(bands, band)
	}
	return bands
}

// Span returns the sums of the delays alone, timeouts not counted: how long
// one pass of tries spreads. With waves see Reach.
func (p *Policy) Span() Band {
	var s Band
	if p.Attempts > MaxShownDelays {
		return p.longSpan()
	}
	bands := p.Delays()
	for _, b := range bands {
		s = s.Add(b)
	}
	if p.Attempts == 0 && len(bands) == MaxShownDelays {
		s = Band{Nominal: p.Window, Least: p.Window, Most: p.Window} // more tries than are listed fill the window
	}
	return p.withinWindow(s)
}

// withinWindow cuts the sums to the window, later than which nothing is tried.
func (p *Policy) withinWindow(s Band) Band {
	if p.Window == 0 {
		return s
	}
	return Band{Nominal: min(s.Nominal, p.Window), Least: min(s.Least, p.Window), Most: min(s.Most, p.Window)}
}

// longSpan sums schedules too long to list: what Delays shows, then the last
// band repeated, which is a lower bound where the schedule still grows.
func (p *Policy) longSpan() Band {
	short := *p
	short.Attempts = MaxShownDelays
	s, last := short.Span(), p.Delay(MaxShownDelays)
	more := float64(p.Attempts - MaxShownDelays)
	s.Nominal = scaleSat(s.Nominal, last.Nominal, more)
	s.Least = scaleSat(s.Least, last.Least, more)
	s.Most = scaleSat(s.Most, last.Most, more)
	return p.withinWindow(s)
}

// Reach returns how long after its first start a job may still be tried:
// the span, repeated for every wave, plus the waves' cooldowns.
func (p *Policy) Reach() Band {
	s := p.Span()
	if p.Waves.Count == 0 {
		return s
	}
	n := float64(p.Waves.Count)
	cool := scaleSat(0, p.Waves.Cooldown, n)
	passes := Band{scaleSat(s.Nominal, s.Nominal, n), scaleSat(s.Least, s.Least, n), scaleSat(s.Most, s.Most, n)}
	return passes.Add(Band{cool, cool, cool})
}

func addSat(a, b time.Duration) time.Duration {
	if a > MaxDelay-b {
		return MaxDelay
	}
	return a + b
}

func scaleSat(sum, d time.Duration, n float64) time.Duration {
	if total := float64(sum) + float64(d)*n; total < float64(MaxDelay) {
		return time.Duration(total)
	}
	return MaxDelay
}
