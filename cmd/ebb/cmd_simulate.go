package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate/file"
	"github.com/ebbhq/ebb/simulate/report"
	"github.com/ebbhq/ebb/simulate/scenario"
)

// simulateFlags are what `ebb simulate` can be told.
type simulateFlags struct {
	policy, against string
	caller          string
	variants        []string
	seed            uint64
	seedSet         bool
	seeds           int
	html            string
	width           int
}

func (a *app) simulateCommand() *cobra.Command {
	var f simulateFlags
	c := &cobra.Command{
		Use:   "simulate SCENARIO",
		Short: "What would this policy do in an outage?",
		Long: `Run policies against modelled services on virtual time, with the code that
decides in production. SCENARIO is a built-in's name ("ebb simulate list") or a
file, - for standard input; "ebb simulate show NAME" prints a built-in to start
from.

A scenario may have variants, all of which are run, or those of --variants.
--policy replaces the policy of the scenario's callers (of --caller alone, where
there are several) and runs it once; --against sets another beside it, or
beside the scenario's own. A policy is FILE#NAME, FILE where it holds one, or a
name of the configured file or of a preset.

The same scenario and seed give the same result, byte for byte with --json.

Exit codes: 0 whatever the numbers are; 2 a scenario or policy that cannot be
read. "ebb policy check --simulate" is the one that fails on numbers. A policy
of --policy or --against that no engine would start with is played all the same,
with a note on standard error that says why.`,
		Example: `  ebb simulate pr-247
  ebb simulate metastable --html metastable.html
  ebb simulate pr-247 --policy policies.yaml#webhook --against webhook --seeds 20
  ebb simulate show herd > mine.yaml
  ebb simulate mine.yaml --json`,
		Args: exactly("SCENARIO"),
		RunE: func(c *cobra.Command, args []string) error {
			f.seedSet = c.Flags().Changed("seed")
			return a.simulate(c, args[0], f)
		},
	}
	c.Flags().StringVar(&f.policy, "policy", "", "FILE[#NAME] or NAME: the policy to run instead of the scenario's")
	c.Flags().StringVar(&f.against, "against", "", "FILE[#NAME] or NAME: the policy to compare with")
	c.Flags().StringVar(&f.caller, "caller", "", "whose policy is replaced (default: every caller's)")
	c.Flags().StringSliceVar(&f.variants, "variants", nil, "run only these variants of the scenario")
	c.Flags().Uint64Var(&f.seed, "seed", 0, "the first seed (default: the scenario's)")
	c.Flags().IntVar(&f.seeds, "seeds", 0, "how many seeds, for confidence intervals (default: the scenario's, or 1)")
	c.Flags().StringVar(&f.html, "html", "", "write a self-contained page to this file; - for standard output")
	c.Flags().IntVar(&f.width, "width", 0, "columns of text (default COLUMNS, or 100)")
	c.AddCommand(a.simulateListCommand(), a.simulateShowCommand(), a.simulateSchemaCommand(), a.simulateReplayCommand())
	return c
}

func (a *app) simulate(c *cobra.Command, ref string, f simulateFlags) error {
	if f.seeds < 0 || f.seeds == 0 && c.Flags().Changed("seeds") || f.seeds > 1_000_000 {
		return usage(fmt.Errorf("simulate: --seeds %d is out of range; 1 to 1000000", f.seeds), "ebb simulate "+ref+" --seeds 20")
	}
	s, err := a.loadScenario(ref)
	if err != nil {
		return err
	}
	plays, from, to, err := a.plays(s, f)
	if err != nil {
		return err
	}
	r := &report.Report{Name: s.Scenario.Name, About: s.Scenario.About, From: from, To: to}
	for i, p := range plays {
		o := a.playOptions(&p, i, len(plays))
		o.Seeds, o.Parallel = max(f.seeds, 1), runtime.NumCPU()
		if f.seeds == 0 {
			o.Seeds = max(s.Seeds, 1)
		}
		if f.seedSet {
			p.Scenario.Seed = f.seed
		}
		played, err := report.Play(c.Context(), p.Name, p.About, p.Scenario, o)
		if err != nil {
			return usage(err, "ebb simulate schema, or docs/scenario-reference.md")
		}
		r.Cases = append(r.Cases, played)
	}
	a.progressDone()
	return a.printReport(r, f)
}

