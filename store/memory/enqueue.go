package memory

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// staged is what an enqueue will do.
type staged struct {
	rows     []*row
	replaces []replacement
	answers  []store.Enqueued
}

// replacement gives a waiting job the content of a later enqueue.
type replacement struct {
	row *row
	job.New
}

// reservation keeps a unique key taken after its job's end.
type reservation struct {
	seq   int64
	until time.Time
}

// Enqueue adds the jobs, all or none.
func (s *Store) Enqueue(ctx context.Context, now time.Time, jobs []job.New) ([]store.Enqueued, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	st, err := s.stage(now, jobs, nil)
	if err != nil {
		return nil, err
	}
	s.commit(st)
	return st.answers, nil
}

// commit does what was staged.
func (s *Store) commit(st staged) {
	for _, r := range st.rows {
		if r.job.Unique != "" {
			delete(s.reserved, r.job.Unique)
			if r.uniqueFor > 0 {
				s.reserved[r.job.Unique] = reservation{r.job.Seq, r.job.EnqueuedAt.Add(r.uniqueFor)}
			}
		}
		s.add(r)
	}
	for _, rep := range st.replaces {
		s.change(rep.row, func(j *job.Job) { replace(j, rep.New) })
	}
}

// replace writes what a unique enqueue may change of a job that waits for its
// first start.
func replace(j *job.Job, n job.New) {
	j.Args, j.Policy, j.Priority, j.DueAt, j.DeadlineAt = bytes.Clone(n.Args), n.Policy, n.Priority, n.DueAt, n.DeadlineAt
	j.Batch, j.Trace, j.History.DeadlineAt = n.Batch, n.Trace, n.DeadlineAt
}

// replaceable reports whether the job still waits for its first start.
func replaceable(j *job.Job) bool { return j.State == job.Queued && j.History.Starts == 0 }

// stage makes rows of the jobs without adding them. A unique key may be taken
// by a live job, by a row staged before in the same transaction, or by one of
// this call.
func (s *Store) stage(now time.Time, jobs []job.New, before []*row) (staged, error) {
	now = s.at(now)
	prepared := make([]job.New, len(jobs))
	for i, n := range jobs {
		var err error
		if prepared[i], err = store.Prepare(now, n); err != nil {
			return staged{}, err
		}
	}
	taken := map[string]*row{}
	for _, r := range before {
		taken[r.job.Unique] = r
	}
	st := staged{answers: make([]store.Enqueued, 0, len(jobs))}
	for _, n := range prepared {
		if holder, seq := s.holder(n.Unique, taken, store.Instant(now)); seq != 0 {
			switch {
			case n.Conflict == job.ConflictRefuse:
				return staged{}, fmt.Errorf("store: enqueue: %q is taken by job %s: %w", n.Unique, job.FormatID(seq), store.ErrUnique)
			case n.Conflict == job.ConflictReplace && holder != nil && holder == taken[n.Unique]:
				replace(&holder.job, n)
			case n.Conflict == job.ConflictReplace && holder != nil && replaceable(&holder.job):
				st.replaces = append(st.replaces, replacement{holder, n})
			}
			st.answers = append(st.answers, store.Enqueued{Seq: seq, Existing: true})
			continue
		}
		s.lastSeq++
		r := &row{job: job.Job{Seq: s.lastSeq, New: n, State: job.Queued, EnqueuedAt: store.Instant(now)}, uniqueFor: n.UniqueFor}
		r.job.Args, r.job.UniqueFor, r.job.Conflict = bytes.Clone(n.Args), 0, ""
		r.job.History.DeadlineAt = n.DeadlineAt
		taken[n.Unique] = r
		st.rows = append(st.rows, r)
		st.answers = append(st.answers, store.Enqueued{Seq: s.lastSeq})
	}
	return st, nil
}

// holder returns who has the unique key, and as a row if it lives.
func (s *Store) holder(unique string, staged map[string]*row, now time.Time) (*row, int64) {
	if unique == "" || s.faults.NoUnique {
		return nil, 0
	}
	if r := s.uniques[unique]; r != nil {
		return r, r.job.Seq
	}
	if r := staged[unique]; r != nil {
		return r, r.job.Seq
	}
	if kept, found := s.reserved[unique]; found && now.Before(kept.until) {
		return nil, kept.seq
	}
	return nil, 0
}

// copied returns the job with bytes of its own.
func copied(j *job.Job) job.Job {
	c := *j
	c.Args, c.Progress, c.Result = bytes.Clone(j.Args), bytes.Clone(j.Progress), bytes.Clone(j.Result)
	return c
}
