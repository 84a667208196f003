package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/work/supervise"
	"github.com/ebbhq/ebb/worker"
)

// alone is a supervisor with a ledger of its own.
type alone struct {
	app     *app
	spec    supervise.Spec
	policy  policy.Policy
	clock   clock.Clock
	store   store.Store
	service *supervise.Service
	view    *runView
	job     int64
}

// ledger is where a directory keeps its own runs.
func ledger(dir string) string { return filepath.Join(dir, ".ebb", "run.db") }

// superviseAlone works until the run is over.
func (a *app) superviseAlone(ctx context.Context, spec supervise.Spec, f *superviseFlags) error {
	p, err := a.policyOf(spec.Policy)
	if err != nil {
		return err
	}
	if p, err = spec.Apply(p); err != nil {
		return usage(fmt.Errorf("supervise: policy %s: %w", spec.Policy, err), "ebb policy show "+spec.Policy)
	}
	if err := os.MkdirAll(filepath.Join(spec.Dir, ".ebb"), 0o755); err != nil {
		return &failed{code: exitNo, err: fmt.Errorf("supervise: %w", err), try: "--dir with a directory that can be written"}
	}
	held, err := supervise.Lock(filepath.Join(spec.Dir, ".ebb", "supervisor.lock"))
	if err != nil {
		return &failed{code: exitNo, err: fmt.Errorf("supervise: %w", err), try: "another --dir, or end the one that runs"}
	}
	if held == nil {
		return &failed{code: exitNo, err: fmt.Errorf("supervise: %s: another ebb supervise works here", spec.Dir), try: "ebb supervise show --dir " + spec.Dir}
	}
	defer held.Close() //nolint:errcheck // a lock, nothing written
	s := &alone{app: a, spec: spec, policy: p, view: a.newRunView()}
	if s.clock, err = paceOf(spec.Dir, f.speed); err != nil {
		return &failed{code: exitNo, err: fmt.Errorf("supervise: %w", err)}
	}
	db, err := sqlite.Open(ctx, ledger(spec.Dir), sqlite.Options{})
	if err != nil {
		return interrupted(ctx, &failed{code: exitNo, err: fmt.Errorf("supervise: %w", err), try: "a directory on a disk that is not full"})
	}
	s.store = db
	err = s.run(ctx, f)
	return errors.Join(err, closed(s.store, err))
}

// paceOf is policy time. A faster one counts from the ledger's beginning, so
// that every supervisor of the run tells the same time.
func paceOf(dir string, speed float64) (clock.Clock, error) {
	if speed == 1 {
		return clock.System{}, nil
	}
	if speed < 1 {
		return nil, fmt.Errorf("--speed %g: 1 or more", speed)
	}
	path := filepath.Join(dir, ".ebb", "epoch")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		text = []byte(time.Now().UTC().Format(time.RFC3339Nano))
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return nil, err
	}
	start, err := time.Parse(time.RFC3339Nano, string(text))
	return clock.Scaled{Start: start, Factor: speed}, err
}

// policyOf finds a policy by name, as a worker here would have it.
func (a *app) policyOf(name string) (policy.Policy, error) {
	e, err := a.named(name)
	if err != nil {
		return policy.Policy{}, err
	}
	if e, err = a.effective(e); err != nil {
		return policy.Policy{}, err
	}
	return e.Policy, nil
}

func (s *alone) run(ctx context.Context, f *superviseFlags) error {
	self, err := os.Executable()
	if err != nil {
		return &failed{code: exitNo, err: fmt.Errorf("supervise: %w", err)}
	}
	s.service, err = supervise.New(supervise.Config{
		Store: s.store, Policies: []policy.Policy{s.policy}, Self: []string{self, "supervise-child"},
		Clock: s.clock, Poll: 100 * time.Millisecond, Report: 2 * time.Second, StopRuns: true, Observe: s.view.event,
	})
	if err != nil {
		return usage(fmt.Errorf("supervise: %w", err), "ebb policy check")
	}
	if err := s.takeOver(ctx); err != nil {
		return interrupted(ctx, &failed{code: exitNo, err: fmt.Errorf("supervise: %w", err), try: "the same again"})
	}
	done, err := s.queue(ctx, f.retry)
	if err != nil || done {
		return err
	}
	return s.work(ctx)
}

