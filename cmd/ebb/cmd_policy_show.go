package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

func (a *app) policyShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a policy: its schedule, every value and where it came from",
		Long: `Show a policy as an engine would run it: the delays with the ends of their
jitter, every value with its origin (preset, file and line, environment), what
each class of failures does, and what lint says.

Delays are numbered by the try that follows them: 2 is the first retry. The
window is the sum of the delays alone; timeouts are not counted.

The environment of webhook senders overrides preset and file: ` + strings.Join(variableNames(), ", ") + `.`,
		Example: `  ebb policy show webhook
  ebb policy show policies.yaml#webhook --json
  WEBHOOK_TIMEOUT_SECONDS=20 ebb policy show webhook`,
		Args: exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error { return a.policyShow(args[0]) },
	}
}

func variableNames() []string {
	var list []string
	for _, v := range file.Variables() {
		list = append(list, v.Name)
	}
	return list
}

// shown is `policy show --json`.
type shown struct {
	Name     string           `json:"name"`
	Version  string           `json:"version"`
	About    string           `json:"about,omitempty"`
	Words    string           `json:"words"`
	Attempts int              `json:"attempts"`
	Retries  int              `json:"retries"`
	Delays   []shownDelay     `json:"delays"`
	Window   shownBand        `json:"window_s"`
	Reach    shownBand        `json:"reach_s"` // the window with waves and their cooldowns
	Values   []shownValue     `json:"values"`
	Classes  []shownClass     `json:"classes"`
	Findings []policy.Finding `json:"findings"`
	Waivers  []policy.Waiver  `json:"waivers,omitempty"`
}

type shownDelay struct {
	Attempt int     `json:"attempt"`
	Nominal float64 `json:"nominal_s"`
	Min     float64 `json:"min_s"`
	Max     float64 `json:"max_s"`
}

