package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

func (a *app) policyDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Say what a change of policy does, and whether it is risky",
		Long: `Compare two policies, or two files policy by policy, and say in words what
each difference does. Risky is what calls targets sooner, more often or more
at once, gives work up sooner, or takes a guard away.

OLD and NEW are files, FILE#NAME, lock files or names of presets. Two single
policies are compared whatever their names; a policy asked for by name with its
namesake in the other file.

Exit codes: 0 nothing risky, and NEW lints clean; 1 a risky change or an error
finding in NEW; 2 input that cannot be read.`,
		Example: `  ebb policy diff webhook policies.yaml
  ebb policy diff old.yaml new.yaml --json
  ebb policy diff policies.yaml.lock policies.yaml`,
		Args: exactly("OLD", "NEW"),
		RunE: func(_ *cobra.Command, args []string) error { return a.policyDiff(args[0], args[1]) },
	}
}

func (a *app) policyDiff(oldRef, newRef string) error {
	old, oneOld, err := a.policySet(oldRef)
	if err != nil {
		return err
	}
	next, oneNext, err := a.policySet(newRef)
	if err != nil {
		return err
	}
	old, next = pairUp(old, next, oneOld, oneNext)
	diffs := policy.DiffSets(policiesOf(old), policiesOf(next))
	var findings []policy.Finding
	risky := false
	for i := range next {
		findings = append(findings, a.lintEntry(&next[i])...)
	}
	for _, d := range diffs {
		risky = risky || d.Risky
	}
	waivers := waiversOf(policiesOf(next))
	if a.json {
		out := map[string]any{"risky": risky, "policies": nonNil(diffs), "findings": nonNil(findings), "waivers": waivers}
		if err := a.printJSON(out); err != nil {
			return err
		}
	} else {
		a.printDiffs(diffs)
		a.printErrors(findings)
		a.printWaivers(waivers, findings)
	}
	if risky || policy.Failed(findings) {
		return no(errors.New("the change is risky"))
	}
	return nil
}

// policySet reads what a reference names: one policy, or all of a file.
func (a *app) policySet(ref string) (set []file.Entry, one bool, err error) {
	if isLock(ref) {
		set, err = a.lockSet(ref)
		return set, false, err
	}
	if a.isFile(ref) && !hasName(ref) {
		f, err := a.loadFile(ref)
		if err != nil {
			return nil, false, err
		}
		return f.Entries, false, nil
	}
	e, err := a.entry(ref)
	return []file.Entry{e}, true, err
}

// pairUp compares two single policies whatever their names, and one policy
// that was asked for with its namesake alone. Of two files every policy
// counts: what one has and the other lacks is a difference.
func pairUp(old, next []file.Entry, oneOld, oneNext bool) (o, n []file.Entry) {
	switch {
	case len(old) == 1 && len(next) == 1:
		old[0].Policy.Name = next[0].Policy.Name
	case oneOld:
		next = namesake(next, old[0].Policy.Name)
	case oneNext:
		old = namesake(old, next[0].Policy.Name)
	}
	return old, next
}

func namesake(set []file.Entry, name string) []file.Entry {
	for _, e := range set {
		if e.Policy.Name == name {
			return []file.Entry{e}
		}
	}
	return set
}

func policiesOf(entries []file.Entry) []policy.Policy {
	var list []policy.Policy
	for _, e := range entries {
		list = append(list, e.Policy)
	}
	return list
}

func (a *app) printDiffs(diffs []policy.PolicyDiff) {
	if len(diffs) == 0 {
		a.remarkOut("no difference")
	}
	for _, d := range diffs {
		fmt.Fprintf(a.stdout, "%s: %s", a.paint(bold, d.Name), d.Kind)
		if d.Why != "" {
			fmt.Fprintf(a.stdout, ": %s", a.paint(red, d.Why))
		}
		fmt.Fprintln(a.stdout)
		for _, c := range d.Changes {
			mark := "  "
			if c.Risky {
				mark = a.paint(red, "! ")
			}
			fmt.Fprintf(a.stdout, "  %s%s: %s → %s\n      %s\n", mark, c.Path, c.Old, c.New, c.Effect)
			if c.Risky {
				fmt.Fprintf(a.stdout, "      %s\n", a.paint(red, "risky: "+c.Why))
			}
		}
	}
}

// printErrors tells what alone would fail the new version, or would without a
// waiver.
func (a *app) printErrors(findings []policy.Finding) {
	var errs []policy.Finding
	for _, f := range findings {
		if f.Fails() || f.Waived != nil {
			errs = append(errs, f)
		}
	}
	if len(errs) > 0 {
		fmt.Fprintln(a.stdout, "\nlint of the new version:")
		a.printFindings(errs)
	}
}

func nonNil[T any](list []T) []T { return append([]T{}, list...) }
