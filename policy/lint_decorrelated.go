package policy

import "math"

const (
	// The grid for decorrelated jitter has two dimensions: the time at which
	// a job stands, and its last delay.
	decorrelatedTimes  = 512
	decorrelatedDelays = 256
	// decorrelatedTries bounds the tries looked at, over all passes.
	decorrelatedTries = maxTries
)

// decorrelatedGrid holds the last delays that matter, evenly from low to top,
// and the limits of a draw. Seconds.
type decorrelatedGrid struct {
	base     float64
	low, cap float64 // draws are cut to these; low is the floor, or base
	top      float64 // the grid's end: the cap, or the outage, longer than which no delay matters
	cell     float64
}

func decorrelatedOf(b *Backoff, outage float64) decorrelatedGrid {
	g := decorrelatedGrid{base: b.Base.Seconds(), cap: MaxDelay.Seconds()}
	if b.Cap > 0 {
		g.cap = b.Cap.Seconds()
	}
	g.low = max(min(g.base, g.cap), b.Floor.Seconds())
	g.cap = max(g.cap, g.low)
	g.top = max(g.low, min(g.cap, outage))
	g.cell = (g.top - g.low) / decorrelatedDelays
	return g
}

// decorrelatedCover is cover where each delay depends on the last: the value
// of standing at s with last delay l, backwards from the last try. The same
// step is applied again and again, so it ends early once nothing changes.
func (o outageSpan) decorrelatedCover(p *Policy) float64 {
	o = o.divided(decorrelatedTimes)
	g := decorrelatedOf(&p.Backoff, o.length)
	tries, waves := g.within(p, o.length)
	start := make([]float64, o.cells+1) // value at the start of the pass that follows
	cooldown := p.Waves.Cooldown.Seconds()
	for pass := waves; pass >= 0; pass-- {
		after := start // value at the end of this pass, nothing after the last
		if pass < waves {
			wait, next := gap{least: cooldown, most: cooldown}, newCurve(o.cell, start)
			after = make([]float64, o.cells+1)
			for i := range after {
				after[i] = o.step(next, float64(i)*o.cell, wait)
			}
		}
		start = o.decorrelatedPass(g, after, tries)
	}
	return start[0]
}

// within returns how many tries of a pass, and how many waves after the first
// pass, can begin inside the outage: no delay is shorter than low.
func (g decorrelatedGrid) within(p *Policy, outage float64) (tries, waves int) {
	fit := func(each float64, most int) int { // waits of that length that begin inside
		if each*float64(most) <= outage {
			return most
		}
		return int(outage/each) + 1
	}
	tries = p.passTries()
	if tries == 0 || tries > decorrelatedTries {
		tries = decorrelatedTries
	}
	pass := g.low*float64(tries-1) + p.Waves.Cooldown.Seconds()
	waves = min(fit(pass, p.Waves.Count), decorrelatedTries/tries)
	return 1 + fit(g.low, tries-1), waves
}

// decorrelatedPass returns the value at the start of a pass of that many
// tries, by time.
func (o outageSpan) decorrelatedPass(g decorrelatedGrid, after []float64, tries int) []float64 {
	if tries < 2 {
		return after
	}
	// byDelay[j] is the value by time when the last delay was that of node j.
	byDelay := make([]curve, decorrelatedDelays+1)
	for j := range byDelay {
		byDelay[j] = newCurve(o.cell, after)
	}
	start := make([]float64, o.cells+1)
	for try := tries; try >= 2; try-- {
		values := make([][]float64, len(byDelay))
		for j := range values {
			values[j] = make([]float64, o.cells+1)
		}
		var change float64
		for i := range start {
			s := float64(i) * o.cell
			draw := o.drawAt(g, byDelay, s)
			start[i] = draw.mean(decorrelatedSpread * g.base)
			for j := range values {
				values[j][i] = draw.mean(decorrelatedSpread * max(g.base, g.delay(j)))
				change = max(change, math.Abs(values[j][i]-byDelay[j].values[i]))
			}
		}
		for j := range byDelay {
			byDelay[j] = newCurve(o.cell, values[j])
		}
		if change < 1e-9*o.length {
			break
		}
	}
	return start
}

func (g decorrelatedGrid) delay(node int) float64 { return g.low + float64(node)*g.cell }

// decorrelatedDraw is the worth of every possible next delay at one time s.
type decorrelatedDraw struct {
	grid   decorrelatedGrid
	worth  curve   // by delay - low
	beyond float64 // worth of a delay longer than the grid
	until  float64 // longest delay beyond the grid that the window allows
}

func (o outageSpan) drawAt(g decorrelatedGrid, byDelay []curve, s float64) decorrelatedDraw {
	worth := make([]float64, len(byDelay))
	for j := range worth {
		worth[j] = o.reached(byDelay[j], s, s+g.delay(j))
	}
	return decorrelatedDraw{
		grid: g, worth: newCurve(g.cell, worth),
		beyond: max(o.length-s, 0), until: o.window - s,
	}
}

// mean is the expected worth of a delay drawn between base and high, then cut
// to the grid's limits.
func (d decorrelatedDraw) mean(high float64) float64 {
	g := d.grid
	last := d.worth.values[len(d.worth.values)-1]
	if g.cell == 0 || high <= g.low {
		return d.worth.values[0]
	}
	sum := (g.low - g.base) * d.worth.values[0]
	sum += d.worth.integral(min(high, g.top) - g.low)
	if end := min(high, g.cap, d.until); end > g.top {
		sum += (end - g.top) * d.beyond
	}
	if high > g.cap {
		atCap := last
		if g.cap > g.top && g.cap <= d.until {
			atCap = d.beyond
		} else if g.cap > g.top {
			atCap = 0
		}
		sum += (high - g.cap) * atCap
	}
	return sum / (high - g.base)
}
