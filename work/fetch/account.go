package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/fetch/report"
	"github.com/ebbhq/ebb/worker"
)

// FailuresName is the manifest of what is missing, in a fetch's directory.
const FailuresName = "failures.csv"

// Report makes the account of a fetch for people and programs, with every
// failure read.
func Report(ctx context.Context, s store.Store, f *Fetch) (*report.Report, error) {
	tally, err := Count(ctx, s, f)
	if err != nil && (f.Phase == Ended || !errors.Is(err, ErrUnbalanced)) { // one under way moves while we count
		return nil, err
	}
	r := &report.Report{
		Name: f.Name, ID: f.ID, Policy: f.Policy, Version: f.Version, StartedAt: f.CreatedAt, EndedAt: f.EndedAt,
		Input: tally.Input, Repeated: f.Repeated, Counts: map[report.Outcome]int64{}, Followed: f.Follows,
		Stopped: string(f.Stopped), Manifest: FailuresName,
	}
	for _, o := range Outcomes() {
		r.Counts[report.Outcome(o)] = tally.Of(o)
	}
	for _, w := range slices.Concat(f.Earlier, f.Waves) {
		r.Waves = append(r.Waves, report.Wave{
			Number: w.Number, Planned: w.Planned, Tried: w.Tried, Recovered: w.Recovered, Cooldown: w.Cooldown,
			Concurrency: w.Concurrency, Spacing: w.Spacing, StartedAt: w.StartAt, EndedAt: w.EndedAt,
		})
	}
	if f.Waiver != "" {
		r.Waivers = []string{f.Waiver}
	}
	if f.Previous != "" && f.Phase == Ended {
		before, err := Find(ctx, s, f.Previous)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if err == nil && before.Tally != nil {
			r.Comparison = report.Compare(before.ID, before.Tally.OK+before.Tally.Unchanged, tally.OK+tally.Unchanged)
		}
	}
	r.Failures = func(do func(report.Failure) error) error { return eachFailure(ctx, s, f, do) }
	return r, gather(r)
}

// gather reads the failures once, for their reasons and columns.
func gather(r *report.Report) error {
	by := map[report.Reason]*report.Reason{}
	err := r.Failures(func(f report.Failure) error {
		key := report.Reason{Outcome: f.Outcome, Class: f.Class, Reason: worker.Shape(f.Reason)}
		found := by[key]
		if found == nil {
			found = &report.Reason{Outcome: f.Outcome, Class: f.Class, Reason: f.Reason, Example: f.URL}
			by[key] = found
		}
		found.Count++
		for _, c := range f.Context {
			if !slices.Contains(r.Columns, c.Name) {
				r.Columns = append(r.Columns, c.Name)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, reason := range by {
		r.Reasons = append(r.Reasons, *reason)
	}
	slices.SortFunc(r.Reasons, func(a, b report.Reason) int {
		if a.Count != b.Count {
			return int(b.Count - a.Count)
		}
		return strings.Compare(a.Class+a.Reason+a.Example, b.Class+b.Reason+b.Example)
	})
	return nil
}

// eachFailure calls do for every page that is not here.
func eachFailure(ctx context.Context, s store.Reader, f *Fetch, do func(report.Failure) error) error {
	for _, state := range []job.State{job.Failed, job.Parked, job.Cancelled, job.Queued, job.Running} {
		err := Each(ctx, s, f, state, func(p Page) error { return do(failureOf(f, &p)) })
		if err != nil {
			return err
		}
	}
	return nil
}

func failureOf(f *Fetch, p *Page) report.Failure {
	class := p.Job.LastClass.String()
	out := report.Failure{
		URL: p.Args.URL, Outcome: report.Outcome(p.Outcome), Class: class, Status: p.Kept.Status,
		Reason: strings.TrimPrefix(p.Job.LastError, class+": "), Starts: p.Job.History.Starts, At: p.Job.EndedAt,
	}
	switch {
	case p.Job.LastError == "" && p.Job.Cause != "":
		out.Class, out.Reason = "", string(p.Job.Cause)
	case p.Job.LastError == "":
		out.Class, out.Reason = "", "not tried yet"
	}
	if i := strings.LastIndex(out.Reason, "http status "); i >= 0 {
		if _, err := fmt.Sscanf(out.Reason[i:], "http status %d", &out.Status); err != nil {
			out.Status = 0
		}
	}
	out.Wave = waveAt(f, p.Job.EndedAt)
	for _, c := range p.Args.Context {
		out.Context = append(out.Context, report.Column(c))
	}
	return out
}

// waveAt is the number of the wave that was under way at an instant.
func waveAt(f *Fetch, at time.Time) int {
	n := 0
	for _, w := range f.Waves {
		if !at.Before(w.StartAt) {
			n = w.Number
		}
	}
	return n
}
