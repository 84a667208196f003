package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
)

func (a *app) periodicCommand() *cobra.Command {
	c := group("periodic", "Schedules that enqueue jobs: list, add, rm",
		`A schedule enqueues a job at its times, once for all processes that share the
database. Its times are those of a cron line in a time zone; workers carry it out,
and what becomes of times at which none ran is part of the schedule.`)
	c.AddCommand(a.periodicListCommand(), a.periodicAddCommand(), a.periodicRemoveCommand())
	return c
}

func (a *app) periodicListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List schedules with their next times",
		Example: "  ebb periodic list\n  ebb periodic list --json",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				list, err := ops.Periodics(ctx)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]any{"periodics": list})
				}
				w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "NAME\tCRON\tZONE\tNEXT\tLAST\tMISSED\tKIND\tQUEUE")
				for i := range list {
					p := &list[i]
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cell(p.Name), cell(p.Cron), zoneCell(p), stamp(p.NextAt), stamp(p.LastAt),
						missedCell(p), cell(p.Job.Kind), cell(p.Job.Queue))
				}
				return w.Flush()
			})
		},
	}
}

func zoneCell(p *engine.Periodic) string {
	if p.Zone == "" {
		return "UTC"
	}
	return cell(p.Zone)
}

func missedCell(p *engine.Periodic) string {
	if p.Missed == "" {
		return "once"
	}
	return string(p.Missed)
}

func (a *app) periodicRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME",
		Short:   "Forget a schedule; what it has enqueued stays",
		Example: "  ebb periodic rm nightly-report",
		Args:    exactly("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				if err := ops.DropPeriodic(ctx, args[0]); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]string{"removed": args[0]})
				}
				a.remarkOut("schedule %s is forgotten", args[0])
				return nil
			})
		},
	}
}
