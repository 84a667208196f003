package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

func (a *app) policyCommand() *cobra.Command {
	c := group("policy", "The retry contract: show, lint, compare, accept, check",
		`A policy says when failing work is tried again, how often, how spread, and
when it stops. Policies stand in a YAML file; presets carry the figures of the
four systems that Ebb comes from.

Where a command takes FILE and none is given, it reads the file that ebb.yaml
names under "policies". Where it takes a policy, that is a NAME (of that file
or of a preset) or FILE#NAME.`)
	c.AddCommand(
		a.policyListCommand(), a.policyShowCommand(), a.policyLintCommand(), a.policyDiffCommand(),
		a.policyAcceptCommand(), a.policyCheckCommand(), a.policyAuditCommand(), a.policyPlotCommand(), a.policySchemaCommand(),
	)
	return c
}

func (a *app) policyListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the presets and the policies of the configured file",
		Example: "  ebb policy list\n  ebb policy list --json",
		Args:    exactly(),
		RunE:    func(*cobra.Command, []string) error { return a.policyList() },
	}
}

type listed struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	From     string `json:"from"`
	Attempts int    `json:"attempts"`
	Words    string `json:"words"`
	About    string `json:"about,omitempty"`

	Waivers []policy.Waiver `json:"waivers,omitempty"`
}

func (a *app) policyList() error {
	entries, err := a.allPolicies()
	if err != nil {
		return err
	}
	var rows []listed
	var policies []policy.Policy
	for _, e := range entries {
		policies = append(policies, e.Policy)
		p := e.Policy
		from := "preset"
		if at := e.Pos(""); !at.IsZero() {
			from = at.String()
		}
		rows = append(rows, listed{Name: p.Name, Version: p.Version, From: from, Attempts: p.Attempts, Words: words(&p), About: policy.About(p.Name), Waivers: p.Waivers})
	}
	if a.json {
		return a.printJSON(map[string]any{"policies": rows})
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tVERSION\tPROMISE\tFROM")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Name, r.Version, r.Words, r.From)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.printWaivers(waiversOf(policies), nil)
	return nil
}

// allPolicies lists the configured file's policies, then the presets that it
// does not replace.
func (a *app) allPolicies() ([]file.Entry, error) {
	s, err := a.settings()
	if err != nil {
		return nil, err
	}
	var entries []file.Entry
	if s.Policies != "" {
		f, err := a.loadFile(s.Policies)
		if err != nil {
			return nil, err
		}
		entries = f.Entries
	}
	own := map[string]bool{}
	for _, e := range entries {
		own[e.Policy.Name] = true
	}
	for _, name := range policy.PresetNames() {
		if own[name] {
			continue
		}
		e, err := file.Preset(name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (a *app) policySchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the policy file",
		Long: `Print the JSON Schema (2020-12) of the policy file, for editors. With the YAML
language server, put this at the top of a policy file:

  # yaml-language-server: $schema=ebb-policies.schema.json`,
		Example: "  ebb policy schema > ebb-policies.schema.json",
		Args:    exactly(),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.stdout.Write(file.Schema())
			return err
		},
	}
}
