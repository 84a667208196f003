package fetch

import (
	"context"
	"errors"
	"fmt"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/fetch/scope"
)

// Level says how a fetch stands beside the one before.
type Level string

const (
	Fine     Level = "fine"
	Warn     Level = "warning"
	Critical Level = "critical"
)

// Below these shares of what the fetch before had, something is missing that
// no failure tells of: pages that vanished from the input, or turned empty.
const (
	warnUnder     = 0.80
	criticalUnder = 0.70
)

// Comparison is a fetch beside the one before.
type Comparison struct {
	Previous string  `json:"previous"`
	Before   int64   `json:"before"` // pages that it had
	Now      int64   `json:"now"`
	Ratio    float64 `json:"ratio"`
	Level    Level   `json:"level"`
	Text     string  `json:"text"`
}

// compared judges two counts.
func compared(previous string, before, now int64) Comparison {
	c := Comparison{Previous: previous, Before: before, Now: now, Ratio: 1, Level: Fine}
	if before > 0 {
		c.Ratio = float64(now) / float64(before)
	}
	switch {
	case c.Ratio < criticalUnder:
		c.Level = Critical
	case c.Ratio < warnUnder:
		c.Level = Warn
	}
	c.Text = fmt.Sprintf("%d pages are here, %.0f %% of the %d that fetch %s had", now, 100*c.Ratio, before, previous)
	return c
}

// Compare holds a fetch with an account against the one before; false if
// there is none that ended.
func Compare(ctx context.Context, s store.Records, f *Fetch) (Comparison, bool, error) {
	if f.Previous == "" || f.Tally == nil || f.Phase != Ended {
		return Comparison{}, false, nil
	}
	before, err := Find(ctx, s, f.Previous)
	if errors.Is(err, store.ErrNotFound) || err == nil && before.Tally == nil {
		return Comparison{}, false, nil
	}
	if err != nil {
		return Comparison{}, false, err
	}
	return compared(before.ID, before.Tally.OK+before.Tally.Unchanged, f.Tally.OK+f.Tally.Unchanged), true, nil
}

// Lookup finds one URL of a fetch; store.ErrNotFound if it is not in it.
func Lookup(ctx context.Context, s store.Reader, f *Fetch, url string) (Page, error) {
	if normal, err := scope.Normalize(url); err == nil {
		url = normal
	}
	found := errors.New("found")
	var page Page
	for _, state := range []job.State{job.Failed, job.Parked, job.Queued, job.Running, job.Cancelled, job.Succeeded} {
		err := Each(ctx, s, f, state, func(p Page) error {
			if p.Args.URL != url {
				return nil
			}
			page = p
			return found
		})
		if err != nil {
			if errors.Is(err, found) {
				err = nil
			}
			return page, err
		}
	}
	return page, store.ErrNotFound
}

// Complete reports whether all that there was to get is here. Pages that were
// found by following links may turn out not to exist, or not to be ours to
// read: that is an answer.
func (f *Fetch) Complete() bool {
	t := f.Tally
	if t == nil {
		return false
	}
	if f.Follows {
		return t.OK+t.Unchanged > 0 && t.OK+t.Unchanged+t.Permanent+t.Robots == t.Input
	}
	return t.OK+t.Unchanged == t.Input
}
