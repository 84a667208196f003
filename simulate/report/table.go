package report

import (
	"math"

	"github.com/ebbhq/ebb/simulate"
)

// table is the totals: a column for each caller of each case.
type table struct {
	heads []string
	rows  []row
}

type row struct {
	name  string
	cells []string
}

// measure is one row of the totals.
type measure struct {
	name  string
	of    string // in the totals
	words func(float64) string
	// always shows it also where it is 0 everywhere.
	always bool
}

var measures = []measure{
	{"jobs", "jobs", count, true},
	{"succeeded", "success_share", percent, true},
	{"dead letters", "dead_share", percent, true},
	{"unfinished at the end", "unfinished", count, false},
	{"calls", "calls", count, true},
	{"calls for each job", "amplification", times, true},
	{"most calls in a second", "peak_calls", count, true},
	{"deepest queue", "depth_max", count, true},
	{"most in flight", "in_flight_max", count, true},
	{"goodput", "goodput", nil, true},
	{"until success, p50", "jobs.p50", seconds, true},
	{"until success, p99", "jobs.p99", seconds, true},
	{"held by gates, a job", "held", nil, false},
	{"last job ended at", "last_end", seconds, true},
}

func (r *Report) totals() table {
	var t table
	cells := make([][]string, len(measures))
	shown := make([]bool, len(measures))
	for i := range r.Cases {
		c := &r.Cases[i]
		callers := c.callers()
		for _, o := range callers {
			head := c.Name
			switch {
			case len(callers) > 1 && len(r.Cases) > 1:
				head += " / " + o.Name
			case len(callers) > 1:
				head = o.Name
			}
			t.heads = append(t.heads, head)
			for m := range measures {
				cell, zero := c.cell(o, &measures[m])
				cells[m] = append(cells[m], cell)
				shown[m] = shown[m] || !zero || measures[m].always
			}
		}
	}
	for m := range measures {
		if shown[m] {
			t.rows = append(t.rows, row{measures[m].name, cells[m]})
		}
	}
	return r.withRecovery(t)
}

func (c *Case) cell(o *simulate.CallerOutcome, m *measure) (text string, zero bool) {
	mean, half := c.mean(o.Name, m.of)
	words := m.words
	switch m.of {
	case "held":
		jobs, _ := c.mean(o.Name, "jobs")
		return seconds(mean / max(jobs, 1)), mean == 0
	case "jobs.p50", "jobs.p99":
		if o.Jobs.Count == 0 {
			return "–", true
		}
	case "goodput":
		words = func(x float64) string { return rateLike(x, mean) }
	}
	text = words(mean)
	if half > 0 && !math.IsNaN(half) {
		text += " ± " + words(half)
	}
	return text, mean == 0
}

// withRecovery appends why jobs were lost, when each case was well again, and
// the shares.
func (r *Report) withRecovery(t table) table {
	recovered, drained := row{name: "recovered after"}, row{name: "queue drained after"}
	why, last, lost := row{name: "lost mostly by"}, row{name: "last failure"}, false
	share, disturbed := row{name: "share of the step"}, false
	shares := r.shares()
	for i := range r.Cases {
		for _, o := range r.Cases[i].callers() {
			cause, class := mostly(o.DeadLetters)
			lost = lost || cause != "–"
			why.cells, last.cells = append(why.cells, cause), append(last.cells, class)
			x := o.Recovery
			disturbed = disturbed || x.Disturbed
			recovered.cells = append(recovered.cells, when(x.Disturbed, x.Recovered, x.After))
			drained.cells = append(drained.cells, when(x.Disturbed, x.Drained, x.DrainedAfter))
			if shares != nil {
				cell := step(shares[i])
				if i == r.From {
					cell = "–"
				}
				share.cells = append(share.cells, cell)
			}
		}
	}
	if lost {
		t.rows = append(t.rows, why, last)
	}
	if disturbed {
		t.rows = append(t.rows, recovered, drained)
	}
	if shares != nil && len(r.Cases) > 2 {
		t.rows = append(t.rows, share)
	}
	return t
}

// mostly names the commonest reason of dead letters: its cause, and the class
// of the last failure.
func mostly(list []simulate.DeadLetters) (cause, class string) {
	var most simulate.DeadLetters
	for _, d := range list {
		if d.Jobs > most.Jobs {
			most = d
		}
	}
	if most.Jobs == 0 {
		return "–", "–"
	}
	return most.Cause, most.Class
}

func when(disturbed, happened bool, after float64) string {
	switch {
	case !disturbed:
		return "–"
	case !happened:
		return "never"
	}
	return seconds(after)
}

// badly is how many requests were answered otherwise than well, or never.
func badly(d *simulate.DownstreamTotals) int64 {
	return d.Errors + d.Full + d.Throttled + d.Refused + d.Hung + d.Collapsed + d.Conflicts
}

// targets is the totals of downstreams, and of the layers between them.
func (r *Report) targets() table {
	t := table{heads: []string{"requests", "well", "badly", "given up", "for nobody", "busy", "most waiting", "for each job"}}
	for i := range r.Cases {
		c := &r.Cases[i]
		run := &c.Result.Runs[0]
		for j := range run.Downstreams {
			d := &run.Downstreams[j].Totals
			name := run.Downstreams[j].Name
			if len(r.Cases) > 1 {
				name = c.Name + ": " + name
			}
			busy := short(d.BusyMean)
			if d.Utilisation > 0 {
				busy = percent(d.Utilisation)
			}
			t.rows = append(t.rows, row{name, []string{
				whole(float64(d.Requests)), whole(float64(d.OK)), whole(float64(badly(d))), whole(float64(d.Abandoned)), whole(float64(d.Wasted)),
				busy, whole(float64(d.QueueMax)), times(d.Amplification),
			}})
		}
	}
	return t
}
