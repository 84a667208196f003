package simulate

import (
	"math"
	"math/bits"
)

// Each octave of durations has sketchSize cells of equal width: a value is
// known to a 1/sketchSize part, its middle to half of that.
const (
	sketchBits = 8
	sketchSize = 1 << sketchBits
	octaves    = 64 - sketchBits
)

// sketch gathers durations in nanoseconds in fixed memory.
type sketch struct {
	cells    [octaves]*[sketchSize]int64
	count    int64
	sum      wide
	min, max int64
	mean, m2 float64 // Welford's
}

func (s *sketch) add(ns int64) {
	ns = max(ns, 0)
	if s.count == 0 {
		s.min, s.max = ns, ns
	}
	s.min, s.max = min(s.min, ns), max(s.max, ns)
	s.count++
	s.sum.addProduct(1, ns)
	d := float64(ns) - s.mean
	s.mean += d / float64(s.count)
	s.m2 += d * (float64(ns) - s.mean)
	octave, cell := place(ns)
	if s.cells[octave] == nil {
		s.cells[octave] = new([sketchSize]int64)
	}
	s.cells[octave][cell]++
}

// place returns where a duration is counted: octave 0 holds what is below
// sketchSize exactly, octave k what is in [sketchSize, 2 sketchSize) × 2^(k-1).
func place(ns int64) (octave, cell int) {
	if ns < sketchSize {
		return 0, int(ns)
	}
	octave = bits.Len64(uint64(ns)) - sketchBits
	return octave, int(ns>>(octave-1)) - sketchSize
}

// middle is the middle of a cell.
func middle(octave, cell int) float64 {
	if octave == 0 {
		return float64(cell)
	}
	width := float64(int64(1) << (octave - 1))
	return (float64(cell+sketchSize) + 0.5) * width
}

// each calls f with the middle and count of every cell that is not empty, in
// ascending order, until it returns false.
func (s *sketch) each(f func(ns float64, n int64) bool) {
	for o := range s.cells {
		if s.cells[o] == nil {
			continue
		}
		for c, n := range s.cells[o] {
			if n > 0 && !f(middle(o, c), n) {
				return
			}
		}
	}
}

// histogram sums it up.
func (s *sketch) histogram() Histogram {
	h := Histogram{Count: s.count}
	if s.count == 0 {
		return h
	}
	h.Mean = s.sum.minus(wide{}) / float64(s.count) / second
	h.SD = math.Sqrt(max(0, s.m2/float64(s.count))) / second
	h.Min, h.Max = seconds(s.min), seconds(s.max)
	targets := []struct {
		q  float64
		to *float64
	}{{0.5, &h.P50}, {0.9, &h.P90}, {0.95, &h.P95}, {0.99, &h.P99}, {0.999, &h.P999}}
	seen, t := int64(0), 0
	s.each(func(ns float64, n int64) bool {
		seen += n
		for t < len(targets) && seen >= int64(math.Ceil(targets[t].q*float64(s.count))) {
			*targets[t].to = min(max(ns, float64(s.min)), float64(s.max)) / second
			t++
		}
		return t < len(targets)
	})
	h.Bins = s.bins()
	return h
}

// bins counts in equal widths, none finer than the cells at the upper end.
func (s *sketch) bins() []int64 {
	const most = 64
	span := float64(s.max - s.min)
	n := 1
	if span > 0 {
		octave, _ := place(s.max)
		n = int(min(most, max(1, span/float64(int64(1)<<max(octave-1, 0)))))
	}
	bins := make([]int64, n)
	s.each(func(ns float64, count int64) bool {
		i := 0
		if span > 0 {
			i = int((ns - float64(s.min)) / span * float64(n))
		}
		bins[min(max(i, 0), n-1)] += count
		return true
	})
	return bins
}
