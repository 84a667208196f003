package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

func (a *app) periodicAddCommand() *cobra.Command {
	var f jobFlags
	var cron, zone, missed string
	c := &cobra.Command{
		Use:   "add NAME --cron LINE --kind KIND",
		Short: "Add a schedule, or replace the one of that name",
		Long: `Add a schedule, or replace the one of that name. The cron line has five fields:
minute, hour, day of month, month, day of week; or it is @hourly, @daily, @weekly,
@monthly or @yearly. Its times are those of --zone, or UTC. Where line and zone
stay as they were, the next time stays too.

Times at which no worker ran make one job for all of them (--missed once), none
(skip), or one each, 1,000 at most (all). To have no two of its jobs alive at
once, give --unique.`,
		Example: `  ebb periodic add nightly-report --cron '0 2 * * *' --zone Europe/Berlin --kind report
  ebb periodic add sync --cron '*/15 * * * *' --kind sync --unique sync --missed skip`,
		Args: exactly("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := f.job(a)
			if err != nil {
				return flagError(c, err)
			}
			if cron == "" {
				return flagError(c, errors.New("--cron is missing: at which times?"))
			}
			p := engine.Periodic{Name: args[0], Cron: cron, Zone: zone, Missed: job.Missed(missed), Job: n}
			return a.ask(c, true, func(ctx context.Context, ops engine.Ops) error {
				p, err := ops.PutPeriodic(ctx, p)
				if err != nil {
					return err
				}
				if err := a.warnOfPolicy(ctx, ops, n.Policy); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(p)
				}
				a.remarkOut("schedule %s: next at %s", p.Name, stamp(p.NextAt))
				return nil
			})
		},
	}
	f.bind(c)
	c.Flags().StringVar(&cron, "cron", "", "its times: minute hour day month weekday, or @daily and the like (required)")
	c.Flags().StringVar(&zone, "zone", "", "time zone of the times, such as Europe/Berlin (default UTC)")
	c.Flags().StringVar(&missed, "missed", "", "times at which no worker ran: once, skip or all (default \"once\")")
	return c
}
