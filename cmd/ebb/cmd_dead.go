package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
)

func (a *app) deadCommand() *cobra.Command {
	c := group("dead", "Dead letters: list, groups, redrive",
		`A dead letter is a job that failed for good. It is kept, with everything that
happened to it, until somebody orders it to be queued again. Parked jobs, which
wait for a person or a change of configuration, are ordered the same way, with
--parked.`)
	c.AddCommand(a.deadListCommand(), a.deadGroupsCommand(), a.deadRedriveCommand())
	return c
}

func (a *app) deadListCommand() *cobra.Command {
	var f filterFlags
	c := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, newest first",
		Example: `  ebb dead list
  ebb dead list --kind mail --class server --since 24h
  ebb dead list --parked`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.listJobs(c, &f, engine.Ops.Dead)
		},
	}
	f.bind(c)
	c.Flags().BoolVar(&f.parked, "parked", false, "parked jobs instead of dead letters")
	bindPage(c, &f.page)
	return c
}

func (a *app) deadGroupsCommand() *cobra.Command {
	var f filterFlags
	c := &cobra.Command{
		Use:   "groups",
		Short: "Group dead letters by what went wrong, most first",
		Long: `Group dead letters by what went wrong: the same class, reason and error but for
its variable parts (numbers, ids, addresses), in the same kind and queue. The
fingerprint names a group: "ebb dead redrive --fingerprint F".`,
		Example: "  ebb dead groups\n  ebb dead groups --kind mail --json",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			filter, err := f.filter(a.now())
			if err != nil {
				return flagError(c, err)
			}
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				list, err := ops.Groups(ctx, filter, engine.Page{Limit: f.page.Limit})
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]any{"groups": list})
				}
				return a.printGroups(list)
			})
		},
	}
	f.bind(c)
	bindLimit(c, &f.page.Limit)
	return c
}

func (a *app) printGroups(list []engine.Group) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COUNT\tFINGERPRINT\tKIND\tQUEUE\tCAUSE\tCLASS\tFIRST\tLAST\tERROR OF THE LAST")
	for i := range list {
		g := &list[i]
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.Count, cell(g.Fingerprint), cell(g.Kind), cell(g.Queue), g.Cause, cell(g.Class),
			stamp(g.FirstAt), stamp(g.LastAt), cell(clip(g.Error, 60)))
	}
	return w.Flush()
}
