package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/work/document"
)

// resultLine is one result, a line each.
type resultLine struct {
	Document string          `json:"document"`
	Input    string          `json:"input"`
	Output   string          `json:"output"`
	Result   json.RawMessage `json:"result"`
}

func (a *app) documentResultsCommand() *cobra.Command {
	var raw, drop bool
	c := &cobra.Command{
		Use:   "results BATCH|DOCUMENT",
		Short: "Print results, one JSON object a line",
		Long: `Print the results of a batch, one JSON object a line with document, input, output
and result; or the result of a document alone. With --raw, what is kept of an answer
that broke its schema; --drop-raw forgets it.

Exit codes: 0 all there is; 1 no such batch or document, or no result yet; 3 some
of the batch have no result.`,
		Example: `  ebb document results d20260221t090000-k3v9qa > results.jsonl
  ebb document results d20260221t090000-k3v9qa-000017
  ebb document results d20260221t090000-k3v9qa-000017 --raw`,
		Args: exactly("BATCH|DOCUMENT"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.askDocuments(c, false, func(ctx context.Context, ops document.Ops, _ *paperwork) error {
				id := args[0]
				switch {
				case (raw || drop) && !isDocument(id):
					return usage(fmt.Errorf("document: --raw and --drop-raw are of one document; %s is a batch", id), "ebb document status "+id+" --state failed")
				case drop:
					return ops.DropRaw(ctx, id)
				case raw:
					return a.printRaw(ctx, ops, id)
				case isDocument(id):
					got, err := ops.Result(ctx, id)
					if err != nil {
						return err
					}
					_, err = a.stdout.Write(got)
					return err
				}
				return a.printResults(ctx, ops, id)
			})
		},
	}
	c.Flags().BoolVar(&raw, "raw", false, "what the model said that was refused")
	c.Flags().BoolVar(&drop, "drop-raw", false, "forget it")
	c.MarkFlagsMutuallyExclusive("raw", "drop-raw")
	return c
}

func (a *app) printRaw(ctx context.Context, ops document.Ops, id string) error {
	got, err := ops.Raw(ctx, id)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(got)
	}
	a.remarkErr("%s: %s", got.Reason, got.Error)
	fmt.Fprintln(a.stdout, got.Text)
	if got.Cut {
		a.remarkErr("the rest was cut")
	}
	return nil
}

func (a *app) printResults(ctx context.Context, ops document.Ops, batch string) error {
	missing := 0
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	f := document.Filter{Batch: batch, Limit: engine.MaxLimit}
	for {
		part, err := ops.Documents(ctx, f)
		if err != nil {
			return err
		}
		for i := range part.Documents {
			d := &part.Documents[i]
			if d.State != job.Succeeded {
				missing++
				continue
			}
			got, err := ops.Result(ctx, d.ID)
			if err != nil {
				return err
			}
			if err := e.Encode(resultLine{d.ID, d.Input, d.Output, got}); err != nil {
				return err
			}
		}
		if f.Cursor = part.Next; f.Cursor == "" {
			break
		}
	}
	if missing > 0 {
		return &failed{code: exitIncomplete, err: fmt.Errorf("document: %s: %s no result", batch, have(missing)), try: "ebb document status " + batch}
	}
	return nil
}

func have(n int) string {
	if n == 1 {
		return "1 document has"
	}
	return fmt.Sprintf("%d documents have", n)
}

func (a *app) documentRequeueCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use:   "requeue BATCH | DOCUMENT…",
		Short: "Queue failed or parked documents again, with fresh attempts",
		Long: `Queue the failed documents of a batch again, or the named documents, with fresh
attempts. What a model has answered and was kept is not asked again; a document that
failed for its answer is asked about anew.`,
		Example: `  ebb document requeue d20260221t090000-k3v9qa
  ebb document requeue d20260221t090000-k3v9qa --state parked
  ebb document requeue d20260221t090000-k3v9qa-000017`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(errors.New("document requeue: wants a BATCH, or DOCUMENTs"), c.CommandPath()+" --help")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o := document.Selection{State: state}
			if len(args) == 1 && !isDocument(args[0]) {
				o.Batch = args[0]
			} else {
				o.IDs = args
			}
			return a.askDocuments(c, false, func(ctx context.Context, ops document.Ops, _ *paperwork) error {
				got, err := ops.Requeue(ctx, o)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(got)
				}
				fmt.Fprintf(a.stdout, "%s queued again\n", count(len(got.Documents), "document"))
				return nil
			})
		},
	}
	c.Flags().StringVar(&state, "state", "failed", "of a batch: those that are failed, or parked")
	return c
}

func (a *app) documentUsageCommand() *cobra.Command {
	var from, to string
	c := &cobra.Command{
		Use:     "usage",
		Short:   "Tell calls, tokens and cost by day, provider and model",
		Example: "  ebb document usage\n  ebb document usage --from 2026-02-01 --to 2026-02-28 --json",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.askDocuments(c, false, func(ctx context.Context, ops document.Ops, _ *paperwork) error {
				list, err := ops.Usage(ctx, from, to)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]any{"usage": list})
				}
				w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "DAY\tPROVIDER\tMODEL\tCALLS\tTOKENS IN\tTOKENS OUT\tCOST")
				for i := range list {
					s := &list[i]
					fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", s.Day, cell(s.Provider), cell(s.Model), s.Calls, s.Input, s.Output, dollars(s.Cost))
				}
				return w.Flush()
			})
		},
	}
	c.Flags().StringVar(&from, "from", "", "first day (UTC), such as 2026-02-01 (default --to)")
	c.Flags().StringVar(&to, "to", "", "last day (default today)")
	return c
}
