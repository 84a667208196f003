package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/fetch"
)

// lookAtFetch opens the ledger of a directory and its newest fetch.
func (a *app) lookAtFetch(c *cobra.Command, dir, name string, do func(ctx context.Context, s store.Store, f *fetch.Fetch) error) error {
	ctx := c.Context()
	if a.db == "" {
		if _, err := os.Stat(fetch.Ledger(dir)); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return &failed{code: exitNo, err: fmt.Errorf("fetch: %s: no ledger there: nothing was fetched into it", dir), try: "ebb fetch -i urls.txt -o " + dir}
		}
	}
	s, _, err := a.ledger(ctx, dir)
	if err != nil {
		return err
	}
	flags := fetchFlags{dir: dir, Name: name}
	if name, err = flags.name(); err == nil {
		var list []fetch.Fetch
		list, err = fetch.List(ctx, s, name, "", 1)
		switch {
		case err != nil:
		case len(list) == 0:
			err = &failed{code: exitNo, err: fmt.Errorf("fetch: %s: %w", dir, fetch.ErrNone), try: "ebb fetch -i urls.txt -o " + dir}
		default:
			err = do(ctx, s, &list[0])
		}
	}
	return interrupted(ctx, errors.Join(err, closed(s, err)))
}

func (a *app) fetchStatusCommand() *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:     "status DIR",
		Short:   "How far a fetch is",
		Long:    "Tell how far the newest fetch of a directory is: pages by outcome, waves, why it stopped. It may be under way.\nExit codes: 0 done; 1 there is none.",
		Example: "  ebb fetch status votes\n  ebb fetch status votes --json",
		Args:    exactly("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.lookAtFetch(c, args[0], name, func(ctx context.Context, s store.Store, f *fetch.Fetch) error {
				tally, err := fetch.Count(ctx, s, f)
				if err != nil && (f.Phase == fetch.Ended || !errors.Is(err, fetch.ErrUnbalanced)) { // it moves while we count
					return err
				}
				f.Tally = &tally
				if a.json {
					return a.printJSON(f)
				}
				return a.printFetch(f)
			})
		},
	}
	c.Flags().StringVar(&name, "name", "", "of the fetch (default: DIR's own name)")
	return c
}

// printFetch prints where a fetch stands, in few lines.
func (a *app) printFetch(f *fetch.Fetch) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "fetch\t%s, policy %s, %s\n", f.ID, f.Policy, f.Phase)
	t := f.Tally
	fmt.Fprintf(w, "pages\t%d, here %d (%.1f %%)\n", t.Input, t.OK+t.Unchanged, 100*t.Share())
	for _, o := range fetch.Outcomes() {
		if n := t.Of(o); n > 0 || o == fetch.OK {
			fmt.Fprintf(w, "  %s\t%d\n", o, n)
		}
	}
	for _, v := range slices.Concat(f.Earlier, f.Waves) {
		state := fmt.Sprintf("tried %d, recovered %d", v.Tried, v.Recovered)
		if v.EndedAt.IsZero() {
			state = "from " + v.StartAt.Local().Format("15:04:05") + " on"
		}
		fmt.Fprintf(w, "wave %d\tplanned %d, %s\n", v.Number, v.Planned, state)
	}
	if f.Stopped != "" {
		fmt.Fprintf(w, "stopped\t%s\n", f.Stopped)
	}
	if !f.EndedAt.IsZero() {
		fmt.Fprintf(w, "took\t%s\n", f.EndedAt.Sub(f.CreatedAt).Round(time.Millisecond))
	}
	return w.Flush()
}

func (a *app) fetchReportCommand() *cobra.Command {
	var name, format, out string
	c := &cobra.Command{
		Use:   "report DIR",
		Short: "The account of a fetch: is it complete, and why not",
		Long: `Account for every URL of the newest fetch of a directory: what is here, what is
not and why, what the waves recovered, and how it compares with the fetch before.
As text, Markdown, JSON or one HTML page; csv and jsonl are the manifest of what
is missing, with the context columns of the input, and can be fetched again.
Exit codes: 0 complete; 3 incomplete; 4 parked; 1 there is none.`,
		Example: "  ebb fetch report votes\n  ebb fetch report votes --format html --out votes.html\n  ebb fetch report votes --format csv > missing.csv",
		Args:    exactly("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.lookAtFetch(c, args[0], name, func(ctx context.Context, s store.Store, f *fetch.Fetch) error {
				r, err := fetch.Report(ctx, s, f)
				if err != nil {
					return err
				}
				if a.json {
					format = "json"
				}
				write, ok := map[string]func(io.Writer) error{
					"text": r.Text, "markdown": r.Markdown, "md": r.Markdown, "json": r.JSON, "html": r.HTML, "csv": r.CSV, "jsonl": r.JSONL,
				}[format]
				if !ok {
					return usage(fmt.Errorf("fetch report: --format %q", format), "text, markdown, json, html, csv or jsonl")
				}
				if out != "" {
					if err = writeFile(out, write); err != nil {
						err = &failed{code: exitNo, err: fmt.Errorf("fetch report: --out %s: %w", out, err), try: "a file in a directory that is there and can be written to"}
					}
				} else {
					err = write(a.stdout)
				}
				if err != nil || f.Tally == nil {
					return err
				}
				return verdictOf(f, args[0])
			})
		},
	}
	c.Flags().StringVar(&name, "name", "", "of the fetch (default: DIR's own name)")
	c.Flags().StringVar(&format, "format", "text", "text, markdown, json, html, csv or jsonl")
	c.Flags().StringVar(&out, "out", "", "file to write (default: standard output)")
	return c
}

