package file

import (
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

// curveFields are the keys of a function of time.
var curveFields = []field{
	{key: "steps", doc: "jumps, by instant: {0s: 1, 2m: 0.2, 4m: 1}; the first is at 0s"},
	{key: "ramps", doc: "straight lines between values, by instant: {0s: 100/s, 5m: 300/s}"},
	{key: "base", doc: "value outside the spikes", rate: true},
	{key: "spikes", doc: "intervals with another value: [{from: 2m, until: 3m, value: 500/s}]"},
	{key: "points", doc: "the long form: points {at, value} in ascending time, straight lines between them; two at one instant are a jump"},
	{key: "period", doc: "repeats what lies before it for ever; default no repetition"},
}

const curveAbout = "A function of virtual time. One of steps, ramps, base and points is needed."

var curveForms = []string{"`200/s`, `0.05`, `5%`: constant", "`[{at: 0s, value: 1}, {at: 2m, value: 0}]`: points"}

func curveKeys() []string {
	keys := make([]string, len(curveFields))
	for i, f := range curveFields {
		keys[i] = f.key
	}
	return keys
}

// spike is an interval with another value.
type spike struct {
	from, until time.Duration
	value       float64
}

// curve reads a function of time in any of its forms.
func (r *reader) curve(s spot, c *simulate.Curve, rate bool) {
	*c = simulate.Curve{}
	if v, ok := scalarOf(s.node); ok {
		n, msg := parseNumber(strings.TrimSpace(v.text), rate)
		if msg != "" {
			r.fail(s.at, s.path, "%s", msg)
		}
		*c = simulate.Constant(n)
		return
	}
	if _, ok := s.node.(*ast.SequenceNode); ok {
		r.points(s, c)
		return
	}
	list, ok := r.pairs(s, "a number, or a mapping with "+strings.Join(curveKeys(), ", "))
	if !ok {
		return
	}
	r.curveKeys(s, list, c)
}

func (r *reader) curveKeys(s spot, list []pair, c *simulate.Curve) {
	before, forms := len(r.errs), 0
	var spikes []spike
	base, hasBase := 0.0, false
	for _, p := range list {
		switch p.key {
		case "steps", "ramps":
			forms++
			r.instants(p, c, p.key == "steps")
		case "points":
			forms++
			r.points(p.spot, c)
		case "base":
			forms++
			hasBase = true
			r.value(p.spot, valueOf(&base), field{rate: true})
		case "spikes":
			spikes = r.spikes(p)
		case "period":
			r.duration(p.spot, &c.Period)
		default:
			r.unknown(p, curveKeys())
		}
	}
	switch {
	case len(r.errs) > before:
	case forms != 1:
		r.fail(s.at, s.path, "needs one of steps, ramps, base and points; has %d", forms)
	case spikes != nil && !hasBase:
		r.fail(s.at, s.path, "spikes need a base")
	case hasBase:
		spiked(base, spikes, c)
	}
}

// points reads the long form.
func (r *reader) points(s spot, c *simulate.Curve) {
	for _, item := range r.items(s) {
		var p simulate.Point
		r.mapping(item, valueOf(&p))
		c.Points = append(c.Points, p)
	}
}

// instants reads a mapping of instants to values.
func (r *reader) instants(p pair, c *simulate.Curve, steps bool) {
	list, ok := r.pairs(p.spot, "a mapping of instants and values, such as {0s: 1, 2m: 0.2}")
	if !ok {
		return
	}
	for i, q := range list {
		at, err := policy.ParseDuration(q.key)
		if err != nil {
			r.fail(q.keyAt, q.path, "%v", err)
			continue
		}
		var value float64
		r.value(q.spot, valueOf(&value), field{rate: true})
		n := len(c.Points)
		switch {
		case i == 0 && at != 0:
			r.fail(q.keyAt, q.path, "the first instant is 0s: what holds from the beginning")
		case n > 0 && at <= c.Points[n-1].At:
			r.fail(q.keyAt, q.path, "is not after %s; instants ascend", policy.FormatDuration(c.Points[n-1].At))
		}
		if steps && n > 0 {
			c.Points = append(c.Points, simulate.Point{At: at, Value: c.Points[n-1].Value})
		}
		c.Points = append(c.Points, simulate.Point{At: at, Value: value})
	}
}

func (r *reader) spikes(p pair) []spike {
	list := []spike{}
	for _, item := range r.items(p.spot) {
		keys, ok := r.pairs(item, "a mapping with from, until and value")
		if !ok {
			continue
		}
		var s spike
		before := len(r.errs)
		for _, q := range keys {
			switch q.key {
			case "from":
				r.duration(q.spot, &s.from)
			case "until":
				r.duration(q.spot, &s.until)
			case "value":
				r.value(q.spot, valueOf(&s.value), field{rate: true})
			default:
				r.unknown(q, []string{"from", "until", "value"})
			}
		}
		for _, need := range []string{"from", "until", "value"} {
			if !hasKey(keys, need) {
				r.fail(item.at, join(item.path, need), "is missing; a spike has from, until and value")
			}
		}
		if n := len(list); len(r.errs) == before && (s.until <= s.from || n > 0 && s.from < list[n-1].until) {
			r.fail(item.at, item.path, "spikes have an end after their beginning, ascend and do not overlap")
		}
		list = append(list, s)
	}
	return list
}

func spiked(base float64, spikes []spike, c *simulate.Curve) {
	c.Points = []simulate.Point{{Value: base}}
	for _, k := range spikes {
		c.Points = append(c.Points,
			simulate.Point{At: k.from, Value: base}, simulate.Point{At: k.from, Value: k.value},
			simulate.Point{At: k.until, Value: k.value}, simulate.Point{At: k.until, Value: base})
	}
}
