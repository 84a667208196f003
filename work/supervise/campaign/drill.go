package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/work/supervise"
)

// Rehearsed is one thing that a drill tried.
type Rehearsed struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	Text string `json:"text"`
}

// Drill rehearses a campaign with its own file and policies in a store of its
// own, in memory: scheduling, failing, recovering. Nothing real is touched;
// commands are looked for and not run.
func Drill(ctx context.Context, now time.Time, c *Campaign, year int, policies []policy.Policy) ([]Rehearsed, error) {
	d := &drill{campaign: c, year: year, clock: clock.NewFake(now)}
	d.store = memory.New(memory.Config{Clock: d.clock})
	defer func() { _ = d.store.Close() }() // in memory
	runs, err := supervise.New(supervise.Config{Store: d.store, Policies: policies, Self: []string{"ebb"}, Clock: d.clock})
	if err != nil {
		return nil, err
	}
	if d.service, err = New(Config{Store: d.store, Runs: runs, Policies: policies}); err != nil {
		return nil, err
	}
	d.here()
	for _, step := range []func(context.Context) error{d.old, d.order, d.recover, d.limits, d.config} {
		if err := step(ctx); err != nil {
			return d.done, err
		}
	}
	return d.done, nil
}

// drill is a rehearsal under way.
type drill struct {
	campaign *Campaign
	year     int
	clock    *clock.Fake
	store    store.Store
	service  *Service
	process  int64
	done     []Rehearsed
}

const drillActor = "drill"

func (d *drill) note(ok bool, name, format string, args ...any) {
	d.done = append(d.done, Rehearsed{Name: name, OK: ok, Text: fmt.Sprintf(format, args...)})
}

// here looks whether this machine has what the commands need.
func (d *drill) here() {
	for i := range d.campaign.Sources {
		spec, err := d.campaign.RunSpec(d.campaign.Sources[i].Name, d.year)
		if err != nil {
			d.note(false, "command", "%s: %v", d.campaign.Sources[i].Name, err)
			continue
		}
		path, err := exec.LookPath(spec.Command[0][0])
		if err != nil {
			d.note(false, "command", "%s: %v", spec.Name, err)
		} else {
			d.note(true, "command", "%s: %s", spec.Name, path)
		}
		above := spec.Dir
		for _, err := os.Stat(above); errors.Is(err, os.ErrNotExist) && above != "/"; _, err = os.Stat(above) {
			above = filepath.Dir(above)
		}
		probe, err := os.CreateTemp(above, ".ebb-drill-*")
		if err == nil {
			err = errors.Join(probe.Close(), os.Remove(probe.Name()))
		}
		d.note(err == nil, "directory", "%s: %s%s", spec.Name, spec.Dir, because(err))
	}
}

func because(err error) string {
	if err == nil {
		return " can be made"
	}
	return ": " + err.Error()
}

// old queues the first source as an older setup would have, with 5, 10, 10.
func (d *drill) old(ctx context.Context) error {
	spec, err := d.campaign.RunSpec(d.campaign.Sources[0].Name, d.year)
	if err != nil {
		return err
	}
	if spec.Policy != "annual-crawl" {
		return nil // figures of its own are refused outside annual-crawl
	}
	spec.Options = supervise.Options{MaxContainerRestarts: 5, ErrorThresholdTimeout: 10, ErrorThresholdHTTP: 10}
	_, err = d.service.runs.Submit(ctx, d.clock.Now(), supervise.Submission{Spec: spec, Queue: d.campaign.Queue, DueAt: d.clock.Now().Add(-time.Hour), Actor: drillActor})
	return err
}

// order schedules twice and looks in which order a worker would be given the
// runs.
func (d *drill) order(ctx context.Context) error {
	now := d.clock.Now()
	first, err := d.service.Schedule(ctx, now, drillActor, d.campaign, d.year, true)
	if err != nil {
		return err
	}
	again, err := d.service.Schedule(ctx, now.Add(time.Minute), drillActor, d.campaign, d.year, true)
	if err != nil {
		return err
	}
	d.note(first.Changes() == len(d.campaign.Sources) && again.Changes() == 0, "schedule", "%d sources are queued, %d when it is done again", first.Changes(), again.Changes())
	p, err := d.store.Register(ctx, now, store.Process{Host: drillActor, Kinds: []string{supervise.Kind}, Queues: []string{d.campaign.Queue}})
	if err != nil {
		return err
	}
	d.process = p.ID
	var want, got []string
	for i := range d.campaign.Sources {
		want = append(want, RunOf(d.campaign.Sources[i].Name, d.year))
	}
	for range want { // each runs out of restarts, and the next has the slot
		j, ok, err := d.exhaust(ctx, failure.Of(failure.Timeout))
		if err != nil {
			return err
		}
		if ok {
			got = append(got, strings.TrimPrefix(j.Batch, supervise.BatchOf("")))
		}
	}
	d.note(strings.Join(got, " ") == strings.Join(want, " "), "order", "runs start as %s", strings.Join(got, ", "))
	return nil
}