// writeFile writes a file in one step.
func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".ebb-")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error counts
	}
	return err
}

func (a *app) fetchExplainCommand() *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "explain URL DIR",
		Short: "Why a page is here, or is not",
		Long: `Tell what became of one URL of the newest fetch of a directory: every try with
its failure, the decision that followed and its reason.
Exit codes: 0 done; 1 the fetch has no such URL.`,
		Example: "  ebb fetch explain https://example.org/a votes",
		Args:    exactly("URL", "DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.lookAtFetch(c, args[1], name, func(ctx context.Context, s store.Store, f *fetch.Fetch) error {
				return a.fetchExplain(ctx, s, f, args[0], args[1])
			})
		},
	}
	c.Flags().StringVar(&name, "name", "", "of the fetch (default: DIR's own name)")
	return c
}

func (a *app) fetchExplain(ctx context.Context, s store.Store, f *fetch.Fetch, url, dir string) error {
	page, err := fetch.Lookup(ctx, s, f, url)
	if errors.Is(err, store.ErrNotFound) {
		return &failed{code: exitNo, err: fmt.Errorf("fetch: %s is not in %s", url, f.ID), try: "ebb fetch report " + dir}
	}
	if err != nil {
		return err
	}
	policies, err := a.knownPolicies()
	if err != nil {
		return err
	}
	ops := engine.New(s, policies, engine.Config{Actor: a.actor()})
	why, err := ops.Why(ctx, page.Job.ID())
	if err != nil {
		return err
	}
	ledger, err := ops.Attempts(ctx, page.Job.ID())
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(struct {
			URL     string           `json:"url"`
			Outcome fetch.Outcome    `json:"outcome"`
			Kept    fetch.Kept       `json:"kept,omitzero"`
			Why     engine.Why       `json:"why"`
			Ledger  []engine.Attempt `json:"ledger"`
		}{page.Args.URL, page.Outcome, page.Kept, why, ledger})
	}
	fmt.Fprintf(a.stdout, "%s: %s\n", page.Args.URL, page.Outcome)
	if page.Kept.Path != "" {
		fmt.Fprintf(a.stdout, "kept as %s, %d bytes, sha256 %s\n", page.Kept.Path, page.Kept.Size, page.Kept.SHA256)
	}
	fmt.Fprint(a.stdout, why.Text)
	return a.printLedger(ledger, false)
}

func (a *app) fetchRetryCommand() *cobra.Command {
	var classes []string
	var name string
	c := &cobra.Command{
		Use:   "retry [--class WORD…] DIR",
		Short: "Try again what failed or is parked",
		Long: `Queue pages of the newest fetch of a directory again, with fresh tries and
waves, and fetch them. Without --class it is what another try may mend:
exhausted and soft. A word is an outcome (exhausted, soft, permanent, robots,
parked), a group of failures (transient, timeout, connection), a class (server,
refused, dns, …), or all.
Exit codes: as of ebb fetch.`,
		Example: "  ebb fetch retry votes\n  ebb fetch retry --class timeout --class server votes",
		Args:    exactly("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			f, _, err := a.keptFlags(c, args[0], name)
			if err != nil {
				return err
			}
			return a.fetching(c.Context(), f, func(ctx context.Context, o fetch.Options, show *fetchShow) (*fetch.Runner, error) {
				r, err := fetch.Resume(ctx, o)
				if err != nil {
					return nil, err
				}
				show.runner(r)
				words := strings.FieldsFunc(strings.Join(classes, ","), func(r rune) bool { return r == ',' })
				n, err := r.Again(ctx, words)
				if errors.Is(err, fetch.ErrWord) {
					return r, usage(err, c.CommandPath()+" --help")
				}
				if err == nil {
					a.remarkErr("%d pages are tried again", n)
				}
				return r, err
			})
		},
	}
	c.Flags().StringArrayVar(&classes, "class", nil, "what to try again; may be repeated")
	c.Flags().StringVar(&name, "name", "", "of the fetch (default: DIR's own name)")
	return c
}

// keptFlags are the newest fetch of a directory, and the flags that it began
// with.
func (a *app) keptFlags(c *cobra.Command, dir, name string) (*fetchFlags, *fetch.Fetch, error) {
	f := &fetchFlags{Policy: fetch.DefaultPolicy}
	var last *fetch.Fetch
	err := a.lookAtFetch(c, dir, name, func(_ context.Context, _ store.Store, now *fetch.Fetch) error {
		last = now
		if len(now.Settings) == 0 {
			return nil
		}
		return json.Unmarshal(now.Settings, f)
	})
	f.dir = dir
	if name != "" {
		f.Name = name
	}
	return f, last, err
}