// plays lists what is to be run, and which two of them are compared.
func (a *app) plays(s *file.File, f simulateFlags) (plays []file.Variant, from, to int, err error) {
	if f.policy != "" || f.against != "" {
		return a.withPolicies(s, f)
	}
	if f.caller != "" {
		return nil, 0, 0, usage(errors.New("simulate: --caller says whose policy --policy replaces"), "ebb simulate SCENARIO --policy FILE#NAME --caller "+f.caller)
	}
	if plays, from, to, err = s.Plays(f.variants); err != nil {
		return nil, 0, 0, usage(fmt.Errorf("simulate: %w", err), "ebb simulate "+s.Scenario.Name)
	}
	return plays, from, to, nil
}

// withPolicies runs the scenario under the policies of the command line.
func (a *app) withPolicies(s *file.File, f simulateFlags) (plays []file.Variant, from, to int, err error) {
	base := file.Variant{Name: s.Scenario.Callers[0].Policy.Name, Scenario: s.Scenario}
	if f.policy != "" {
		if base, err = a.withPolicy(s, f.policy, f.caller); err != nil {
			return nil, 0, 0, err
		}
	}
	plays = []file.Variant{base}
	if f.against == "" {
		return plays, 0, 0, nil
	}
	other, err := a.withPolicy(s, f.against, f.caller)
	if err != nil {
		return nil, 0, 0, err
	}
	if other.Name == base.Name { // a change of a policy beside what it changes
		other.Name = f.against
		if f.policy != "" {
			plays[0].Name = f.policy
		}
	}
	return append(plays, other), 1, 0, nil
}

// withPolicy is the scenario with the policy of its callers replaced.
func (a *app) withPolicy(s *file.File, ref, caller string) (file.Variant, error) {
	e, err := a.entry(ref)
	if err != nil {
		return file.Variant{}, unreadable(err)
	}
	if e, err = a.effective(e); err != nil {
		return file.Variant{}, err
	}
	a.remarkRefused(&e.Policy)
	v, err := s.With(e.Policy, ref, caller)
	if err != nil {
		return v, usage(fmt.Errorf("simulate: %w", err), "ebb simulate "+s.Scenario.Name+" --caller "+s.Scenario.Callers[0].Name)
	}
	return v, nil
}

// remarkRefused notes that no engine would start with the policy, and why.
func (a *app) remarkRefused(p *policy.Policy) {
	var refused *policy.EnforceError
	if !errors.As(policy.Enforce(*p, a.today()), &refused) {
		return
	}
	first, more := refused.Findings[0], ""
	if n := len(refused.Findings) - 1; n > 0 {
		more = fmt.Sprintf("; and %d more", n)
	}
	a.remarkErr("ebb: note: no engine would start with policy %s: %s %s: %s; would pass: %s%s",
		p.Name, first.ID, first.Field, first.Measured, first.Fix, more)
}

// unreadable gives the exit code of bad input to an unknown name: simulate
// answers with numbers, never with no.
func unreadable(err error) error {
	var f *failed
	if errors.As(err, &f) && f.code == exitNo {
		return usage(f.err, f.try)
	}
	return err
}

