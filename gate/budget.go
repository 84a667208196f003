package gate

import (
	"math"

	"github.com/ebbhq/ebb/policy"
)

// unit is one call in a budget. Budgets count in millionths, in whole
// numbers: sums are exact, and shares with up to six decimals too.
const unit = 1_000_000

// millionths rounds down, but for the noise of binary fractions.
func millionths(x float64) int64 {
	const most = 1e9
	if !(x > 0) { // NaN too
		return 0
	}
	return int64(math.Floor(min(x, most)*unit + 1e-6))
}

// The window budget. Retries in any ttl ≤ ratio × first attempts in it +
// floor, for every window, also one that begins with a retry. So when a retry
// is admitted, over each past stretch of up to a ttl that ends now
//
//	retries − ratio × first attempts ≤ floor
//
// must hold, the new one included. Each cell of State.Starts keeps its debt
// (retries − ratio × first attempts) and its peak: the greatest debt over any
// stretch that ends with the cell, the empty one included. Both join exactly,
// so that cells lose nothing of the order in which things happened. The only
// coarseness is that stretches longer than a ttl, by up to a cell, are
// watched too: more is refused, never less.
//
// x is the debt, y the peak.
func joinDebt(older, newer cell) cell {
	return cell{x: older.x + newer.x, y: max(newer.y, older.y+newer.x)}
}

// owe adds to a cell what a retry takes, or, negative, what first attempts pay.
func (c *cell) owe(n int64) {
	c.x, c.y = bounded(c.x+n), bounded(max(0, c.y+n))
}

// windowSpan is how long the window budget remembers: a permit that is kept
// may become a start that much later.
func (c *Config) windowSpan() span {
	return min(spanOf(c.Budget.TTL)+spanOf(c.Keep), maxSpan)
}

// retryRoom returns how many retries the budget admits now and, if time alone
// will admit more, when.
func (c *Config) retryRoom(s *State, at Instant) (room int64, until Instant) {
	b := &c.Budget
	switch b.Kind {
	case policy.BudgetWindow:
		return c.windowRoom(s, at)
	case policy.BudgetTokens:
		return max(0, millionths(b.Floor)-s.Spent) / unit, 0
	case policy.BudgetShare:
		ratio := millionths(b.Ratio)
		if ratio >= unit {
			return math.MaxInt64, 0
		}
		// The retries count among all in flight: r + n ≤ ratio × (all + n).
		all, out := int64(s.InFlight), int64(s.Retries)
		room = (ratio*all - out*unit) / (unit - ratio)
		return max(0, room, millionths(b.Floor)/unit-out), 0
	}
	return math.MaxInt64, 0
}

func (c *Config) windowRoom(s *State, at Instant) (room int64, until Instant) {
	over, floor := c.windowSpan(), millionths(c.Budget.Floor)
	starts := s.Starts // a look changes nothing
	starts.seek(at, over, joinDebt)
	room = floor / unit
	// From the newest cell back, so that the peak only grows: the cell that
	// last left less room must be forgotten before there is more.
	var sum cell
	oldest, worst := starts.oldest(at, over), int64(0)
	for n := starts.head; n >= oldest; n-- {
		sum = joinDebt(starts.cells[n%ringCells], sum)
		if sum.y <= worst {
			continue
		}
		worst = sum.y
		if left := max(0, floor-worst) / unit; left < room {
			room, until = left, starts.expiry(n, over)
		}
	}
	return room, until
}

// pay records admitted first attempts.
func (c *Config) pay(s *State, firsts int, at Instant) {
	if firsts > 0 && c.Budget.Kind == policy.BudgetWindow && c.Keep <= 0 {
		s.Starts.seek(at, c.windowSpan(), joinDebt).owe(-int64(firsts) * c.payment())
	}
}

// charge records admitted retries.
func (c *Config) charge(s *State, retries int, at Instant) {
	if retries == 0 {
		return
	}
	switch c.Budget.Kind {
	case policy.BudgetWindow:
		s.Starts.seek(at, c.windowSpan(), joinDebt).owe(int64(retries) * unit)
	case policy.BudgetTokens:
		s.Spent = bounded(s.Spent + int64(retries)*unit)
	}
}

