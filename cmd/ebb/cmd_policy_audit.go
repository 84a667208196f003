package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/audit"
	"github.com/ebbhq/ebb/policy/file"
)

func (a *app) policyAuditCommand() *cobra.Command {
	var scope engine.AuditScope
	var since string
	c := &cobra.Command{
		Use:   "audit NAME",
		Short: "Does reality keep the promise? Ask the ledger",
		Long: `Hold the ledger of failed starts against what a policy promises. For each try:
every wait (due minus ended) must lie inside its band, waits must be spread as the
jitter's law says (a Kolmogorov-Smirnov test and a search for waits that are the
same), and attempts must be neither more nor fewer than promised. What gates held
back, and waits that targets asked for, are reported apart. No wait may be shorter
than the guard of the target's kind allows (24 s for an endpoint), whatever was
promised, unless the policy has a waiver of the rule floor or our own machine failed.

Dead letters that ended because their time ran out, with attempts left, break the
promise, unless their own deadline or the policy's window ended them. Jobs that
are parked because their target is down break nothing: their attempts are unspent.

Starts are judged by the policy version that decided them where it is the present
one, the accepted one (the lock) or a preset's; any other by the present promise.
So a sender that was changed to a fixed interval is found, whatever it calls itself.

Exit 1 on anomalies. A sender that keeps its promise is wrongly accused by the
distribution tests in less than 1 of 1000 audits.`,
		Example: `  ebb policy audit webhook
  ebb policy audit webhook --kind webhook --since 24h
  ebb policy audit policies.yaml#webhook --limit 50000 --json`,
		Args: exactly("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if scope.Since, err = past(a.now(), since); err != nil {
				return flagError(c, fmt.Errorf("--since: %w", err))
			}
			if scope.Limit < 1 {
				return flagError(c, fmt.Errorf("--limit: %d: must be 1 or more", scope.Limit))
			}
			return a.policyAudit(c, args[0], scope)
		},
	}
	c.Flags().StringVar(&scope.Kind, "kind", "", "only jobs of this kind")
	c.Flags().StringVar(&since, "since", "", "only jobs enqueued (living) or ended (others) at or after: RFC 3339, or so long ago (24h)")
	c.Flags().IntVar(&scope.Limit, "limit", engine.DefaultAuditLimit, "most jobs with failures to read, newest first")
	return c
}

func (a *app) policyAudit(c *cobra.Command, ref string, scope engine.AuditScope) error {
	e, err := a.entry(ref)
	if err != nil {
		return err
	}
	if e, err = a.effective(e); err != nil {
		return err
	}
	promise := e.Policy
	accepted, err := a.acceptedVersions(promise.Name)
	if err != nil {
		return err
	}
	return a.ask(c, false, func(ctx context.Context, ops engine.Ops) error {
		found, err := engine.Audit(ctx, ops, &promise, accepted, scope)
		if err != nil {
			return err
		}
		if a.json {
			err = a.printJSON(auditJSON(&found))
		} else {
			err = a.printAudit(&promise, &found, scope)
		}
		if err == nil && len(found.Anomalies) > 0 {
			return no(fmt.Errorf("policy audit: %s: %s", promise.Name, count(len(found.Anomalies), "anomaly")))
		}
		return err
	})
}

// acceptedVersions are the policies of the lock beside the configured file.
func (a *app) acceptedVersions(name string) ([]policy.Policy, error) {
	var list []policy.Policy
	if policy.IsPreset(name) {
		list = append(list, policy.MustPreset(name))
	}
	s, err := a.settings()
	if err != nil || s.Policies == "" {
		return list, err
	}
	locked, err := file.ReadLock(file.LockPath(s.Policies))
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err != nil {
		return nil, &failed{code: exitNo, err: fmt.Errorf("policy audit: %w", err), try: "ebb policy accept " + s.Policies}
	}
	return append(list, locked...), nil
}