func (a *app) loadScenario(ref string) (*file.File, error) {
	if scenario.Is(ref) {
		f, err := scenario.Load(ref)
		if err != nil {
			return nil, usage(err, "")
		}
		return f, nil
	}
	f, err := a.readScenario(ref)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !looksLikeFile(ref):
		return nil, usage(fmt.Errorf("simulate: %q is neither a built-in scenario nor a file", ref), "ebb simulate list")
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage(fmt.Errorf("simulate: %w", err), "ebb simulate list")
	case err != nil:
		return nil, usage(fmt.Errorf("simulate: %w", err), "ebb simulate schema, or docs/scenario-reference.md")
	}
	return f, nil
}

// readScenario reads a file; "-" is standard input.
func (a *app) readScenario(ref string) (*file.File, error) {
	if ref != "-" {
		return file.Load(ref)
	}
	src, err := io.ReadAll(io.LimitReader(a.stdin, file.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return file.Parse("-", src, file.Beside("."))
}

func (a *app) printReport(r *report.Report, f simulateFlags) error {
	switch f.html {
	case "":
	case "-":
		_, err := fmt.Fprint(a.stdout, r.HTML())
		return err
	default:
		if err := os.WriteFile(f.html, []byte(r.HTML()), 0o644); err != nil { //nolint:gosec // a page to be shown
			return usage(fmt.Errorf("simulate: %w", err), "a directory that this user can write to")
		}
	}
	if a.json {
		return a.printJSON(r.Told())
	}
	fmt.Fprint(a.stdout, r.Text(a.columns(f.width)))
	if f.html != "" {
		a.remarkOut("\nwrote %s", f.html)
	}
	return nil
}

// playOptions tell how far a long run is, on a terminal alone: within the
// first seed by virtual time, then by seeds.
func (a *app) playOptions(p *file.Variant, play, plays int) (o report.Options) {
	if a.quiet || !isTerminal(a.stderr) {
		return o
	}
	told := a.now()
	say := func(text string) {
		if a.now().Sub(told) > 200*time.Millisecond {
			told = a.now()
			fmt.Fprintf(a.stderr, "\r\x1b[K%s (%d of %d): %s", p.Name, play+1, plays, text)
		}
	}
	steps := 0
	o.Watch = func(at time.Duration) {
		if steps++; steps%4096 == 0 {
			say("at " + span(at.Round(time.Second)))
		}
	}
	o.Progress = func(done, seeds int) { say(fmt.Sprintf("seed %d of %d", done, seeds)) }
	return o
}

func (a *app) progressDone() {
	if !a.quiet && isTerminal(a.stderr) {
		fmt.Fprint(a.stderr, "\r\x1b[K")
	}
}

func (a *app) simulateListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the built-in scenarios",
		Example: "  ebb simulate list\n  ebb simulate list --json",
		Args:    exactly(),
		RunE:    func(*cobra.Command, []string) error { return a.simulateList() },
	}
}

func (a *app) simulateList() error {
	list, err := scenario.List()
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]any{"scenarios": list})
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, one := range list {
		fmt.Fprintf(w, "%s\t%s\n", one.Name, one.About)
	}
	return w.Flush()
}

func (a *app) simulateShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Print a built-in scenario to start from",
		Example: "  ebb simulate show metastable > mine.yaml",
		Args:    exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := scenario.Source(args[0])
			if err != nil {
				return usage(err, "ebb simulate list")
			}
			_, err = fmt.Fprint(a.stdout, text)
			return err
		},
	}
}

func (a *app) simulateSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the scenario file",
		Long: `Print the JSON Schema (2020-12) of the scenario file, for editors. With the YAML
language server, put this at the top of a scenario:

  # yaml-language-server: $schema=ebb-scenario.schema.json`,
		Example: "  ebb simulate schema > ebb-scenario.schema.json",
		Args:    exactly(),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.stdout.Write(file.Schema())
			return err
		},
	}
}

func (a *app) simulateReplayCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "replay",
		Short:  "Reserved",
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			return usage(errors.New("simulate replay: the name is reserved; there is no such command yet"), "ebb simulate SCENARIO")
		},
	}
}