// payment is what one first attempt pays into a window budget.
func (c *Config) payment() int64 { return min(millionths(c.Budget.Ratio), 1000*unit) }

// repay records what the end of a call is worth to the budget.
func (c *Config) repay(s *State, retry bool, startedAt Instant, r result, at Instant) {
	switch c.Budget.Kind {
	case policy.BudgetTokens:
		if r == passed {
			s.Spent = max(0, s.Spent-millionths(c.Budget.Ratio))
		}
	case policy.BudgetWindow:
		if c.Keep > 0 && !retry && startedAt != 0 {
			c.payLate(s, startedAt, at)
		}
	case policy.BudgetThrottle:
		if r == neither {
			return
		}
		newest := s.Asked.seek(at, spanOf(c.Budget.TTL), joinCounts)
		newest.x = bounded(newest.x + 1)
		if r == passed {
			newest.y = bounded(newest.y + 1)
		}
	}
}

// payLate records a first attempt under Keep, where retries were charged up
// to Keep before they started: it pays as of that much before its own start.
// Only the cell's debt falls. Its peak stays, since the order within the cell
// is not known any more. A start that is still to come is of another clock
// and pays nothing.
func (c *Config) payLate(s *State, start, at Instant) {
	if start > at {
		return
	}
	t := &s.Starts
	t.seek(at, c.windowSpan(), joinDebt)
	n := int64(start.sub(spanOf(c.Keep))) >> t.bits
	if n <= t.head && n > t.head-ringCells {
		cell := &t.cells[n%ringCells]
		cell.x = bounded(cell.x - c.payment())
	}
}

// refund undoes an admission whose call was never started. A window's retry
// is not refunded: the charge may be in any cell, and passes by itself.
func (c *Config) refund(s *State, retry bool, at Instant) {
	switch {
	case retry && c.Budget.Kind == policy.BudgetTokens:
		s.Spent = max(0, s.Spent-unit)
	case !retry && c.Budget.Kind == policy.BudgetWindow && c.Keep <= 0:
		s.Starts.seek(at, c.windowSpan(), joinDebt).owe(c.payment())
	}
}

// The throttle is client-side adaptive throttling: with asked and accepted
// calls over the ttl, a call is refused with the probability
//
//	max(0, (asked − ratio × accepted) / (asked + 1))
//
// as soon as asked ≥ floor. A refused call counts as asked at once, an
// admitted one when its outcome is known: so a slow but healthy target is not
// throttled for what is still in flight, and outcomes that say nothing of the
// target count neither as asked nor as accepted.
//
// In its cells x is asked, y accepted.

// throttled returns how many of n calls are refused. One draw serves all: the
// expectation is exact, and for one call it is refused if draw < probability.
func (c *Config) throttled(s *State, n int, at Instant, draw float64) (refused int, until Instant) {
	if c.Budget.Kind != policy.BudgetThrottle || n == 0 {
		return 0, 0
	}
	over := spanOf(c.Budget.TTL)
	newest := s.Asked.seek(at, over, joinCounts)
	sum := s.Asked.total(at, over, joinCounts)
	calls := float64(sum.x)
	if calls < c.Budget.Floor {
		return 0, 0
	}
	p := max(0, (calls-c.Budget.Ratio*float64(sum.y))/(calls+1))
	refused = min(n, max(0, int(math.Ceil(float64(n)*p-s.freshen(draw)))))
	newest.x = bounded(newest.x + int64(refused))
	s.Refused += uint32(refused)
	return refused, at.add(1 << s.Asked.bits)
}

// freshen makes a new number of a draw for everyone who asks again after a
// refusal: whoever draws once for a job, or for a target, would be refused
// for as long as the probability stands.
func (s *State) freshen(draw float64) float64 {
	if s.Refused == 0 {
		return draw
	}
	x := math.Float64bits(draw) + uint64(s.Refused)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) * 0x1p-53
}
