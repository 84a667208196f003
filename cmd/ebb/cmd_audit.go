package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
)

func (a *app) auditCommand() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:   "audit",
		Short: "List who ordered what: pauses, retries, redrives, tokens, logins",
		Long: `List who ordered what, newest first: pauses, limits, retries, cancels, redrives,
schedules, endpoints, runs, tokens, logins. Enqueues over the API are counted, one
row an hour for each token and queue.

Whether a policy's promise was kept is asked with ebb policy audit.`,
		Example: "  ebb audit\n  ebb audit --limit 1000 --json",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				list, err := ops.Acts(ctx, limit)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]any{"acts": list})
				}
				w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "AT\tWHO\tACT\tWHAT\tDETAIL")
				for _, act := range list {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", stamp(act.At), cell(act.Actor), act.Act, cell(act.What), cell(act.Detail))
				}
				return w.Flush()
			})
		},
	}
	bindLimit(c, &limit)
	return c
}
