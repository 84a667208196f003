package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/work/supervise"
	"github.com/ebbhq/ebb/work/supervise/campaign"
)

func (a *app) campaignCommand() *cobra.Command {
	c := group("campaign", "Crawls of several sources in a fixed order: schedule, status, report, why, recover, drill",
		`A campaign is a file of sources. Scheduling it queues one supervised run for each
source, once a year, in the declared order, on a strict queue with one slot that
ebb serve works on. Crawls are bounded by scope rules; caps on pages or depth are
errors of the file. See docs/campaigns.md.

What changes something is only shown unless --apply is given.`)
	c.AddCommand(a.campaignLintCommand(), a.campaignScheduleCommand(), a.campaignStatusCommand(), a.campaignReportCommand(), a.campaignWhyCommand(),
		a.campaignRecoverCommand(), a.campaignLockCommand(), a.campaignUnlockCommand(), a.campaignDrillCommand())
	return c
}

// campaignOrder is a question or an order; now is the database's clock.
type campaignOrder func(ctx context.Context, s *campaign.Service, now time.Time) error

// askCampaigns opens the database and puts a question or an order to it.
func (a *app) askCampaigns(c *cobra.Command, create bool, do campaignOrder) error {
	db, err := a.ownDatabase(c)
	if err != nil {
		return err
	}
	if !create && db.missing() {
		return &failed{code: exitNo, err: fmt.Errorf("campaign: %s: %w", db.shown, errAbsent), try: "ebb campaign schedule FILE --apply, with the same --db"}
	}
	return a.askStore(c, create, func(ctx context.Context, s store.Store, _ *database) error { return a.withCampaigns(ctx, s, do) })
}

func (a *app) withCampaigns(ctx context.Context, s store.Store, do campaignOrder) error {
	policies, err := a.knownPolicies()
	if err != nil {
		return err
	}
	runs, err := supervise.New(supervise.Config{Store: s, Policies: policies, Self: []string{"ebb"}})
	if err != nil {
		return usage(fmt.Errorf("campaign: %w", err), "ebb policy check")
	}
	service, err := campaign.New(campaign.Config{Store: s, Runs: runs, Policies: policies})
	if err != nil {
		return usage(err, "ebb policy check")
	}
	now, err := s.Now(ctx)
	if err == nil {
		err = do(ctx, service, now)
	}
	var f *failed
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.Is(err, campaign.ErrPolicy):
		return &failed{code: exitNo, err: err, try: "ebb policy list"}
	case errors.Is(err, campaign.ErrBusy):
		return &failed{code: exitNo, err: err, try: "the same command again"}
	}
	return &failed{code: exitNo, err: err, try: "ebb campaign status"}
}

// planCampaign asks without an order: a database that is not there yet is
// taken for an empty one.
func (a *app) planCampaign(c *cobra.Command, do campaignOrder) error {
	db, err := a.ownDatabase(c)
	if err != nil || !db.missing() {
		return a.askCampaigns(c, false, do)
	}
	s := memory.New(memory.Config{})
	err = a.withCampaigns(c.Context(), s, do)
	return errors.Join(err, closed(s, err))
}

// campaignFile reads a campaign's file; what is wrong with it is told line by
// line.
func (a *app) campaignFile(path string) (*campaign.Campaign, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, usage(fmt.Errorf("campaign: %w", err), "ebb campaign lint FILE")
	}
	base, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, usage(fmt.Errorf("campaign: %w", err), "")
	}
	parsed, err := campaign.Parse(path, src, base)
	if err == nil {
		return &parsed, nil
	}
	var found campaign.LintErrors
	if a.json && errors.As(err, &found) {
		if err := a.printJSON(map[string]any{"file": path, "findings": found}); err != nil {
			return nil, err
		}
		return nil, &failed{code: exitUsage, err: err, quiet: true}
	}
	return nil, usage(err, "docs/campaigns.md lists every key")
}

func (a *app) campaignLintCommand() *cobra.Command {
	return &cobra.Command{
		Use: "lint FILE", Short: "Check a campaign's file: unknown keys, caps, unbounded crawls", Args: exactly("FILE"),
		Long: `Check a campaign's file without a database. Every finding has its line and column.
Exit codes: 0 nothing found; 2 findings.`,
		Example: "  ebb campaign lint annual.yaml\n  ebb campaign lint annual.yaml --json",
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := a.campaignFile(args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]any{"file": args[0], "findings": []campaign.Finding{}})
			}
			a.remarkOut("%s: %s, nothing found", args[0], count(len(c.Sources), "source"))
			return nil
		},
	}
}

// yearFlag adds --year, the current one unless given.
func (a *app) yearFlag(c *cobra.Command) func() (int, error) {
	year := c.Flags().Int("year", 0, "the year that is crawled (default: the current one)")
	return func() (int, error) {
		now := a.now().UTC().Year()
		switch {
		case !c.Flags().Changed("year"):
			return now, nil
		case *year < 1000 || *year > 9999:
			return 0, usage(fmt.Errorf("campaign: --year %d: four digits are needed", *year), fmt.Sprintf("--year %d", now))
		}
		return *year, nil
	}
}

func applyFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("apply", false, "do it; without this flag it is only shown")
}

func (a *app) campaignScheduleCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "schedule FILE", Short: "Queue each source of a campaign once, in the declared order", Args: exactly("FILE"),
		Long: `Queue a run for each source with staggered times, so that the order is total, on a
strict queue with one slot. Doing it again adds only what is missing, also after a
schedule that was killed; a run whose part of the file has changed gets the new
command and, if it has not begun yet, the new policy. Without --apply it only shows
what it would do. Exit codes: 0 done, or nothing to do; 1 it could not be done;
2 wrong usage, or findings in the file.`,
		Example: `  ebb campaign schedule annual.yaml
  ebb campaign schedule annual.yaml --year 2027 --apply`,
	}
	year, apply := a.yearFlag(c), applyFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		year, err := year()
		if err != nil {
			return err
		}
		file, err := a.campaignFile(args[0])
		if err != nil {
			return err
		}
		schedule := func(ctx context.Context, s *campaign.Service, now time.Time) error {
			plan, err := s.Schedule(ctx, now, a.actor(), file, year, *apply)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(plan)
			}
			if err := a.printPlan(&plan); err != nil {
				return err
			}
			a.dry(*apply, plan.Changes())
			return nil
		}
		if !*apply {
			return a.planCampaign(c, schedule)
		}
		return a.askCampaigns(c, true, schedule)
	}
	return c
}

func (a *app) printPlan(plan *campaign.Plan) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PLACE\tSOURCE\tRUN\tACTION\tQUEUED AT\tCOMMAND")
	for i := range plan.Steps {
		st := &plan.Steps[i]
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", st.Place, st.Source, st.Run, st.Action, st.QueuedAt.UTC().Format("2006-01-02T15:04:05.000Z"), cell(shortened(st.Command)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range plan.Steps {
		if st := &plan.Steps[i]; st.Text != "" {
			a.remarkOut("%s: %s", st.Run, st.Text)
		}
	}
	return nil
}

// shortened is a command for a table.
func shortened(text string) string {
	if r := []rune(text); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return text
}

// dry says what became of an order.
func (a *app) dry(applied bool, changes int) {
	switch {
	case changes == 0:
		a.remarkOut("nothing to do")
	case !applied:
		a.remarkOut("not done: add --apply")
	}
}

func (a *app) campaignStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status [CAMPAIGN]", Short: "Tell how campaigns stand, or one with its sources", Args: cobra.MaximumNArgs(1),
		Long: `CAMPAIGN is the file's name with the year, such as annual-2026, or without it for
the newest year.`,
		Example: "  ebb campaign status\n  ebb campaign status annual\n  ebb campaign status annual-2026 --json",
		RunE: func(c *cobra.Command, args []string) error {
			return a.askCampaigns(c, false, func(ctx context.Context, s *campaign.Service, now time.Time) error {
				if len(args) == 0 {
					return a.listCampaigns(ctx, s)
				}
				st, err := s.Show(ctx, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(st)
				}
				return a.printCampaign(&st, now)
			})
		},
	}
}

func (a *app) listCampaigns(ctx context.Context, s *campaign.Service) error {
	list, err := s.List(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]any{"campaigns": list})
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CAMPAIGN\tSTATE\tDONE\tQUEUE\tPOLICY\tSCHEDULED\tLOCKED")
	for i := range list {
		st := &list[i]
		lock := "-"
		if st.Lock != nil {
			lock = cell(st.Lock.Reason)
		}
		fmt.Fprintf(w, "%s\t%s\t%d/%d\t%s\t%s\t%s\t%s\n", st.Campaign, st.State, st.Done(), len(st.Sources), st.Queue, st.Policy, stamp(st.ScheduledAt), lock)
	}
	return w.Flush()
}

func (a *app) printCampaign(st *campaign.Status, now time.Time) error {
	fmt.Fprintf(a.stdout, "campaign %s: %s, %d of %s done, queue %s, policy %s\n", st.Campaign, st.State, st.Done(), count(len(st.Sources), "source"), st.Queue, st.Policy)
	if st.Lock != nil {
		fmt.Fprintln(a.stdout, st.Lock)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PLACE\tSOURCE\tRUN\tSTATE\tREASON\tUNITS\tRESTARTS\tLEFT\tPROGRESS AGE")
	for i := range st.Sources {
		o := &st.Sources[i]
		age := "-"
		if o.Run.Running && !o.Run.ProgressAt.IsZero() {
			age = span(now.Sub(o.Run.ProgressAt).Round(time.Second))
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", o.Place, o.Source, o.Run.Name, cell(string(o.Run.State)), cell(o.Run.Reason), o.Run.Units, o.Run.RestartsUsed, o.Run.RestartsLeft, age)
	}
	return w.Flush()
}

func percent(share float64) string {
	if share == 0 {
		return "-"
	}
	return strconv.FormatFloat(100*share, 'f', 1, 64) + "%"
}
