package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
)

// redriveFlags are the wishes of `dead redrive`.
type redriveFlags struct {
	filterFlags
	rate                float64
	dryRun, all, resume bool
}

func (a *app) deadRedriveCommand() *cobra.Command {
	var f redriveFlags
	c := &cobra.Command{
		Use:   "redrive",
		Short: "Queue dead letters again: by any filter, at a rate, resumable",
		Long: `Queue dead letters again: fresh attempts, same ids, in the order in which they
were enqueued. The filters of "ebb dead list" select them; without any, --all
says that you mean it. --dry-run only counts and shows the groups.

With --target, or where at most 10 jobs are selected, their targets are called now,
as the probe, though their breakers are open or they asked for a pause.

The order is durable and its progress too: when this command is interrupted,
workers carry it on, and "ebb dead redrive --resume" does. A job whose unique
key was taken since stays where it is.`,
		Example: `  ebb dead redrive --fingerprint 1f0c7a2b9d3e4f50 --dry-run
  ebb dead redrive --kind mail --class server --since 6h --rate 20
  ebb dead redrive --parked --queue docs
  ebb dead redrive --resume`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			filter, err := f.filter(a.now())
			if err != nil {
				return flagError(c, err)
			}
			switch {
			case f.resume && (!filter.Empty() || f.all || f.rate != 0 || f.parked):
				return flagError(c, errors.New("--resume goes on with the orders given before, as they were given; it takes no filter and no rate"))
			case f.resume:
				return a.redriveResume(c, f.dryRun)
			case filter.Empty() && !f.all && !f.dryRun:
				return usage(fmt.Errorf("%s: no filter: all dead letters would be queued again", c.CommandPath()), "a filter, --dry-run to see what is there, or --all")
			}
			return a.redrive(c, engine.Order{Filter: filter, Rate: f.rate, DryRun: f.dryRun})
		},
	}
	f.bind(c)
	flags := c.Flags()
	flags.BoolVar(&f.parked, "parked", false, "release parked jobs instead of dead letters")
	flags.BoolVar(&f.all, "all", false, "all there are")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only count and show the groups")
	flags.Float64Var(&f.rate, "rate", 0, "most jobs a second; 0 = all at once")
	flags.BoolVar(&f.resume, "resume", false, "go on with unfinished orders (with --dry-run: only show them)")
	return c
}

func (a *app) redrive(c *cobra.Command, o engine.Order) error {
	return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
		r, err := ops.Redrive(ctx, o)
		if err != nil {
			return err
		}
		if o.DryRun {
			return a.printDryRun(ctx, ops, o, r)
		}
		done, err := a.finish(ctx, ops, r)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(done)
		}
		a.remarkOut("redrive %s: %s queued again", done.ID, count(int(done.Moved), "job"))
		a.remarkProbes(done.Probes)
		if done.Moved == 0 {
			a.remarkErr("note: nothing matches; ebb dead groups tells what there is, ebb job list --state parked what is parked")
		}
		return nil
	})
}

// remarkProbes tells which targets are called now for a redrive's sake.
func (a *app) remarkProbes(list []engine.Probe) {
	for i := range list {
		a.remarkProbe(&list[i])
	}
}

// finish sees an order through and tells how far it is, once a second.
func (a *app) finish(ctx context.Context, ops engine.Ops, r engine.Redrive) (engine.Redrive, error) {
	of := ""
	if r.Matching > 0 {
		of = fmt.Sprintf(" of %d", r.Matching)
	}
	var told time.Time
	tell := func(p engine.Redrive) {
		if now := a.now(); p.Done() || now.Sub(told) >= time.Second {
			told = now
			a.remarkErr("redrive %s: %d%s queued again", p.ID, p.Moved, of)
		}
	}
	done, err := ops.FinishRedrive(ctx, r.ID, tell)
	if err == nil && told.IsZero() { // it was done with the order
		tell(done)
	}
	done.Matching, done.Probes = r.Matching, r.Probes
	if err != nil && ctx.Err() != nil {
		a.remarkErr("redrive %s: interrupted after %d%s\nTry: ebb dead redrive --resume", r.ID, done.Moved, of)
	}
	return done, err
}

func (a *app) printDryRun(ctx context.Context, ops engine.Ops, o engine.Order, r engine.Redrive) error {
	if a.json {
		return a.printJSON(r)
	}
	what, more := "dead letter", ""
	if o.Filter.State != "" {
		what = "parked job"
	}
	if o.Rate > 0 && r.Matching > 1 {
		more = ", in " + span(time.Duration(float64(r.Matching-1)/o.Rate*float64(time.Second)).Round(time.Second))
	}
	fmt.Fprintf(a.stdout, "would queue %s again%s; nothing was changed\n", count(r.Matching, what), more)
	if o.Filter.State != "" || r.Matching == 0 {
		return nil
	}
	const most = 20
	groups, err := ops.Groups(ctx, o.Filter, engine.Page{Limit: most})
	if err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	return a.printGroups(groups)
}

// redriveResume goes on with every unfinished order.
func (a *app) redriveResume(c *cobra.Command, dryRun bool) error {
	return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
		orders, err := ops.Redrives(ctx, engine.MaxLimit)
		if err != nil {
			return err
		}
		list := []engine.Redrive{}
		for _, r := range orders {
			if r.Done() {
				break // the unfinished come first
			}
			if !dryRun {
				if r, err = a.finish(ctx, ops, r); err != nil {
					return err
				}
			}
			list = append(list, r)
			if !a.json {
				a.remarkOut("redrive %s of %s at %s: %s queued again%s", r.ID, r.Actor, stamp(r.CreatedAt), count(int(r.Moved), "job"), unfinished(&r))
			}
		}
		if a.json {
			return a.printJSON(map[string]any{"redrives": list})
		}
		if len(list) == 0 {
			a.remarkOut("no order is unfinished")
		}
		return nil
	})
}

func unfinished(r *engine.Redrive) string {
	if r.Done() {
		return ""
	}
	return ", unfinished"
}
