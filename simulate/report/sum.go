package report

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/ebbhq/ebb/simulate"
)

// total sums up the callers of a case that are no layers, over its first
// seed's run; shares and peaks are means over all seeds.
type total struct {
	jobs, dead, succeeded, unfinished float64
	peak, depth                       float64
	amplification                     float64
	goodput                           float64
	recovery                          simulate.RecoveryTime
}

func (t total) deadShare() float64 {
	if t.dead+t.succeeded == 0 {
		return 0
	}
	return t.dead / (t.dead + t.succeeded)
}

// callers lists the callers of a case that are no layers, as the first run
// has them.
func (c *Case) callers() []*simulate.CallerOutcome {
	var list []*simulate.CallerOutcome
	run := &c.Result.Runs[0]
	for i := range run.Callers {
		if !run.Callers[i].Layer {
			list = append(list, &run.Callers[i])
		}
	}
	return list
}

// mean returns the mean of a caller's measure over the seeds, and half the
// width of its confidence interval.
func (c *Case) mean(caller, measure string) (mean, half float64) {
	e, _ := c.Result.Estimate("caller/" + caller + "/" + measure)
	return e.Mean, e.Half
}

func (c *Case) total() total {
	var t total
	var calls, firsts float64
	for _, o := range c.callers() {
		sum := func(into *float64, measure string) {
			mean, _ := c.mean(o.Name, measure)
			*into += mean
		}
		sum(&t.jobs, "jobs")
		sum(&t.dead, "dead")
		sum(&t.succeeded, "succeeded")
		sum(&t.unfinished, "unfinished")
		sum(&calls, "calls")
		sum(&firsts, "firsts")
		sum(&t.peak, "peak_calls")
		sum(&t.depth, "depth_max")
		sum(&t.goodput, "goodput")
		if r := o.Recovery; r.Disturbed && worse(r, t.recovery) {
			t.recovery = r
		}
	}
	if firsts > 0 {
		t.amplification = calls / firsts
	}
	if one := c.callers(); len(one) == 1 {
		t.amplification, _ = c.mean(one[0].Name, "amplification")
	}
	return t
}

// worse reports whether a is the later recovery.
func worse(a, b simulate.RecoveryTime) bool {
	switch {
	case !b.Disturbed:
		return true
	case a.Recovered != b.Recovered:
		return !a.Recovered
	case a.After != b.After:
		return a.After > b.After
	}
	return b.Drained && (!a.Drained || a.DrainedAfter > b.DrainedAfter)
}

// series are the callers' series added up, a second.
type series struct {
	width                                                float64
	offered, calls, goodput, depth, inFlight, dead, fail []float64
}

func (c *Case) series() series {
	var s series
	for _, o := range c.callers() {
		cs := &o.Series
		s.width = cs.Width
		addCounts(&s.offered, cs.Arrived, cs.Width)
		addCounts(&s.calls, cs.Firsts, cs.Width)
		addCounts(&s.calls, cs.Retries, cs.Width)
		addCounts(&s.goodput, cs.Succeeded, cs.Width)
		addCounts(&s.dead, cs.Dead, cs.Width)
		addCounts(&s.fail, cs.Failed, cs.Width)
		add(&s.depth, cs.Depth)
		add(&s.inFlight, cs.InFlight)
	}
	return s
}

func addCounts(into *[]float64, counts []int64, width float64) {
	values := make([]float64, len(counts))
	for i, n := range counts {
		values[i] = float64(n) / width
	}
	add(into, values)
}

func add(into *[]float64, values []float64) {
	for len(*into) < len(values) {
		*into = append(*into, 0)
	}
	for i, v := range values {
		(*into)[i] += v
	}
}

// band is an interval in which something was wrong.
type band struct {
	name        string
	from, until float64 // seconds
}

// bands names the disturbances of a scenario: faults, and curves that leave
// their first value for a while.
func (c *Case) bands() []band {
	var faults, curves []band
	s := &c.Scenario
	for i := range s.Downstreams {
		d := &s.Downstreams[i]
		for j := range d.Faults {
			f := &d.Faults[j]
			if f.From > 0 || f.Until > 0 {
				faults = append(faults, band{faultName(f), f.From.Seconds(), untilSeconds(f.Until)})
			} else {
				faults = append(faults, excursions("errors", &f.Probability)...)
			}
		}
		curves = append(curves, excursions("less capacity", &d.Capacity)...)
		curves = append(curves, excursions("slow", &d.Speed)...)
	}
	for i := range s.Callers {
		for j := range s.Callers[i].Arrivals {
			curves = append(curves, excursions("load", &s.Callers[i].Arrivals[j].Rate)...)
		}
	}
	list := merged(faults)
	for _, b := range merged(curves) {
		if !slices.ContainsFunc(list, func(f band) bool { return b.from < f.until && f.from < b.until }) {
			list = append(list, b)
		}
	}
	return merged(list)
}

func faultName(f *simulate.Fault) string {
	probability := 1.0
	if len(f.Probability.Points) > 0 {
		probability = f.Probability.Points[0].Value
	}
	switch {
	case f.Kind == simulate.FaultRefuse, f.Kind == simulate.FaultError && probability > 0.9:
		return "outage"
	case f.Kind == simulate.FaultHang && probability > 0.9:
		return "hang"
	}
	return "brownout"
}

func untilSeconds(d time.Duration) float64 {
	if d == 0 {
		return math.Inf(1)
	}
	return d.Seconds()
}

// excursions are the intervals in which a curve is not at its first value.
func excursions(name string, c *simulate.Curve) []band {
	var list []band
	if len(c.Points) < 2 || c.Period > 0 {
		return nil
	}
	home, left := c.Points[0].Value, -1.0
	for i, p := range c.Points {
		switch away := p.Value != home; {
		case away && left < 0:
			left = c.Points[max(i-1, 0)].At.Seconds()
		case !away && left >= 0:
			list = append(list, band{name, left, p.At.Seconds()})
			left = -1
		}
	}
	if left > 0 { // what drifts from the beginning on is no disturbance
		list = append(list, band{name, left, math.Inf(1)})
	}
	return list
}

// merged gathers bands that overlap; an outage gives its name to the others.
func merged(list []band) []band {
	slices.SortStableFunc(list, func(a, b band) int { return cmp.Compare(a.from, b.from) })
	var out []band
	for _, b := range list {
		if n := len(out); n > 0 && b.from < out[n-1].until {
			out[n-1].until = max(out[n-1].until, b.until)
			if b.name == "outage" {
				out[n-1].name = b.name
			}
			continue
		}
		out = append(out, b)
	}
	return out
}
