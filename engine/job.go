package engine

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
)

// NewJob is a job to be enqueued. Only Kind is required.
type NewJob struct {
	Kind  string `json:"kind"`
	Queue string `json:"queue,omitempty"`
	// Target is whom the work calls: its gate and limits hold it.
	Target string `json:"target,omitempty"`
	// Key keeps the order of the jobs of one key and queue: one at a time.
	// KeyRule says what a failed one does to those behind it: block (the
	// default), skip or park.
	Key     string      `json:"key,omitempty"`
	KeyRule job.KeyRule `json:"key_rule,omitempty"`
	// Unique is a key that one living job may have, among those of its scope:
	// everywhere (the default), queue or kind. UniqueFor keeps it taken for so
	// many seconds after the enqueue, though the job has ended. OnConflict says
	// what an enqueue does whose key is taken: keep (the default), replace or
	// refuse.
	Unique      string          `json:"unique,omitempty"`
	UniqueScope job.UniqueScope `json:"unique_scope,omitempty"`
	UniqueFor   float64         `json:"unique_for_s,omitempty"`
	OnConflict  job.Conflict    `json:"on_conflict,omitempty"`
	Policy      string          `json:"policy,omitempty"`
	Priority    int             `json:"priority,omitempty"`
	// DueAt is when it may start; zero = now.
	DueAt time.Time `json:"due_at,omitzero"`
	// DeadlineAt is after when it must not start; zero = none.
	DeadlineAt time.Time `json:"deadline_at,omitzero"`
	Batch      string    `json:"batch,omitempty"`
	// Args are JSON; ArgsBase64 are any bytes. At most one is given.
	Args       json.RawMessage `json:"args,omitempty"`
	ArgsBase64 []byte          `json:"args_base64,omitempty"`
	Trace      string          `json:"trace,omitempty"`
}

// Enqueued is the answer to one NewJob.
type Enqueued struct {
	Job
	// Existing is set where a living job has the unique key: it is the
	// answer, and nothing was added.
	Existing bool `json:"existing,omitempty"`
}

// Job is everything remembered of one job but its attempts. Bytes that are
// JSON stand as they are, others in the field with the suffix _base64.
type Job struct {
	ID     string    `json:"id"`
	Kind   string    `json:"kind"`
	Queue  string    `json:"queue"`
	State  job.State `json:"state"`
	Cause  job.Cause `json:"cause,omitempty"` // of failed and parked
	DueAt  time.Time `json:"due_at"`
	Target string    `json:"target,omitempty"`
	Key    string    `json:"key,omitempty"`
	// KeyRule is empty where it blocks. Blocked: an earlier one of its key
	// goes first.
	KeyRule    job.KeyRule `json:"key_rule,omitempty"`
	Blocked    bool        `json:"blocked,omitempty"`
	Unique     string      `json:"unique,omitempty"`
	Policy     string      `json:"policy"`
	Priority   int         `json:"priority"`
	DeadlineAt time.Time   `json:"deadline_at,omitzero"`
	Batch      string      `json:"batch,omitempty"`
	Trace      string      `json:"trace,omitempty"`
	EnqueuedAt time.Time   `json:"enqueued_at"`
	EndedAt    time.Time   `json:"ended_at,omitzero"`

	Starts   int `json:"starts"`            // handlers begun and settled
	Attempts int `json:"attempts"`          // of them, what spent the policy's attempts
	Waits    int `json:"waits,omitempty"`   // snoozes and waits for our own machine
	Crashes  int `json:"crashes,omitempty"` // since the last progress
	// Held is how long gates held it back before its starts so far.
	Held float64 `json:"held_s,omitempty"`

	// Process, LeasedAt and Begun are of a running job.
	Process  int64     `json:"process,omitempty"`
	LeasedAt time.Time `json:"leased_at,omitzero"`
	Begun    bool      `json:"begun,omitempty"`
	Epoch    int64     `json:"epoch"`

	Args           json.RawMessage `json:"args,omitempty"`
	ArgsBase64     []byte          `json:"args_base64,omitempty"`
	Progress       json.RawMessage `json:"progress,omitempty"`
	ProgressBase64 []byte          `json:"progress_base64,omitempty"`
	Result         json.RawMessage `json:"result,omitempty"`
	ResultBase64   []byte          `json:"result_base64,omitempty"`

	// What follows describes the last failure.
	LastClass     string `json:"last_class,omitempty"`
	LastError     string `json:"last_error,omitempty"`
	Fingerprint   string `json:"fingerprint,omitempty"`
	PolicyVersion string `json:"policy_version,omitempty"` // that decided last
	Config        string `json:"config,omitempty"`         // fingerprint of the worker that parked it

	// Probe tells what became of its target, where breaker, pause or Retry-After
	// held that; only the answer to a retry has it.
	Probe *Probe `json:"probe,omitempty"`
}

