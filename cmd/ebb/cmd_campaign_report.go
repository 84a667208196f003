package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/work/supervise/campaign"
)

func (a *app) campaignReportCommand() *cobra.Command {
	markdown := false
	c := &cobra.Command{
		Use: "report CAMPAIGN", Short: "Tell what a campaign has brought in, and what not", Args: exactly("CAMPAIGN"),
		Long: `Tell for each source what was archived, against the year before, with every reason
for which it was restarted. Exit codes: 0 complete; 3 incomplete; 4 a source is
parked and waits for a person.`,
		Example: "  ebb campaign report annual\n  ebb campaign report annual-2026 --markdown > report.md",
		RunE: func(c *cobra.Command, args []string) error {
			return a.askCampaigns(c, false, func(ctx context.Context, s *campaign.Service, now time.Time) error {
				r, err := s.Report(ctx, now, args[0])
				if err != nil {
					return err
				}
				switch {
				case a.json:
					err = a.printJSON(r)
				case markdown:
					a.reportMarkdown(&r)
				default:
					err = a.reportText(&r)
				}
				switch {
				case err != nil:
					return err
				case r.Parked > 0:
					return &failed{code: exitParked, err: errors.New("campaign: parked"), quiet: true}
				case !r.Complete:
					return &failed{code: exitIncomplete, err: errors.New("campaign: incomplete"), quiet: true}
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&markdown, "markdown", false, "print Markdown")
	return c
}

func reportHead(r *campaign.Report) string {
	if r.Complete {
		return "complete"
	}
	return fmt.Sprintf("incomplete: %d waiting or running, %d parked, %d failed", r.Waiting, r.Parked, r.Failed)
}

// reasonsOf lists reasons with their counts, most first.
func reasonsOf(m map[string]int) string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if m[a] != m[b] {
			return m[b] - m[a]
		}
		return strings.Compare(a, b)
	})
	for i, n := range names {
		names[i] = fmt.Sprintf("%d× %s", m[n], n)
	}
	return strings.Join(names, ", ")
}

func (a *app) reportText(r *campaign.Report) error {
	fmt.Fprintf(a.stdout, "campaign %s: %s\n", r.Campaign, reportHead(r))
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PLACE\tSOURCE\tSTATE\tUNITS\tYEAR BEFORE\tCOVERAGE\tATTEMPTS\tRESTARTS\tREASONS")
	for i := range r.Sources {
		o := &r.Sources[i]
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%d\t%s\t%d\t%d\t%s\n", o.Place, o.Source, cell(string(o.State)), o.Units, o.Last, percent(o.Coverage), o.Attempts, o.Restarts, cell(reasonsOf(o.Reasons)))
	}
	return w.Flush()
}

func (a *app) reportMarkdown(r *campaign.Report) {
	fmt.Fprintf(a.stdout, "# Campaign %s\n\n%s, at %s.\n\n", r.Campaign, reportHead(r), stamp(r.At))
	fmt.Fprintln(a.stdout, "| # | source | state | units | year before | coverage | attempts | restarts | reasons |\n|---|---|---|---|---|---|---|---|---|")
	for i := range r.Sources {
		o := &r.Sources[i]
		fmt.Fprintf(a.stdout, "| %d | %s | %s | %d | %d | %s | %d | %d | %s |\n", o.Place, o.Source, cell(string(o.State)), o.Units, o.Last, percent(o.Coverage), o.Attempts, o.Restarts, cell(reasonsOf(o.Reasons)))
	}
}

func (a *app) campaignWhyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "why CAMPAIGN SOURCE", Short: "Tell how a source came to where it stands, and what comes next", Args: exactly("CAMPAIGN", "SOURCE"),
		Example: "  ebb campaign why annual hc\n  ebb campaign why annual-2026 phac --json",
		RunE: func(c *cobra.Command, args []string) error {
			return a.askCampaigns(c, false, func(ctx context.Context, s *campaign.Service, now time.Time) error {
				lines, err := s.Why(ctx, now, args[0], args[1])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]any{"campaign": args[0], "source": args[1], "why": lines})
				}
				for _, line := range lines {
					fmt.Fprintln(a.stdout, line)
				}
				return nil
			})
		},
	}
}
