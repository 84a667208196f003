package campaign

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/supervise"
)

// Verb is what recover does about a run.
type Verb string

const (
	Restart Verb = "restart" // fresh restarts, with at least the policy's figures
	Raise   Verb = "raise"   // it waits or runs: only its figures are raised
	Wait    Verb = "wait"    // it would be recovered, but not now
	Person  Verb = "person"  // nothing but a person can mend it
	Nothing Verb = "nothing"
)

// Remedy is what recover would do about one source.
type Remedy struct {
	Source string            `json:"source"`
	Run    string            `json:"run"`
	Verb   Verb              `json:"verb"`
	Why    string            `json:"why"`
	From   supervise.Options `json:"from" doc:"the run's own figures; 0 = as the policy says"`
	To     supervise.Options `json:"to"`
}

// Recovered is what recover found, and did where it was told to.
type Recovered struct {
	Campaign string   `json:"campaign"`
	Applied  bool     `json:"applied" doc:"the first remedy that acts was carried out"`
	Blocked  string   `json:"blocked,omitempty" doc:"what keeps every remedy from acting"`
	Remedies []Remedy `json:"remedies" doc:"in the order of the sources"`
}

// Acts returns the one remedy that acts; nil if none does.
func (r *Recovered) Acts() *Remedy {
	for i := range r.Remedies {
		if v := r.Remedies[i].Verb; v == Restart || v == Raise {
			return &r.Remedies[i]
		}
	}
	return nil
}

// Waits reports whether a limit or the lock keeps a run from being recovered.
func (r *Recovered) Waits() bool {
	return r.Acts() == nil && slices.ContainsFunc(r.Remedies, func(m Remedy) bool { return m.Verb == Wait })
}

// day is the window of Limits.PerDay.
const day = 24 * time.Hour

// Recover gives the first run that has spent its restarts fresh ones, with at
// least the policy's figures: one at a time, and only within the campaign's
// limits. Without apply it only says what it would do.
func (s *Service) Recover(ctx context.Context, now time.Time, actor, name string, apply bool) (Recovered, error) {
	r, err := s.load(ctx, name)
	if err != nil {
		return Recovered{}, err
	}
	st, err := s.describe(ctx, r)
	if err != nil {
		return Recovered{}, err
	}
	out := remedies(&st, s.policies, now)
	act := out.Acts()
	if !apply || act == nil {
		return out, nil
	}
	out.Applied = true
	source, _ := st.Source(act.Source)
	detail := fmt.Sprintf("%s %s: restarts %d → %d, timeouts %d → %d, http %d → %d", act.Verb, act.Run,
		act.From.MaxContainerRestarts, act.To.MaxContainerRestarts, act.From.ErrorThresholdTimeout, act.To.ErrorThresholdTimeout,
		act.From.ErrorThresholdHTTP, act.To.ErrorThresholdHTTP)
	if act.Verb == Restart {
		r.Recoveries = append(r.Recoveries, Recovery{
			At: now.UTC(), Run: act.Run, Actor: actor, Units: source.Run.Units, Cause: string(source.Run.Cause), From: act.From, To: act.To,
		})
	}
	// The record first: of two servers that recover at once, one is refused.
	if err := s.keep(ctx, now, r, store.AuditRow{Actor: actor, Act: "campaign.recover", Detail: detail}); err != nil {
		return out, err
	}
	return out, s.carryOut(ctx, now, actor, act, &source.Run)
}

func (s *Service) carryOut(ctx context.Context, now time.Time, actor string, act *Remedy, run *supervise.Run) error {
	if act.From != act.To {
		spec := run.Spec
		spec.Options = act.To
		_, err := s.runs.Change(ctx, now, actor, spec)
		return err
	}
	seq, err := job.ParseID(run.Job)
	if err != nil {
		return err
	}
	if err := s.store.Retry(ctx, now, actor, seq); err != nil {
		return fmt.Errorf("campaign: run %s: %w", act.Run, err)
	}
	return nil
}

