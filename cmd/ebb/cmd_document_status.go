package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/work/document"
)

func (a *app) documentStatusCommand() *cobra.Command {
	var f document.Filter
	c := &cobra.Command{
		Use:   "status [BATCH|DOCUMENT]",
		Short: "Tell how batches, a batch or a document stand",
		Long: `Without an argument: the batches, newest first, and how far each is. Of a batch:
each document with its state, attempts, when it is due next (due_at) and what went
wrong last. Of a document: everything that is remembered.`,
		Example: `  ebb document status
  ebb document status d20260221t090000-k3v9qa --state failed
  ebb document status d20260221t090000-k3v9qa-000017 --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if f.State+f.Cursor != "" && (len(args) == 0 || isDocument(args[0])) {
				return usage(errors.New("document status: --state and --cursor are of a batch"), "ebb document status BATCH --state failed")
			}
			return a.askDocuments(c, false, func(ctx context.Context, ops document.Ops, _ *paperwork) error {
				switch {
				case len(args) == 0:
					return a.listBatches(ctx, ops, f.Limit)
				case isDocument(args[0]):
					return a.showDocument(ctx, ops, args[0])
				}
				f.Batch = args[0]
				return a.listDocuments(ctx, ops, f)
			})
		},
	}
	c.Flags().StringVar(&f.State, "state", "", "of a batch: only documents in this state")
	c.Flags().StringVar(&f.Cursor, "cursor", "", "of a batch: go on after this document")
	bindLimit(c, &f.Limit)
	return c
}

func (a *app) listBatches(ctx context.Context, ops document.Ops, limit int) error {
	list, err := ops.Batches(ctx, limit)
	if err != nil {
		return err
	}
	type batch struct {
		document.Batch
		States map[job.State]int `json:"states"`
		Cost   float64           `json:"cost"`
	}
	all := make([]batch, len(list))
	for i := range list {
		sum, err := sumBatch(ctx, ops, list[i].ID)
		if err != nil {
			return err
		}
		all[i] = batch{list[i], sum.states, sum.cost}
	}
	if a.json {
		return a.printJSON(map[string]any{"batches": all})
	}
	if len(all) == 0 {
		a.remarkErr("nothing was submitted yet: ebb document submit --help")
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BATCH\tNAME\tMODEL\tSUBMITTED\tDOCUMENTS\tSTATES\tCOST")
	for i := range all {
		b := &all[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", b.ID, cell(b.Name), cell(b.Model), stamp(b.SubmittedAt), b.Documents, statesCell(b.States), dollars(b.Cost))
	}
	return w.Flush()
}

// statesCell tells how many are in each state.
func statesCell(states map[job.State]int) string {
	var parts []string
	for _, s := range document.States() {
		if n := states[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

func dollars(cost float64) string { return fmt.Sprintf("$%.4f", cost) }

func (a *app) listDocuments(ctx context.Context, ops document.Ops, f document.Filter) error {
	list, err := ops.Documents(ctx, f)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(list)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DOCUMENT\tSTATE\tSTAGE\tATTEMPTS\tDUE AT\tCOST\tINPUT\tLAST FAILURE")
	for i := range list.Documents {
		d := &list.Documents[i]
		due := "-"
		if !d.DueAt.IsZero() {
			due = stamp(d.DueAt)
		}
		state := string(d.State)
		if d.Cause != "" {
			state += " (" + string(d.Cause) + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", d.ID, state, d.Stage, d.Attempts, due, dollars(d.Cost), cell(d.Input), cell(clip(withClass(d.Class, d.Error), 80)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if list.Next != "" {
		a.remarkErr("more: ebb document status %s --cursor %s", f.Batch, list.Next)
	}
	return nil
}

func (a *app) showDocument(ctx context.Context, ops document.Ops, id string) error {
	d, err := ops.Document(ctx, id)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(d)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	row("document", "%s", d.ID)
	row("batch", "%s", d.Batch)
	row("job", "%s (ebb job why %s)", d.Job, d.Job)
	row("state", "%s %s", d.State, d.Cause)
	row("stage", "%s", d.Stage)
	if !d.DueAt.IsZero() {
		row("due at", "%s", stamp(d.DueAt))
	}
	row("attempts", "%d by policy %s", d.Attempts, d.Policy)
	row("input", "%s", d.Input)
	row("output", "%s", d.Output)
	row("model", "%s, answered %s", d.Model, count(d.Calls, "time"))
	row("tokens", "%d in, %d out, %s", d.Usage.Input, d.Usage.Output, dollars(d.Cost))
	if len(d.Normalised) > 0 {
		row("normalised", "%s", strings.Join(texts(d.Normalised), ", "))
	}
	if d.Error != "" {
		row("last failure", "%s", cell(withClass(d.Class, d.Error)))
	}
	if d.Raw > 0 {
		row("raw answer", "%d bytes, %s (ebb document results %s --raw)", d.Raw, d.Invalid, d.ID)
	}
	return w.Flush()
}
