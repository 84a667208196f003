package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/supervise"
)

// askRuns opens where runs are kept: the ledger of --dir or of this directory
// where there is one and no --db is named, else the database. A server is not
// asked: what is here would be taken for what it has.
func (a *app) askRuns(c *cobra.Command, f *superviseFlags, create bool, do func(context.Context, *supervise.Service) error) error {
	ctx := c.Context()
	policies, err := a.knownPolicies()
	if err != nil {
		return err
	}
	db, err := a.runDatabase(c, f)
	if err != nil {
		return err
	}
	if !create && db.missing() {
		return &failed{code: exitNo, err: fmt.Errorf("supervise: %s: %w", db.shown, errAbsent), try: "ebb supervise -- COMMAND…; of a run elsewhere: --dir DIR, or --db URL"}
	}
	s, err := db.open(ctx)
	if err != nil {
		return interrupted(ctx, db.unreachable(err))
	}
	err = a.withRuns(ctx, s, policies, do)
	return interrupted(ctx, errors.Join(err, closed(s, err)))
}

func (a *app) withRuns(ctx context.Context, s store.Store, policies []policy.Policy, do func(context.Context, *supervise.Service) error) error {
	service, err := supervise.New(supervise.Config{Store: s, Policies: policies, Self: []string{"ebb"}})
	if err != nil {
		return usage(fmt.Errorf("supervise: %w", err), "ebb policy check")
	}
	err = do(ctx, service)
	var f *failed
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.Is(err, store.ErrNotFound):
		return &failed{code: exitNo, err: err, try: "ebb supervise list"}
	}
	return &failed{code: exitNo, err: err, try: "ebb supervise list, to see how it stands"}
}

func (a *app) runDatabase(c *cobra.Command, f *superviseFlags) (database, error) {
	at := ledger(f.dir)
	if _, err := os.Stat(at); a.db == "" && (f.dir != "" || err == nil) {
		return sqliteDatabase(at), nil
	}
	return a.ownDatabase(c)
}

// submitRun queues a run for a server.
func (a *app) submitRun(c *cobra.Command, spec supervise.Spec, queue string) error {
	return a.askRuns(c, &superviseFlags{}, true, func(ctx context.Context, s *supervise.Service) error {
		got, err := s.Submit(ctx, time.Time{}, supervise.Submission{Spec: spec, Queue: queue, Actor: a.actor()})
		if errors.Is(err, supervise.ErrLive) { // the same name again is an order to change it
			state, changeErr := s.Change(ctx, time.Time{}, a.actor(), spec)
			if changeErr != nil {
				return &failed{code: exitNo, err: changeErr, try: "ebb supervise show " + spec.Name}
			}
			return a.tellRun(spec.Name, "", state)
		}
		if err != nil {
			return err
		}
		return a.tellRun(spec.Name, job.FormatID(got[0].Seq), job.Queued)
	})
}

func (a *app) tellRun(name, id string, state job.State) error {
	if a.json {
		return a.printJSON(map[string]string{"run": name, "job": id, "state": string(state)})
	}
	fmt.Fprintf(a.stdout, "run %s: %s\n", name, state)
	return nil
}

func (a *app) superviseListCommand(f *superviseFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List runs with how far they are", Args: exactly(),
		Example: "  ebb supervise list\n  ebb supervise list --dir /srv/crawls/hc --json",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.askRuns(c, f, false, func(ctx context.Context, s *supervise.Service) error {
				runs, err := s.List(ctx)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]any{"runs": runs})
				}
				w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "RUN\tSTATE\tREASON\tUNITS\tRESTARTS\tLEFT\tLAST PROGRESS\tWORKERS")
				for i := range runs {
					r := &runs[i]
					fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%d\n", r.Name, r.State, cell(r.Reason), r.Units, r.RestartsUsed, r.RestartsLeft, stamp(r.ProgressAt), r.Workers)
				}
				return w.Flush()
			})
		},
	}
}

// oneRun is the run named, or the only one there is.
func oneRun(ctx context.Context, s *supervise.Service, args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	runs, err := s.List(ctx)
	if err != nil {
		return "", err
	}
	switch len(runs) {
	case 0:
		return "", usage(errors.New("supervise: there is no run yet"), "ebb supervise -- COMMAND; --db or --dir for those kept elsewhere")
	case 1:
		return runs[0].Name, nil
	default:
		return "", usage(fmt.Errorf("supervise: %d runs: which one?", len(runs)), "ebb supervise list")
	}
}