type shownBand struct {
	Nominal float64 `json:"nominal"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
}

type shownValue struct {
	Path   string `json:"path"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

type shownClass struct {
	Class  string `json:"class"`
	Group  string `json:"group"`
	Action string `json:"action"`
	Counts string `json:"counts"`
	Rule   string `json:"rule"`
}

func (a *app) policyShow(ref string) error {
	e, err := a.entry(ref)
	if err != nil {
		return err
	}
	if e, err = a.effective(e); err != nil {
		return err
	}
	s := a.describe(&e)
	if a.json {
		return a.printJSON(s)
	}
	return a.printShown(&e, s)
}

func (a *app) describe(e *file.Entry) shown {
	p := e.Policy
	s := shown{
		Name: p.Name, Version: p.Version, About: policy.About(p.Name), Words: words(&p),
		Attempts: p.Attempts, Retries: max(p.Attempts-1, 0),
		Delays: []shownDelay{}, Window: bandOf(p.Span()), Reach: bandOf(p.Reach()),
		Findings: append([]policy.Finding{}, a.lintEntry(e)...), Waivers: p.Waivers,
	}
	for i, b := range p.Delays() {
		s.Delays = append(s.Delays, shownDelay{Attempt: i + 2, Nominal: b.Nominal.Seconds(), Min: b.Least.Seconds(), Max: b.Most.Seconds()})
	}
	base := policy.Base(p.Name)
	for _, f := range policy.Fields() {
		if f.IsZero(&p) && f.IsZero(&base) {
			continue
		}
		s.Values = append(s.Values, shownValue{Path: f.Path, Value: f.Text(&p), Origin: e.Origin(f.Path).String()})
	}
	for _, c := range failure.Classes() {
		r := p.RuleFor(failure.Of(c))
		s.Classes = append(s.Classes, shownClass{Class: c.String(), Group: c.Group().String(), Action: string(r.Action), Counts: costOf(r), Rule: r.Label})
	}
	return s
}

func bandOf(b policy.Band) shownBand {
	return shownBand{Nominal: b.Nominal.Seconds(), Min: b.Least.Seconds(), Max: b.Most.Seconds()}
}

// costOf says what a start under the rule costs: "attempt", "free up to 3" …
func costOf(r *policy.Rule) string {
	switch {
	case !r.Action.Retries() && r.Action != policy.Fail && r.Action != policy.DisableTarget:
		return "nothing"
	case r.Counts == policy.CountsAttempt:
		return "attempt"
	case r.Max > 0:
		return fmt.Sprintf("free up to %d", r.Max)
	case r.Window > 0:
		return "free for " + span(r.Window)
	}
	return "counted apart"
}

func (a *app) printShown(e *file.Entry, s shown) error {
	p := e.Policy
	fmt.Fprintf(a.stdout, "%s  version %s\n", a.paint(bold, s.Name), s.Version)
	if s.About != "" {
		fmt.Fprintln(a.stdout, s.About)
	}
	fmt.Fprintf(a.stdout, "\n%s\n", s.Words)
	a.printDelays(&p)
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nFIELD\tVALUE\tFROM")
	for _, v := range s.Values {
		fmt.Fprintf(w, "%s\t%s\t%s\n", v.Path, v.Value, v.Origin)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	w = tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nACTION\tCOSTS\tRULE\tFAILURES")
	for _, row := range gather(&p) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", row.Action, row.Counts, row.Rule, row.Class)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	a.printFindings(s.Findings)
	a.printWaivers(waiversOf([]policy.Policy{p}), s.Findings)
	fmt.Fprintf(a.stdout, "lint: %s\n", verdict(s.Findings))
	return nil
}

// mostDelays is how many delays a person is shown before the last.
const mostDelays = 30

func (a *app) printDelays(p *policy.Policy) {
	bands := p.Delays()
	if len(bands) == 0 {
		return
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "try\tafter\tleast\tmost\tsince the first\t")
	var sum policy.Band
	skipped := false
	for i, b := range bands {
		sum = sum.Add(b)
		last := i == len(bands)-1
		if !last && (i >= mostDelays || i >= 3 && b == bands[i-1] && b == bands[i+1]) {
			if !skipped {
				fmt.Fprintln(w, "…\t\t\t\t\t")
			}
			skipped = true
			continue
		}
		skipped = false
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t\n", i+2, span(b.Nominal), span(b.Least), span(b.Most), span(sum.Nominal))
	}
	_ = w.Flush() // to standard output, whose errors show at the end
	total := p.Span()
	fmt.Fprintf(a.stdout, "window: %s (%s to %s), delays alone\n", span(total.Nominal), span(total.Least), span(total.Most))
	if p.Waves.Count > 0 {
		reach := p.Reach()
		fmt.Fprintf(a.stdout, "waves: up to %d, after %s each, %d workers, %s apart, for %s; reach %s (%s to %s), cooldowns %s\n",
			p.Waves.Count, span(p.Waves.Cooldown), p.Waves.Concurrency, span(p.Waves.Spacing), strings.Join(p.Waves.Classes.Names(), ", "),
			span(reach.Nominal), span(reach.Least), span(reach.Most), span(time.Duration(p.Waves.Count)*p.Waves.Cooldown))
	}
}

// gather joins the classes that one kind of rule treats alike, whole groups
// by their name.
func gather(p *policy.Policy) []shownClass {
	var rows []shownClass
	var sets []policy.ClassSet
	at := map[shownClass]int{}
	for _, c := range failure.Classes() {
		r := p.RuleFor(failure.Of(c))
		rule, _, _ := strings.Cut(r.Label, "/")
		key := shownClass{Action: string(r.Action), Counts: costOf(r), Rule: rule}
		i, ok := at[key]
		if !ok {
			i = len(rows)
			at[key] = i
			rows, sets = append(rows, key), append(sets, 0)
		}
		sets[i] |= policy.SetOf(c)
	}
	for i := range rows {
		rows[i].Class = strings.Join(sets[i].Names(), ", ")
	}
	return rows
}
