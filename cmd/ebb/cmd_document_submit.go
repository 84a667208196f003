package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/worker"
)

// submitFlags are what `ebb document submit` can be told.
type submitFlags struct {
	file, schema, prompt, promptText, system, model, out, policy string
	priority, concurrency                                        int
	run, wait                                                    bool
}

func (a *app) documentSubmitCommand() *cobra.Command {
	var f submitFlags
	c := &cobra.Command{
		Use:   "submit [GLOB…]",
		Short: "Submit documents to be processed",
		Long: `Submit documents: paths, patterns (*, ?, **) or URLs of objects (s3://BUCKET/KEY,
file:///DIR/FILE). Each becomes a job; rows and jobs are committed before this
returns. The result of KEY is OUT/KEY.json. A pipeline file (-f) names prompt, schema,
model, input, output and limits; what the command line names replaces it.

The jobs are done by "ebb serve". --wait waits until all have ended; --run does
the work in this process until then. Exit codes: 0 submitted, or all succeeded; 1 it
could not be done; 2 wrong usage; with --wait or --run: 3 some failed for good,
4 some are parked, waiting for a person.`,
		Example: `  ebb document submit 'in/*.pdf' --schema invoice.json --prompt prompt.md --model openai/gpt-4.1-mini --out results
  ebb document submit -f invoices.yaml --run
  ebb document submit 's3://docs/in/**/*.txt?region=eu-central-1' -f invoices.yaml --out 's3://docs/out?region=eu-central-1' --wait`,
		RunE: func(c *cobra.Command, args []string) error {
			in, err := f.submission(args)
			if err != nil {
				return documentError(c, err)
			}
			return a.askDocuments(c, true, func(ctx context.Context, ops document.Ops, here *paperwork) error {
				if f.run && here == nil {
					return usage(errors.New("document: --run works on a database; EBB_URL names a server"), "--wait, or --db")
				}
				return a.submitDocuments(ctx, ops, here, in, &f)
			})
		},
	}
	flags := c.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "pipeline file (YAML)")
	flags.StringVar(&f.schema, "schema", "", "file with the JSON Schema that answers must pass")
	flags.StringVar(&f.prompt, "prompt", "", "file with the prompt's template: {{.Text}}, {{.Name}}, {{.Schema}}")
	flags.StringVar(&f.promptText, "prompt-text", "", "the prompt's template itself")
	flags.StringVar(&f.system, "system", "", "instructions before the prompt")
	flags.StringVar(&f.model, "model", "", "PROVIDER/MODEL, such as openai/gpt-4.1-mini")
	flags.StringVar(&f.out, "out", "", "directory or URL for the results")
	flags.StringVar(&f.policy, "policy", "", "retry policy (default processing)")
	flags.IntVar(&f.priority, "priority", 0, "0 goes first, 9 last")
	flags.BoolVar(&f.run, "run", false, "do the work here, until all have ended")
	flags.BoolVar(&f.wait, "wait", false, "wait until all have ended")
	flags.IntVar(&f.concurrency, "concurrency", 20, "with --run: documents at once")
	c.MarkFlagsMutuallyExclusive("run", "wait")
	c.MarkFlagsMutuallyExclusive("prompt", "prompt-text")
	return c
}

// submission joins the pipeline file with the command line.
func (f *submitFlags) submission(inputs []string) (document.Submission, error) {
	var in document.Submission
	var err error
	if f.file != "" {
		if in, err = document.ReadFile(f.file); err != nil {
			return in, usage(err, "mend the file; docs/documents.md has the keys")
		}
	}
	for _, given := range []struct {
		text string
		into *string
	}{{f.model, &in.Model}, {f.policy, &in.Policy}, {f.system, &in.System}, {f.promptText, &in.Prompt}} {
		if given.text != "" {
			*given.into = given.text
		}
	}
	if f.prompt != "" {
		b, err := os.ReadFile(f.prompt)
		if err != nil {
			return in, usage(fmt.Errorf("document: --prompt: %w", err), "--prompt-text TEXT")
		}
		in.Prompt = string(b)
	}
	if f.schema != "" {
		if in.Schema, err = os.ReadFile(f.schema); err != nil {
			return in, usage(fmt.Errorf("document: --schema: %w", err), "--schema FILE")
		}
	}
	if len(inputs) > 0 {
		in.Inputs = nil
	}
	for _, at := range inputs {
		at, err := document.LocalURL(".", at)
		if err != nil {
			return in, err
		}
		in.Inputs = append(in.Inputs, at)
	}
	if f.out != "" {
		if in.Output, err = document.LocalURL(".", f.out); err != nil {
			return in, err
		}
	}
	in.Priority = f.priority
	return in, nil
}

