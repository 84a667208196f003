package campaign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/supervise"
)

const (
	// batchSize is how many runs are asked for or written at once: the calls
	// of a store grow with a campaign in steps of this.
	batchSize = 500
	// fewRuns are asked for one by one; more, by reading every run's record.
	fewRuns = 32
	// manyRuns is how many one list of runs holds at most.
	manyRuns = 5000
)

// books are a store, as the service of runs sees it, in which the records and
// jobs of some runs were read beforehand, many in one question, and in which
// changes are gathered until they are flushed, many in one transaction.
type books struct {
	store.Store
	names []string // of the runs, sorted
	// fresh are runs that were never there: nothing is asked about them. Who
	// queues one meanwhile is found by its job's unique key.
	fresh   map[string]bool
	records map[string]map[string]store.Record // by kind and id
	jobs    map[int64]*job.Job

	gathers bool // Write and Retry wait for flush
	pending store.Write
	retries []retrial
}

// retrial is an order to queue a job again.
type retrial struct {
	actor string
	seq   int64
}

func newBooks(s store.Store, names []string) *books {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return &books{Store: s, names: slices.Compact(sorted), records: map[string]map[string]store.Record{}, jobs: map[int64]*job.Job{}}
}

func (b *books) has(name string) bool {
	_, ok := slices.BinarySearch(b.names, name)
	return ok
}

// kind reads the records of a kind that the runs have.
func (b *books) kind(ctx context.Context, kind string) (map[string]store.Record, error) {
	if known, ok := b.records[kind]; ok {
		return known, nil
	}
	known := map[string]store.Record{}
	if len(b.names) <= fewRuns {
		for _, name := range b.names {
			switch rec, err := b.Store.Record(ctx, kind, name); {
			case err == nil:
				known[name] = rec
			case !errors.Is(err, store.ErrNotFound):
				return nil, err
			}
		}
		b.records[kind] = known
		return known, nil
	}
	for after, last := "", b.names[len(b.names)-1]; after < last; {
		page, err := b.Store.Records(ctx, store.RecordFilter{Kind: kind, After: after, Limit: batchSize})
		if err != nil {
			return nil, err
		}
		for i := range page {
			if b.has(page[i].ID) {
				known[page[i].ID] = page[i]
			}
		}
		if len(page) < batchSize {
			break
		}
		after = page[len(page)-1].ID
	}
	b.records[kind] = known
	return known, nil
}

// Record answers from what was read.
func (b *books) Record(ctx context.Context, kind, id string) (store.Record, error) {
	if b.fresh[id] {
		return store.Record{}, store.NoRecord(kind, id)
	}
	if !b.has(id) {
		return b.Store.Record(ctx, kind, id)
	}
	known, err := b.kind(ctx, kind)
	if err != nil {
		return store.Record{}, err
	}
	if rec, ok := known[id]; ok {
		return rec, nil
	}
	return store.Record{}, store.NoRecord(kind, id)
}

// Records lists the runs' records of a kind, and no others.
func (b *books) Records(ctx context.Context, f store.RecordFilter) ([]store.Record, error) {
	known, err := b.kind(ctx, f.Kind)
	if err != nil {
		return nil, err
	}
	var list []store.Record
	for _, name := range b.names {
		if rec, ok := known[name]; ok && name > f.After && len(list) < f.Limit {
			list = append(list, rec)
		}
	}
	return list, nil
}

// List remembers the jobs that it passes on.
func (b *books) List(ctx context.Context, f store.Filter, page store.Page) ([]job.Job, error) {
	if f.Batch != "" && b.fresh[strings.TrimPrefix(f.Batch, supervise.BatchOf(""))] {
		return nil, nil
	}
	list, err := b.Store.List(ctx, f, page)
	for i := range list {
		b.jobs[list[i].Seq] = &list[i]
	}
	return list, err
}

// Job answers from what List has passed on.
func (b *books) Job(ctx context.Context, seq int64) (job.Job, error) {
	if j := b.jobs[seq]; j != nil {
		return *j, nil
	}
	return b.Store.Job(ctx, seq)
}

// Write gathers records and audit rows where it is told to.
func (b *books) Write(ctx context.Context, now time.Time, w store.Write) ([]store.Enqueued, error) {
	if !b.gathers {
		return b.Store.Write(ctx, now, w)
	}
	b.pending.Puts = append(b.pending.Puts, w.Puts...)
	b.pending.Audit = append(b.pending.Audit, w.Audit...)
	return nil, nil
}

// Retry gathers orders where it is told to.
func (b *books) Retry(ctx context.Context, now time.Time, actor string, seq int64) error {
	if !b.gathers {
		return b.Store.Retry(ctx, now, actor, seq)
	}
	b.retries = append(b.retries, retrial{actor, seq})
	return nil
}

// under puts a queued job under another policy, with what is gathered. A job
// that begins before the flush keeps the policy that it begins with.
func (b *books) under(j *job.Job, policy string) {
	n := j.New
	n.Conflict, n.Policy = job.ConflictReplace, policy
	b.pending.Jobs = append(b.pending.Jobs, n)
}

// flush does what was gathered: the writes as one, then the orders.
func (b *books) flush(ctx context.Context, now time.Time, actor string) error {
	w, retries := b.pending, b.retries
	b.pending, b.retries = store.Write{}, nil
	var got []store.Enqueued
	if len(w.Puts) > 0 || len(w.Jobs) > 0 {
		var err error
		if got, err = b.Store.Write(ctx, now, w); err != nil {
			return err
		}
	}
	for i := range got {
		if got[i].Existing {
			continue
		}
		// Its job ended in this very moment, and so this is a second one.
		if _, err := b.Cancel(ctx, now, actor, got[i].Seq); err != nil {
			return err
		}
	}
	for _, r := range retries {
		if err := b.Store.Retry(ctx, now, r.actor, r.seq); err != nil && !errors.Is(err, store.ErrState) {
			return err
		}
	}
	return nil
}

// over is the service of runs that sees the books instead of the store.
func (s *Service) over(b *books) (*supervise.Service, error) {
	return supervise.New(supervise.Config{Store: b, Policies: s.own, Self: []string{"ebb"}})
}

// found is what is known of a run and of its newest job.
type found struct {
	supervise.Run
	job *job.Job // nil = it has none
}

// look tells of runs by name, without their ledgers; those that are not there
// are missing.
func (s *Service) look(ctx context.Context, names []string) (map[string]*found, error) {
	all := make(map[string]*found, len(names))
	for chunk := range slices.Chunk(names, manyRuns) {
		b := newBooks(s.store, chunk)
		runs, err := s.over(b)
		if err != nil {
			return nil, err
		}
		list, err := runs.List(ctx)
		if err != nil {
			return nil, err
		}
		for i := range list {
			f := &found{Run: list[i]}
			if f.Job != "" {
				seq, err := job.ParseID(f.Job)
				if err != nil {
					return nil, fmt.Errorf("campaign: run %s: %w", f.Name, err)
				}
				f.job = b.jobs[seq]
			}
			all[f.Name] = f
		}
	}
	return all, nil
}