// exhaust takes the next run of the queue and lets it fail as often as its
// policy lets it.
func (d *drill) exhaust(ctx context.Context, f failure.Failure) (job.Job, bool, error) {
	d.clock.Advance(time.Hour)
	now := d.clock.Now()
	got, err := d.store.Turn(ctx, store.Turn{Process: d.process, Now: now, Claims: []store.Claim{{Queue: d.campaign.Queue, Kinds: []string{supervise.Kind}, Limit: 2}}})
	if err != nil || len(got.Claimed) != 1 {
		return job.Job{}, false, err
	}
	j := got.Claimed[0]
	p := d.service.policies[j.Policy]
	h := j.History
	var v retry.Decision
	for {
		h = h.Started(now)
		if v = retry.Decide(p, h, f, now, retry.Derive(1, uint64(j.Seq), h.Starts)); v.Action != policy.Retry {
			break
		}
		h = v.Next
		d.clock.Advance(v.Delay)
		now = d.clock.Now()
	}
	to := job.Failed
	if v.Action == policy.Park {
		to = job.Parked
	}
	text := ""
	if f.Err != nil {
		text = f.Err.Error()
	}
	_, err = d.store.Turn(ctx, store.Turn{Process: d.process, Now: now, Settles: []store.Settle{{
		Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: to, Cause: v.Cause, History: v.Next, Fingerprint: "drill",
		Attempt: &job.Attempt{
			Seq: j.Seq, Start: v.Next.Starts, Epoch: j.Epoch, Process: d.process, StartedAt: now, EndedAt: now, Class: f.Class, Reason: f.Reason,
			Error: text, Action: string(v.Action), Cause: v.Cause, Counted: v.Counted, Rule: v.Rule, Version: v.Version,
		},
	}}})
	return j, true, err
}

// recover gives the first run fresh restarts, and only it.
func (d *drill) recover(ctx context.Context) error {
	name := ID(d.campaign.Name, d.year)
	if err := d.service.Lock(ctx, d.clock.Now(), drillActor, name, "drill", time.Hour); err != nil {
		return err
	}
	held, err := d.service.Recover(ctx, d.clock.Now(), drillActor, name, true)
	if err != nil {
		return err
	}
	d.note(held.Acts() == nil && !held.Applied, "maintenance lock", "%s", held.Blocked)
	if err := d.service.Unlock(ctx, d.clock.Now(), drillActor, name); err != nil {
		return err
	}
	got, err := d.service.Recover(ctx, d.clock.Now(), drillActor, name, true)
	if err != nil {
		return err
	}
	act := got.Acts()
	if act == nil {
		d.note(false, "recover", "nothing was recovered: %s", got.Blocked)
		return nil
	}
	d.note(got.Applied && act.Verb == Restart, "recover", "%s: %d/%d/%d becomes %d/%d/%d (restarts, timeouts, HTTP errors; 0 = as the policy says)", act.Run,
		act.From.MaxContainerRestarts, act.From.ErrorThresholdTimeout, act.From.ErrorThresholdHTTP,
		act.To.MaxContainerRestarts, act.To.ErrorThresholdTimeout, act.To.ErrorThresholdHTTP)
	next, err := d.service.Recover(ctx, d.clock.Now(), drillActor, name, true)
	if err != nil {
		return err
	}
	d.note(next.Acts() == nil, "one at a time", "%s", next.Blocked)
	return nil
}

// limits fails what was recovered until breaker and daily cap have spoken.
func (d *drill) limits(ctx context.Context) error {
	name := ID(d.campaign.Name, d.year)
	open, capped := false, ""
	for range d.campaign.Recover.Breaker*len(d.campaign.Sources) + d.campaign.Recover.PerDay {
		if _, _, err := d.exhaust(ctx, failure.Of(failure.Timeout)); err != nil {
			return err
		}
		got, err := d.service.Recover(ctx, d.clock.Now(), drillActor, name, true)
		if err != nil {
			return err
		}
		open = open || len(got.Remedies) > 0 && got.Remedies[0].Verb == Person
		if got.Acts() == nil && got.Blocked != "" {
			capped = got.Blocked
			d.clock.Advance(day)
		}
	}
	d.note(open, "progress breaker", "after %d recoveries without progress a run is left to a person", d.campaign.Recover.Breaker)
	d.note(capped != "" || d.campaign.Recover.PerDay > d.campaign.Recover.Breaker*len(d.campaign.Sources), "daily cap", "%s", capped)
	return nil
}

// config lets a further year's first run end for a wrong flag: no retry, no
// recovery.
func (d *drill) config(ctx context.Context) error {
	for { // what the rehearsals before left in the queue
		if _, ok, err := d.exhaust(ctx, failure.Of(failure.Timeout)); err != nil {
			return err
		} else if !ok {
			break
		}
	}
	year := d.year + 1
	if _, err := d.service.Schedule(ctx, d.clock.Now(), drillActor, d.campaign, year, true); err != nil {
		return err
	}
	f := failure.Of(failure.Config)
	f.Reason, f.Err = supervise.ReasonConfig, errors.New("unrecognized arguments")
	j, ok, err := d.exhaust(ctx, f)
	if err != nil || !ok {
		return errors.Join(err, fmt.Errorf("drill: year %d: nothing in the queue", year))
	}
	got, err := d.service.Recover(ctx, d.clock.Now(), drillActor, ID(d.campaign.Name, year), true)
	if err != nil {
		return err
	}
	run, err := d.service.runs.Show(ctx, strings.TrimPrefix(j.Batch, supervise.BatchOf("")))
	if err != nil {
		return err
	}
	d.note(run.State == job.Parked && run.RestartsUsed == 0 && got.Remedies[0].Verb == Person, "wrong flag", "%s (%s) with %d restarts used: %s", run.State, supervise.ReasonConfig, run.RestartsUsed, got.Remedies[0].Why)
	return nil
}
