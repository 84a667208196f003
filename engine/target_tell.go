package engine

import (
	"fmt"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/store"
)

// tellTarget says in sentences how a target stands.
func tellTarget(t *TargetExplained, g *store.Gate, c gate.Config, order, hand *store.AuditRow, now time.Time) {
	say := func(code, format string, args ...any) {
		t.Reasons = append(t.Reasons, Reason{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	first, retry := newHold(g, c, order, false, now), newHold(g, c, order, true, now)
	code, text := first.tell()
	if !first.holds() && first.Probe {
		code, text = "probe", fmt.Sprintf("the breaker of %s has waited: the next call is the one probe that decides", first.name())
	}
	say(code, "%s", text)
	if code, text := retry.tell(); retry.holds() && !first.holds() {
		say(code, "%s", text)
	}
	if code, text := handWords(hand, now); code != "" {
		say(code, "%s", text)
	}
	if now := t.InFlight; now > 0 {
		of := ""
		if most := c.PerTarget.Concurrency; most > 0 {
			of = fmt.Sprintf(" of %d", most)
		}
		say("in_flight", "%d%s calls in flight over all processes, %d of them retries", now, of, t.InFlightRetries)
	}
	if waiting := t.Firsts + t.Retries; waiting == 0 {
		say("idle", "no job waits for it")
	} else {
		more := ""
		if t.More {
			more = " or more"
		}
		say("waiting", "%s%s: %s, %s%s", waitWords(waiting), more, count(t.Firsts, "first attempt"), retriesWords(t.Retries), t.lookWords(now))
	}
	if t.Parked > 0 {
		more := ""
		if t.Parked >= showCount {
			more = " or more"
		}
		say("parked", "%s parked%s until it is well (target_down), attempts unspent; one of them goes out at least once a minute to probe it", parkedWords(t.Parked), more)
	}
	t.Text = fmt.Sprintf("%s:\n", first.name())
	for _, r := range t.Reasons {
		t.Text += "- " + r.Text + "\n"
	}
}

// handWords says who last ordered a probe or closed the breaker.
func handWords(hand *store.AuditRow, now time.Time) (code, text string) {
	if hand == nil {
		return "", ""
	}
	by := fmt.Sprintf("at %s (%s ago) by %s", clockTime(now, hand.At), ago(now, hand.At), hand.Actor)
	if hand.Act == actCloseTarget {
		return "closed_by_hand", "its breaker was last closed by hand " + by
	}
	if hand.Detail != "" {
		by += " (" + hand.Detail + ")"
	}
	return "probe_ordered", "a probe was last ordered " + by
}

func waitWords(n int) string {
	if n == 1 {
		return "1 job waits for it"
	}
	return count(n, "job") + " wait for it"
}

func parkedWords(n int) string {
	if n == 1 {
		return "1 job is"
	}
	return count(n, "job") + " are"
}

func retriesWords(n int) string {
	if n == 1 {
		return "1 retry"
	}
	return fmt.Sprintf("%d retries", n)
}

// lookWords says when workers look for the target's work next.
func (t *TargetExplained) lookWords(now time.Time) string {
	switch {
	case t.LookAt.IsZero() || !t.LookAt.Before(store.Never):
		return ""
	case t.LookAt.After(now):
		return fmt.Sprintf("; workers look at them next at %s (in %s)", dueTime(now, t.LookAt), wait(now, t.LookAt))
	}
	return "; workers look at them now"
}
