package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

func (a *app) policyLintCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "lint [FILE…]",
		Short: "Judge the policies of files: floors, jitter, growth, windows, budgets",
		Long: `Judge every policy of the files. Each finding has a stable id, the field with
its place in the file, the number that failed, why, and what would pass. A
finding can be waived in the file, with a reason and a date; a waiver shows in
every output, and an expired one fails.

Rules: ` + strings.Join(policy.RuleIDs(), ", ") + `.

Exit codes: 0 no error finding; 1 an error finding; 2 a file that cannot be
read, parsed or validated.`,
		Example: `  ebb policy lint policies.yaml
  ebb policy lint --json policies.yaml
  cat policies.yaml | ebb policy lint -`,
		RunE: func(_ *cobra.Command, args []string) error { return a.policyLint(args) },
	}
}

// lintedFile is one file of `policy lint --json` and `policy check --json`.
type lintedFile struct {
	File     string          `json:"file"`
	Policies []lintedPolicy  `json:"policies"`
	Lock     string          `json:"lock,omitempty"`
	Problem  string          `json:"problem,omitempty"` // of the lock
	Changes  []policyChanges `json:"changes,omitempty"`
}

type lintedPolicy struct {
	Name     string           `json:"name"`
	Version  string           `json:"version"`
	Findings []policy.Finding `json:"findings"`
	Waivers  []policy.Waiver  `json:"waivers,omitempty"`
}

// told gathers the findings and the waivers of the file's policies.
func (c *lintedFile) told() (findings []policy.Finding, waivers []waived) {
	for _, p := range c.Policies {
		findings = append(findings, p.Findings...)
		for _, w := range p.Waivers {
			waivers = append(waivers, waived{p.Name, w})
		}
	}
	return findings, waivers
}

type policyChanges = policy.PolicyDiff

func (a *app) policyLint(args []string) error {
	files, err := a.lintFiles(args)
	if err != nil {
		return err
	}
	var all []policy.Finding
	var waivers []waived
	for _, f := range files {
		findings, waived := f.told()
		all, waivers = append(all, findings...), append(waivers, waived...)
	}
	if a.json {
		if err := a.printJSON(map[string]any{"ok": !policy.Failed(all), "files": files}); err != nil {
			return err
		}
	} else {
		a.printFindings(all)
		a.printWaivers(waivers, all)
		a.remarkOut("%s: %s", strings.Join(fileNames(files), ", "), verdict(all))
	}
	if policy.Failed(all) {
		return no(errors.New("lint found errors"))
	}
	return nil
}

// lintFiles reads and lints every file; a file that cannot be read ends it.
func (a *app) lintFiles(args []string) ([]lintedFile, error) {
	paths, err := a.policyFiles(args)
	if err != nil {
		return nil, err
	}
	var linted []lintedFile
	for _, path := range paths {
		f, err := a.loadFile(path)
		if err != nil {
			return nil, err
		}
		linted = append(linted, a.lintFile(f))
	}
	return linted, nil
}

func (a *app) lintFile(f *file.File) lintedFile {
	out := lintedFile{File: f.Name, Policies: []lintedPolicy{}}
	for i := range f.Entries {
		e := &f.Entries[i]
		out.Policies = append(out.Policies, lintedPolicy{
			Name: e.Policy.Name, Version: e.Policy.Version, Findings: append([]policy.Finding{}, a.lintEntry(e)...),
			Waivers: e.Policy.Waivers,
		})
	}
	return out
}

func fileNames(files []lintedFile) []string {
	var list []string
	for _, f := range files {
		list = append(list, f.File)
	}
	return list
}

// printFindings tells the findings to a person, one paragraph each.
func (a *app) printFindings(findings []policy.Finding) {
	for _, f := range findings {
		where := f.Policy
		if f.Position != nil {
			where = fmt.Sprintf("%s:%d:%d: %s", f.Position.File, f.Position.Line, f.Position.Column, f.Policy)
		}
		label := a.paint(severityColour(f), fmt.Sprintf("%s[%s]", f.Severity, f.ID))
		fmt.Fprintf(a.stdout, "%s: %s %s: %s\n    %s\n    would pass: %s\n", where, label, f.Field, f.Measured, f.Why, f.Fix)
		if f.Waived != nil {
			fmt.Fprintf(a.stdout, "    waived until %s: %s\n", f.Waived.Expires.Format("2006-01-02"), f.Waived.Reason)
		}
	}
}

func severityColour(f policy.Finding) string {
	switch {
	case f.Fails():
		return red
	case f.Severity == policy.SeverityNote:
		return dim
	}
	return yellow
}

// verdict counts the findings in words.
func verdict(findings []policy.Finding) string {
	var errs, warnings, notes, waived int
	for _, f := range findings {
		switch {
		case f.Waived != nil:
			waived++
		case f.Severity == policy.SeverityError:
			errs++
		case f.Severity == policy.SeverityWarning:
			warnings++
		default:
			notes++
		}
	}
	text := "clean"
	if errs > 0 {
		text = count(errs, "error")
	}
	for _, part := range []struct {
		n    int
		noun string
	}{{warnings, "warning"}, {notes, "note"}} {
		if part.n > 0 {
			text += ", " + count(part.n, part.noun)
		}
	}
	if waived > 0 {
		text += fmt.Sprintf(", %d waived", waived)
	}
	return text
}

// remarkOut writes a closing line to standard output unless told to be quiet.
func (a *app) remarkOut(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.stdout, format+"\n", args...)
	}
}
