package memory

import (
	"bytes"
	"context"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Enqueue adds the jobs, all or none.
func (s *Store) Enqueue(ctx context.Context, now time.Time, jobs []job.New) ([]store.Enqueued, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	rows, answers, err := s.stage(now, jobs, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		s.add(r)
	}
	return answers, nil
}

// stage makes rows of the jobs without adding them. A unique key may be taken
// by a live job, by a row staged before in the same transaction, or by one of
// this call.
func (s *Store) stage(now time.Time, jobs []job.New, before []*row) ([]*row, []store.Enqueued, error) {
	now = s.at(now)
	prepared := make([]job.New, len(jobs))
	for i, n := range jobs {
		var err error
		if prepared[i], err = store.Prepare(now, n); err != nil {
			return nil, nil, err
		}
	}
	taken := map[string]int64{}
	for _, r := range before {
		taken[r.job.Unique] = r.job.Seq
	}
	var rows []*row
	answers := make([]store.Enqueued, 0, len(jobs))
	for _, n := range prepared {
		if seq, ok := s.holder(n.Unique, taken); ok {
			answers = append(answers, store.Enqueued{Seq: seq, Existing: true})
			continue
		}
		n.Args = bytes.Clone(n.Args)
		s.lastSeq++
		r := &row{job: job.Job{Seq: s.lastSeq, New: n, State: job.Queued, EnqueuedAt: store.Instant(now)}}
		r.job.History.DeadlineAt = n.DeadlineAt
		taken[n.Unique] = s.lastSeq
		rows = append(rows, r)
		answers = append(answers, store.Enqueued{Seq: s.lastSeq})
	}
	return rows, answers, nil
}

// holder returns the live job that has the unique key.
func (s *Store) holder(unique string, staged map[string]int64) (int64, bool) {
	if unique == "" || s.faults.NoUnique {
		return 0, false
	}
	if r := s.uniques[unique]; r != nil {
		return r.job.Seq, true
	}
	seq, ok := staged[unique]
	return seq, ok
}

// copied returns the job with bytes of its own.
func copied(j *job.Job) job.Job {
	c := *j
	c.Args, c.Progress, c.Result = bytes.Clone(j.Args), bytes.Clone(j.Progress), bytes.Clone(j.Result)
	return c
}
