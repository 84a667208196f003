package campaign

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/work/supervise"
)

// Report says what a campaign has brought in, and what not.
type Report struct {
	Campaign string         `json:"campaign"`
	At       time.Time      `json:"at"`
	Complete bool           `json:"complete" doc:"every source is done and proven"`
	Waiting  int            `json:"waiting" doc:"sources that are queued or run"`
	Parked   int            `json:"parked" doc:"sources that wait for a person"`
	Failed   int            `json:"failed" doc:"sources that failed or were cancelled"`
	Sources  []SourceReport `json:"sources"`
}

// SourceReport is what became of one source.
type SourceReport struct {
	Place     int            `json:"place"`
	Source    string         `json:"source"`
	Run       string         `json:"run"`
	State     job.State      `json:"state,omitempty"`
	Cause     job.Cause      `json:"cause,omitempty"`
	Error     string         `json:"error,omitempty"`
	Units     int64          `json:"units"`
	Counter   string         `json:"counter,omitempty"`
	Last      int64          `json:"last_units,omitempty" doc:"of the year before, where it succeeded"`
	Coverage  float64        `json:"coverage,omitempty" doc:"units as a share of the year before's"`
	Attempts  int            `json:"attempts" doc:"lives of its process"`
	Restarts  int            `json:"restarts" doc:"that spent the budget"`
	Left      int            `json:"restarts_left"`
	Reasons   map[string]int `json:"reasons,omitempty" doc:"why starts ended, with how many"`
	StartedAt time.Time      `json:"started_at,omitzero" doc:"of the newest life"`
	Dir       string         `json:"dir,omitempty"`
}

// Percent is the coverage for people.
func (r SourceReport) Percent() float64 { return 100 * r.Coverage }

// Report tells what a campaign has brought in so far.
func (s *Service) Report(ctx context.Context, now time.Time, name string) (Report, error) {
	st, err := s.Show(ctx, name)
	if err != nil {
		return Report{}, err
	}
	out := Report{Campaign: st.Campaign, At: now.UTC(), Complete: true}
	var against []string
	for i := range st.Sources {
		against = append(against, st.Sources[i].Run.Spec.Success.Against)
	}
	last, err := s.look(ctx, slices.DeleteFunc(against, func(name string) bool { return name == "" }))
	if err != nil {
		return out, err
	}
	for i := range st.Sources {
		o := reportOf(&st.Sources[i], last)
		switch o.State {
		case job.Succeeded:
		case job.Queued, job.Running:
			out.Waiting++
		case job.Parked:
			out.Parked++
		default:
			out.Failed++
		}
		out.Complete = out.Complete && o.State == job.Succeeded
		out.Sources = append(out.Sources, o)
	}
	return out, nil
}

func reportOf(o *SourceStatus, years map[string]*found) SourceReport {
	run := &o.Run
	r := SourceReport{
		Place: o.Place, Source: o.Source, Run: run.Name, State: run.State, Cause: run.Cause, Error: run.Error, Units: run.Units, Counter: run.Counter,
		Attempts: run.Attempt, Restarts: run.RestartsUsed, Left: run.RestartsLeft, StartedAt: run.StartedAt, Dir: run.Dir,
	}
	for i := range run.Restarts {
		if r.Reasons == nil {
			r.Reasons = map[string]int{}
		}
		r.Reasons[reasonOf(&run.Restarts[i])]++
	}
	if last := years[run.Spec.Success.Against]; last != nil && last.Name != run.Name && last.Status.LastUnits > 0 {
		r.Last = last.Status.LastUnits
		r.Coverage = float64(r.Units) / float64(r.Last)
	}
	return r
}

func reasonOf(r *supervise.Restart) string {
	if r.Reason != "" {
		return r.Reason
	}
	return r.Class
}

// Why tells in words how a source came to where it stands, and what comes
// next.
func (s *Service) Why(ctx context.Context, now time.Time, name, source string) ([]string, error) {
	st, err := s.Show(ctx, name)
	if err != nil {
		return nil, err
	}
	o, ok := st.Source(source)
	if !ok {
		var names []string
		for i := range st.Sources {
			if i == maxNamed {
				names = append(names, fmt.Sprintf("… %d more", len(st.Sources)-i))
				break
			}
			names = append(names, st.Sources[i].Source)
		}
		return nil, missingError(fmt.Sprintf("campaign %s: no source %q; one of: %s", st.Campaign, source, strings.Join(names, ", ")))
	}
	run := &o.Run
	lines := []string{fmt.Sprintf("%s is source %d of %d of %s: run %s, %s.", o.Source, o.Place, len(st.Sources), st.Campaign, run.Name, standing(run))}
	if run.State == job.Queued {
		lines = append(lines, st.ahead(o))
	}
	if run.Held != "" {
		lines = append(lines, "It waits: "+run.Held+".")
	}
	for i := range run.Restarts {
		r := &run.Restarts[i]
		line := fmt.Sprintf("Start %d ended %s: %s: %s; %s", r.Start, r.At.UTC().Format(time.RFC3339), reasonOf(r), r.Error, r.Action)
		if r.Delay > 0 {
			line += fmt.Sprintf(" after %s", time.Duration(r.Delay*float64(time.Second)))
		}
		lines = append(lines, line+fmt.Sprintf(" by rule %s, counted as %s.", r.Rule, r.Counted))
	}
	if p := s.policies[run.Policy]; p != nil {
		lines = append(lines, fmt.Sprintf("Policy %s: %d restarts used, %d left; it adapts at %d timeouts or %d HTTP errors without progress.",
			run.Policy, run.RestartsUsed, run.RestartsLeft, p.Thresholds.Timeout, p.Thresholds.HTTP))
	}
	for _, m := range remedies(&st, s.policies, now).Remedies {
		if m.Source == o.Source {
			lines = append(lines, fmt.Sprintf("Recover: %s: %s.", m.Verb, m.Why))
		}
	}
	return lines, nil
}

func standing(run *supervise.Run) string {
	switch {
	case run.Job == "":
		return "not queued yet"
	case run.Cause != "":
		return fmt.Sprintf("%s (%s), %d %s", run.State, run.Cause, run.Units, run.Counter)
	}
	return fmt.Sprintf("%s, %d %s", run.State, run.Units, run.Counter)
}

// ahead says for whom a queued source waits.
func (s *Status) ahead(o *SourceStatus) string {
	for i := range s.Sources {
		if other := &s.Sources[i]; other.Place != o.Place && other.Run.State == job.Running {
			return fmt.Sprintf("The queue %s has one slot, and %s has it.", s.Queue, other.Run.Name)
		}
	}
	for i := range s.Sources[:o.Place-1] {
		if other := &s.Sources[i]; other.Run.State == job.Queued {
			return fmt.Sprintf("The queue %s is strict, and %s comes before it.", s.Queue, other.Run.Name)
		}
	}
	return fmt.Sprintf("It is next in the queue %s; if it does not start, no server works on that queue, or it is paused: ebb job why %s.", s.Queue, o.Run.Job)
}