// remedies judges every source; at most one of them acts.
func remedies(st *Status, policies map[string]*policy.Policy, now time.Time) Recovered {
	out := Recovered{Campaign: st.Campaign, Blocked: blocked(st, now)}
	acting := ""
	for i := range st.Sources {
		source := &st.Sources[i]
		m := remedy(source, policies[source.Run.Policy], st)
		acts := m.Verb == Restart || m.Verb == Raise
		switch {
		case !acts:
		case st.Lock.holds(now), m.Verb == Restart && out.Blocked != "":
			m.Verb, m.Why = Wait, m.Why+"; "+out.Blocked
		case acting != "":
			m.Verb, m.Why = Wait, m.Why+"; one at a time, after "+acting
		default:
			acting = m.Run
		}
		out.Remedies = append(out.Remedies, m)
	}
	return out
}

// blocked says what keeps every run of the campaign from being recovered.
func blocked(st *Status, now time.Time) string {
	if st.Lock.holds(now) {
		return st.Lock.String()
	}
	recent, first := 0, time.Time{}
	for i := range st.Recoveries {
		if r := &st.Recoveries[i]; now.Sub(r.At) < day {
			if recent++; recent == 1 {
				first = r.At
			}
		}
	}
	if recent >= st.Limits.PerDay {
		return fmt.Sprintf("%d of %d recoveries of a day are spent; the next from %s on", recent, st.Limits.PerDay, first.Add(day).UTC().Format(time.RFC3339))
	}
	if n := len(st.Recoveries); n > 0 {
		last := &st.Recoveries[n-1]
		if o, ok := st.Source(last.Run); ok && (o.Run.State == job.Queued || o.Run.State == job.Running) && o.Run.Units <= last.Units {
			return fmt.Sprintf("%s was recovered at %s and has not got further yet", last.Run, last.At.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

// remedy judges one source by itself.
func remedy(o *SourceStatus, p *policy.Policy, st *Status) Remedy {
	run := &o.Run
	m := Remedy{Source: o.Source, Run: run.Name, Verb: Nothing, From: run.Spec.Options, To: run.Spec.Options}
	if p != nil {
		m.To = run.Spec.Raised(p)
	}
	switch {
	case run.Job == "":
		m.Verb, m.Why = Person, "it is not queued; schedule the campaign again"
	case run.State == job.Succeeded:
		m.Why = "done and proven"
	case run.State == job.Cancelled:
		m.Why = "an operator cancelled it"
	case run.State == job.Queued || run.State == job.Running:
		if m.Why = string(run.State); m.From != m.To {
			m.Verb, m.Why = Raise, "its figures are lower than the policy's"
		}
	case run.Cause == retry.CauseNoProgress || run.Cause == retry.CauseExhausted:
		m.Verb, m.Why = Restart, fmt.Sprintf("%s (%s) after %d restarts", run.State, run.Cause, run.RestartsUsed)
		if n := idle(st, run); n >= st.Limits.Breaker {
			m.Verb = Person
			m.Why += fmt.Sprintf("; %d recoveries brought no progress: the breaker is open until it gets further than %d %s", n, run.Units, run.Counter)
		}
	default:
		m.Verb, m.Why = Person, fmt.Sprintf("%s (%s): %s; %s", run.State, run.Cause, run.Error, mend(run))
	}
	return m
}

// mend says what a person can do about a run that recover leaves alone.
func mend(run *supervise.Run) string {
	switch run.Reason {
	case supervise.ReasonConfig:
		return "mend its command in the file and schedule the campaign again"
	case supervise.ReasonHostLost:
		return "if its host is gone for good: ebb supervise release " + run.Name
	}
	return "then: ebb job retry " + run.Job
}

// idle counts the last recoveries of a run since which it got no further.
func idle(st *Status, run *supervise.Run) int {
	n := 0
	for i := len(st.Recoveries) - 1; i >= 0; i-- {
		r := &st.Recoveries[i]
		if r.Run != run.Name {
			continue
		}
		if r.Units < run.Units {
			break
		}
		n++
	}
	return n
}
