package simulate

import (
	"math"
	"reflect"
	"strings"
)

// estimates joins the runs' scalars, in the order of the first run.
func estimates(runs []Outcome) []Estimate {
	var list []Estimate
	var values [][]float64
	at := map[string]int{}
	for i := range runs {
		runs[i].scalars(func(name string, v float64) {
			n, known := at[name]
			if !known {
				n = len(list)
				at[name] = n
				list = append(list, Estimate{Name: name})
				values = append(values, nil)
			}
			values[n] = append(values[n], v)
		})
	}
	for i := range list {
		list[i].of(values[i])
	}
	return list
}

// scalars calls f with every scalar measure of a run.
func (o *Outcome) scalars(f func(name string, v float64)) {
	for i := range o.Callers {
		c := &o.Callers[i]
		at := "caller/" + c.Name + "/"
		fields(at, reflect.ValueOf(c.Totals), f)
		c.Jobs.scalars(at+"jobs", f)
		c.Calls.scalars(at+"calls", f)
		c.OK.scalars(at+"ok", f)
		c.Waits.scalars(at+"waits", f)
		if r := c.Recovery; r.Disturbed {
			f(at+"recovery.recovered", one(r.Recovered))
			f(at+"recovery.drained", one(r.Drained))
			if r.Recovered {
				f(at+"recovery.after", r.After)
			}
			if r.Drained {
				f(at+"recovery.drained_after", r.DrainedAfter)
			}
		}
	}
	for i := range o.Downstreams {
		d := &o.Downstreams[i]
		at := "downstream/" + d.Name + "/"
		fields(at, reflect.ValueOf(d.Totals), f)
		d.Waits.scalars(at+"waits", f)
		d.Services.scalars(at+"services", f)
		d.Sojourns.scalars(at+"sojourns", f)
	}
	f("ended_at", o.EndedAt)
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// fields calls f with the numbers of a struct under their JSON names.
func fields(at string, v reflect.Value, f func(string, float64)) {
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		switch field := v.Field(i); field.Kind() {
		case reflect.Int64:
			f(at+name, float64(field.Int()))
		case reflect.Float64:
			f(at+name, field.Float())
		}
	}
}

// scalars calls f with a histogram's figures, if it has any.
func (h *Histogram) scalars(at string, f func(string, float64)) {
	if h.Count == 0 {
		return
	}
	f(at+".mean", h.Mean)
	f(at+".sd", h.SD)
	f(at+".p50", h.P50)
	f(at+".p90", h.P90)
	f(at+".p95", h.P95)
	f(at+".p99", h.P99)
	f(at+".p999", h.P999)
	f(at+".max", h.Max)
}

// of fills an estimate from the values of the runs.
func (e *Estimate) of(values []float64) {
	n := float64(len(values))
	e.Runs, e.Min, e.Max = len(values), values[0], values[0]
	for _, v := range values {
		e.Mean += v
		e.Min, e.Max = min(e.Min, v), max(e.Max, v)
	}
	e.Mean /= n
	if len(values) < 2 {
		return
	}
	sum := 0.0
	for _, v := range values {
		sum += (v - e.Mean) * (v - e.Mean)
	}
	e.SD = math.Sqrt(sum / (n - 1))
	e.Half = student(len(values)-1) * e.SD / math.Sqrt(n)
}

// studentTable is the 97.5 % quantile of Student's t by degrees of freedom.
var studentTable = [...]float64{
	1: 12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
	2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
	2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
}

// student is that quantile for any number of degrees; beyond the table by the
// expansion around the normal one, which is good to four digits there.
func student(degrees int) float64 {
	if degrees < len(studentTable) {
		return studentTable[degrees]
	}
	const z = 1.959964
	n := float64(degrees)
	return z + (z*z*z+z)/(4*n) + (5*math.Pow(z, 5)+16*z*z*z+3*z)/(96*n*n)
}
