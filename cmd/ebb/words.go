package main

import (
	"fmt"
	"time"

	"github.com/ebbhq/ebb/policy"
)

// words says in one line what a policy promises: "5 retries (6 sends) over 31m".
func words(p *policy.Policy) string {
	retry, try := "retry", "attempt"
	switch p.Target {
	case policy.Endpoint:
		try = "send"
	case policy.Host:
		try = "try"
	case policy.Process:
		retry, try = "restart", "start"
	}
	if p.Attempts == 0 {
		return fmt.Sprintf("%s until %s after the first start", plural(retry, 2), span(p.Window))
	}
	text := fmt.Sprintf("%s (%s)", count(p.Attempts-1, retry), count(p.Attempts, try))
	if s := p.Span(); s.Nominal > 0 {
		text += " over " + span(s.Nominal)
	}
	if w := p.Waves; w.Count > 0 {
		text += fmt.Sprintf(", then up to %s after %s each", count(w.Count, "wave"), span(w.Cooldown))
	}
	return text
}

func count(n int, noun string) string { return fmt.Sprintf("%d %s", n, plural(noun, n)) }

func plural(noun string, n int) string {
	switch {
	case n == 1:
		return noun
	case noun == "retry", noun == "try", noun == "anomaly", noun == "delivery":
		return noun[:len(noun)-1] + "ies"
	}
	return noun + "s"
}

// span writes a duration for people: exact where short, else to the second.
func span(d time.Duration) string {
	if d >= time.Minute {
		d = d.Round(time.Second)
	}
	return policy.FormatDuration(d)
}
