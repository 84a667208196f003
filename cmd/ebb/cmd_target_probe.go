package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
)

func (a *app) targetProbeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "probe TARGET",
		Short: "Call a target now, though its breaker is open or it asked for a pause",
		Long: `Let the next call to a target go out now, as the probe: its breaker does not wait
for its time, and a pause that the target asked for (Retry-After) is over. If the
call succeeds, the rest follows, few at once and then all. If it fails, the
breaker opens again, for longer; a target that asks to wait again is left alone.

Exactly one call goes out. It is made with the first of the work that waits, or, if
none of it is due, with the next retry; if nothing waits, with a job that was
parked because the target was down. A target that is paused or disabled is not
called: resume it first.

Retrying a job, a redrive, the test of an endpoint and "ebb target resume" do the
same by themselves.`,
		Example: `  ebb target probe https://crm.example/in
  ebb target probe https://crm.example/in --json`,
		Args: exactly("TARGET"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				t, err := ops.ProbeTarget(ctx, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(t)
				}
				a.remarkOut("%s", t.Probe.Text)
				return nil
			})
		},
	}
}

func (a *app) targetCloseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "close TARGET",
		Short: "Close a target's breaker by hand: the target is well",
		Long: `Close the breaker of a target that you know to be well: all that waits goes out
at once, as many as its limits allow, without a probe. What the breaker has
counted is forgotten, and a pause that the target asked for (Retry-After) is over.
What was parked because the target was down comes back in its order.

"ebb target probe" is the careful way: it sends one call first. A target that is
paused stays so until "ebb target resume".`,
		Example: `  ebb target close https://crm.example/in
  ebb target close https://crm.example/in --json`,
		Args: exactly("TARGET"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				t, err := ops.CloseTarget(ctx, args[0])
				if err != nil {
					return err
				}
				return a.printResumed(ctx, ops, &t)
			})
		},
	}
}

// printResumed sees the redrives through and tells how the target is then.
func (a *app) printResumed(ctx context.Context, ops engine.Ops, t *engine.Resumed) error {
	moved := 0
	for i := range t.Redrives {
		done, err := a.finish(ctx, ops, t.Redrives[i])
		if err != nil {
			return err
		}
		t.Redrives[i] = done
		moved += int(done.Moved)
	}
	if a.json {
		return a.printJSON(t)
	}
	text := fmt.Sprintf("target %s is %s", t.Name, heldCell(&t.Target))
	if end := untilOf(&t.Target); !end.IsZero() {
		text += " until " + until(end)
	}
	if moved > 0 {
		text += fmt.Sprintf(": %s queued again", count(moved, "parked job"))
	}
	a.remarkOut("%s", text)
	a.remarkProbe(t.Probe)
	return nil
}

// remarkProbe tells what an order did so that a target is called now, and what
// helps where nothing was sent.
func (a *app) remarkProbe(p *engine.Probe) {
	switch {
	case p == nil:
	case p.Try == "":
		a.remarkOut("%s", p.Text)
	default:
		a.remarkErr("note: %s\nTry: %s", p.Text, p.Try)
	}
}
