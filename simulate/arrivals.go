package simulate

import "time"

// ArrivalKind names a process by which jobs arrive.
type ArrivalKind string

const (
	// Poisson arrivals have the rate Rate, exactly also where it changes.
	Poisson ArrivalKind = "poisson"
	// Regular arrivals are evenly spaced in the integral of Rate: at a
	// constant rate r at From + 1/r, From + 2/r and so on.
	Regular ArrivalKind = "constant"
	// Batch brings Jobs jobs at the instant From, and again every Every.
	Batch ArrivalKind = "batch"
	// Closed is a set of Users, each of whom waits for the end of its job,
	// then thinks, then brings the next.
	Closed ArrivalKind = "closed"
	// Trace brings one job at each of Times.
	Trace ArrivalKind = "trace"
	// Renewal arrivals are apart by draws of Gap.
	Renewal ArrivalKind = "renewal"
)

// Arrivals is one stream of jobs. A caller may have several; they add up.
type Arrivals struct {
	Kind ArrivalKind
	// Name tells streams of one caller apart in the derivation of their
	// randomness. "" = the stream's position.
	Name string

	// Rate is the jobs a second of Poisson and Regular. An instantaneous
	// batch is Batch, a spike a curve or another stream.
	Rate Curve
	// Jobs is, for Batch, the size of one batch; for all others the most
	// jobs this stream brings, 0 = no limit.
	Jobs int64
	// Size is how many jobs each arrival of Poisson, Regular, Renewal and
	// Trace brings. 0 = 1.
	Size int64
	// Every repeats a Batch. 0 = once.
	Every time.Duration
	// Users is the size of a Closed set.
	Users int
	// Think is drawn before every job of a Closed user but the first; zero =
	// none. First is drawn before the first; zero = all begin at From.
	Think, First Dist
	// Gap is drawn before every job of Renewal, the first included.
	Gap Dist
	// Times are the instants of Trace, ascending, counted from From.
	Times []time.Duration

	// From and Until bound the stream: no job arrives before From (rates are
	// read at absolute times) nor at or after Until. Until 0 = no end.
	From, Until time.Duration
	// Priority of the jobs of a durable caller, 0 goes first.
	Priority int
}

// Curve is a function of virtual time: straight lines between Points. A jump
// is two points at one instant, of which the later holds from there on.
// Before the first point it has the first value, after the last the last. No
// points = the default of the field that holds it.
type Curve struct {
	// Points are in ascending time.
	Points []Point
	// Period repeats what lies in [0, Period) for ever. 0 = no repetition.
	Period time.Duration
}

// Point is a value of a Curve.
type Point struct {
	At    time.Duration
	Value float64
}

// Constant returns the curve that always has the value.
func Constant(value float64) Curve { return Curve{Points: []Point{{Value: value}}} }

// Steps returns the curve that jumps to each point's value at its instant.
// Before the first point it has the value before.
func Steps(before float64, points ...Point) Curve {
	c := Curve{Points: []Point{{Value: before}}}
	last := before
	for _, p := range points {
		c.Points = append(c.Points, Point{At: p.At, Value: last}, p)
		last = p.Value
	}
	return c
}
