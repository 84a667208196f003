package gate

import "math/bits"

const (
	// A span is cut into at most maxCells cells, and into more than half as many.
	maxCells = 10
	// One more for the cell that the span's far end falls into, one more for
	// a head that is one ahead after the clock was set back.
	ringCells = maxCells + 2
	// maxCount bounds what a cell counts, so that the sum of all cannot overflow.
	maxCount = 1 << 53
)

// cell holds two counts. What they mean, and how an older and a newer cell
// join into one, is the owner's.
type cell struct{ x, y int64 }

type joiner func(older, newer cell) cell

// joinCounts adds both counts.
func joinCounts(older, newer cell) cell {
	return cell{older.x + newer.x, older.y + newer.y}
}

func bounded(n int64) int64 { return max(-maxCount, min(n, maxCount)) }

// Tally counts over a sliding time span in a fixed number of cells. Nothing
// is forgotten before the span has passed; it may stay up to one cell, a
// fifth of the span, longer.
//
// Cell widths are powers of two of a microsecond: when the span changes, the
// old cells fit whole into the new ones or the reverse, so that alternating
// between two spans cannot push counts ahead of time for ever.
type Tally struct {
	bits  uint8 // a cell is 2^bits µs wide
	head  int64 // number of the newest cell: instant >> bits
	cells [ringCells]cell
}

// maxBits is the width of maxSpan in one cell.
const maxBits = 52

// bitsOf is the narrowest width that covers the span in maxCells cells.
func bitsOf(over span) uint8 {
	return uint8(bits.Len64(uint64(max(1, (over+maxCells-1)/maxCells) - 1)))
}

// need is how many cells, besides the newest, the span may reach into.
func (t *Tally) need(over span) int64 { return int64((over + 1<<t.bits - 1) >> t.bits) }

// seek makes the tally ready to count at the instant over the span and
// returns its newest cell.
func (t *Tally) seek(at Instant, over span, join joiner) *cell {
	if b := bitsOf(over); b != t.bits {
		t.rescale(at, b, join)
	}
	if to := int64(at) >> t.bits; to > t.head {
		t.advance(to)
	}
	return &t.cells[t.head%ringCells]
}

func (t *Tally) advance(to int64) {
	if to-t.head >= ringCells {
		t.cells, t.head = [ringCells]cell{}, to
	}
	for t.head < to {
		t.head++
		t.cells[t.head%ringCells] = cell{}
	}
}

// rescale moves the counts into cells of another width. A cell counts as if
// all of it had happened at its end, so nothing is forgotten too early.
func (t *Tally) rescale(at Instant, to uint8, join joiner) {
	old := *t
	*t = Tally{bits: to, head: int64(at) >> to}
	for n := max(0, old.head-ringCells+1); n <= old.head; n++ {
		end := min((n+1)<<old.bits-1, int64(at))
		if m := end >> to; m > t.head-ringCells {
			c := &t.cells[m%ringCells]
			*c = join(*c, old.cells[n%ringCells])
			c.x, c.y = bounded(c.x), bounded(c.y)
		}
	}
}

// oldest is the first cell that the span may still reach into; seek came
// before.
func (t *Tally) oldest(at Instant, over span) int64 {
	return max(0, int64(at)>>t.bits-t.need(over), t.head-ringCells+1)
}

// total joins what the span reaches; seek came before.
func (t *Tally) total(at Instant, over span, join joiner) cell {
	var sum cell
	for n := t.oldest(at, over); n <= t.head; n++ {
		sum = join(sum, t.cells[n%ringCells])
	}
	return sum
}

// expiry is when the span no longer reaches the cell.
func (t *Tally) expiry(n int64, over span) Instant {
	return min(maxInstant, Instant((n+t.need(over)+1)<<t.bits))
}

// shift moves all cells back in time, rounding to the later cell.
func (t *Tally) shift(back span) {
	old := *t
	t.head = max(0, old.head-int64(back>>old.bits))
	t.cells = [ringCells]cell{}
	for i := range int64(ringCells) {
		if t.head-i < 0 || old.head-i < 0 {
			break
		}
		t.cells[(t.head-i)%ringCells] = old.cells[(old.head-i)%ringCells]
	}
}
