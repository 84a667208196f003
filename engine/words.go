package engine

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ebbhq/ebb/policy"
)

// trimmed is an error's text without the package that said it first.
func trimmed(err error) string { return strings.TrimPrefix(err.Error(), "store: ") }

// clockTime writes an instant in UTC to the second: the time alone where it
// is of the same day as now. What is past is cut.
func clockTime(now, t time.Time) string {
	t = t.UTC().Truncate(time.Second)
	if y, m, d := now.UTC().Date(); sameDay(t, y, m, d) {
		return t.Format("15:04:05Z")
	}
	return t.Format(time.RFC3339)
}

// dueTime writes an instant before which nothing happens: rounded up, so that
// the text never promises too much.
func dueTime(now, t time.Time) string {
	if cut := t.Truncate(time.Second); cut.Before(t) {
		t = cut.Add(time.Second)
	}
	return clockTime(now, t)
}

func sameDay(t time.Time, y int, m time.Month, d int) bool {
	ty, tm, td := t.Date()
	return ty == y && tm == m && td == d
}

// span writes a duration as people say it: whole seconds from a minute on,
// hundredths from a second on, days from two days on.
func span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(10 * time.Millisecond)
	default:
		d = d.Round(time.Millisecond)
	}
	return policy.FormatDuration(d)
}

// wait writes how long until an instant, rounded up to the second.
func wait(now, until time.Time) string {
	d := until.Sub(now)
	if cut := d.Truncate(time.Second); cut < d {
		d = cut + time.Second
	}
	return span(d)
}

// ago writes how long since an instant, cut to the second.
func ago(now, since time.Time) string { return span(max(now.Sub(since), 0).Truncate(time.Second)) }

// ordinal writes 1st, 2nd, 3rd, 4th, 11th.
func ordinal(n int) string {
	suffix := "th"
	if tens := n % 100; tens < 11 || tens > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

// count writes a number with its noun: 1 job, 2 jobs, 2 processes.
func count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// times writes once, twice, 3 times.
func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// quoted cuts a long text and puts it on one line.
func quoted(text string, limit int) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > limit {
		runes = append(runes[:limit-1], '…')
	}
	return string(runes)
}