// Jobs is a part of a list.
type Jobs struct {
	Jobs []Job `json:"jobs"`
	// Next is the cursor of the part that follows; empty = there is none.
	Next string `json:"next,omitempty"`
}

// Attempt is one row of the ledger: one start, never changed.
type Attempt struct {
	Start     int       `json:"start"` // 1 and up over the job's whole life
	Epoch     int64     `json:"epoch"`
	Process   int64     `json:"process"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	OK        bool      `json:"ok"`
	// Class, Reason, Status, Error, Stack and RetryAfter are what went wrong.
	Class      string  `json:"class,omitempty"`
	Reason     string  `json:"reason,omitempty"`
	Status     int     `json:"status,omitempty"`
	Error      string  `json:"error,omitempty"`
	Stack      string  `json:"stack,omitempty"`
	RetryAfter float64 `json:"retry_after_s,omitempty"`
	// Action, Cause, Delay, DueAt, Rule and Counted are what was decided.
	Action        string        `json:"action,omitempty"`
	Cause         job.Cause     `json:"cause,omitempty"`
	Delay         float64       `json:"delay_s,omitempty"`
	DueAt         time.Time     `json:"due_at,omitzero"`
	Rule          string        `json:"rule,omitempty"`
	Counted       retry.Counted `json:"counted,omitempty"`
	PolicyVersion string        `json:"policy_version,omitempty"`
	HeldBy        string        `json:"held_by,omitempty"`
	Held          float64       `json:"held_s,omitempty"`
}

// payload splits bytes into JSON and others.
func payload(b []byte) (raw json.RawMessage, other []byte) {
	switch {
	case len(b) == 0:
		return nil, nil
	case isJSON(b):
		return b, nil
	}
	return nil, b
}

// isJSON reports whether bytes can stand in a JSON document as they are:
// json.Valid does not mind strings that are no UTF-8, and readers do.
func isJSON(b []byte) bool { return json.Valid(b) && utf8.Valid(b) }

func jobOf(j *job.Job) Job {
	h := &j.History
	out := Job{
		ID: j.ID(), Kind: j.Kind, Queue: j.Queue, State: j.State, Cause: j.Cause, DueAt: utc(j.DueAt),
		Target: j.Target, Key: j.Key, KeyRule: j.KeyRule, Blocked: j.Blocked, Unique: j.Unique, Policy: j.Policy, Priority: j.Priority,
		DeadlineAt: utc(j.DeadlineAt), Batch: j.Batch, Trace: j.Trace, EnqueuedAt: utc(j.EnqueuedAt), EndedAt: utc(j.EndedAt),
		Starts: h.Starts, Attempts: h.Attempts, Waits: h.Waits, Crashes: h.Crashes, Held: h.Held.Seconds(),
		Process: j.Process, LeasedAt: utc(j.LeasedAt), Begun: j.Begun, Epoch: j.Epoch,
		LastClass: className(j.LastClass), LastError: j.LastError, Fingerprint: j.Fingerprint, PolicyVersion: j.Version, Config: j.Config,
	}
	out.Args, out.ArgsBase64 = payload(j.Args)
	out.Progress, out.ProgressBase64 = payload(j.Progress)
	out.Result, out.ResultBase64 = payload(j.Result)
	return out
}

func attemptOf(a *job.Attempt) Attempt {
	return Attempt{
		Start: a.Start, Epoch: a.Epoch, Process: a.Process, StartedAt: utc(a.StartedAt), EndedAt: utc(a.EndedAt), OK: a.OK,
		Class: className(a.Class), Reason: a.Reason, Status: a.Status, Error: a.Error, Stack: a.Stack, RetryAfter: a.RetryAfter.Seconds(),
		Action: a.Action, Cause: a.Cause, Delay: a.Delay.Seconds(), DueAt: utc(a.DueAt), Rule: a.Rule, Counted: a.Counted,
		PolicyVersion: a.Version, HeldBy: a.HeldBy, Held: a.Held.Seconds(),
	}
}

// className is empty where nothing was classified.
func className(c failure.Class) string {
	if c == failure.Unknown {
		return ""
	}
	return c.String()
}

// utc keeps the zero time zero, so that omitzero sees it.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}
