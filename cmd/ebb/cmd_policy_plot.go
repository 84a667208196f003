package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/plot"
)

func (a *app) policyPlotCommand() *cobra.Command {
	var svg string
	var width int
	c := &cobra.Command{
		Use:   "plot NAME",
		Short: "Draw the timeline of a policy with its jitter bands",
		Long: `Draw when each try can start, from the least to the most that jitter makes of
it, as text; with --svg as a drawing that browsers and pull requests show, in
light and dark.`,
		Example: `  ebb policy plot webhook
  ebb policy plot policies.yaml#webhook --svg webhook.svg
  ebb policy plot scrape --json`,
		Args: exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error { return a.policyPlot(args[0], svg, width) },
	}
	c.Flags().StringVar(&svg, "svg", "", "write an SVG drawing to this file; - for standard output")
	c.Flags().IntVar(&width, "width", 0, "columns of text (default COLUMNS, or 100), or pixels of the SVG")
	return c
}

// plotted is `policy plot --json`: when tries can start after the first, in
// seconds, the ends of all jitter added up.
type plotted struct {
	Name    string       `json:"name"`
	Version string       `json:"version"`
	Tries   []plottedTry `json:"tries"`
	Reach   shownBand    `json:"reach_s"`

	Waivers []policy.Waiver `json:"waivers,omitempty"`
}

type plottedTry struct {
	Attempt  int     `json:"attempt"`
	Nominal  float64 `json:"nominal_s"`
	Earliest float64 `json:"earliest_s"`
	Latest   float64 `json:"latest_s"`
}

func (a *app) policyPlot(ref, svg string, width int) error {
	e, err := a.entry(ref)
	if err != nil {
		return err
	}
	if e, err = a.effective(e); err != nil {
		return err
	}
	p := e.Policy
	if a.json {
		return a.printJSON(plotOf(&p))
	}
	switch svg {
	case "":
		fmt.Fprint(a.stdout, plot.Text(p, a.columns(width)))
	case "-":
		fmt.Fprint(a.stdout, plot.SVG(p, plot.Options{Width: width}))
	default:
		if err := os.WriteFile(svg, []byte(plot.SVG(p, plot.Options{Width: width})), 0o644); err != nil { //nolint:gosec // a drawing to be shown
			return &failed{code: exitNo, err: fmt.Errorf("policy plot: %w", err)}
		}
		a.remarkOut("wrote %s", svg)
	}
	return nil
}

func plotOf(p *policy.Policy) plotted {
	out := plotted{Name: p.Name, Version: p.Version, Tries: []plottedTry{{Attempt: 1}}, Reach: bandOf(p.Reach()), Waivers: p.Waivers}
	var at policy.Band
	for i, b := range p.Delays() {
		at = at.Add(b)
		out.Tries = append(out.Tries, plottedTry{Attempt: i + 2, Nominal: at.Nominal.Seconds(), Earliest: at.Least.Seconds(), Latest: at.Most.Seconds()})
	}
	return out
}

// columns is the width to draw in: as told, as the terminal says, or 100.
func (a *app) columns(width int) int {
	if width > 0 {
		return width
	}
	if env, ok := a.lookup("COLUMNS"); ok {
		if n, err := strconv.Atoi(env); err == nil && n > 0 {
			return n
		}
	}
	return 100
}
