package simulate

import "math"

const second = 1e9

// timeline is a Curve ready for use: value by time, integral and its inverse.
type timeline struct {
	points   []Point
	period   int64
	constant bool
	value    float64 // where constant
}

func newTimeline(c *Curve, otherwise float64) timeline {
	t := timeline{points: c.Points, period: int64(c.Period), constant: true, value: otherwise}
	if len(c.Points) == 0 {
		return t
	}
	t.value = c.Points[0].Value
	for _, p := range c.Points {
		if p.Value != t.value {
			t.constant = false
		}
	}
	return t
}

// piece returns the straight piece that holds from the instant on: its value
// there, its value at its end, and the end (MaxInt64 for the last one).
func (t *timeline) piece(at int64) (from, to float64, end int64) {
	if t.constant {
		return t.value, t.value, math.MaxInt64
	}
	base := int64(0)
	if t.period > 0 {
		base = at / t.period * t.period
		at -= base
	}
	i := 0 // the first point after at
	for i < len(t.points) && int64(t.points[i].At) <= at {
		i++
	}
	switch {
	case i == 0:
		from, to, end = t.points[0].Value, t.points[0].Value, int64(t.points[0].At)
	case i == len(t.points):
		last := t.points[i-1].Value
		from, to, end = last, last, math.MaxInt64
		if t.period > 0 {
			end = t.period
		}
	default:
		p, q := t.points[i-1], t.points[i]
		slope := (q.Value - p.Value) / float64(q.At-p.At)
		from = p.Value + slope*float64(at-int64(p.At))
		to, end = q.Value, int64(q.At)
	}
	if end < math.MaxInt64 {
		end += base
	}
	return from, to, end
}

// at returns the value at the instant.
func (t *timeline) at(at int64) float64 {
	if t.constant {
		return t.value
	}
	v, _, _ := t.piece(at)
	return v
}

// reach returns when the integral from the instant on, with time in
// nanoseconds, reaches need; false if it never does. part is the fraction of
// a nanosecond by which at was rounded, on the way in and on the way out, so that a long
// chain of reaches does not drift.
func (t *timeline) reach(at int64, part, need float64) (when int64, rest float64, ok bool) {
	for range 1 << 20 { // a bound for a periodic curve that is 0 throughout
		from, to, end := t.piece(at)
		if end == math.MaxInt64 {
			if from <= 0 {
				return 0, 0, false
			}
			return advance(at, part+need/from)
		}
		width := float64(end-at) - part
		slope := (to - from) / float64(end-at)
		from += slope * part
		area := (from + to) / 2 * width
		if need < area {
			// from × x + slope × x² / 2 = need, in its stable form.
			x := 2 * need / (from + math.Sqrt(max(0, from*from+2*slope*need)))
			return advance(at, part+x)
		}
		need -= max(0, area)
		at, part = end, 0
	}
	return 0, 0, false
}

func advance(at int64, by float64) (when int64, rest float64, ok bool) {
	whole := math.Round(by)
	if whole > float64(1<<61) || at > math.MaxInt64-int64(whole) {
		return 0, 0, false
	}
	return at + int64(whole), by - whole, true
}

// integral returns the area from one instant to another, with time in
// nanoseconds.
func (t *timeline) integral(at, until int64) float64 {
	if t.constant {
		return t.value * float64(until-at)
	}
	area := 0.0
	for at < until {
		from, to, end := t.piece(at)
		if end > until {
			if end < math.MaxInt64 {
				to = from + (to-from)*float64(until-at)/float64(end-at)
			}
			end = until
		}
		area += (from + to) / 2 * float64(end-at)
		at = end
	}
	return area
}

// nextWhole returns the first instant after at where scale × value, rounded,
// is another number than at at; false if there is none.
func (t *timeline) nextWhole(at int64, scale float64) (int64, bool) {
	if t.constant {
		return 0, false
	}
	now := math.Round(scale * t.at(at))
	start := at
	for range 2*len(t.points) + 4 {
		from, to, end := t.piece(at)
		if at > start && math.Round(scale*from) != now {
			return at, true
		}
		if end == math.MaxInt64 {
			return 0, false
		}
		if change := math.Round(scale * to); change != now && to != from {
			edge := now + 0.5
			if to < from {
				edge = now - 0.5
			}
			x := (edge/scale - from) / (to - from) * float64(end-at)
			if when := at + int64(math.Ceil(x)); when > start && when < end {
				for when < end && math.Round(scale*t.at(when)) == now {
					when++
				}
				return when, true
			}
		}
		at = end
	}
	return 0, false
}

// changes returns the first and the last instant at which the curve changes.
func (t *timeline) changes() (first, last int64, ok bool) {
	if t.constant {
		return 0, 0, false
	}
	for i := 1; i < len(t.points); i++ {
		if t.points[i].Value == t.points[i-1].Value {
			continue
		}
		if !ok {
			first, ok = int64(t.points[i-1].At), true
		}
		last = int64(t.points[i].At)
	}
	if t.period > 0 {
		last = math.MaxInt64
	}
	return first, last, ok
}
