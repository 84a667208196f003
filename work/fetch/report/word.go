package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// number writes thousands apart: 1,234,567.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// percent never rounds up to 100 or down to 0 what is not.
func percent(share float64) string {
	p := 100 * share
	rounded := math.Round(p*10) / 10
	switch {
	case p < 100 && rounded >= 100:
		return "99.9 %"
	case p > 0 && rounded == 0:
		return "0.1 %"
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64) + " %"
}

func size(n int64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, i := float64(n)/1000, 0
	for f >= 999.95 && i < len(units)-1 {
		f, i = f/1000, i+1
	}
	return fmt.Sprintf("%.1f %cB", f, units[i])
}

func span(d time.Duration) string {
	switch {
	case d < 0:
		return ""
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	default:
		d = d.Round(time.Millisecond)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// fact is one line of what is known of the fetch.
type fact struct{ name, value string }

func (r *Report) facts() []fact {
	all := []fact{
		{"fetch", r.ID},
		{"policy", strings.TrimSpace(r.Policy + " " + short(r.Version))},
		{"started", instant(r.StartedAt)},
		{"ended", instant(r.EndedAt)},
	}
	if !r.EndedAt.IsZero() && !r.StartedAt.IsZero() {
		all = append(all, fact{"took", span(r.EndedAt.Sub(r.StartedAt))})
	}
	if r.Requests > 0 {
		all = append(all, fact{"requests", number(r.Requests)})
	}
	if r.Bytes > 0 {
		all = append(all, fact{"fetched", size(r.Bytes)})
	}
	if r.Repeated > 0 {
		all = append(all, fact{"repeated", number(r.Repeated) + " URLs of the input named a page again"})
	}
	if r.Comparison != nil {
		all = append(all, fact{"before", r.Comparison.String()})
	}
	for _, w := range r.Waivers {
		all = append(all, fact{"waiver", w})
	}
	for _, n := range r.Notes {
		all = append(all, fact{"note", n})
	}
	known := all[:0]
	for _, f := range all {
		if f.value != "" {
			known = append(known, f)
		}
	}
	return known
}

func short(version string) string {
	if len(version) > 12 {
		return version[:12]
	}
	return version
}
