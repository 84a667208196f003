package simulate

import "time"

// DistKind names a distribution of durations.
type DistKind string

const (
	// Fixed is always Mean. It is the zero kind: the zero Dist is always 0.
	Fixed DistKind = "constant"
	// Exponential has the Mean.
	Exponential DistKind = "exponential"
	// Normal has Mean and SD before what is under 0 is treated as Negative
	// says.
	Normal DistKind = "normal"
	// Lognormal has Mean and SD, both of the durations themselves; or, where
	// Median is given, Median and Sigma, the deviation of the logarithm.
	Lognormal DistKind = "lognormal"
	// Uniform lies evenly between Min and Max.
	Uniform DistKind = "uniform"
	// Pareto is at least Min with the tail exponent Shape (P(X > x) =
	// (Min/x)^Shape); with Max it is bounded there: the conditional
	// distribution of X ≤ Max.
	Pareto DistKind = "pareto"
	// Gamma has Mean and Shape; a whole Shape k is the Erlang distribution of
	// k stages.
	Gamma DistKind = "gamma"
	// Weibull has the scale Scale and Shape.
	Weibull DistKind = "weibull"
	// Mixture draws from one of Parts by weight: bimodal, hyperexponential.
	Mixture DistKind = "mixture"
	// Empirical draws one of Values by weight.
	Empirical DistKind = "empirical"
)

// Dist is a distribution of durations that are never negative. Draws are
// rounded to whole nanoseconds. The zero Dist is always 0.
type Dist struct {
	Kind     DistKind
	Mean, SD time.Duration
	Median   time.Duration
	Sigma    float64
	Min, Max time.Duration
	Scale    time.Duration
	Shape    float64
	Parts    []Part
	Values   []Value
	// Negative says what becomes of a Normal draw under 0.
	Negative Negative
	// Offset is added to every draw, for shifted distributions.
	Offset time.Duration
}

// Negative says what becomes of a draw under 0.
type Negative string

const (
	Redraw   Negative = "redraw"   // drawn again: the distribution given that it is not negative; also ""
	Clamp    Negative = "clamp"    // counts as 0
	Absolute Negative = "absolute" // loses its sign
)

// Part is one component of a Mixture. Weights need not add up to 1.
type Part struct {
	Weight float64
	Dist   Dist
}

// Value is one duration of Empirical. Weight 0 counts as 1.
type Value struct {
	Value  time.Duration
	Weight float64
}

// Always returns the distribution of one value.
func Always(d time.Duration) Dist { return Dist{Kind: Fixed, Mean: d} }

// Exp returns the exponential distribution of the mean.
func Exp(mean time.Duration) Dist { return Dist{Kind: Exponential, Mean: mean} }

// IsZero reports whether the distribution is the zero value: always 0.
func (d *Dist) IsZero() bool {
	return d.Kind == "" && d.Mean == 0 && d.Offset == 0
}
