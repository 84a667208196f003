package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

func (a *app) policyAcceptCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "accept [FILE…]",
		Short: "Accept the policies of a file: write its lock",
		Long: `Write FILE.lock beside each file: the accepted policies in their canonical
form. Commit it. From then on "ebb policy check" fails on a risky difference
from it, so that nobody removes a backoff without saying so.

A file with error findings that no waiver covers is not accepted (exit 1).`,
		Example: "  ebb policy accept policies.yaml\n  git add policies.yaml policies.yaml.lock",
		RunE:    func(_ *cobra.Command, args []string) error { return a.policyAccept(args) },
	}
}

func (a *app) policyAccept(args []string) error {
	paths, err := a.policyFiles(args)
	if err != nil {
		return err
	}
	type accepted struct {
		File     string              `json:"file"`
		Lock     string              `json:"lock"`
		Policies []string            `json:"policies"`
		Changes  []policy.PolicyDiff `json:"changes"`
		Waivers  []waived            `json:"waivers"`
	}
	out := []accepted{}
	for _, path := range paths {
		f, changes, err := a.acceptable(path)
		if err != nil {
			return err
		}
		lock := file.LockPath(path)
		if err := file.WriteLock(lock, f.Policies()); err != nil {
			return &failed{code: exitNo, err: err, try: "write access to " + lock}
		}
		waivers := waiversOf(f.Policies())
		out = append(out, accepted{File: path, Lock: lock, Policies: names(f), Changes: nonNil(changes), Waivers: waivers})
		if !a.json {
			a.printDiffs(changes)
			a.printWaivers(waivers, nil)
			a.remarkOut("%s: accepted %s", lock, strings.Join(names(f), ", "))
		}
	}
	if a.json {
		return a.printJSON(map[string]any{"accepted": out})
	}
	return nil
}

// acceptable reads a file that lints without errors, with its difference from
// the lock that stands, if one does.
func (a *app) acceptable(path string) (*file.File, []policy.PolicyDiff, error) {
	if path == "-" {
		return nil, nil, usage(errors.New("policy accept: standard input has no lock beside it"), "ebb policy accept FILE")
	}
	f, err := a.loadFile(path)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range a.lintFile(f).Policies {
		if policy.Failed(p.Findings) {
			a.printErrors(p.Findings)
			return nil, nil, &failed{code: exitNo, err: fmt.Errorf("policy accept: %s: %s has errors; nothing was written", path, p.Name), try: "ebb policy lint " + path}
		}
	}
	old, err := file.ReadLock(file.LockPath(path))
	if err != nil {
		return f, nil, nil //nolint:nilerr // a missing or broken lock is replaced
	}
	return f, policy.DiffSets(old, f.Policies()), nil
}

func (a *app) policyCheckCommand() *cobra.Command {
	var simulated bool
	c := &cobra.Command{
		Use:   "check [FILE…]",
		Short: "The gate for CI: lint, and no risky difference from the lock",
		Long: `Fail (exit 1) on an error finding of lint, on an expired waiver, on a missing or
broken lock, and on a risky difference from the accepted policies. A change
that is meant is accepted with "ebb policy accept" and reviewed with the lock.
Where the environment overrides a policy, as it would for an engine started
here, what it makes of the policy is judged too.

With --simulate every policy is also played on virtual time. The ladder: outages
of 1 minute to 12 hours, and work of which some is bad for good, against the same
schedule without its gate; it fails where the guard loses more, calls more often,
or notices later than 90 s that a target is well. And where the policy has an
expect block: its outage, arrival, capacity and p99; it fails when more jobs than
expect.dead_letters are lost, in the outage or outside of it, or when calls do
not succeed again afterwards.`,
		Example: "  ebb policy check policies.yaml\n  ebb policy check --simulate\n  ebb policy check --json",
		RunE:    func(c *cobra.Command, args []string) error { return a.policyCheck(c.Context(), args, simulated) },
	}
	c.Flags().BoolVar(&simulated, "simulate", false, "play the ladder of outages, and each policy's expect block")
	return c
}

