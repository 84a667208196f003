package main

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
)

func (a *app) targetShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show TARGET",
		Short: "Show a target: what holds it, who calls it, what waits, by which limits",
		Long: `Show everything about a target: in words what holds its work and when that ends;
breaker, pauses and budget; the limits of the policy that used it last; the calls
in flight by process; what waits in which queue and when workers look at it next;
the times in which it held work back; and who ordered what.`,
		Example: "  ebb target show https://crm.example/in\n  ebb target show https://crm.example/in --json",
		Args:    exactly("TARGET"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				t, err := ops.Target(ctx, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(t)
				}
				return a.printTarget(&t)
			})
		},
	}
}

func (a *app) printTarget(t *engine.TargetExplained) error {
	fmt.Fprintln(a.stdout, t.Text)
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" && value != "-" {
			fmt.Fprintf(w, "%s\t%s\n", name, cell(value))
		}
	}
	line("state", heldCell(&t.Target))
	line("disabled", t.Disabled)
	line("breaker", breakerCell(&t.Breaker))
	line("asked to wait until", until(t.AskedUntil))
	line("paused until", pausedCell(&t.Target))
	l := &t.Limits
	if l.Policy != "" {
		line("limits by policy", l.Policy+"@"+l.Version)
	}
	line("concurrency", limitFigure(l.Concurrency > 0, strconv.Itoa(l.Concurrency)))
	line("rate", limitFigure(l.Rate > 0, rateCell(l.Rate)))
	line("breaker rule", l.Breaker)
	line("retry budget", l.Budget)
	if t.RetryRoom != nil {
		line("room for retries", roomCell(*t.RetryRoom))
	}
	line("retry-after", l.RetryAfter)
	if l.MaxHold > 0 {
		line("held at most", fmt.Sprintf("%s, then %s", seconds(l.MaxHold), l.OnHoldEnd))
	}
	line("slow calls", l.SlowCalls)
	if err := w.Flush(); err != nil {
		return err
	}
	return a.printTargetTables(t)
}

func (a *app) printTargetTables(t *engine.TargetExplained) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	table := func(rows int, head string) bool {
		if rows > 0 {
			_ = w.Flush() // to standard output, whose errors show at the end
			fmt.Fprintf(a.stdout, "\n")
			fmt.Fprintln(w, head)
		}
		return rows > 0
	}
	if table(len(t.Grants), "PROCESS\tHOST\tPID\tALIVE\tFIRST ATTEMPTS\tRETRIES\tPROBE") {
		for _, g := range t.Grants {
			fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%d\t%d\t%s\n", g.Process, cell(g.Host), g.PID, yesNo(g.Alive), g.Firsts, g.Retries, yesNo(g.Probe))
		}
	}
	if table(len(t.Lanes), "QUEUE\tFIRST ATTEMPTS\tRETRIES\tNEXT LOOK") {
		for _, l := range t.Lanes {
			more := ""
			if l.More {
				more = "+"
			}
			fmt.Fprintf(w, "%s\t%d%s\t%d%s\t%s\n", cell(l.Queue), l.Firsts, more, l.Retries, more, lookCell(l.LookAt))
		}
	}
	if table(len(t.Holds), "HELD\tFROM\tTO") {
		for _, h := range t.Holds {
			to := "now"
			if !h.To.IsZero() {
				to = stamp(h.To)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", h.Of, stamp(h.From), to)
		}
	}
	if table(len(t.Orders), "ORDER\tAT\tBY\tDETAIL") {
		for _, o := range t.Orders {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", o.Act, stamp(o.At), cell(o.Actor), cell(o.Detail))
		}
	}
	return w.Flush()
}

func breakerCell(b *engine.TargetBreaker) string {
	text := b.Phase.String()
	switch {
	case !b.OpenUntil.IsZero():
		text += " until " + until(b.OpenUntil)
	case b.Probing:
		text += ", its probe is out"
	case b.Ramp > 0:
		text += fmt.Sprintf(", at most %s at once", count(b.Ramp, "call"))
	case b.Failed > 0:
		text += fmt.Sprintf(", %s in a row", count(b.Failed, "failure"))
	}
	if b.Trips > 0 {
		text += fmt.Sprintf(" (openings in a row: %d)", b.Trips)
	}
	return text
}

func pausedCell(t *engine.Target) string {
	switch {
	case !t.Paused:
		return ""
	case t.PausedUntil.IsZero():
		return "it is resumed"
	}
	return until(t.PausedUntil)
}

func limitFigure(limited bool, figure string) string {
	if !limited {
		return "no limit"
	}
	return figure + " over all processes"
}

func roomCell(n int) string {
	if n >= engine.MaxLimit {
		return fmt.Sprintf("%d or more now", n)
	}
	return fmt.Sprintf("%d now", n)
}

// lookCell writes when a lane is looked at; a gate that only an order or an
// outcome opens has no such time.
func lookCell(at time.Time) string {
	if at.Year() >= 9999 {
		return "when the gate opens"
	}
	return until(at)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// seconds writes a duration that programs get in seconds.
func seconds(s float64) string { return span(time.Duration(s * float64(time.Second))) }
