package supervise

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
)

// Run is everything that is known of a run, read from the store.
type Run struct {
	Name   string    `json:"name"`
	Job    string    `json:"job,omitempty" doc:"id of its newest job"`
	Queue  string    `json:"queue,omitempty"`
	State  job.State `json:"state,omitempty" doc:"of that job"`
	Cause  job.Cause `json:"cause,omitempty"`
	Reason string    `json:"reason,omitempty" doc:"why it was restarted, waits or ended last"`
	Error  string    `json:"error,omitempty"`
	DueAt  time.Time `json:"due_at,omitzero"`

	RestartsUsed int `json:"restarts_used"`
	RestartsLeft int `json:"restarts_left"`
	Starts       int `json:"starts"`

	Policy string `json:"policy"`
	Spec   Spec   `json:"-"`
	Status Status `json:"-"`

	Command    string      `json:"command"`
	Dir        string      `json:"dir"`
	Attempt    int         `json:"attempt" doc:"number of the newest life of its process"`
	Running    bool        `json:"running" doc:"a process of it lives, as far as its supervisor has told"`
	PID        int         `json:"pid,omitempty"`
	Host       string      `json:"host,omitempty"`
	Counter    string      `json:"counter"`
	Units      int64       `json:"units"`
	Rate       float64     `json:"units_per_second"`
	StartedAt  time.Time   `json:"started_at,omitzero"`
	ProgressAt time.Time   `json:"progress_at,omitzero"`
	SeenAt     time.Time   `json:"seen_at,omitzero" doc:"when its supervisor wrote this"`
	Workers    int         `json:"workers"`
	Errors     ErrorCounts `json:"errors" doc:"since the last progress"`
	Held       string      `json:"held,omitempty" doc:"what it waits for before its next start"`
	Verdict    *Verdict    `json:"verdict,omitempty" doc:"of the newest life that ended"`
	Restarts   []Restart   `json:"restarts,omitempty"`
}

// PerMinute is the rate for people.
func (r Run) PerMinute() float64 { return 60 * r.Rate }

// Restart is one row of the ledger.
type Restart struct {
	Start   int       `json:"start"`
	At      time.Time `json:"at" doc:"when that start ended"`
	Class   string    `json:"class"`
	Reason  string    `json:"reason,omitempty"`
	Error   string    `json:"error,omitempty"`
	Action  string    `json:"action"`
	Delay   float64   `json:"delay,omitempty" doc:"seconds"`
	Counted string    `json:"counted" doc:"attempt spends a restart; free and apart do not"`
	Rule    string    `json:"rule"`
}

// Show returns one run with its ledger; store.ErrNotFound if there is none.
func (s *Service) Show(ctx context.Context, name string) (Run, error) {
	spec, err := s.spec(ctx, name)
	if err != nil {
		return Run{}, err
	}
	r, j, err := s.describe(ctx, spec)
	if err != nil || j == nil {
		return r, err
	}
	rows, err := s.config.Store.Attempts(ctx, j.Seq)
	if err != nil {
		return r, err
	}
	for _, a := range j.Known(rows) {
		if a.OK {
			continue
		}
		r.Restarts = append(r.Restarts, Restart{
			Start: a.Start, At: a.EndedAt, Class: a.Class.String(), Reason: a.Reason, Error: a.Error,
			Action: a.Action, Delay: a.Delay.Seconds(), Counted: string(a.Counted), Rule: a.Rule,
		})
	}
	if n := len(rows); n > 0 && !rows[n-1].OK {
		r.Reason = rows[n-1].Reason
	}
	return r, nil
}

// describe puts the spec, the status and the job of a run together.
func (s *Service) describe(ctx context.Context, spec Spec) (Run, *job.Job, error) {
	st, err := s.status(ctx, spec.Name)
	if err != nil {
		return Run{}, nil, err
	}
	j, err := s.lastJob(ctx, spec.Name)
	if err != nil {
		return Run{}, nil, err
	}
	return s.compose(spec, st, j), j, nil
}

// compose makes a run of its parts; j is nil where it has no job.
func (s *Service) compose(spec Spec, st Status, j *job.Job) Run {
	counter, _ := spec.sources()
	r := Run{
		Name: spec.Name, Policy: spec.Policy, Spec: spec, Status: st,
		Command: spec.Command.String(), Dir: spec.Dir, Attempt: st.Attempt, PID: st.Child.PID, Host: st.HostName,
		Counter: counter, Units: max(st.High, st.Base+st.Units), Rate: st.Rate, StartedAt: st.StartedAt, ProgressAt: st.ProgressAt, SeenAt: st.WrittenAt,
		Workers: st.Workers, Errors: st.Errors, Held: st.HoldText, Verdict: st.Verdict,
	}
	if st.Verdict != nil {
		r.Reason = st.Verdict.Reason
	}
	if j == nil {
		return r
	}
	r.Job, r.Queue, r.State, r.Cause, r.Error, r.DueAt = j.ID(), j.Queue, j.State, j.Cause, j.LastError, j.DueAt
	r.Running = j.State == job.Running && st.Attempt > 0 && st.EndedAt.IsZero()
	if !r.Running {
		r.PID = 0
	}
	r.Starts = j.History.Starts
	r.RestartsUsed = j.History.Attempts
	if j.State == job.Succeeded || j.State == job.Failed || j.Cause == retry.CauseNoProgress {
		r.RestartsUsed = max(0, j.History.Attempts-1) // the last start was no restart's cause
	}
	if p := s.policies[spec.Policy]; p != nil {
		if own, err := spec.Apply(*p); err == nil {
			r.RestartsLeft = max(0, own.Attempts-1-r.RestartsUsed)
		}
	}
	if j.Cause == job.HostLost {
		r.Reason = ReasonHostLost
	}
	return r
}

// Log returns the end of what the newest attempt of a run printed, at most n
// bytes of each stream.
func (s *Service) Log(ctx context.Context, name string, n int64) (stdout, stderr string, err error) {
	spec, err := s.spec(ctx, name)
	if err != nil {
		return "", "", err
	}
	st, err := s.status(ctx, name)
	if err != nil {
		return "", "", err
	}
	if st.Attempt == 0 {
		return "", "", nil
	}
	if host := st.Child.Host; host != "" && host != hostID() {
		return "", "", fmt.Errorf("supervise: run %s: its log is on host %s", name, st.HostName)
	}
	dir := attemptDir(spec.Dir, st.Attempt)
	return lastOf(filepath.Join(dir, "stdout.log"), n), lastOf(filepath.Join(dir, "stderr.log"), n), nil
}

// Export writes the text file of every run that has a place for it.
func (s *Service) Export(ctx context.Context) error {
	runs, err := s.list(ctx, func(spec *Spec) bool { return spec.Textfile != "" })
	if err != nil {
		return err
	}
	now := s.config.Clock.Now()
	var errs []error
	for i := range runs {
		path := filepath.Join(runs[i].Spec.Textfile, "ebb_run_"+runs[i].Name+".prom")
		errs = append(errs, saveText(path, Exposition(runs[i:i+1], now), 0o644))
	}
	return errors.Join(errs...)
}
