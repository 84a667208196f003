package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ebbhq/ebb/store"
)

// Kinds of the records that runs are kept in.
const (
	specRecord   = "run"        // by name: the spec
	statusRecord = "run-status" // by name: what is known of its attempts
	jobRecord    = "run-job"    // by name: the sequence of its newest job
)

// Status is what is remembered of a run's attempts, beside its job: written
// by the one who supervises, read by everybody who shows it. The budget is
// not in it: that is the job's history.
type Status struct {
	Job     int64 `json:"job,omitempty"`     // sequence of the job that it is of
	Start   int   `json:"start,omitempty"`   // of the job, that handles or handled Attempt
	Attempt int   `json:"attempt,omitempty"` // last life of the process; 0 = none yet
	// Child is the process, of the attempt that runs or ran last.
	Child     Identity  `json:"child,omitzero"`
	HostName  string    `json:"host_name,omitempty"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"` // zero while it runs
	Argv      []string  `json:"argv,omitempty"`

	Units      int64       `json:"units"` // of this attempt
	High       int64       `json:"high"`  // the most of any attempt, or all together where each counts only what is new
	Base       int64       `json:"base,omitempty"`
	ProgressAt time.Time   `json:"progress_at,omitzero"`
	SignalAt   time.Time   `json:"signal_at,omitzero"`
	Rate       float64     `json:"rate"`
	Errors     ErrorCounts `json:"errors"`

	InitialWorkers int `json:"initial_workers"`
	Workers        int `json:"workers"`
	Reductions     int `json:"reductions"`
	// Judged is the last attempt whose consequences are booked here.
	Judged    int       `json:"judged,omitempty"`
	Verdict   *Verdict  `json:"verdict,omitempty"` // of the last attempt that ended
	Resumed   Resumed   `json:"resumed,omitempty"`
	Hold      Hold      `json:"hold,omitempty"`
	HoldText  string    `json:"hold_text,omitempty"`
	LastUnits int64     `json:"last_units,omitempty"` // of the last success
	Released  bool      `json:"released,omitempty"`   // an operator says that the lost host's process is gone
	WrittenAt time.Time `json:"written_at,omitzero"`  // policy time
}

// unknownError is a store.ErrNotFound that names the run.
type unknownError struct{ name string }

func (e *unknownError) Error() string { return "supervise: no run " + e.name }
func (e *unknownError) Unwrap() error { return store.ErrNotFound }

// spec reads a run's spec; store.ErrNotFound if there is none.
func (s *Service) spec(ctx context.Context, name string) (Spec, error) {
	r, err := s.config.Store.Record(ctx, specRecord, name)
	if errors.Is(err, store.ErrNotFound) {
		return Spec{}, &unknownError{name}
	}
	if err != nil {
		return Spec{}, fmt.Errorf("supervise: run %s: %w", name, err)
	}
	var spec Spec
	if err := json.Unmarshal(r.Body, &spec); err != nil {
		return Spec{}, fmt.Errorf("supervise: run %s: its record cannot be read: %w", name, err)
	}
	return spec, nil
}

// status reads what is known of a run; empty if nothing is.
func (s *Service) status(ctx context.Context, name string) (Status, error) {
	r, err := s.config.Store.Record(ctx, statusRecord, name)
	if errors.Is(err, store.ErrNotFound) {
		return Status{}, nil
	}
	if err != nil {
		return Status{}, fmt.Errorf("supervise: run %s: %w", name, err)
	}
	var st Status
	if err := json.Unmarshal(r.Body, &st); err != nil {
		return Status{}, fmt.Errorf("supervise: run %s: its status cannot be read: %w", name, err)
	}
	return st, nil
}

// keep writes a run's status.
func (s *Service) keep(ctx context.Context, name string, st *Status) error {
	st.WrittenAt = s.config.Clock.Now().UTC()
	body, err := json.Marshal(st)
	if err != nil {
		return err
	}
	_, err = s.config.Store.Write(ctx, time.Time{}, store.Write{
		Puts: []store.Record{{Kind: statusRecord, ID: name, Version: store.AnyVersion, Body: body}},
	})
	if err != nil {
		return fmt.Errorf("supervise: run %s: status: %w", name, err)
	}
	return nil
}

// point remembers which jobs are runs' newest: lists by batch may have to look
// at every job there ever was. A pointer that is missing is looked for so; one
// that a crash left behind is set right when the job starts.
func (s *Service) point(ctx context.Context, newest map[string]int64) error {
	var w store.Write
	for name, seq := range newest {
		w.Puts = append(w.Puts, store.Record{Kind: jobRecord, ID: name, Version: store.AnyVersion, Body: strconv.AppendInt(nil, seq, 10)})
	}
	if _, err := s.config.Store.Write(ctx, time.Time{}, w); err != nil {
		return fmt.Errorf("supervise: runs: %w", err)
	}
	return nil
}

// pointed is the job that point remembered; 0 = none.
func (s *Service) pointed(ctx context.Context, name string) (int64, error) {
	r, err := s.config.Store.Record(ctx, jobRecord, name)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("supervise: run %s: %w", name, err)
	}
	return strconv.ParseInt(string(r.Body), 10, 64)
}