func (a *app) submitDocuments(ctx context.Context, ops document.Ops, here *paperwork, in document.Submission, f *submitFlags) error {
	b, err := ops.Submit(ctx, in)
	if err != nil {
		return err
	}
	if !f.run && !f.wait {
		if a.json {
			return a.printJSON(b)
		}
		fmt.Fprintf(a.stdout, "batch %s: %s for %s; results go to %s\n", b.ID, count(b.Documents, "document"), b.Model, b.Output)
		a.remarkErr("look with: ebb document status %s", b.ID)
		return nil
	}
	a.remarkErr("batch %s: %s for %s", b.ID, count(b.Documents, "document"), b.Model)
	if f.run {
		stop, err := a.workHere(ctx, here, f.concurrency)
		if err != nil {
			return err
		}
		defer stop()
	}
	sum, err := a.awaitBatch(ctx, ops, b)
	if err != nil {
		return err
	}
	return a.tellBatch(b, sum)
}

// workHere runs a worker for documents, and their upkeep, until it is stopped.
func (a *app) workHere(ctx context.Context, here *paperwork, concurrency int) (stop func(), err error) {
	w, err := worker.New(here.store, worker.Config{
		Handlers: map[string]worker.Handler{document.Kind: here.service.Handle}, Queues: []string{document.Queue}, Policies: here.policies,
		Observe: here.service.Observe, Concurrency: concurrency, Clock: here.clock, Version: currentVersion(), Settings: "document=" + here.settings.Document.Fingerprint(a.lookup) + ";",
	})
	if err != nil {
		return nil, usage(err, "ebb policy check")
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.WithoutCancel(ctx)) }()
	upkeep, rest := context.WithCancel(context.WithoutCancel(ctx))
	kept := make(chan error, 1)
	go func() { kept <- here.service.Run(upkeep) }()
	return func() {
		w.Stop()
		if ctx.Err() != nil {
			w.Stop() // a person asked: what runs is given up and done again later
		}
		if err := <-ended; err != nil {
			a.remarkErr("ebb: document: worker: %v", err)
		}
		rest()
		<-kept
		for more := true; more && ctx.Err() == nil; {
			if more, err = here.service.Fold(ctx); err != nil {
				return // the next server does it
			}
		}
	}, nil
}

// batchSum is how a batch stands.
type batchSum struct {
	states map[job.State]int
	cost   float64
	tokens int64
	due    time.Time // the earliest of what waits
}

func (s *batchSum) left() int { return s.states[job.Queued] + s.states[job.Running] }

func sumBatch(ctx context.Context, ops document.Ops, id string) (batchSum, error) {
	sum := batchSum{states: map[job.State]int{}}
	f := document.Filter{Batch: id, Limit: engine.MaxLimit}
	for {
		part, err := ops.Documents(ctx, f)
		if err != nil {
			return sum, err
		}
		for i := range part.Documents {
			d := &part.Documents[i]
			sum.states[d.State]++
			sum.cost += d.Cost
			sum.tokens += d.Usage.Input + d.Usage.Output
			if !d.DueAt.IsZero() && (sum.due.IsZero() || d.DueAt.Before(sum.due)) {
				sum.due = d.DueAt
			}
		}
		if f.Cursor = part.Next; f.Cursor == "" {
			return sum, nil
		}
	}
}

// awaitEvery is how often a batch is looked at.
const awaitEvery = 500 * time.Millisecond

func (a *app) awaitBatch(ctx context.Context, ops document.Ops, b document.Batch) (batchSum, error) {
	told := 0
	for {
		sum, err := sumBatch(ctx, ops, b.ID)
		if err != nil || sum.left() == 0 {
			return sum, err
		}
		if ended := b.Documents - sum.left(); ended >= told+max(1, b.Documents/10) {
			told = ended
			a.remarkErr("%d of %d have ended", ended, b.Documents)
		}
		if err := clock.Sleep(ctx, clock.System{}, awaitEvery); err != nil {
			return sum, err
		}
	}
}

// tellBatch prints how a batch ended; its exit code says whether all succeeded.
func (a *app) tellBatch(b document.Batch, sum batchSum) error {
	if a.json {
		states := map[string]int{}
		for s, n := range sum.states {
			states[string(s)] = n
		}
		if err := a.printJSON(map[string]any{"batch": b, "states": states, "tokens": sum.tokens, "cost": sum.cost}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.stdout, "batch %s: %s; %s, %s\n", b.ID, statesCell(sum.states), count(int(sum.tokens), "token"), dollars(sum.cost))
	}
	switch {
	case sum.states[job.Failed]+sum.states[job.Cancelled] > 0:
		return &failed{code: exitIncomplete, err: fmt.Errorf("document: %s of %s did not succeed", count(sum.states[job.Failed]+sum.states[job.Cancelled], "document"), b.ID), try: "ebb document status " + b.ID + " --state failed"}
	case sum.states[job.Parked] > 0:
		return &failed{code: exitParked, err: fmt.Errorf("document: %s of %s wait for a person", count(sum.states[job.Parked], "document"), b.ID), try: "ebb document status " + b.ID + " --state parked"}
	}
	return nil
}
