package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ebbhq/ebb/policy"
)

// Sentence says what happened in a case.
func (c *Case) Sentence() string {
	t := c.total()
	var parts []string
	switch share := t.deadShare(); {
	case t.dead+t.succeeded == 0:
		parts = append(parts, "no job ended")
	case t.dead == 0:
		parts = append(parts, "no dead letter")
	case share < 1:
		parts = append(parts, percent(share)+" dead-lettered")
	default:
		parts = append(parts, "everything dead-lettered")
	}
	what := c.disturbed()
	switch r := t.recovery; {
	case !r.Disturbed:
		parts = append(parts, times(t.amplification)+" calls for each job", "goodput "+rate(t.goodput))
	case !r.Recovered:
		parts = append(parts, "never recovered from the "+what)
	case r.After == 0:
		parts = append(parts, "recovered with the "+what+"'s end")
	default:
		parts = append(parts, fmt.Sprintf("recovered %s after the %s's end", seconds(r.After), what))
	}
	switch r := t.recovery; {
	case !r.Disturbed:
	case !r.Drained:
		parts = append(parts, "the queue never drained")
	case r.DrainedAfter > r.After:
		parts = append(parts, fmt.Sprintf("the queue drained after %s", seconds(r.DrainedAfter)))
	}
	if t.unfinished > 0 && c.Result.Runs[0].CutShort && t.unfinished > 0.01*t.jobs {
		parts = append(parts, whole(t.unfinished)+" jobs unfinished")
	}
	return strings.Join(parts, "; ")
}

// disturbed is the word for what was wrong.
func (c *Case) disturbed() string {
	if bands := c.bands(); len(bands) == 1 {
		switch name := bands[0].name; name {
		case "outage", "brownout", "hang":
			return name
		}
	}
	return "disturbance"
}

// Verdict says in one sentence which of the compared cases is safer, and by
// how much; empty where none are compared.
func (r *Report) Verdict() string {
	if !r.compared() {
		return ""
	}
	a, b := &r.Cases[r.From], &r.Cases[r.To]
	if order(a, b) < 0 {
		a, b = b, a // b is the safer one
	}
	x, y := a.total(), b.total()
	switch {
	case order(a, b) == 0:
		return fmt.Sprintf("neither is safer: %s and %s end alike, with %s of dead letters and %s calls for each job", b.Name, a.Name, percent(y.deadShare()), times(y.amplification))
	case x.deadShare() != y.deadShare():
		text := fmt.Sprintf("%s is safer than %s: %s dead letters instead of %s", b.Name, a.Name, percent(y.deadShare()), percent(x.deadShare()))
		if y.dead > 0 {
			text += fmt.Sprintf(" (%s times fewer)", short(x.deadShare()/y.deadShare()))
		}
		if noise := r.noise(a, b); noise != "" {
			text += noise
		}
		text += fmt.Sprintf("; %s calls for each job instead of %s", times(y.amplification), times(x.amplification))
		if x.peak != y.peak {
			text += fmt.Sprintf(", a peak of %s a second instead of %s", count(y.peak), count(x.peak))
		}
		return text
	case x.recovery.Recovered != y.recovery.Recovered:
		return fmt.Sprintf("%s is safer than %s: it recovers %s after the %s's end, the other never", b.Name, a.Name, seconds(y.recovery.After), b.disturbed())
	}
	return fmt.Sprintf("%s is safer than %s: %s calls for each job instead of %s, a peak of %s a second instead of %s; both dead-letter %s",
		b.Name, a.Name, times(y.amplification), times(x.amplification), count(y.peak), count(x.peak), percent(y.deadShare()))
}

// noise says that a difference may be chance.
func (r *Report) noise(a, b *Case) string {
	if len(a.Result.Runs) < 2 || len(a.callers()) != 1 || len(b.callers()) != 1 {
		return ""
	}
	x, xHalf := a.mean(a.callers()[0].Name, "dead_share")
	y, yHalf := b.mean(b.callers()[0].Name, "dead_share")
	if math.Abs(x-y) <= math.Hypot(xHalf, yHalf) {
		return ", which may be chance"
	}
	return ""
}

// order compares the safety of two cases: negative where a is the safer.
// Fewer dead letters are safer; then recovery; then fewer calls.
func order(a, b *Case) int {
	x, y := a.total(), b.total()
	switch {
	case x.deadShare() != y.deadShare():
		return sign(x.deadShare() - y.deadShare())
	case x.recovery.Recovered != y.recovery.Recovered:
		if x.recovery.Recovered {
			return -1
		}
		return 1
	case x.amplification != y.amplification:
		return sign(x.amplification - y.amplification)
	}
	return sign(x.peak - y.peak)
}

func sign(x float64) int {
	switch {
	case x < 0:
		return -1
	case x > 0:
		return 1
	}
	return 0
}

// The words for numbers.

func percent(share float64) string {
	switch p := share * 100; {
	case p == 0, p == 100:
		return fmt.Sprintf("%.0f %%", p)
	case p < 0.1 || p > 99.9:
		return fmt.Sprintf("%.3f %%", p)
	case p < 10:
		return fmt.Sprintf("%.2f %%", p)
	default:
		return fmt.Sprintf("%.1f %%", p)
	}
}

func times(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) }

// rate writes a number a second, or in a unit of time in which it is over 1.
func rate(x float64) string { return rateLike(x, x) }

// rateLike writes x in the unit in which like is over 1.
func rateLike(x, like float64) string {
	switch a := math.Abs(like); {
	case a == 0 || a >= 1:
		return short(x) + "/s"
	case a*60 >= 1:
		return short(x*60) + "/min"
	case a*3600 >= 1:
		return short(x*3600) + "/h"
	}
	return short(x*86400) + "/d"
}

// step writes a share of the step between two cases.
func step(share float64) string { return whole(share*100) + " %" }

// count writes a number of things, or the mean of such numbers.
func count(x float64) string {
	if x < 100 && x != math.Trunc(x) {
		return trim(strconv.FormatFloat(x, 'f', 2, 64))
	}
	return whole(x)
}

// short writes a number with three digits that count.
func short(x float64) string {
	switch a := math.Abs(x); {
	case a >= 100 || x == 0:
		return whole(x)
	case a >= 10:
		return trim(strconv.FormatFloat(x, 'f', 1, 64))
	case a >= 1:
		return trim(strconv.FormatFloat(x, 'f', 2, 64))
	}
	return strconv.FormatFloat(x, 'g', 2, 64)
}

func trim(text string) string {
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// whole writes a whole number with its thousands apart.
func whole(x float64) string {
	text := strconv.FormatFloat(math.Round(math.Abs(x)), 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if math.Round(x) < 0 {
		return "-" + text
	}
	return text
}

// seconds writes a time with the digits that a reader needs.
func seconds(s float64) string {
	if math.IsInf(s, 0) || s > 1e9 {
		return "∞"
	}
	d := time.Duration(s * float64(time.Second))
	unit := time.Duration(1)
	switch {
	case d >= 48*time.Hour:
		unit = time.Hour
	case d >= time.Hour:
		unit = time.Minute
	case d >= 10*time.Second:
		unit = time.Second
	case d >= time.Second:
		unit = 10 * time.Millisecond
	case d >= 100*time.Millisecond:
		unit = time.Millisecond
	case d >= time.Millisecond:
		unit = 10 * time.Microsecond
	case d >= time.Microsecond:
		unit = time.Microsecond
	}
	return policy.FormatDuration(d.Round(unit))
}
