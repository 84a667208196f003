package policy

import (
	"slices"
	"time"
)

// The loss in an outage is computed, not sampled. A job that first starts y
// before the outage ends survives if one of its tries falls between y and the
// window. Summed over all y in the outage, each try at S after the first start
// covers what lies between the try before it and S, so
//
//	share lost = 1 - E[covered length] / outage
//
// and the expected covered length follows backwards from the last gap between
// tries to the first, as a function of the time s at which the job stands.
// Timeouts are not counted, as in Reach: a failing call is taken to fail at
// once, which errs towards loss.

const (
	// outageCells is the resolution in time; the error of a share is about
	// its inverse squared.
	outageCells = 4096
	// maxGaps bounds the tries looked at; a policy with more is refused by
	// the rule unbounded, and the rest would only lower the share.
	maxGaps = 4096
)

// OutageLoss returns the share, 0 to 1, of the jobs arriving evenly during an
// outage of that length whose tries all fall inside it, jitter, window and
// waves included: its dead letters.
func (p *Policy) OutageLoss(outage time.Duration) float64 {
	if outage <= 0 {
		return 0
	}
	o := outageOf(p, outage)
	if p.Backoff.Jitter.Kind == JitterDecorrelated {
		return o.lost(o.decorrelatedCover(p))
	}
	gaps := p.gaps(o.end.Seconds())
	if !slices.ContainsFunc(gaps, gap.random) {
		return o.lost(o.fixedCover(gaps))
	}
	return o.lost(o.cover(gaps))
}

// outageSpan is what the computation needs to know of outage and policy, in
// seconds where not a Duration.
type outageSpan struct {
	end    time.Duration // the outage's length
	length float64       // the same
	window float64       // no try later than this; beyond any outage if there is none
	cell   float64       // width of a cell of the grid over the shorter of both
	cells  int
}

func outageOf(p *Policy, outage time.Duration) outageSpan {
	o := outageSpan{end: outage, length: outage.Seconds(), window: MaxDelay.Seconds(), cells: outageCells}
	if p.Window > 0 && p.Waves.Count == 0 {
		o.window = p.Window.Seconds()
	}
	return o.divided(outageCells)
}

// divided returns o with a grid of that many cells.
func (o outageSpan) divided(cells int) outageSpan {
	o.cells, o.cell = cells, min(o.length, o.window)/float64(cells)
	return o
}

func (o outageSpan) lost(covered float64) float64 { return min(max(1-covered/o.length, 0), 1) }

// gap is the time from one try to the next: least with probability atom, else
// uniform between least and most. Seconds.
type gap struct{ least, most, atom float64 }

func (g gap) random() bool { return g.most > g.least }

// gapOf returns the gap before try n for every jitter but decorrelated. The
// floor gathers all shorter draws in one point.
func gapOf(b Backoff, n int) gap {
	floor := b.Floor.Seconds()
	b.Floor = 0
	least, most := b.Draw(n, 0, 0).Seconds(), b.Draw(n, 0, 1).Seconds()
	switch {
	case most <= floor:
		return gap{least: floor, most: floor}
	case least < floor:
		return gap{least: floor, most: most, atom: (floor - least) / (most - least)}
	}
	return gap{least: least, most: most}
}

// gaps lists the gaps between the tries of a job, waves and their cooldowns
// included, as far as a job can be still inside an outage of that length.
func (p *Policy) gaps(outage float64) []gap {
	var all []gap
	var least float64
	add := func(g gap) bool {
		all = append(all, g)
		least += g.least
		return least < outage && len(all) < maxGaps
	}
	tries := p.passTries()
	for pass := 0; pass <= p.Waves.Count; pass++ {
		cooldown := p.Waves.Cooldown.Seconds()
		if pass > 0 && !add(gap{least: cooldown, most: cooldown}) {
			return all
		}
		for n := 2; tries == 0 || n <= tries; n++ {
			if !add(gapOf(p.Backoff, n)) {
				return all
			}
		}
	}
	return all
}

// passTries is how many tries one pass has; 0 = as many as the window takes.
func (p *Policy) passTries() int {
	if p.Waves.Count > 0 && p.Window > 0 && p.Attempts <= MaxShownDelays {
		return len(p.Delays()) + 1
	}
	return p.Attempts
}

// fixedCover is exact: without jitter there is one course of tries.
func (o outageSpan) fixedCover(gaps []gap) float64 {
	var at float64
	for _, g := range gaps {
		if at+g.least > o.window {
			break
		}
		at += g.least
	}
	return min(at, o.length)
}

// cover is the expected covered length from the first start on.
func (o outageSpan) cover(gaps []gap) float64 {
	next := newCurve(o.cell, make([]float64, o.cells+1))
	for _, g := range slices.Backward(gaps) {
		values := make([]float64, o.cells+1)
		for i := range values {
			values[i] = o.step(next, float64(i)*o.cell, g)
		}
		next = newCurve(o.cell, values)
	}
	return next.values[0]
}

// step is the expected covered length for a job that was tried at s and waits
// for g, after which it is worth what next says.
func (o outageSpan) step(next curve, s float64, g gap) float64 {
	point := o.reached(next, s, s+g.least)
	if !g.random() {
		return point
	}
	from, to := s+g.least, s+g.most
	inside := min(to, o.length, o.window) // tries inside the outage
	var sum float64
	if from < inside {
		sum += (inside-from)*((from+inside)/2-s) + next.integral(inside) - next.integral(from)
	}
	if first, last := max(from, o.length), min(to, o.window); first < last { // tries after it
		sum += (last - first) * (o.length - s)
	}
	return g.atom*point + (1-g.atom)*sum/(to-from)
}

// reached is the covered length when the try after s is at e.
func (o outageSpan) reached(next curve, s, e float64) float64 {
	switch {
	case e > o.window || s >= o.length:
		return 0
	case e >= o.length:
		return o.length - s
	}
	return e - s + next.at(e)
}

// curve is a function on the grid, linear between its nodes, with its integral.
type curve struct {
	cell         float64
	values, area []float64 // area[i] is the integral up to node i
}

func newCurve(cell float64, values []float64) curve {
	c := curve{cell: cell, values: values, area: make([]float64, len(values))}
	for i := 1; i < len(values); i++ {
		c.area[i] = c.area[i-1] + (values[i-1]+values[i])/2*cell
	}
	return c
}

// locate returns the node at or before x and how far behind it x lies, in
// cells; x outside the grid is taken to its end.
func (c curve) locate(x float64) (i int, behind float64) {
	at := min(max(x/c.cell, 0), float64(len(c.values)-1))
	i = min(int(at), len(c.values)-2)
	return i, at - float64(i)
}

func (c curve) at(x float64) float64 {
	i, t := c.locate(x)
	return c.values[i] + t*(c.values[i+1]-c.values[i])
}

func (c curve) integral(x float64) float64 {
	i, t := c.locate(x)
	return c.area[i] + c.cell*t*(c.values[i]+t/2*(c.values[i+1]-c.values[i]))
}
