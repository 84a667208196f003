package simulate

import "math/bits"

// wide is a sum of nanoseconds that does not overflow: 128 bits.
type wide struct{ hi, lo uint64 }

// addProduct adds n × d, both 0 or more.
func (w *wide) addProduct(n, d int64) {
	hi, lo := bits.Mul64(uint64(n), uint64(d))
	var carry uint64
	w.lo, carry = bits.Add64(w.lo, lo, 0)
	w.hi, _ = bits.Add64(w.hi, hi, carry)
}

// minus returns the difference of two sums as a number.
func (w wide) minus(v wide) float64 {
	lo, borrow := bits.Sub64(w.lo, v.lo, 0)
	hi, _ := bits.Sub64(w.hi, v.hi, borrow)
	return float64(hi)*(1<<64) + float64(lo)
}

// level is a whole number that changes over time, with its exact integral.
type level struct {
	n       int64
	since   int64
	area    wide  // up to since
	most    int64 // since measuring began
	highest int64 // of the series' current bucket
	base    wide  // area when measuring began
	marked  wide  // area at the beginning of the bucket
	idle    int64 // time at 0 up to since, since measuring began
}

func (l *level) add(now, by int64) {
	l.settle(now)
	l.n += by
	if l.n > l.most {
		l.most = l.n
	}
	if l.n > l.highest {
		l.highest = l.n
	}
}

func (l *level) settle(now int64) {
	if d := now - l.since; d > 0 {
		if l.n == 0 {
			l.idle += d
		} else {
			l.area.addProduct(l.n, d)
		}
		l.since = now
	}
}

// measure begins measuring.
func (l *level) measure(now int64) {
	l.settle(now)
	l.base, l.most, l.idle = l.area, l.n, 0
}

// mean returns the time average since measuring began, d long.
func (l *level) mean(now, d int64) float64 {
	l.settle(now)
	if d <= 0 {
		return 0
	}
	return l.area.minus(l.base) / float64(d)
}

// bucket ends the series' bucket that is d long.
func (l *level) bucket(now, d int64) (mean float64, highest int64) {
	l.settle(now)
	if d > 0 {
		mean = l.area.minus(l.marked) / float64(d)
	}
	highest = l.highest
	l.marked, l.highest = l.area, l.n
	return mean, highest
}

// peak finds the greatest number of happenings in any whole second.
type peak struct {
	end    int64 // of the current second
	n      int64
	most   int64
	mostAt int64
}

func (p *peak) hit(now int64) {
	if now >= p.end {
		p.n = 0
		p.end = (now/second + 1) * second
	}
	if p.n++; p.n > p.most {
		p.most, p.mostAt = p.n, p.end-second
	}
}
