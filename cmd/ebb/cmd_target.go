package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/gate"
)

func (a *app) targetCommand() *cobra.Command {
	c := group("target", "Targets, whom work calls: list, show, pause, resume, probe, close",
		`A target is whom a job calls: a host, an endpoint, a provider. Each has a gate
that all processes share: a breaker that stops calls while it keeps failing, the
pauses that it asks for, limits and a retry budget by policy, and pauses that a
person orders. Work that a gate holds back spends no attempt.`)
	c.AddCommand(a.targetListCommand(), a.targetShowCommand(), a.targetPauseCommand(), a.targetResumeCommand(), a.targetProbeCommand(), a.targetCloseCommand())
	return c
}

func (a *app) targetListCommand() *cobra.Command {
	var page engine.Page
	c := &cobra.Command{
		Use:   "list",
		Short: "List targets with what holds them and what waits",
		Long: `List by name the targets that have a gate or waiting work: what holds the next
first attempt and until when, the calls in flight over all processes, and the jobs
that wait (100+ where more than 100 do). "queue:NAME" is the gate of a queue with
limits of its own.`,
		Example: "  ebb target list\n  ebb target list --limit 1000 --json",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				list, err := ops.Targets(ctx, page)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(list)
				}
				return a.printTargets(c, list)
			})
		},
	}
	bindPage(c, &page)
	return c
}

func (a *app) printTargets(c *cobra.Command, list engine.Targets) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TARGET\tSTATE\tUNTIL\tIN FLIGHT\tFIRST ATTEMPTS\tRETRIES\tPOLICY")
	for i := range list.Targets {
		t := &list.Targets[i]
		more := ""
		if t.More {
			more = "+"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d%s\t%d%s\t%s\n", cell(t.Name), heldCell(t), until(untilOf(t)), t.InFlight, t.Firsts, more, t.Retries, more, cell(t.Policy))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.more(c, list.Next)
	return nil
}

// heldCells are the holds in a word or two.
var heldCells = map[string]string{
	"none": "open", "disabled": "disabled", "operator": "paused", "retry_after": "asked to wait", "breaker": "breaker open",
	"ramp": "recovering", "budget": "budget empty", "concurrency": "full", "rate": "paced",
}

// heldCell says what holds the target's work: all of it, or retries alone.
func heldCell(t *engine.Target) string {
	switch {
	case t.Held == "breaker" && t.Breaker.Probing:
		return "breaker probing"
	case t.Held == "none" && (t.Breaker.Phase == gate.Open || t.Breaker.Phase == gate.HalfOpen):
		return "half-open"
	case t.Held == "none" && t.RetryHeld != "none":
		return "open, retries: " + heldCells[t.RetryHeld]
	}
	return heldCells[t.Held]
}

// untilOf is when time alone ends what heldCell says.
func untilOf(t *engine.Target) time.Time {
	if t.Held == "none" {
		return t.RetryUntil
	}
	return t.Until
}
