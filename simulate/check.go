package simulate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ebbhq/ebb/policy"
)

// Check says what of a scenario cannot be. The error is policy.FieldErrors,
// whose paths are the scenario's fields in snake case; Run refuses the same.
func Check(s *Scenario) error {
	c := &checker{names: map[string]bool{}}
	c.scenario(s)
	if len(c.errs) > 0 {
		return c.errs
	}
	return nil
}

// checker gathers the errors of one scenario.
type checker struct {
	errs  policy.FieldErrors
	names map[string]bool // of downstreams
}

func (c *checker) must(ok bool, path, format string, args ...any) {
	if !ok {
		c.errs = append(c.errs, policy.FieldError{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
}

func (c *checker) notNegative(path string, d time.Duration) {
	c.must(d >= 0, path, "%s is negative; 0s or more", d)
}

func (c *checker) count(path string, n int) {
	c.must(n >= 0 && n <= policy.MaxWhole, path, "%d is out of range; 0 to %d", n, policy.MaxWhole)
}

func oneOf[T ~string](c *checker, path string, v T, known ...T) bool {
	ok := slices.Contains(known, v)
	c.must(ok, path, "%q is not known; one of: %s", v, joined(known))
	return ok
}

func joined[T ~string](known []T) (text string) {
	for _, k := range known {
		if k == "" {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += string(k)
	}
	return text
}

func (c *checker) scenario(s *Scenario) {
	c.notNegative("length.time", s.Length.Time)
	c.notNegative("length.max_time", s.Length.MaxTime)
	c.must(s.Length.Jobs >= 0, "length.jobs", "%d is negative; 0 means not by number", s.Length.Jobs)
	oneOf(c, "length.end", s.Length.End, "", Cut, Drain)
	c.notNegative("warm_up", s.WarmUp)
	c.must(s.Length.Time == 0 || s.WarmUp < s.Length.Time, "warm_up", "%s leaves nothing of length.time %s", s.WarmUp, s.Length.Time)
	c.notNegative("bucket", s.Bucket)
	c.recovery(&s.Recovery)
	c.must(len(s.Callers) > 0, "callers", "nobody calls; add a caller")
	for i := range s.Downstreams {
		c.unique(fmt.Sprintf("downstreams[%d].name", i), s.Downstreams[i].Name, c.names)
	}
	callers := map[string]bool{}
	for i := range s.Callers {
		path := fmt.Sprintf("callers[%d]", i)
		c.unique(path+".name", s.Callers[i].Name, callers)
		c.caller(path, &s.Callers[i])
	}
	for i := range s.Downstreams {
		c.downstream(fmt.Sprintf("downstreams[%d]", i), &s.Downstreams[i])
	}
	c.ends(s)
	c.acyclic(s)
}

func (c *checker) unique(path, name string, seen map[string]bool) {
	c.must(name != "", path, "a name is needed")
	c.must(name == "" || !seen[name], path, "%q is there twice", name)
	seen[name] = true
}

func (c *checker) recovery(r *Recovery) {
	c.notNegative("recovery.began_at", r.BeganAt)
	c.must(r.EndedAt >= r.BeganAt, "recovery.ended_at", "%s is before recovery.began_at %s", r.EndedAt, r.BeganAt)
	c.must(r.Share >= 0 && r.Share <= 1, "recovery.share", "%g is not a share; 0 to 1", r.Share)
	c.notNegative("recovery.for", r.For)
}

// ends checks that the arrivals come to an end.
func (c *checker) ends(s *Scenario) {
	if s.Length.Time > 0 || s.Length.Jobs > 0 {
		return
	}
	for i := range s.Callers {
		for j := range s.Callers[i].Arrivals {
			a := &s.Callers[i].Arrivals[j]
			endless := a.Jobs == 0 && a.Until == 0
			switch a.Kind {
			case Batch:
				endless = a.Every > 0 && a.Until == 0
			case Trace:
				endless = false
			}
			c.must(!endless, "length", "callers[%d].arrivals[%d] never ends; set length.time or length.jobs", i, j)
		}
	}
}

// acyclic checks that no downstream calls itself by way of others.
func (c *checker) acyclic(s *Scenario) {
	calls := map[string][]string{}
	for i := range s.Downstreams {
		d := &s.Downstreams[i]
		for j := range d.Calls {
			for _, t := range d.Calls[j].Targets {
				calls[d.Name] = append(calls[d.Name], t.Downstream)
			}
		}
	}
	state := map[string]int{} // 1 on the way, 2 done
	var visit func(string) bool
	visit = func(name string) bool {
		if state[name] != 0 {
			return state[name] == 2
		}
		state[name] = 1
		for _, next := range calls[name] {
			if !visit(next) {
				return false
			}
		}
		state[name] = 2
		return true
	}
	for i := range s.Downstreams {
		if !visit(s.Downstreams[i].Name) {
			c.must(false, fmt.Sprintf("downstreams[%d].calls", i), "%s calls itself by way of others; layers form no circle", s.Downstreams[i].Name)
			return
		}
	}
}

func (c *checker) curve(path string, v *Curve, least, most float64) {
	c.notNegative(path+".period", v.Period)
	last := time.Duration(0)
	for i, p := range v.Points {
		at := fmt.Sprintf("%s.points[%d]", path, i)
		c.must(p.At >= last, at+".at", "%s is before %s; points are in ascending time from 0s", p.At, last)
		c.must(p.Value >= least && p.Value <= most, at+".value", "%g is out of range; %g to %g", p.Value, least, most)
		c.must(v.Period == 0 || p.At <= v.Period, at+".at", "%s is beyond the period %s", p.At, v.Period)
		last = max(last, p.At)
	}
}

// probability checks a curve of probabilities.
func (c *checker) probability(path string, v *Curve) { c.curve(path, v, 0, 1) }

// factor checks a curve of multipliers or rates.
func (c *checker) factor(path string, v *Curve) { c.curve(path, v, 0, math.MaxInt32) }

func (c *checker) dist(path string, d *Dist) {
	if !oneOf(c, path+".kind", d.Kind, "", Fixed, Exponential, Normal, Lognormal, Uniform, Pareto, Gamma, Weibull, Mixture, Empirical) {
		return
	}
	oneOf(c, path+".negative", d.Negative, "", Redraw, Clamp, Absolute)
	c.notNegative(path+".mean", d.Mean)
	c.notNegative(path+".sd", d.SD)
	c.notNegative(path+".median", d.Median)
	c.notNegative(path+".min", d.Min)
	c.notNegative(path+".max", d.Max)
	c.notNegative(path+".scale", d.Scale)
	c.notNegative(path+".offset", d.Offset)
	c.must(d.Sigma >= 0 && d.Sigma < 20, path+".sigma", "%g is out of range; 0 to 20", d.Sigma)
	c.must(d.Shape >= 0 && d.Shape <= 1e6, path+".shape", "%g is out of range; 0 to 1e6", d.Shape)
	switch d.Kind {
	case Exponential, Normal:
		c.must(d.Mean > 0 || d.Kind == Normal, path+".mean", "needed: over 0s")
	case Lognormal:
		c.must(d.Mean > 0 || d.Median > 0, path+".mean", "needed: mean and sd, or median and sigma")
		c.must(d.Mean == 0 || d.Median == 0, path+".median", "either mean and sd, or median and sigma")
	case Uniform:
		c.must(d.Max >= d.Min, path+".max", "%s is below min %s", d.Max, d.Min)
	case Pareto:
		c.must(d.Min > 0, path+".min", "needed: over 0s")
		c.must(d.Shape > 0, path+".shape", "needed: over 0")
		c.must(d.Max == 0 || d.Max > d.Min, path+".max", "%s is not above min %s", d.Max, d.Min)
	case Gamma:
		c.must(d.Mean > 0, path+".mean", "needed: over 0s")
		c.must(d.Shape > 0, path+".shape", "needed: over 0")
	case Weibull:
		c.must(d.Scale > 0, path+".scale", "needed: over 0s")
		c.must(d.Shape > 0, path+".shape", "needed: over 0")
	case Mixture:
		c.parts(path, d)
	case Empirical:
		c.must(len(d.Values) > 0, path+".values", "needed: at least one value")
		for i, v := range d.Values {
			c.notNegative(fmt.Sprintf("%s.values[%d].value", path, i), v.Value)
			c.must(v.Weight >= 0 && v.Weight <= 1e12, fmt.Sprintf("%s.values[%d].weight", path, i), "%g is out of range; 0 means 1", v.Weight)
		}
	}
}

func (c *checker) parts(path string, d *Dist) {
	c.must(len(d.Parts) > 0, path+".parts", "needed: at least one part")
	sum := 0.0
	for i := range d.Parts {
		at := fmt.Sprintf("%s.parts[%d]", path, i)
		c.must(d.Parts[i].Weight >= 0 && d.Parts[i].Weight <= 1e12, at+".weight", "%g is out of range; 0 or more", d.Parts[i].Weight)
		sum += d.Parts[i].Weight
		c.dist(at+".dist", &d.Parts[i].Dist)
	}
	c.must(len(d.Parts) == 0 || sum > 0, path+".parts", "no part has a weight")
}