func (a *app) policyCheck(ctx context.Context, args []string, simulated bool) error {
	paths, err := a.policyFiles(args)
	if err != nil {
		return err
	}
	ok := true
	checked, outages, ladders := []lintedFile{}, []simulatedPolicy{}, []ladder{}
	for _, path := range paths {
		f, err := a.loadFile(path)
		if err != nil {
			return err
		}
		c := a.checkFile(f, path)
		if err := a.checkEnvironment(f, &c); err != nil {
			return err
		}
		if simulated {
			found, err := a.expectations(ctx, f, &c)
			if err != nil {
				return err
			}
			outages = append(outages, found...)
			climbed, err := a.climb(ctx, f, &c)
			if err != nil {
				return err
			}
			ladders = append(ladders, climbed...)
		}
		ok = ok && c.passes()
		checked = append(checked, c)
	}
	if a.json {
		out := map[string]any{"ok": ok, "files": checked}
		if simulated {
			out["simulated"], out["ladders"] = outages, ladders
		}
		if err := a.printJSON(out); err != nil {
			return err
		}
	} else {
		a.printOutages(outages)
		a.printLadders(ladders)
		a.printChecks(checked)
	}
	if !ok {
		return no(errors.New("check failed"))
	}
	return nil
}

// checkFile lints a file and compares it with its lock; a risky difference
// becomes a finding of its policy.
func (a *app) checkFile(f *file.File, path string) lintedFile {
	c := a.lintFile(f)
	c.Lock = file.LockPath(path)
	locked, err := file.ReadLock(c.Lock)
	if err != nil {
		c.Problem = err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			c.Problem = c.Lock + ": no such lock; accept the policies first: ebb policy accept " + path
		}
		return c
	}
	c.Changes = policy.DiffSets(locked, f.Policies())
	for _, d := range c.Changes {
		c.add(f, d.Name, d.Findings(a.today()))
	}
	return c
}

// checkEnvironment adds what lint finds only because the environment changes a
// policy: an engine started here would refuse it.
func (a *app) checkEnvironment(f *file.File, c *lintedFile) error {
	for i := range f.Entries {
		written := &f.Entries[i]
		e, err := a.effective(*written)
		if err != nil {
			return err
		}
		if e.Policy.Version == written.Policy.Version {
			continue
		}
		known := policy.Lint(written.Policy, a.today())
		added := slices.DeleteFunc(policy.Lint(e.Policy, a.today()), func(found policy.Finding) bool {
			return !found.Fails() || slices.ContainsFunc(known, func(k policy.Finding) bool {
				return k.ID == found.ID && k.Field == found.Field && k.Measured == found.Measured
			})
		})
		for n := range added {
			added[n].Why += "; the file alone passes, the environment sets " + strings.Join(a.variablesSet(), ", ")
		}
		c.add(f, written.Policy.Name, added)
	}
	return nil
}

// variablesSet names the variables of the environment that override a policy.
func (a *app) variablesSet() []string {
	var set []string
	for _, v := range file.Variables() {
		if _, ok := a.lookup(v.Name); ok {
			set = append(set, v.Name)
		}
	}
	return set
}

// add puts findings under their policy; those of a removed one get a row.
func (c *lintedFile) add(f *file.File, name string, findings []policy.Finding) {
	if e, ok := f.Entry(name); ok {
		for i := range findings {
			place(&e, &findings[i])
		}
	}
	for i := range c.Policies {
		if c.Policies[i].Name == name {
			c.Policies[i].Findings = append(c.Policies[i].Findings, findings...)
			return
		}
	}
	if len(findings) > 0 {
		c.Policies = append(c.Policies, lintedPolicy{Name: name, Findings: findings})
	}
}

func (c *lintedFile) passes() bool {
	for _, p := range c.Policies {
		if policy.Failed(p.Findings) {
			return false
		}
	}
	return c.Problem == ""
}

func (a *app) printChecks(checked []lintedFile) {
	for _, c := range checked {
		all, waivers := c.told()
		a.printFindings(all)
		a.printWaivers(waivers, all)
		if c.Problem != "" {
			fmt.Fprintf(a.stdout, "%s: %s\n", a.paint(red, "error[lock]"), c.Problem)
		}
		state, said := a.paint(green, "ok"), verdict(all)
		if !c.passes() {
			state = a.paint(red, "failed")
		}
		if c.Problem != "" {
			said = "no valid lock; lint " + said
		}
		a.remarkOut("%s: check %s: %s", c.File, state, said)
	}
}

func isLock(ref string) bool { return strings.HasSuffix(ref, ".lock") }

func hasName(ref string) bool { return strings.Contains(ref, "#") }

// lockSet reads the accepted policies of a lock file.
func (a *app) lockSet(path string) ([]file.Entry, error) {
	locked, err := file.ReadLock(path)
	if err != nil {
		return nil, usage(fmt.Errorf("policy: %w", err), "ebb policy accept")
	}
	var entries []file.Entry
	for _, p := range locked {
		entries = append(entries, file.Entry{Policy: p})
	}
	return entries, nil
}
