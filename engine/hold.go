package engine

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/store"
)

// hold is what one gate answers to one more start, with what it takes to tell
// it.
type hold struct {
	gate   *store.Gate
	config gate.Config
	order  *store.AuditRow // that paused the target, if it is known
	now    time.Time
	gate.Verdict
}

func newHold(g *store.Gate, c gate.Config, order *store.AuditRow, retry bool, now time.Time) hold {
	return hold{gate: g, config: c, order: order, now: now, Verdict: asked(c, g.State, retry, now)}
}

// holds reports whether the next start is kept back.
func (h *hold) holds() bool { return h.gate.Disabled != "" || !h.Admit }

// byOrder reports whether only a person ends it.
func (h *hold) byOrder() bool {
	return h.gate.Disabled != "" || h.Held == gate.HeldOperator && h.Until.IsZero()
}

// name is the gate's as people know it: "target T" or "queue Q".
func (h *hold) name() string {
	if queue, ok := queueOfGate(h.gate.Target); ok {
		return "queue " + queue
	}
	return "target " + h.gate.Target
}

// tell names the hold and when it ends, with a stable word for programs.
func (h *hold) tell() (code, text string) {
	name, s := h.name(), &h.gate.State
	timed := !h.Until.IsZero()
	at := fmt.Sprintf("%s (in %s)", dueTime(h.now, h.Until), wait(h.now, h.Until))
	switch {
	case h.gate.Disabled != "":
		return "target_disabled", fmt.Sprintf("%s is disabled (%s): nothing that calls it starts before: ebb target resume %s", name, h.gate.Disabled, shell(h.gate.Target))
	case h.Held == gate.HeldOperator:
		until := ""
		if timed {
			until = " until " + at
		}
		return "target_paused", fmt.Sprintf("%s is paused%s%s; nothing that calls it starts before%s ebb target resume %s",
			name, until, h.orderWords(), sooner(timed), shell(h.gate.Target))
	case h.Held == gate.HeldRetryAfter:
		return "target_asked", fmt.Sprintf("%s asked for a pause until %s: nothing that calls it starts before", name, at)
	case h.Held == gate.HeldBreaker && timed:
		return "breaker_open", fmt.Sprintf("the breaker of %s holds all that calls it%s, as it keeps failing (%s): one probe may start at %s",
			name, h.since(), tripWords(s.Trips), at)
	case h.Held == gate.HeldBreaker:
		return "breaker_probing", fmt.Sprintf("the breaker of %s holds all that calls it%s: its one probe is out%s, and the outcome decides", name, h.since(), h.probeWords())
	case h.Held == gate.HeldRamp:
		return "target_ramping", fmt.Sprintf("%s is recovering and gets at most %s at once, %d now; the next starts when one ends", name, count(s.Ramp, "call"), s.InFlight)
	case h.Held == gate.HeldBudget && timed:
		return "budget_empty", fmt.Sprintf("the retry budget of %s is empty (%s); it has room again at %s", name, budgetWords(h.config.Budget), at)
	case h.Held == gate.HeldBudget:
		return "budget_empty", fmt.Sprintf("the retry budget of %s is empty (%s) until other calls pay into it", name, budgetWords(h.config.Budget))
	case h.Held == gate.HeldConcurrency:
		return "concurrency", fmt.Sprintf("%s has as many calls in flight as it may get over all processes, %d of %d%s; the next starts when one ends",
			name, s.InFlight, h.config.PerTarget.Concurrency, h.grantWords())
	case h.Held == gate.HeldRate:
		return "rate", fmt.Sprintf("the rate of %s, %g starts a second over all processes, allows the next at %s", name, h.rate(), at)
	}
	return "open", name + " may be called"
}

// rate is the most starts a second: the policy's, or the slower one that the
// target asks for or was seen to bear.
func (h *hold) rate() float64 {
	every := h.config.Every(h.gate.State)
	if rate := h.config.PerTarget.Rate; rate > 0 && rate*every.Seconds() < 1.001 {
		return rate
	}
	return math.Round(1e3/every.Seconds()) / 1e3
}

// tripWords counts the openings since the breaker was last closed.
func tripWords(n int) string {
	if n <= 1 {
		return "opened once"
	}
	return fmt.Sprintf("opened %s in a row", times(n))
}

func sooner(timed bool) string {
	if timed {
		return "; sooner:"
	}
	return ":"
}

// orderWords says who paused it and when.
func (h *hold) orderWords() string {
	if h.order == nil {
		return ""
	}
	return fmt.Sprintf(" since %s (%s) by order of %s", clockTime(h.now, h.order.At), ago(h.now, h.order.At), h.order.Actor)
}

// since says from when on the present hold of all work lasts.
func (h *hold) since() string {
	for _, held := range holdsOf(&h.gate.State, h.now) {
		if held.Of == heldAll && held.To.IsZero() {
			return fmt.Sprintf(" since %s (%s)", clockTime(h.now, held.From), ago(h.now, held.From))
		}
	}
	return ""
}

func (h *hold) probeWords() string {
	for _, g := range h.gate.Grants {
		if g.Probe {
			return fmt.Sprintf(" in process %d", g.Process)
		}
	}
	return ""
}

// grantWords says who holds the permits: " (process 7: 3, process 8: 1)".
func (h *hold) grantWords() string {
	const most = 4
	var parts []string
	for i, g := range h.gate.Grants {
		if i == most {
			parts = append(parts, fmt.Sprintf("%d more", len(h.gate.Grants)-most))
			break
		}
		parts = append(parts, fmt.Sprintf("process %d: %d", g.Process, g.Size()))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// Shell writes a name as it is typed at a shell.
func Shell(name string) string { return shell(name) }

// shell writes a name as it is typed at a shell.
func shell(name string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r)
	}
	if name != "" && strings.TrimFunc(name, plain) == "" {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
