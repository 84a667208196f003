package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
)

func (a *app) kindCommand() *cobra.Command {
	c := group("kind", "Kinds of jobs: list, pause, resume",
		`A kind says what handles a job. A paused kind starts nothing, in any queue; what
runs already runs on, and other kinds pass. Use it when one handler is broken.`)
	c.AddCommand(a.kindListCommand(), a.kindPauseCommand(), a.kindResumeCommand())
	return c
}

func (a *app) kindListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List kinds that are paused or that a live worker handles",
		Example: "  ebb kind list\n  ebb kind list --json",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				list, err := ops.Kinds(ctx)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]any{"kinds": list})
				}
				w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "KIND\tSTATE\tSINCE\tBY\tWORKERS")
				for i := range list {
					k := &list[i]
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\n", cell(k.Name), kindCell(k), stamp(k.PausedAt), cell(k.PausedBy), k.Workers)
				}
				return w.Flush()
			})
		},
	}
}

func kindCell(k *engine.Kind) string {
	if k.Paused {
		return "paused"
	}
	return "open"
}

func (a *app) kindPauseCommand() *cobra.Command {
	return a.kindSwitch("pause KIND", "Start nothing of a kind, in any queue, until it is resumed", "  ebb kind pause mail", engine.Ops.PauseKind)
}

func (a *app) kindResumeCommand() *cobra.Command {
	return a.kindSwitch("resume KIND", "Let a paused kind go on", "  ebb kind resume mail", engine.Ops.ResumeKind)
}

func (a *app) kindSwitch(use, short, example string, do func(engine.Ops, context.Context, string) (engine.Kind, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example, Args: exactly("KIND"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				k, err := do(ops, ctx, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(k)
				}
				a.remarkOut("kind %s is %s: %s", k.Name, kindCell(&k), count(k.Workers, "live worker"))
				if k.Paused && k.Workers == 0 {
					a.remarkErr("note: no live worker handles this kind; it stays paused for those to come. ebb kind list shows the kinds that are handled")
				}
				return nil
			})
		},
	}
}
