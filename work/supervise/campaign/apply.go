package campaign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/supervise"
)

// schedule writes the record first: whoever finds runs missing after a crash
// queues them with the times that it holds. What is changed has its old sum
// there until it is: after a crash it is changed again.
func (s *Service) schedule(ctx context.Context, now time.Time, actor string, r *record, plan *Plan, limits Limits) error {
	r.Policy, r.Limits, r.Sources = plan.Policy, limits, nil
	var changed []*Step
	sums := map[string]string{}
	for i := range plan.Steps {
		st := &plan.Steps[i]
		p := planned{Name: st.Source, Run: st.Run, QueuedAt: st.QueuedAt, Sum: st.sum}
		if st.Action == Change {
			changed = append(changed, st)
			p.Sum, sums[st.Source] = st.before, st.sum
		}
		r.Sources = append(r.Sources, p)
	}
	if err := s.keep(ctx, now, r, store.AuditRow{Actor: actor, Act: "campaign.schedule", Detail: plan.detail()}); err != nil {
		return err
	}
	if err := s.store.StrictQueue(ctx, r.Queue, true); err != nil {
		return fmt.Errorf("campaign %s: queue %s: %w", plan.Campaign, r.Queue, err)
	}
	if err := s.submit(ctx, now, actor, plan); err != nil {
		return fmt.Errorf("campaign %s: %w", plan.Campaign, err)
	}
	for chunk := range slices.Chunk(changed, manyRuns) {
		if err := s.change(ctx, now, actor, chunk); err != nil {
			return fmt.Errorf("campaign %s: %w", plan.Campaign, err)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return s.changed(ctx, now, plan.Campaign, sums)
}

// maxNamed is how many runs of an action the audit names.
const maxNamed = 20

// detail says for the audit what a plan does.
func (p *Plan) detail() string {
	runs := map[Action][]string{}
	for i := range p.Steps {
		if st := &p.Steps[i]; st.Action != Keep {
			runs[st.Action] = append(runs[st.Action], st.Run)
		}
	}
	var words []string
	for _, action := range slices.Sorted(maps.Keys(runs)) {
		for i, run := range runs[action] {
			if i == maxNamed {
				words = append(words, fmt.Sprintf("%s %d more", action, len(runs[action])-i))
				break
			}
			words = append(words, string(action)+" "+run)
		}
	}
	return strings.Join(words, ", ")
}

// submit queues the runs of a plan that are not there, in batches.
func (s *Service) submit(ctx context.Context, now time.Time, actor string, plan *Plan) error {
	b := newBooks(s.store, nil)
	b.fresh = map[string]bool{}
	var subs []supervise.Submission
	for i := range plan.Steps {
		if st := &plan.Steps[i]; st.Action == Enqueue {
			b.fresh[st.Run] = st.fresh
			subs = append(subs, supervise.Submission{Spec: st.spec, Queue: plan.Queue, DueAt: st.QueuedAt, Actor: actor})
		}
	}
	runs, err := s.over(b)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(subs, s.batch) {
		_, err := runs.Submit(ctx, now, chunk...)
		if errors.Is(err, supervise.ErrLive) {
			return fmt.Errorf("%w (%w)", ErrBusy, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// change gives runs that are there what the file says now, in batches.
func (s *Service) change(ctx context.Context, now time.Time, actor string, steps []*Step) error {
	names := make([]string, len(steps))
	for i, st := range steps {
		names[i] = st.Run
	}
	b := newBooks(s.store, names)
	b.gathers = true
	runs, err := s.over(b)
	if err != nil {
		return err
	}
	list, err := runs.List(ctx) // reads their jobs
	if err != nil {
		return err
	}
	jobs := make(map[string]*job.Job, len(list))
	for i := range list {
		if seq, err := job.ParseID(list[i].Job); err == nil {
			jobs[list[i].Name] = b.jobs[seq]
		}
	}
	for chunk := range slices.Chunk(steps, s.batch) {
		for _, st := range chunk {
			if err := b.change(ctx, now, actor, runs, st, jobs[st.Run]); err != nil {
				return err
			}
		}
		if err := b.flush(ctx, now, actor); err != nil {
			return err
		}
	}
	return nil
}

func (b *books) change(ctx context.Context, now time.Time, actor string, runs *supervise.Service, st *Step, j *job.Job) error {
	state, err := runs.Change(ctx, now, actor, st.spec)
	if errors.Is(err, supervise.ErrUnchanged) && j != nil {
		// A crash came between the change and the order to go on.
		state, err = job.Queued, b.Retry(ctx, now, actor, j.Seq)
	}
	if err != nil {
		return err
	}
	if st.State = state; waits(j) && j.Policy != st.spec.Policy {
		b.under(j, st.spec.Policy)
	}
	return nil
}

// waits reports whether a job is queued and has never begun: what has begun
// keeps its policy.
func waits(j *job.Job) bool { return j != nil && j.State == job.Queued && j.History.Starts == 0 }

// changed notes that the changes are done, whoever has changed something else
// of the campaign meanwhile.
func (s *Service) changed(ctx context.Context, now time.Time, id string, sums map[string]string) error {
	for try := 1; ; try++ {
		r, err := s.exact(ctx, id)
		if err != nil {
			return err
		}
		for i := range r.Sources {
			if sum, ok := sums[r.Sources[i].Name]; ok {
				r.Sources[i].Sum = sum
			}
		}
		if err = s.keep(ctx, now, r); !errors.Is(err, ErrBusy) || try == 5 {
			return err
		}
	}
}