func (a *app) superviseShowCommand(f *superviseFlags) *cobra.Command {
	return &cobra.Command{
		Use: "show [RUN]", Short: "Tell how a run stands, with every restart and its reason", Args: cobra.MaximumNArgs(1),
		Example: "  ebb supervise show\n  ebb supervise show hc --db postgres://ebb@db/ebb",
		RunE: func(c *cobra.Command, args []string) error {
			return a.askRuns(c, f, false, func(ctx context.Context, s *supervise.Service) error {
				name, err := oneRun(ctx, s, args)
				if err != nil {
					return err
				}
				r, err := s.Show(ctx, name)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(r)
				}
				a.printRun(&r)
				return nil
			})
		},
	}
}

func (a *app) printRun(r *supervise.Run) {
	fmt.Fprintf(a.stdout, "run %s: %s", r.Name, r.State)
	if r.Cause != "" {
		fmt.Fprintf(a.stdout, " (%s)", r.Cause)
	}
	fmt.Fprintf(a.stdout, "\n  %s\n  policy %s, %s used, %d left; attempt %d, %s\n", r.Command, r.Policy, count(r.RestartsUsed, "restart"), r.RestartsLeft, r.Attempt, count(r.Workers, "worker"))
	fmt.Fprintf(a.stdout, "  %d %s, last progress %s\n", r.Units, r.Counter, stamp(r.ProgressAt))
	if r.Running {
		fmt.Fprintf(a.stdout, "  pid %d on %s since %s\n", r.PID, r.Host, stamp(r.StartedAt))
	}
	if r.Held != "" {
		fmt.Fprintf(a.stdout, "  waits: %s\n", r.Held)
	}
	for _, s := range r.Restarts {
		fmt.Fprintf(a.stdout, "  start %d ended %s: %s %s: %s; %s", s.Start, stamp(s.At), s.Class, s.Reason, s.Error, s.Action)
		if s.Delay > 0 {
			fmt.Fprintf(a.stdout, " after %s", span(time.Duration(s.Delay*float64(time.Second))))
		}
		fmt.Fprintf(a.stdout, ", counted as %s, by rule %s\n", s.Counted, s.Rule)
	}
}

func (a *app) superviseLogCommand(f *superviseFlags) *cobra.Command {
	var bytes int64
	c := &cobra.Command{
		Use: "log [RUN]", Short: "Print the end of what the newest attempt printed", Args: cobra.MaximumNArgs(1),
		Long:    "Print the end of what the newest attempt printed: standard output, then standard error. All attempts are kept in DIR/attempts.",
		Example: "  ebb supervise log\n  ebb supervise log hc --bytes 100000",
		RunE: func(c *cobra.Command, args []string) error {
			return a.askRuns(c, f, false, func(ctx context.Context, s *supervise.Service) error {
				name, err := oneRun(ctx, s, args)
				if err != nil {
					return err
				}
				out, errs, err := s.Log(ctx, name, bytes)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]string{"stdout": out, "stderr": errs})
				}
				fmt.Fprint(a.stdout, out, errs)
				return nil
			})
		},
	}
	c.Flags().Int64Var(&bytes, "bytes", 16<<10, "most bytes of each stream")
	return c
}

func (a *app) superviseReleaseCommand(f *superviseFlags) *cobra.Command {
	return &cobra.Command{
		Use: "release RUN", Short: "Say that the process of a lost host is gone, and let the run go on", Args: exactly("RUN"),
		Long: `A run whose host is lost is parked: nobody else can know whether its process still
lives there, and there must never be two. If that host is gone for good, release
the run: it goes on elsewhere with fresh restarts.`,
		Example: "  ebb supervise release hc",
		RunE: func(c *cobra.Command, args []string) error {
			return a.askRuns(c, f, false, func(ctx context.Context, s *supervise.Service) error {
				if err := s.Release(ctx, time.Time{}, a.actor(), args[0]); err != nil {
					return err
				}
				return a.tellRun(args[0], "", job.Queued)
			})
		},
	}
}
