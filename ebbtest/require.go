package ebbtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// shown is how many jobs a failure message lists.
const shown = 10

// searched is how many of the newest jobs of a kind are looked at.
const searched = 10_000

// RequireEnqueued fails the test unless a job like want was enqueued, whatever
// has become of it since. Every field of want that is not zero must match;
// Args match as JSON. It returns the newest such job.
func RequireEnqueued(t testing.TB, c *ebb.Client, want ebb.Job) job.Job {
	t.Helper()
	all := list(t, c, want.Kind)
	for i := range all {
		if difference(&all[i], want) == "" {
			return all[i]
		}
	}
	t.Fatalf("ebbtest: no job %s was enqueued; %s", describe(want), found(all, want))
	return job.Job{}
}

// RequireNotEnqueued fails the test if a job like unwanted was enqueued.
func RequireNotEnqueued(t testing.TB, c *ebb.Client, unwanted ebb.Job) {
	t.Helper()
	all := list(t, c, unwanted.Kind)
	for i := range all {
		if difference(&all[i], unwanted) == "" {
			t.Fatalf("ebbtest: a job %s was enqueued: %s", describe(unwanted), line(&all[i]))
		}
	}
}

// RequireSettled fails the test unless the job has come to rest in the state:
// succeeded, failed, parked or cancelled. It returns the job.
func RequireSettled(t testing.TB, c *ebb.Client, id string, want job.State) job.Job {
	t.Helper()
	j := read(t, c, id)
	if j.State != want {
		t.Fatalf("ebbtest: job %s (%s) is %s, want %s\n%s", id, j.Kind, standing(&j), want, ledger(t, c, &j))
	}
	return j
}

// RequireNotSettled fails the test unless the job still waits or runs. It
// returns the job.
func RequireNotSettled(t testing.TB, c *ebb.Client, id string) job.Job {
	t.Helper()
	j := read(t, c, id)
	if j.State != job.Queued && j.State != job.Running {
		t.Fatalf("ebbtest: job %s (%s) is %s, want it queued or running\n%s", id, j.Kind, standing(&j), ledger(t, c, &j))
	}
	return j
}

func read(t testing.TB, c *ebb.Client, id string) job.Job {
	t.Helper()
	j, err := c.Job(t.Context(), id)
	if err != nil {
		t.Fatalf("ebbtest: job %s: %v", id, err)
	}
	return j
}

func list(t testing.TB, c *ebb.Client, kind string) []job.Job {
	t.Helper()
	if kind == "" {
		t.Fatal("ebbtest: name the kind of the job")
	}
	all, err := c.Store().List(t.Context(), store.Filter{Kind: kind}, store.Page{Limit: searched})
	if err != nil {
		t.Fatalf("ebbtest: list: %v", err)
	}
	return all
}

// difference returns what tells the job from the wanted one; empty if nothing
// does.
func difference(j *job.Job, want ebb.Job) string {
	var parts []string
	differs := func(name string, got, want any, isZero bool) {
		if !isZero && !reflect.DeepEqual(got, want) {
			parts = append(parts, fmt.Sprintf("%s %v", name, got))
		}
	}
	if want.Args != nil && !sameArgs(j.Args, want.Args) {
		parts = append(parts, "args "+text(j.Args))
	}
	differs("queue", j.Queue, want.Queue, want.Queue == "")
	differs("policy", j.Policy, want.Policy, want.Policy == "")
	differs("priority", j.Priority, want.Priority, want.Priority == 0)
	differs("unique", j.Unique, unique(want), want.Unique == "")
	differs("target", j.Target, want.Target, want.Target == "")
	differs("key", j.Key, want.Key, want.Key == "")
	differs("key rule", j.KeyRule, want.KeyRule, want.KeyRule == "")
	differs("batch", j.Batch, want.Batch, want.Batch == "")
	differs("trace", j.Trace, want.Trace, want.Trace == "")
	differs("due", instant(j.DueAt), instant(want.DueAt), want.DueAt.IsZero())
	differs("deadline", instant(j.DeadlineAt), instant(want.DeadlineAt), want.DeadlineAt.IsZero())
	return strings.Join(parts, ", ")
}

