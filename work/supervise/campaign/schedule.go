package campaign

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/supervise"
)

// Action is what scheduling does about a source.
type Action string

const (
	Enqueue Action = "enqueue" // its run is queued
	Change  Action = "change"  // the file says otherwise than when it was queued
	Adopt   Action = "adopt"   // a run of its name was there before: it belongs to the campaign now
	Keep    Action = "keep"    // nothing is to be done
)

// Step is what becomes of one source.
type Step struct {
	Place    int       `json:"place" doc:"1 and up, the order in which sources are crawled"`
	Source   string    `json:"source"`
	Run      string    `json:"run"`
	Action   Action    `json:"action"`
	QueuedAt time.Time `json:"queued_at" doc:"staggered, so that the order is total"`
	State    job.State `json:"state,omitempty" doc:"of a run that is there"`
	Command  string    `json:"command"`
	Text     string    `json:"text,omitempty"`

	spec   supervise.Spec
	sum    string // of the spec
	before string // the sum that a change replaces
	fresh  bool   // no run of the name was ever there
}

// Plan is what scheduling a campaign does, or did.
type Plan struct {
	Campaign string `json:"campaign"`
	Year     int    `json:"year"`
	Queue    string `json:"queue"`
	Policy   string `json:"policy"`
	Applied  bool   `json:"applied"`
	Steps    []Step `json:"steps"`
}

// Changes counts the steps that change something.
func (p *Plan) Changes() int {
	n := 0
	for i := range p.Steps {
		if p.Steps[i].Action != Keep {
			n++
		}
	}
	return n
}

// Schedule queues each source of a campaign once, in the declared order, on a
// strict queue. Doing it again changes nothing that the file has not changed.
// Without apply it only says what it would do.
func (s *Service) Schedule(ctx context.Context, now time.Time, actor string, c *Campaign, year int, apply bool) (Plan, error) {
	id := ID(c.Name, year)
	if year < 1000 || year > 9999 {
		return Plan{}, fmt.Errorf("campaign %s: year %d: four digits are needed", c.Name, year)
	}
	r, err := s.exact(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		r, err = &record{Name: c.Name, Year: year, Queue: c.Queue, ScheduledAt: now.UTC()}, nil
	}
	if err != nil {
		return Plan{}, err
	}
	if r.Queue != c.Queue {
		return Plan{}, fmt.Errorf("campaign %s: it waits in queue %q since it was scheduled; write queue: %s", id, r.Queue, r.Queue)
	}
	plan := Plan{Campaign: id, Year: year, Queue: c.Queue, Policy: c.policy(), Applied: apply}
	if plan.Steps, err = s.steps(ctx, now, c, r); err != nil {
		return plan, err
	}
	if !apply || plan.Changes() == 0 && r.version > 0 && r.Limits == c.Recover {
		return plan, nil
	}
	err = s.schedule(ctx, now, actor, r, &plan, c.Recover)
	return plan, err
}

func (c *Campaign) policy() string {
	if c.Policy == "" {
		return "annual-crawl"
	}
	return c.Policy
}

// steps says what is to be done about each source.
func (s *Service) steps(ctx context.Context, now time.Time, c *Campaign, r *record) ([]Step, error) {
	due := r.times(c, now)
	before := map[string]*planned{}
	for i := range r.Sources {
		before[r.Sources[i].Name] = &r.Sources[i]
	}
	names := make([]string, len(c.Sources))
	declared := make(map[string]bool, len(c.Sources))
	for i := range c.Sources {
		names[i], declared[c.Sources[i].Name] = RunOf(c.Sources[i].Name, r.Year), true
	}
	runs, err := s.look(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("campaign %s: %w", c.Name, err)
	}
	var owners map[string]string
	steps := make([]Step, 0, len(c.Sources))
	for i := range c.Sources {
		source := c.Sources[i].Name
		spec, err := c.runSpec(&c.Sources[i], r.Year)
		if err != nil {
			return nil, fmt.Errorf("campaign %s: source %s: %w", c.Name, source, err)
		}
		p, err := s.judging(&spec)
		if err != nil {
			return nil, fmt.Errorf("campaign %s: source %s: %w", c.Name, source, err)
		}
		spec.Options = spec.Raised(p)
		st := Step{Place: i + 1, Source: source, Run: spec.Name, QueuedAt: due[i], Command: spec.Command.String(), spec: spec, sum: sumOf(&spec)}
		decide(&st, runs[st.Run], before[source])
		if st.Action == Adopt {
			if owners == nil {
				if owners, err = s.owners(ctx, r); err != nil {
					return nil, err
				}
			}
			if owner := owners[st.Run]; owner != "" {
				return nil, fmt.Errorf("campaign %s: source %s: its run %s belongs to campaign %s; give the source another name", c.Name, source, st.Run, owner)
			}
		}
		if i > 0 && due[i].Before(due[i-1]) && st.Text == "" {
			st.Text = "its place in the file has changed; it keeps its time in the queue"
		}
		steps = append(steps, st)
	}
	for _, p := range r.Sources {
		if !declared[p.Name] {
			steps = append(steps, Step{
				Place: len(steps) + 1, Source: p.Name, Run: p.Run, Action: Keep, QueuedAt: p.QueuedAt, sum: p.Sum,
				Text: "no longer in the file; its run stays until somebody cancels it",
			})
		}
	}
	return steps, nil
}

