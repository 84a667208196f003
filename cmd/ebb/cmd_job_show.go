package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
)

// shownJob is `job show --json`: the job with its ledger.
type shownJob struct {
	engine.Job
	Ledger []engine.Attempt `json:"ledger"`
}

func (a *app) jobShowCommand() *cobra.Command {
	var stacks bool
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show a job with its ledger: every start, what it ended with, what was decided",
		Example: `  ebb job show 000000000001a
  ebb job show 000000000001a --stack
  ebb job show 000000000001a --json`,
		Args: exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
				j, err := ops.Job(ctx, args[0])
				if err != nil {
					return err
				}
				ledger, err := ops.Attempts(ctx, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(shownJob{Job: j, Ledger: ledger})
				}
				a.printJob(&j)
				return a.printLedger(ledger, stacks)
			})
		},
	}
	c.Flags().BoolVar(&stacks, "stack", false, "also show the stacks of panics")
	return c
}

func (a *app) printJob(j *engine.Job) {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" && value != "-" {
			fmt.Fprintf(w, "%s\t%s\n", name, cell(value))
		}
	}
	line("id", j.ID)
	line("kind", j.Kind)
	line("queue", j.Queue)
	line("state", stateCell(j))
	line("target", j.Target)
	line("key", keyCell(j))
	line("unique", j.Unique)
	line("batch", j.Batch)
	line("policy", policyCell(j))
	line("priority", strconv.Itoa(j.Priority))
	line("enqueued", stamp(j.EnqueuedAt))
	line("due", stamp(j.DueAt))
	line("deadline", stamp(j.DeadlineAt))
	line("ended", stamp(j.EndedAt))
	if j.Starts > 0 {
		line("starts", fmt.Sprintf("%d, of them %d counted as attempts", j.Starts, j.Attempts))
	}
	if j.Held > 0 {
		line("held", seconds(j.Held)+" before its starts by an open breaker or an empty budget; counts towards max_hold")
	}
	if j.Process != 0 {
		line("lease", fmt.Sprintf("process %d since %s", j.Process, stamp(j.LeasedAt)))
	}
	line("last failure", withClass(j.LastClass, j.LastError))
	line("fingerprint", j.Fingerprint)
	line("args", bytesCell(j.Args, j.ArgsBase64))
	line("progress", bytesCell(j.Progress, j.ProgressBase64))
	line("result", bytesCell(j.Result, j.ResultBase64))
	line("trace", j.Trace)
	_ = w.Flush() // to standard output, whose errors show at the end
}

func keyCell(j *engine.Job) string {
	text := j.Key
	if j.KeyRule != "" {
		text += fmt.Sprintf(" (a failed one: %s)", j.KeyRule)
	}
	if j.Blocked {
		text += ", behind an earlier one"
	}
	return text
}

func policyCell(j *engine.Job) string {
	if j.PolicyVersion == "" {
		return j.Policy
	}
	return fmt.Sprintf("%s (decided last by version %s)", j.Policy, j.PolicyVersion)
}

func bytesCell(raw json.RawMessage, other []byte) string {
	if len(other) > 0 {
		return fmt.Sprintf("%d bytes that are not JSON", len(other))
	}
	return clip(string(raw), 200)
}

func (a *app) printLedger(ledger []engine.Attempt, stacks bool) error {
	if len(ledger) == 0 {
		a.remarkOut("no start yet")
		return nil
	}
	fmt.Fprintln(a.stdout)
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	held := slices.ContainsFunc(ledger, func(s engine.Attempt) bool { return s.HeldBy != "" })
	head := "START\tPROCESS\tBEGAN\tTOOK\tENDED WITH\tDECIDED\tRULE\tPOLICY"
	if held {
		head += "\tHELD BEFORE"
	}
	fmt.Fprintln(w, head)
	for i := range ledger {
		s := &ledger[i]
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s", s.Start, s.Process, stamp(s.StartedAt), span(s.EndedAt.Sub(s.StartedAt).Round(time.Millisecond)),
			outcomeCell(s), decidedCell(s), cell(s.Rule), cell(s.PolicyVersion))
		if held {
			fmt.Fprint(w, "\t", heldBeforeCell(s))
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range ledger {
		if s := &ledger[i]; stacks && s.Stack != "" {
			fmt.Fprintf(a.stdout, "\nstack of start %d:\n%s\n", s.Start, strings.TrimRight(s.Stack, "\n"))
		}
	}
	return nil
}

// heldBeforeCell says what kept the start waiting though it was due.
func heldBeforeCell(s *engine.Attempt) string {
	if s.HeldBy == "" {
		return "-"
	}
	return fmt.Sprintf("%s by %s", seconds(s.Held), cell(s.HeldBy))
}

func outcomeCell(s *engine.Attempt) string {
	if s.OK {
		return "success"
	}
	text := s.Class
	if s.Reason != "" {
		text += "/" + s.Reason
	}
	if s.Status != 0 {
		text += " " + strconv.Itoa(s.Status)
	}
	if err := strings.TrimPrefix(s.Error, s.Class+": "); err != "" {
		text += ": " + err
	}
	return cell(clip(text, 60))
}

func decidedCell(s *engine.Attempt) string {
	switch {
	case s.OK:
		return "-"
	case !s.DueAt.IsZero():
		return fmt.Sprintf("%s after %s", s.Action, span(time.Duration(s.Delay*float64(time.Second)).Round(10*time.Millisecond)))
	case s.Cause != "":
		return fmt.Sprintf("%s (%s)", s.Action, s.Cause)
	}
	return cell(s.Action)
}