// unique is the wanted key as it is kept, with its scope written into it.
func unique(want ebb.Job) string {
	prepared, err := store.Prepare(Epoch, job.New{Kind: want.Kind, Queue: want.Queue, Unique: want.Unique, UniqueScope: want.UniqueScope})
	if err != nil {
		return want.Unique
	}
	return prepared.Unique
}

// sameArgs compares as JSON where both are, else byte by byte.
func sameArgs(got []byte, want any) bool {
	raw, ok := want.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(want); err != nil {
			return false
		}
	}
	var a, b any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal(raw, &b) != nil {
		return bytes.Equal(got, raw)
	}
	return reflect.DeepEqual(a, b)
}

// describe writes the fields of a wanted job that are set.
func describe(want ebb.Job) string {
	var parts []string
	v := reflect.ValueOf(want)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			continue
		}
		value := fmt.Sprintf("%v", v.Field(i).Interface())
		if v.Type().Field(i).Name == "Args" {
			if raw, ok := want.Args.([]byte); ok {
				value = text(raw)
			} else if raw, err := json.Marshal(want.Args); err == nil {
				value = text(raw)
			}
		}
		parts = append(parts, fmt.Sprintf("%s: %s", v.Type().Field(i).Name, value))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// found lists the jobs of the kind with what tells them from the wanted one.
func found(all []job.Job, want ebb.Job) string {
	if len(all) == 0 {
		return fmt.Sprintf("there is none of kind %q", want.Kind)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "there are %d of kind %q, which differ:", len(all), want.Kind)
	for i := range all[:min(len(all), shown)] {
		fmt.Fprintf(&b, "\n  %s: %s", all[i].ID(), difference(&all[i], want))
	}
	if more := len(all) - shown; more > 0 {
		fmt.Fprintf(&b, "\n  … and %d older ones", more)
	}
	return b.String()
}

func line(j *job.Job) string {
	return fmt.Sprintf("%s, %s, args %s", j.ID(), standing(j), text(j.Args))
}

// standing says where a job stands.
func standing(j *job.Job) string {
	switch {
	case j.State == job.Queued:
		return "queued, due at " + instant(j.DueAt)
	case j.Cause != "":
		return fmt.Sprintf("%s (%s)", j.State, j.Cause)
	}
	return string(j.State)
}

// ledger tells the job's starts.
func ledger(t testing.TB, c *ebb.Client, j *job.Job) string {
	t.Helper()
	rows, err := c.Store().Attempts(t.Context(), j.Seq)
	if err != nil {
		return "its ledger cannot be read: " + err.Error()
	}
	if len(rows) == 0 {
		return "it never started; is there a handler of its kind, and was it run?"
	}
	var b strings.Builder
	b.WriteString("its starts:")
	for _, a := range rows {
		if a.OK {
			fmt.Fprintf(&b, "\n  %d at %s: succeeded", a.Start, instant(a.StartedAt))
			continue
		}
		fmt.Fprintf(&b, "\n  %d at %s: %s: %s → %s by rule %s", a.Start, instant(a.StartedAt), a.Class, a.Error, verdict(&a), a.Rule)
	}
	return b.String()
}

func verdict(a *job.Attempt) string {
	if a.DueAt.IsZero() {
		return strings.TrimSpace(fmt.Sprintf("%s %s", a.Action, a.Cause))
	}
	return fmt.Sprintf("%s after %s", a.Action, a.Delay.Round(time.Millisecond))
}

func instant(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.999Z07:00") }

// text shows args that may be anything.
func text(raw []byte) string {
	const most = 200
	if len(raw) > most {
		return fmt.Sprintf("%q…", raw[:most])
	}
	if json.Valid(raw) {
		return string(raw)
	}
	return fmt.Sprintf("%q", raw)
}
