package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

func (a *app) jobCommand() *cobra.Command {
	c := group("job", "Jobs: enqueue, list, show, why, retry, cancel",
		`A job is one piece of work: a kind, which says what handles it, and arguments.
It waits in a queue until it is due and a worker for its kind has a free slot;
when it fails, its policy decides what happens next.`)
	c.AddCommand(
		a.jobEnqueueCommand(), a.jobListCommand(), a.jobShowCommand(), a.jobWhyCommand(), a.jobRetryCommand(), a.jobCancelCommand(),
	)
	return c
}

func (a *app) jobListCommand() *cobra.Command {
	var f filterFlags
	c := &cobra.Command{
		Use:   "list",
		Short: "List jobs, newest first",
		Example: `  ebb job list
  ebb job list --state queued --kind mail --since 1h
  ebb job list --limit 1000 --json`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.listJobs(c, &f, engine.Ops.Jobs)
		},
	}
	f.bind(c)
	c.Flags().StringVar(&f.state, "state", "", "only this state: "+strings.Join(texts(job.States()), ", "))
	bindPage(c, &f.page)
	return c
}

// listJobs asks for what the flags select and prints it.
func (a *app) listJobs(c *cobra.Command, f *filterFlags, question func(engine.Ops, context.Context, engine.Filter, engine.Page) (engine.Jobs, error)) error {
	filter, err := f.filter(a.now())
	if err != nil {
		return flagError(c, err)
	}
	return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
		list, err := question(ops, ctx, filter, f.page)
		if err != nil {
			return err
		}
		return a.printJobs(c, list)
	})
}

// printJobs writes a part of a list.
func (a *app) printJobs(c *cobra.Command, list engine.Jobs) error {
	if a.json {
		return a.printJSON(list)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tKIND\tQUEUE\tSTATE\tWHEN\tATTEMPTS\tLAST ERROR")
	for i := range list.Jobs {
		j := &list.Jobs[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", j.ID, cell(j.Kind), cell(j.Queue), stateCell(j), whenCell(j), j.Attempts, errorCell(j))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.more(c, list.Next)
	return nil
}

func stateCell(j *engine.Job) string {
	if j.Cause != "" {
		return fmt.Sprintf("%s (%s)", j.State, j.Cause)
	}
	return string(j.State)
}

// whenCell says what the state's instant is.
func whenCell(j *engine.Job) string {
	switch {
	case j.State == job.Queued:
		return "due " + stamp(j.DueAt)
	case j.State == job.Running:
		return "since " + stamp(j.LeasedAt)
	case !j.EndedAt.IsZero():
		return "ended " + stamp(j.EndedAt)
	}
	return "-"
}

func errorCell(j *engine.Job) string {
	if j.LastError == "" && j.LastClass == "" {
		return "-"
	}
	return cell(clip(withClass(j.LastClass, j.LastError), 60))
}

// withClass puts the class before an error that does not name it itself.
func withClass(class, err string) string {
	switch {
	case err == "":
		return class
	case class == "" || strings.HasPrefix(err, class+":"):
		return err
	}
	return class + ": " + err
}

// stamp writes an instant to the second, in UTC.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// until writes an instant before which nothing happens: rounded up, so that
// it never promises too much.
func until(t time.Time) string {
	if cut := t.Truncate(time.Second); cut.Before(t) {
		t = cut.Add(time.Second)
	}
	return stamp(t)
}

// cell keeps a text from breaking its table: one line, no control characters.
func cell(text string) string {
	if text == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}

// clip cuts a long text.
func clip(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return text
}

// texts writes values that are words.
func texts[T ~string](values []T) []string {
	var list []string
	for _, v := range values {
		list = append(list, string(v))
	}
	return list
}

func (a *app) jobWhyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why ID",
		Short: "Tell why a job is where it is and when it will run next",
		Long: `Tell in words why a job is where it is and when it will run next: what its last
start ended with, which rule of which policy decided, what it waits for (its due
time, a paused queue, a worker that knows its kind, jobs ahead of it), who holds
its lease, or what ended it and what brings it back.`,
		Example: "  ebb job why 000000000001a\n  ebb job why 000000000001a --json",
		Args:    exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				why, err := ops.Why(ctx, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(why)
				}
				fmt.Fprint(a.stdout, why.Text)
				return nil
			})
		},
	}
}

func (a *app) jobRetryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "retry ID",
		Short: "Queue a failed or parked job again, or make a waiting one due now",
		Long: `Queue a failed or parked job again: fresh attempts, same id. A job that waits
for its due time becomes due now and keeps what it has spent. If the breaker of its
target is open, or the target asked for a pause, the target is called now all the
same, as the probe. For many at once there is "ebb dead redrive".`,
		Example: "  ebb job retry 000000000001a",
		Args:    exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.order(c, args[0], engine.Ops.Retry, func(j *engine.Job) string {
				return fmt.Sprintf("%s is queued, due %s", j.ID, stamp(j.DueAt))
			})
		},
	}
}

func (a *app) jobCancelCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a job: a waiting one at once, a running one through its context",
		Long: `Cancel a job. One that waits ends at once. One that runs is told through its
context, with its worker's next heartbeat; it is not started again, whatever its
handler returns.`,
		Example: "  ebb job cancel 000000000001a",
		Args:    exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.order(c, args[0], engine.Ops.Cancel, func(j *engine.Job) string {
				if j.State == job.Running {
					return fmt.Sprintf("%s is running in process %d: told to stop", j.ID, j.Process)
				}
				return j.ID + " is cancelled"
			})
		},
	}
}

// order gives an order to one job and tells what became of it.
func (a *app) order(c *cobra.Command, id string, do func(engine.Ops, context.Context, string) (engine.Job, error), tell func(*engine.Job) string) error {
	return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
		j, err := do(ops, ctx, id)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(j)
		}
		a.remarkOut("%s", tell(&j))
		a.remarkProbe(j.Probe)
		return nil
	})
}

// flagError is a wrong value of a flag.
func flagError(c *cobra.Command, err error) error {
	return usage(fmt.Errorf("%s: %w", c.CommandPath(), err), c.CommandPath()+" --help")
}
