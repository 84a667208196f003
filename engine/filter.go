package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Filter selects jobs. Empty parts select everything; all parts must match.
type Filter struct {
	IDs         []string  `json:"ids,omitempty"`
	State       job.State `json:"state,omitempty"`
	Cause       job.Cause `json:"cause,omitempty"`
	Kind        string    `json:"kind,omitempty"`
	Queue       string    `json:"queue,omitempty"`
	Target      string    `json:"target,omitempty"`
	Batch       string    `json:"batch,omitempty"`
	Class       string    `json:"class,omitempty"` // of the last failure
	Fingerprint string    `json:"fingerprint,omitempty"`
	Since       time.Time `json:"since,omitzero"` // enqueued (living) or ended (others) at or after
	Until       time.Time `json:"until,omitzero"` // … and before
	Key         string    `json:"key,omitempty"`  // stands within the key or the unique key
}

// Empty reports whether the filter selects everything, whatever the state.
func (f Filter) Empty() bool {
	return len(f.IDs) == 0 && f.Cause == "" && f.Kind == "" && f.Queue == "" && f.Target == "" && f.Batch == "" &&
		f.Class == "" && f.Fingerprint == "" && f.Key == "" && f.Since.IsZero() && f.Until.IsZero()
}

// Page bounds a list.
type Page struct {
	Cursor string `json:"cursor,omitempty"` // Next of the part before; empty = from the newest
	Limit  int    `json:"limit,omitempty"`  // default DefaultLimit, at most MaxLimit
	// Rows is the most jobs that a part looks at; 0 = as many as it takes. A
	// part that ends there may hold fewer than Limit, or none, and have a Next.
	Rows int `json:"-"`
	// Held lists only targets that hold work back; a part looks at 1,000.
	Held bool `json:"-"`
}

const (
	DefaultLimit = 50
	MaxLimit     = 1000
	// PageRows is Rows where a part must be told in a fraction of a second,
	// however many jobs there are.
	PageRows = 20_000
)

var causes = []job.Cause{
	retry.CauseFatal, retry.CauseExhausted, retry.CausePoison, retry.CauseExpired,
	retry.CauseConfig, retry.CauseNoProgress, retry.CauseTargetDown, job.HostLost, job.Disabled, job.HeadFailed,
}

// selection turns the filter into the store's.
func (f Filter) selection() (store.Filter, error) {
	out := store.Filter{
		State: f.State, Cause: f.Cause, Kind: f.Kind, Queue: f.Queue, Target: f.Target, Batch: f.Batch,
		Fingerprint: f.Fingerprint, Since: store.Instant(f.Since), Until: store.Instant(f.Until), Key: f.Key,
	}
	if err := f.checkNames(); err != nil {
		return out, err
	}
	if f.State != "" && !slices.Contains(job.States(), f.State) {
		return out, invalid("state %q: must be one of %s", f.State, listed(job.States()))
	}
	if f.Cause != "" && !slices.Contains(causes, f.Cause) {
		return out, invalid("cause %q: must be one of %s", f.Cause, listed(causes))
	}
	if f.Class != "" {
		class, err := failure.ParseClass(f.Class)
		if err != nil || class == failure.Unknown {
			return out, invalid("class %q: must be one of %s", f.Class, listed(failure.Classes()))
		}
		out.Class = class
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return out, invalid("since %s: must be before until %s", f.Since.UTC().Format(time.RFC3339), f.Until.UTC().Format(time.RFC3339))
	}
	for _, id := range f.IDs {
		seq, err := parseID(id)
		if err != nil {
			return out, err
		}
		out.Seqs = append(out.Seqs, seq)
	}
	return out, nil
}

// searches reports whether a list by the filter may have to look at many jobs
// for each that it finds. Of the states, those that ended well share a table, and so
// do what runs and what waits.
func (f Filter) searches() bool {
	if len(f.IDs) > 0 {
		return false
	}
	state := f.State
	f.State = ""
	return !f.Empty() || state == job.Succeeded || state == job.Cancelled || state == job.Running
}

// LooksAt is how many jobs a part of Page.Rows looks at. Running jobs may stand behind all
// that wait, and to tell that one does not run is quick.
func (f Filter) LooksAt(most int) int {
	if f.State == job.Running {
		return 5 * most
	}
	return most
}

// byRow reports whether groups by the filter must look at each dead letter:
// what makes a group is counted by an index, or as it changes.
func (f Filter) byRow() bool {
	return f.Target != "" || f.Batch != "" || f.Key != "" || !f.Since.IsZero() || !f.Until.IsZero()
}

// filterOf is selection backwards.
func filterOf(f *store.Filter) Filter {
	out := Filter{
		State: f.State, Cause: f.Cause, Kind: f.Kind, Queue: f.Queue, Target: f.Target, Batch: f.Batch,
		Class: className(f.Class), Fingerprint: f.Fingerprint, Since: utc(f.Since), Until: utc(f.Until), Key: f.Key,
	}
	for _, seq := range f.Seqs {
		out.IDs = append(out.IDs, job.FormatID(seq))
	}
	return out
}

// bounds turns the page into the store's.
func (p Page) bounds() (store.Page, error) {
	out := store.Page{Limit: p.Limit}
	switch {
	case p.Limit == 0:
		out.Limit = DefaultLimit
	case p.Limit < 0 || p.Limit > MaxLimit:
		return out, invalid("limit %d: must be 1 to %d", p.Limit, MaxLimit)
	}
	if p.Cursor != "" {
		seq, err := job.ParseID(p.Cursor)
		if err != nil || seq == 0 {
			return out, invalid("cursor %q: must be the next of a list before", p.Cursor)
		}
		out.Before = seq
	}
	return out, nil
}

// parseID reads a job's id; a text that cannot be one is invalid.
func parseID(id string) (int64, error) {
	seq, err := job.ParseID(id)
	if err != nil {
		return 0, invalid("%s", strings.TrimPrefix(err.Error(), "job: "))
	}
	return seq, nil
}

func listed[T any](values []T) string {
	var parts []string
	for _, v := range values {
		parts = append(parts, fmt.Sprint(v))
	}
	return strings.Join(parts, ", ")
}