// takeOver ends the starts of supervisors that died here: the lock of the
// directory says that none of them lives. What they ran may: the next start
// takes it over, so that the start is interrupted, not failed, and the
// process's own start is counted once.
func (s *alone) takeOver(ctx context.Context) error {
	dead, err := s.store.Processes(ctx)
	if err != nil {
		return err
	}
	now := s.clock.Now()
	for _, p := range dead {
		_, _, err := s.store.Reap(ctx, now, p.ID, p.Beat, func(j job.Job) store.Settle {
			f := failure.Of(failure.Interrupted)
			f.Reason, f.Err = supervise.ReasonDied, fmt.Errorf("the supervisor (pid %d) died; what it ran may go on", p.PID)
			h := j.History.Started(j.LeasedAt)
			d := retry.Decide(&s.policy, h, f, now, retry.Derive(1, uint64(j.Seq), h.Starts))
			set := store.Settle{Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Queued, Delay: d.Delay, History: d.Next, Fingerprint: worker.Fingerprint(f)}
			if d.Action != policy.Retry { // its deadline or window has passed
				set.To, set.Cause, set.Delay = job.Failed, d.Cause, 0
			}
			set.Attempt = &job.Attempt{
				Seq: j.Seq, Start: h.Starts, Epoch: j.Epoch, Process: p.ID, StartedAt: j.LeasedAt, EndedAt: now,
				Class: f.Class, Reason: f.Reason, Error: f.Err.Error(), Action: string(d.Action), Cause: d.Cause,
				Delay: d.Delay, Counted: d.Counted, Rule: d.Rule, Version: d.Version,
			}
			return set
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// queue sees to it that the run has a live job; done if there is nothing to
// work on.
func (s *alone) queue(ctx context.Context, again bool) (done bool, err error) {
	r, err := s.service.Show(ctx, s.spec.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, &failed{code: exitNo, err: err}
	}
	now, actor := s.clock.Now(), s.app.actor()
	changed := !reflect.DeepEqual(r.Spec, s.spec)
	switch {
	case err != nil || r.State == job.Succeeded || r.State == job.Cancelled || r.State == "":
		got, err := s.service.Submit(ctx, now, supervise.Submission{Spec: s.spec, Actor: actor})
		if err != nil {
			return false, &failed{code: exitNo, err: err}
		}
		s.job = got[0].Seq
		return false, nil
	case (r.State == job.Parked || r.State == job.Failed) && !again && !changed:
		return true, s.refuse(&r)
	}
	if s.job, err = job.ParseID(r.Job); err != nil {
		return false, err
	}
	if changed {
		if _, err := s.service.Change(ctx, now, actor, s.spec); err != nil {
			return false, &failed{code: exitNo, err: err}
		}
	} else if r.State == job.Parked || r.State == job.Failed {
		if err := s.store.Retry(ctx, now, actor, s.job); err != nil {
			return false, &failed{code: exitNo, err: err}
		}
	}
	return false, nil
}

// refuse says why nothing is started: a person must act first.
func (s *alone) refuse(r *supervise.Run) error {
	code, what := exitIncomplete, "failed"
	if r.State == job.Parked {
		code, what = exitParked, "is parked"
	}
	try := "change the command, or ebb supervise --retry for fresh restarts"
	return &failed{code: code, err: fmt.Errorf("supervise: run %s %s (%s, %s): %s", r.Name, what, r.Cause, r.Reason, r.Error), try: try}
}

// work runs a worker until the job is over or somebody interrupts.
func (s *alone) work(ctx context.Context) error {
	over := make(chan struct{}, 1)
	w, err := worker.New(s.store, worker.Config{
		Handlers: map[string]worker.Handler{supervise.Kind: s.service.Handle}, Queues: []string{supervise.DefaultQueue},
		Policies: []policy.Policy{s.policy}, Clock: s.clock, Concurrency: 1,
		Drain: 10 * time.Minute, Grace: 24 * time.Hour, SucceededKept: -1, Version: currentVersion(),
		Observe: func(e worker.Event) {
			if e.What == worker.Settled && e.Job.Seq == s.job {
				s.view.settled(e)
				if e.To != job.Queued {
					over <- struct{}{}
				}
			}
		},
	})
	if err != nil {
		return usage(fmt.Errorf("supervise: %w", err), "ebb policy lint")
	}
	ran := make(chan error, 1)
	go func() { ran <- w.Run(context.WithoutCancel(ctx)) }()
	upkeep, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go func() { _ = s.service.Run(upkeep) }() // it returns nil
	select {
	case <-over:
	case err := <-ran:
		return &failed{code: exitNo, err: fmt.Errorf("supervise: %w", err), try: "the same again: the command goes on"}
	case <-ctx.Done():
		s.interrupt()
	}
	w.Stop()
	if err := <-ran; err != nil {
		return &failed{code: exitNo, err: fmt.Errorf("supervise: %w", err), try: "the same again"}
	}
	return s.conclude(context.WithoutCancel(ctx), ctx.Err() != nil)
}

// interrupt stops the command; a further signal kills it.
func (s *alone) interrupt() {
	s.service.Stop()
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-again
		s.service.Kill()
	}()
}

// conclude writes the files a last time and tells the outcome.
func (s *alone) conclude(ctx context.Context, stopped bool) error {
	if err := s.service.Export(ctx); err != nil {
		s.app.remarkErr("ebb: supervise: %v", err)
	}
	r, err := s.service.Show(ctx, s.spec.Name)
	if err != nil {
		return &failed{code: exitNo, err: err}
	}
	s.view.conclude(&r)
	switch r.State {
	case job.Succeeded:
		return nil
	case job.Parked:
		return &failed{code: exitParked, err: fmt.Errorf("supervise: run %s is parked (%s, %s): %s", r.Name, r.Cause, r.Reason, r.Error), try: tryParked(&r)}
	case job.Failed:
		return &failed{code: exitIncomplete, err: fmt.Errorf("supervise: run %s failed (%s, %s): %s", r.Name, r.Cause, r.Reason, r.Error), try: "ebb supervise log --dir " + r.Dir + "; then the same with --retry"}
	}
	if stopped {
		return &failed{code: exitInterrupted, err: errors.New("interrupted; the same command goes on with the run")}
	}
	return &failed{code: exitNo, err: fmt.Errorf("supervise: run %s is %s", r.Name, r.State), try: "ebb supervise show --dir " + r.Dir}
}

func tryParked(r *supervise.Run) string {
	if strings.Contains(r.Reason, "config") {
		return "mend the command and start it again; if what it needs was missing and is there now: the same with --retry"
	}
	return "ebb supervise log --dir " + r.Dir + "; then the same with --retry"
}
