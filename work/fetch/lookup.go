package fetch

import (
	"context"
	"errors"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/fetch/scope"
)

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
