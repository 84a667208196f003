package console

import (
	"fmt"
	"math"

	"github.com/ebbhq/ebb/engine"
)

// Size of the drawing of what ended lately, in its own units: the page scales
// it.
const (
	chartWidth  = 900.0
	chartHeight = 120.0
	chartGap    = 0.18 // of a bar's place
)

// bar is one rectangle of a drawing.
type bar struct{ X, Y, W, H string }

// endings draws how jobs ended, part by part of the window: bars of what
// succeeded at once, what needed a retry, and what died, on each other.
type endings struct {
	Width, Height float64
	First         []bar
	Retried       []bar
	Dead          []bar
	Most          int // jobs at the top of the scale
	Each          string
	Words         string // the same for those who listen
}

func drawEndings(r *engine.Recent) *endings {
	e := &endings{Width: chartWidth, Height: chartHeight, Most: 1}
	for _, s := range r.Steps {
		e.Most = max(e.Most, s.Succeeded+s.Dead)
	}
	e.Most = roundUp(e.Most)
	place := chartWidth / float64(max(len(r.Steps), 1))
	for i, s := range r.Steps {
		below := 0
		stack := func(list *[]bar, n int) {
			if n == 0 {
				return
			}
			height := float64(n) / float64(e.Most) * chartHeight
			top := chartHeight - float64(below+n)/float64(e.Most)*chartHeight
			// What is there can be seen.
			if height < 1.5 {
				top, height = min(top, chartHeight-1.5), 1.5
			}
			*list = append(*list, bar{
				X: figure(float64(i)*place + place*chartGap/2), Y: figure(top), W: figure(place * (1 - chartGap)), H: figure(height),
			})
			below += n
		}
		stack(&e.First, s.Succeeded-s.Retried)
		stack(&e.Retried, s.Retried)
		stack(&e.Dead, s.Dead)
	}
	e.Each = seconds(r.To.Sub(r.From).Seconds() / float64(max(len(r.Steps), 1)))
	e.Words = fmt.Sprintf("How jobs ended in the last %s: %d succeeded, %d died, at most %d in %s.", coarse(r.To.Sub(r.From)), r.Succeeded, r.Dead, e.Most, e.Each)
	return e
}

// roundUp is the next number that reads well at a scale: 1, 2 or 5 times a
// power of ten.
func roundUp(n int) int {
	for ten := 1; ; ten *= 10 {
		for _, of := range []int{1, 2, 5} {
			if of*ten >= n {
				return of * ten
			}
		}
	}
}

func figure(x float64) string { return fmt.Sprintf("%.5g", math.Round(x*100)/100) }

// meter draws a share beside the one that is accepted, which stands at half
// its length.
type meter struct {
	Filled string // of 100
	Over   bool
}

func drawMeter(rate, accepted float64) meter {
	m := meter{Over: rate > accepted}
	full := 0.0
	if rate > 0 {
		full = 100
		if accepted > 0 {
			full = min(50*rate/accepted, 100)
		}
	}
	m.Filled = figure(full)
	return m
}
