package console

import (
	"fmt"
	"strings"
	"time"
)

// slowLag is from when on due work that waits is worth a word.
const slowLag = time.Minute

// verdict is what somebody who looks for one second should know.
type verdict struct {
	Level string // ok | warn | bad
	Title string
	Text  string
}

// judge says how things are. What is worst gives the level, and everything
// that is not as it should be is named.
func (b *overviewBody) judge() verdict {
	v := verdict{Level: "ok", Title: "All is well"}
	var parts []string
	say := func(level, title, format string, args ...any) {
		if level == "bad" && v.Level != "bad" || v.Level == "ok" {
			v.Level, v.Title = level, title
		}
		parts = append(parts, fmt.Sprintf(format, args...))
	}
	alive := 0
	for _, w := range b.Workers {
		if w.Alive {
			alive++
		}
	}
	if b.Lag >= slowLag && alive == 0 {
		say("bad", "Nobody works", "no live process serves the queues, and due work has waited for %s.", coarse(b.Lag))
	} else if b.Lag >= slowLag {
		say("warn", "Work waits", "due work has waited for %s in %s.", coarse(b.Lag), b.LagOf)
	}
	for _, p := range b.Recent.Policies {
		if !p.Met() {
			say("bad", "More dies than was promised", "%s of the jobs of %s died lately, and %s are accepted.", percent(p.DeadRate()), p.Policy, percent(p.Accepted))
		}
	}
	if n := len(b.Held); n > 0 {
		names := make([]string, 0, n)
		for _, t := range b.Held {
			names = append(names, t.Name)
		}
		say("warn", "Some targets are held back", "work that calls %s waits, and spends no attempt.", strings.Join(names[:min(n, 3)], ", ")+more(n-3))
	}
	if p := b.Parked; p != nil && len(p.Down) > 0 {
		jobs := int64(0)
		for _, d := range p.Down {
			jobs += d.Jobs
		}
		say("warn", "Some targets are down", "%s %s parked until %s %s well; nothing is lost.", count(jobs), plural(int(jobs), "job is", "jobs are"),
			p.Down[0].Name+more(len(p.Down)-1), plural(len(p.Down), "is", "are"))
	}
	if b.Paused > 0 {
		say("warn", "Paused", "%d %s paused by order.", b.Paused, plural(b.Paused, "queue is", "queues are"))
	}
	if len(parts) == 0 {
		parts = append(parts, b.calm())
	}
	for i := range parts {
		parts[i] = sentence(parts[i])
	}
	v.Text = strings.Join(parts, " ")
	return v
}

// calm tells of a server where nothing is wrong.
func (b *overviewBody) calm() string {
	r := &b.Recent
	switch {
	case len(b.Queues) == 0:
		return "nothing was enqueued yet."
	case r.Succeeded+r.Dead == 0:
		return "nothing due waits, and nothing ended in the last " + coarse(r.To.Sub(r.From)) + "."
	}
	return fmt.Sprintf("due work starts at once, and %s of what ended lately succeeded.", percent(1-r.DeadRate()))
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// percent writes a share with as many digits as tell something.
func percent(share float64) string {
	p := share * 100
	switch {
	case p == 0 || p == 100:
		return fmt.Sprintf("%.0f\u202f%%", p)
	case p < 0.1:
		return "<0.1\u202f%"
	case p > 99.9:
		return ">99.9\u202f%"
	case p < 10 || p > 90:
		return fmt.Sprintf("%.1f\u202f%%", p)
	}
	return fmt.Sprintf("%.0f\u202f%%", p)
}

// rate writes a number a minute.
func rate(perMinute float64) string {
	switch {
	case perMinute == 0:
		return "0"
	case perMinute < 0.1:
		return "<0.1"
	case perMinute < 10:
		return fmt.Sprintf("%.1f", perMinute)
	}
	return count(int64(perMinute + 0.5))
}