// judging is the policy of a run; an error if the run's own figures, or a
// restart's place in the queue, would be lost under it.
func (s *Service) judging(spec *supervise.Spec) (*policy.Policy, error) {
	p := s.policies[spec.Policy]
	if p == nil {
		return nil, fmt.Errorf("%w %q is not there; one of the presets, or of the policies file", ErrPolicy, spec.Policy)
	}
	own, err := spec.Apply(*p)
	switch {
	case err != nil:
		return nil, err
	case p.Slot != policy.SlotKeep:
		return nil, fmt.Errorf("%w %s gives its slot back between restarts, so that later sources overtake it; write slot: keep", ErrPolicy, spec.Policy)
	case own.Restarts != p.Restarts || own.Backoff.Base != p.Backoff.Base:
		return nil, fmt.Errorf("%d restarts, %s apart, are not what policy %s says; declare a policy with these figures and name it",
			own.Restarts.Max, policy.FormatDuration(own.Backoff.Base), p.Name)
	}
	return p, nil
}

// decide chooses the action of a step; run is nil where none is there.
func decide(st *Step, run *found, before *planned) {
	if run == nil || run.Job == "" {
		st.Action, st.fresh = Enqueue, run == nil
		return
	}
	st.State = run.State
	ended := run.State == job.Succeeded || run.State == job.Cancelled
	follows := run.job == nil || run.job.Policy == st.spec.Policy
	switch {
	case before == nil:
		st.Action, st.sum = Adopt, ""
		st.Text = "a run of this name is there; recover raises it to the policy's figures"
	case before.Sum == st.sum && (follows || !waits(run.job)):
		st.Action = Keep
	case before.Sum == st.sum:
		st.Action, st.before = Change, before.Sum
		st.Text = fmt.Sprintf("it waits under policy %s; policy %s holds when it begins", run.job.Policy, st.spec.Policy)
	case ended || before.Sum == "" && run.Cause != retry.CauseConfig:
		if st.Action, st.sum = Keep, before.Sum; ended {
			st.Text = "the file has changed, and the run has ended"
		}
	default:
		st.Action, st.before = Change, before.Sum
		st.Text = "the file has changed"
		if !follows && waits(run.job) {
			st.Text += fmt.Sprintf(": policy %s instead of %s", st.spec.Policy, run.job.Policy)
		} else if !follows {
			st.Text += fmt.Sprintf("; it began under policy %s and keeps its restarts and delays", run.job.Policy)
		}
	}
}

// owners names the campaigns of the runs of all campaigns but this one: two
// with one run would take each other's crawl for their own.
func (s *Service) owners(ctx context.Context, r *record) (map[string]string, error) {
	list, err := s.store.Records(ctx, store.RecordFilter{Kind: recordKind, Limit: maxCampaigns})
	if err != nil {
		return nil, fmt.Errorf("campaign %s: %w", r.Name, err)
	}
	owners := map[string]string{}
	for i := range list {
		other, err := decode(&list[i])
		if err != nil {
			return nil, err
		}
		if other.Name == r.Name && other.Year == r.Year {
			continue
		}
		for _, p := range other.Sources {
			owners[p.Run] = ID(other.Name, other.Year)
		}
	}
	return owners, nil
}

// times are the due times of the sources: those of the record, and for new
// sources times that keep the declared order.
func (r *record) times(c *Campaign, now time.Time) []time.Time {
	known := map[string]time.Time{}
	for _, p := range r.Sources {
		known[p.Name] = p.QueuedAt
	}
	due := make([]time.Time, len(c.Sources))
	behind := c.following(known)
	last := time.Time{}
	for i := range c.Sources {
		at, ok := known[c.Sources[i].Name]
		next := behind[i]
		switch {
		case ok:
		case last.IsZero() && next.IsZero():
			at = now.UTC().Truncate(time.Microsecond)
		case last.IsZero():
			at = next.Add(-c.stagger())
		case next.After(last) && next.Sub(last) <= c.stagger():
			at = last.Add(next.Sub(last) / 2).Truncate(time.Microsecond)
		default:
			at = last.Add(c.stagger())
		}
		due[i], last = at, at
	}
	return due
}

// following are the times of the first source behind each that has one; zero
// where none has.
func (c *Campaign) following(known map[string]time.Time) []time.Time {
	behind := make([]time.Time, len(c.Sources))
	next := time.Time{}
	for i := len(c.Sources) - 1; i >= 0; i-- {
		behind[i] = next
		if at, ok := known[c.Sources[i].Name]; ok {
			next = at
		}
	}
	return behind
}

func sumOf(spec *supervise.Spec) string {
	text, _ := json.Marshal(spec) // a spec of a file can be written
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}
