package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/work/supervise"
	"github.com/ebbhq/ebb/work/supervise/campaign"
)

func (a *app) campaignRecoverCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "recover CAMPAIGN", Short: "Give the first run that spent its restarts fresh ones, within limits", Args: exactly("CAMPAIGN"),
		Long: `Give the first source that is parked for want of progress, or has spent its
restarts, fresh ones, and raise its figures to the policy's: 5 restarts and
thresholds of 10 and 10 become 20, 50 and 50. One run at a time, a few a day,
none that two recoveries did not bring further, none while a maintenance lock
holds. Wrong commands and lost hosts are left to a person. Without --apply it only
shows what it would do. ebb serve --auto-recover does the same by itself.

Exit codes: 0 done, or nothing to do; 1 a limit or the lock holds it back.`,
		Example: "  ebb campaign recover annual\n  ebb campaign recover annual-2026 --apply",
	}
	apply := applyFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.askCampaigns(c, false, func(ctx context.Context, s *campaign.Service, now time.Time) error {
			r, err := s.Recover(ctx, now, a.actor(), args[0], *apply)
			if err != nil {
				return err
			}
			if a.json {
				if err := a.printJSON(r); err != nil {
					return err
				}
			} else if err := a.printRecovered(&r, *apply); err != nil {
				return err
			}
			if r.Waits() {
				return &failed{code: exitNo, err: errors.New(r.Blocked), quiet: true}
			}
			return nil
		})
	}
	return c
}

func (a *app) printRecovered(r *campaign.Recovered, apply bool) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SOURCE\tRUN\tVERB\tFIGURES\tWHY")
	for i := range r.Remedies {
		m := &r.Remedies[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", m.Source, m.Run, m.Verb, figures(m), cell(m.Why))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if r.Waits() {
		a.remarkOut("held back: %s", r.Blocked)
		return nil
	}
	changes := 0
	if r.Acts() != nil {
		changes = 1
	}
	a.dry(apply, changes)
	return nil
}

// figures are restarts, timeouts and HTTP errors, before and after.
func figures(m *campaign.Remedy) string {
	if m.From == m.To {
		return "-"
	}
	text := func(o *supervise.Options) string {
		return fmt.Sprintf("%d/%d/%d", o.MaxContainerRestarts, o.ErrorThresholdTimeout, o.ErrorThresholdHTTP)
	}
	return text(&m.From) + " → " + text(&m.To)
}

func (a *app) campaignLockCommand() *cobra.Command {
	var reason string
	var length time.Duration
	c := &cobra.Command{
		Use: "lock CAMPAIGN", Short: "Hold recover back while people work on the machine", Args: exactly("CAMPAIGN"),
		Example: "  ebb campaign lock annual --reason 'new disk' --for 2h --apply",
	}
	c.Flags().StringVar(&reason, "reason", "", "for who finds it locked; required")
	c.Flags().DurationVar(&length, "for", 0, "how long (default: until it is unlocked)")
	apply := applyFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if reason == "" {
			return usage(errors.New("campaign lock: --reason is required, for who finds it locked"), "ebb campaign lock "+args[0]+" --reason TEXT --apply")
		}
		return a.orderCampaign(c, args[0], *apply, "locked: "+reason, func(ctx context.Context, s *campaign.Service, now time.Time, name string) error {
			return s.Lock(ctx, now, a.actor(), name, reason, length)
		})
	}
	return c
}

func (a *app) campaignUnlockCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "unlock CAMPAIGN", Short: "End the maintenance lock", Args: exactly("CAMPAIGN"),
		Example: "  ebb campaign unlock annual --apply",
	}
	apply := applyFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.orderCampaign(c, args[0], *apply, "unlocked", func(ctx context.Context, s *campaign.Service, now time.Time, name string) error {
			return s.Unlock(ctx, now, a.actor(), name)
		})
	}
	return c
}

// orderCampaign carries out an order that has nothing to show but itself.
func (a *app) orderCampaign(c *cobra.Command, name string, apply bool, text string, do func(context.Context, *campaign.Service, time.Time, string) error) error {
	return a.askCampaigns(c, false, func(ctx context.Context, s *campaign.Service, now time.Time) error {
		st, err := s.Show(ctx, name)
		if err != nil {
			return err
		}
		if apply {
			if err := do(ctx, s, now, st.Campaign); err != nil {
				return err
			}
		}
		if a.json {
			return a.printJSON(map[string]any{"campaign": st.Campaign, "order": c.Name(), "applied": apply})
		}
		fmt.Fprintf(a.stdout, "campaign %s: %s\n", st.Campaign, text)
		a.dry(apply, 1)
		return nil
	})
}

func (a *app) campaignDrillCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "drill FILE", Short: "Rehearse scheduling, failing and recovering, without touching anything real", Args: exactly("FILE"),
		Long: `Rehearse a campaign with its own file and policies in a store of its own, in memory:
order, idempotence, recovery of an old job, one at a time, breaker, daily cap,
maintenance lock, a wrong flag. Programs and directories are looked for; nothing
is run. Exit codes: 0 all as promised; 1 not; 2 findings in the file.`,
		Example: "  ebb campaign drill annual.yaml\n  ebb campaign drill annual.yaml --year 2027 --json",
	}
	year := a.yearFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		year, err := year()
		if err != nil {
			return err
		}
		file, err := a.campaignFile(args[0])
		if err != nil {
			return err
		}
		policies, err := a.knownPolicies()
		if err != nil {
			return err
		}
		list, err := campaign.Drill(c.Context(), a.now(), file, year, policies)
		if err != nil {
			return &failed{code: exitNo, err: fmt.Errorf("campaign drill: %w", err), try: "ebb campaign lint " + args[0]}
		}
		failures := 0
		for _, r := range list {
			word := a.paint(green, "ok")
			if !r.OK {
				failures++
				word = a.paint(red, "FAILED")
			}
			if !a.json {
				fmt.Fprintf(a.stdout, "%s  %s: %s\n", word, r.Name, r.Text)
			}
		}
		if a.json {
			if err := a.printJSON(map[string]any{"campaign": file.Name, "ok": failures == 0, "rehearsed": list}); err != nil {
				return err
			}
		}
		if failures > 0 {
			return no(fmt.Errorf("campaign drill: %s failed", count(failures, "rehearsal")))
		}
		return nil
	}
	return c
}
