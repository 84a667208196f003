package fetch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// CountKind is the kind of the records that tell how many pages of a fetch had
// not changed; their Ref is the fetch's id. The store counts jobs by state and
// knows no more of those that succeeded, and to read a million of them takes
// half a minute. So each process that fetches writes down what it saw. What a
// killed one had not written yet is missing, which shows: pages is then less
// than the store's own count.
const CountKind = "fetch.count"

// seen is what the processes of a fetch saw.
type seen struct {
	Pages     int64 `json:"pages"` // that succeeded
	Unchanged int64 `json:"unchanged"`
}

// maxSeen bounds the records that are added up: one a process that worked on
// the fetch since it last ended.
const maxSeen = 1000

// seenOf adds up what the processes wrote down, and returns the records.
func seenOf(ctx context.Context, s store.Records, id string) (seen, []store.Record, error) {
	var sum seen
	list, err := s.Records(ctx, store.RecordFilter{Kind: CountKind, Ref: id, Limit: maxSeen})
	if err != nil {
		return sum, nil, fmt.Errorf("fetch: %s: counts: %w", id, err)
	}
	for i := range list {
		var one seen
		if err := json.Unmarshal(list[i].Body, &one); err != nil {
			return sum, nil, fmt.Errorf("fetch: record %s %s: %w", CountKind, list[i].ID, err)
		}
		sum.Pages += one.Pages
		sum.Unchanged += one.Unchanged
	}
	return sum, list, nil
}

// counter is what this process saw of a fetch, and what of it is written down.
// Only r.pass and r.planned, which follow each other, write.
type counter struct {
	id      string // of the record
	version int64
	written seen
}

func newCounter() counter { return counter{id: rand.Text()} }

// compares says that pages of the fetch can be unchanged.
func (f *Fetch) compares() bool { return f.Conditional && f.Previous != "" }

func (r *Runner) countRecord(f *Fetch, id string, version int64, n seen) (store.Record, error) {
	body, err := json.Marshal(n)
	return store.Record{Kind: CountKind, ID: f.ID + "/" + id, Ref: f.ID, Version: version, Body: body}, err
}

// keepCount writes down what this process saw, if there is anything new. A
// record that somebody has added to the sum of a fetch that ended is his.
func (r *Runner) keepCount(ctx context.Context) {
	f := r.Fetch()
	now := r.meter.sawn()
	if !f.compares() || now == r.count.written {
		return
	}
	rec, err := r.countRecord(&f, r.count.id, r.count.version, now)
	if err == nil {
		_, err = r.o.Store.Write(ctx, r.o.now(), store.Write{Puts: []store.Record{rec}})
	}
	switch {
	case err == nil:
		r.count.version++
		r.count.written = now
	case errors.Is(err, store.ErrConflict):
		r.forgetCount()
	default:
		r.o.Log.Warn("fetch: count of pages", "error", err)
	}
}

func (r *Runner) forgetCount() {
	r.meter.unsee()
	r.count = newCounter()
}

// foldCount leaves one record of a fetch that has ended, with what is true. It
// is for a later retry: where it fails, that one reads all pages again.
func (r *Runner) foldCount(ctx context.Context, f *Fetch, t *Tally) error {
	if !f.compares() {
		return nil
	}
	_, list, err := seenOf(ctx, r.o.Store, f.ID)
	if err != nil {
		return err
	}
	counts, err := countsOf(ctx, r.o.Store, f.Queue())
	if err != nil {
		return err
	}
	var w store.Write
	version := int64(0)
	for i := range list {
		if list[i].ID == f.ID+"/" {
			version = list[i].Version
			continue
		}
		w.Drops = append(w.Drops, store.Record{Kind: CountKind, ID: list[i].ID, Version: list[i].Version})
	}
	sum, err := r.countRecord(f, "", version, seen{Pages: counts[job.Succeeded], Unchanged: t.Unchanged})
	if err != nil {
		return err
	}
	w.Puts = []store.Record{sum}
	_, err = r.o.Store.Write(ctx, r.o.now(), w)
	if errors.Is(err, store.ErrConflict) { // another machine did
		err = nil
	}
	r.forgetCount()
	return err
}
