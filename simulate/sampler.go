package simulate

import (
	"math"
	"sort"
	"time"
)

// sampler draws from a Dist, in nanoseconds.
type sampler struct {
	kind     DistKind
	a, b, c  float64 // by kind, see newSampler
	negative Negative
	offset   float64
	parts    []sampler
	values   []float64
	weights  []float64 // cumulative, of parts or values; the last is the sum
}

func newSampler(d *Dist) sampler {
	s := sampler{kind: d.Kind, negative: d.Negative, offset: float64(d.Offset)}
	switch d.Kind {
	case Exponential:
		s.a = float64(d.Mean)
	case Normal:
		s.a, s.b = float64(d.Mean), float64(d.SD)
	case Lognormal: // mean and deviation of the logarithm
		if d.Median > 0 {
			s.a, s.b = math.Log(float64(d.Median)), d.Sigma
			break
		}
		ratio := float64(d.SD) / float64(d.Mean)
		v := math.Log1p(ratio * ratio)
		s.a, s.b = math.Log(float64(d.Mean))-v/2, math.Sqrt(v)
	case Uniform:
		s.a, s.b = float64(d.Min), float64(d.Max-d.Min)
	case Pareto: // least, exponent, probability of the part kept
		s.a, s.b, s.c = float64(d.Min), d.Shape, 1
		if d.Max > 0 {
			s.c = 1 - math.Pow(float64(d.Min)/float64(d.Max), d.Shape)
		}
	case Gamma:
		s.a, s.b = float64(d.Mean)/d.Shape, d.Shape
	case Weibull:
		s.a, s.b = float64(d.Scale), 1/d.Shape
	case Mixture:
		for i := range d.Parts {
			s.parts = append(s.parts, newSampler(&d.Parts[i].Dist))
			s.weigh(d.Parts[i].Weight)
		}
	case Empirical:
		for _, v := range d.Values {
			w := v.Weight
			if w == 0 {
				w = 1
			}
			s.values = append(s.values, float64(v.Value))
			s.weigh(w)
		}
	default:
		s.kind, s.a = Fixed, float64(d.Mean)
	}
	return s
}

func (s *sampler) weigh(w float64) {
	if n := len(s.weights); n > 0 {
		w += s.weights[n-1]
	}
	s.weights = append(s.weights, w)
}

// draw returns a duration in whole nanoseconds, 0 or more.
func (s *sampler) draw(r *stream) int64 {
	if s.kind == Fixed {
		return int64(s.a + s.offset)
	}
	return nanoseconds(s.sample(r))
}

// nanoseconds rounds to whole nanoseconds within what time holds.
func nanoseconds(x float64) int64 {
	const most = float64(1 << 61)
	if !(x > 0) {
		return 0
	}
	return int64(math.Round(min(x, most)))
}

func (s *sampler) sample(r *stream) float64 {
	switch s.kind {
	case Exponential:
		return s.offset + s.a*r.exp()
	case Normal:
		return s.offset + s.normal(r)
	case Lognormal:
		return s.offset + math.Exp(s.a+s.b*r.normal())
	case Uniform:
		return s.offset + s.a + s.b*r.unit()
	case Pareto:
		return s.offset + s.a*math.Pow(1-s.c*r.unit(), -1/s.b)
	case Gamma:
		return s.offset + s.a*r.gamma(s.b)
	case Weibull:
		return s.offset + s.a*math.Pow(r.exp(), s.b)
	case Mixture:
		return s.offset + s.parts[s.choose(r)].sample(r)
	case Empirical:
		return s.offset + s.values[s.choose(r)]
	}
	return s.offset + s.a
}

func (s *sampler) normal(r *stream) float64 {
	for {
		x := s.a + s.b*r.normal()
		switch {
		case x >= 0:
			return x
		case s.negative == Clamp:
			return 0
		case s.negative == Absolute:
			return -x
		}
	}
}

// choose picks an index by weight.
func (s *sampler) choose(r *stream) int { return pickWeight(s.weights, r.unit()) }

// pickWeight returns the index whose share of the cumulative weights u is in.
func pickWeight(cumulative []float64, u float64) int {
	last := len(cumulative) - 1
	if last == 0 {
		return 0
	}
	u *= cumulative[last]
	return min(last, sort.Search(last, func(i int) bool { return u < cumulative[i] }))
}

// zero reports whether every draw is 0.
func (s *sampler) zero() bool { return s.kind == Fixed && s.a+s.offset == 0 }

func seconds(ns int64) float64 { return time.Duration(ns).Seconds() }