func (a *app) printAudit(p *policy.Policy, r *engine.Audited, scope engine.AuditScope) error {
	fmt.Fprintf(a.stdout, "policy %s, version %s: %s\n", p.Name, p.Version, words(p))
	from := "in all that is kept"
	if !scope.Since.IsZero() {
		from = "since " + scope.Since.UTC().Format(time.RFC3339)
	}
	fmt.Fprintf(a.stdout, "%s with failures, %s, %s\n", count(r.Jobs, "job"), count(r.Failed, "failed start"), from)
	if len(r.Groups) > 0 {
		fmt.Fprintln(a.stdout)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	if len(r.Groups) > 0 {
		fmt.Fprintln(w, "TRY\tPROMISED\tWAITS\tSHORTEST\tMEDIAN\tLONGEST\tOUTSIDE\tSPREAD\tSCHEDULE")
	}
	for i := range r.Groups {
		g := &r.Groups[i]
		schedule := g.Schedule
		if g.Version != p.Version {
			schedule += " of " + cell(g.Version)
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%s\t%d\t%s\t%s\n", g.Try, bandCell(g), g.Waits,
			waitCell(g.Shortest), waitCell(g.Median), waitCell(g.Longest), g.Short+g.Long, spreadCell(g), schedule)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.printApart(r)
	a.printParked(r)
	a.printVerdict(r)
	return nil
}

// printApart tells what is no part of the judged waits.
func (a *app) printApart(r *engine.Audited) {
	if len(r.Groups) > 0 {
		fmt.Fprintln(a.stdout)
	}
	for _, h := range r.Holds {
		fmt.Fprintf(a.stdout, "held apart: %s by %s, %s in all, the longest %s\n", count(h.Starts, "start"), h.By, waitCell(h.Total), waitCell(h.Longest))
	}
	if r.Lag.Starts > 0 {
		fmt.Fprintf(a.stdout, "started after due, holds not counted: p50 %s, p99 %s, most %s\n", waitCell(r.Lag.P50), waitCell(r.Lag.P99), waitCell(r.Lag.Most))
	}
	for _, part := range []struct {
		n    int
		text string
	}{
		{r.Foreign, "decided under a version that is neither the present one nor accepted; judged by the present promise"},
		{r.Free, "cost no attempt; judged by the guard alone"},
		{r.Ordered, "ended by the handler's own order; not judged"},
		{r.Unsure, "after a gap in which attempts may have been given back; judged by the guard alone"},
	} {
		if part.n > 0 {
			fmt.Fprintf(a.stdout, "%s: %s\n", count(part.n, "start"), part.text)
		}
	}
	for _, part := range []struct {
		n    int
		text string
	}{
		{r.Expired.ByDeadline, "their own deadline, which is a part of their promise"},
		{r.Expired.ByWindow, "the window of the policy, which is a part of its promise"},
	} {
		if part.n > 0 {
			fmt.Fprintf(a.stdout, "%s expired by %s\n", count(part.n, "job"), part.text)
		}
	}
	if r.More {
		a.remarkErr("older jobs were not read: --limit and --since bound the audit")
	}
}

// maxParked is how many targets are told of.
const maxParked = 10

// printParked tells what waits until its target is well.
func (a *app) printParked(r *engine.Audited) {
	for i, p := range r.Parked {
		if i == maxParked {
			fmt.Fprintf(a.stdout, "parked until their target is well: jobs of %s more\n", count(len(r.Parked)-maxParked, "target"))
			return
		}
		since := "which is not held any more"
		if !p.DownSince.IsZero() {
			since = "down since " + stamp(p.DownSince)
		}
		fmt.Fprintf(a.stdout, "parked until the target is well, attempts unspent: %s of %s, %s\n", count(p.Jobs, "job"), p.Target, since)
	}
}

func (a *app) printVerdict(r *engine.Audited) {
	for i := range r.Anomalies {
		f := &r.Anomalies[i]
		fmt.Fprintf(a.stdout, "%s %s: %s\n", a.paint(red, "anomaly"), f.Rule, f.Words)
		if len(f.Seqs) > 0 {
			fmt.Fprintf(a.stdout, "  such as %s\n  Try: %s\n", strings.Join(idsOf(f), ", "), tryOf(f))
		}
	}
	switch {
	case len(r.Anomalies) > 0:
	case r.Failed == 0 && r.Expired.Jobs == 0:
		fmt.Fprintln(a.stdout, "nothing to judge: no start under this policy failed")
	default:
		fmt.Fprintln(a.stdout, a.paint(green, "ok")+": the promise is kept")
	}
}

// idsOf are the jobs that an anomaly names.
func idsOf(f *audit.Anomaly) []string {
	ids := make([]string, len(f.Seqs))
	for i, seq := range f.Seqs {
		ids[i] = job.FormatID(seq)
	}
	return ids
}

// tryOf is what to do about jobs that ended with attempts left.
func tryOf(f *audit.Anomaly) string {
	if len(f.Seqs) == 0 {
		return ""
	}
	return fmt.Sprintf("ebb job why %s; fresh attempts: ebb dead redrive --cause %s --dry-run", job.FormatID(f.Seqs[0]), f.Cause)
}

func bandCell(g *audit.Group) string {
	if g.Least == g.Most {
		return span(g.Nominal)
	}
	return fmt.Sprintf("%s (%s–%s)", span(g.Nominal), span(g.Least), span(g.Most))
}

func spreadCell(g *audit.Group) string {
	switch {
	case g.Jitter == "no jitter":
		return "none promised"
	case g.Waits-g.Asked < audit.MinTested:
		return "too few to test"
	}
	return fmt.Sprintf("p %.2g", g.Chance)
}

// waitCell writes a wait to the tenth of a second, short ones to the
// millisecond.
func waitCell(d time.Duration) string {
	if d < time.Second {
		return policy.FormatDuration(d.Round(time.Millisecond))
	}
	return policy.FormatDuration(d.Round(100 * time.Millisecond))
}
