package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

func (a *app) queueCommand() *cobra.Command {
	c := group("queue", "Queues: list, pause, resume, limit, explain",
		`A queue is where jobs wait. Its name is made by the first job put there. A
paused queue starts nothing; what runs already runs on. A limited one starts only
so many at once or a second, over all processes. A strict queue runs one job at a
time, in order.`)
	c.AddCommand(a.queueListCommand(), a.queuePauseCommand(), a.queueResumeCommand(), a.queueLimitCommand(), a.queueExplainCommand())
	return c
}

func (a *app) queueListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List queues with what is in them",
		Example: "  ebb queue list\n  ebb queue list --json",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				list, err := ops.Queues(ctx)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]any{"queues": list})
				}
				w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "QUEUE\tQUEUED\tRUNNING\tPARKED\tFAILED\tSUCCEEDED\tCANCELLED\tEARLIEST DUE\tSTATE")
				for i := range list {
					q := &list[i]
					n := q.Counts
					fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", cell(q.Name), n[job.Queued], n[job.Running], n[job.Parked],
						n[job.Failed], n[job.Succeeded], n[job.Cancelled], stamp(q.DueAt), queueCell(q))
				}
				return w.Flush()
			})
		},
	}
}

func queueCell(q *engine.Queue) string {
	text := "open"
	if q.Paused {
		text = "paused"
	}
	if q.Strict {
		text += ", strict"
	}
	if q.Limit != nil {
		text += ", limited to " + limitCell(q.Limit)
	}
	return text
}

func (a *app) queuePauseCommand() *cobra.Command {
	return a.queueSwitch("pause QUEUE", "Start nothing of a queue until it is resumed",
		"  ebb queue pause mail", engine.Ops.PauseQueue)
}

func (a *app) queueResumeCommand() *cobra.Command {
	return a.queueSwitch("resume QUEUE", "Let a paused queue go on",
		"  ebb queue resume mail", engine.Ops.ResumeQueue)
}

func (a *app) queueSwitch(use, short, example string, do func(engine.Ops, context.Context, string) (engine.Queue, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example, Args: exactly("QUEUE"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				q, err := do(ops, ctx, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(q)
				}
				a.remarkOut("queue %s is %s: %d queued, %d running", q.Name, queueCell(&q), q.Counts[job.Queued], q.Counts[job.Running])
				if q.Paused && holdsNothing(&q) {
					a.remarkErr("note: no job of this queue is known; it stays paused for those to come. ebb queue list shows all queues")
				}
				return nil
			})
		},
	}
}

// holdsNothing reports whether no job of the queue is known in any state.
func holdsNothing(q *engine.Queue) bool {
	for _, n := range q.Counts {
		if n > 0 {
			return false
		}
	}
	return true
}

func (a *app) queueExplainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain QUEUE",
		Short: "Tell what is in a queue, who serves it, and why nothing moves",
		Long: `Tell how many jobs of a queue are in which state, how long the oldest due one
has waited, which workers serve it with which kinds and, if nothing moves, why.`,
		Example: "  ebb queue explain default\n  ebb queue explain default --json",
		Args:    exactly("QUEUE"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				q, err := ops.ExplainQueue(ctx, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(q)
				}
				fmt.Fprint(a.stdout, q.Text)
				return a.printWorkers(q.Workers)
			})
		},
	}
}

func (a *app) printWorkers(list []engine.Worker) error {
	if len(list) == 0 {
		return nil
	}
	fmt.Fprintln(a.stdout)
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROCESS\tHOST\tPID\tSEEN\tALIVE\tKINDS")
	for i := range list {
		p := &list[i]
		alive := "yes"
		if !p.Alive {
			alive = "no"
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%s\n", p.Process, cell(p.Host), p.PID, stamp(p.SeenAt), alive, cell(clip(strings.Join(p.Kinds, ", "), 80)))
	}
	return w.Flush()
}
