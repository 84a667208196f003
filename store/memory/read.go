package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Job returns the job.
func (s *Store) Job(ctx context.Context, seq int64) (job.Job, error) {
	if err := s.begin(ctx); err != nil {
		return job.Job{}, err
	}
	defer s.mu.Unlock()
	r, err := s.find(seq)
	if err != nil {
		return job.Job{}, err
	}
	return copied(&r.job), nil
}

// Attempts returns the job's ledger in the order of starts.
func (s *Store) Attempts(ctx context.Context, seq int64) ([]job.Attempt, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r, err := s.find(seq)
	if err != nil {
		return nil, err
	}
	return slices.Clone(r.attempts), nil
}

// List returns matching jobs, newest first.
func (s *Store) List(ctx context.Context, f store.Filter, page store.Page) ([]job.Job, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	end := len(s.order)
	if page.Before > 0 {
		end = s.search(page.Before)
	}
	list := make([]job.Job, 0, min(page.Limit, end, 100))
	for i := end - 1; i >= s.search(page.From) && len(list) < page.Limit; i-- {
		if r := s.order[i]; !r.gone && f.Matches(&r.job) {
			list = append(list, copied(&r.job))
		}
	}
	return list, nil
}

// Floor says where a list of the filter may stop.
func (s *Store) Floor(ctx context.Context, f store.Filter, before int64, rows int) (int64, error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	end := len(s.order)
	if before > 0 {
		end = s.search(before)
	}
	all := store.Filter{State: f.State}
	for i := end - 1; i >= 0; i-- {
		if r := s.order[i]; !r.gone && all.Matches(&r.job) {
			if rows--; rows <= 0 {
				return r.job.Seq, nil
			}
		}
	}
	return 0, nil
}

// Queues lists all queues by name.
func (s *Store) Queues(ctx context.Context) ([]store.QueueState, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	list := make([]store.QueueState, 0, len(s.queues))
	for _, q := range s.queues {
		list = append(list, store.QueueState{QueueRule: q.rule(), Counts: maps.Clone(q.counts), DueAt: q.dueAt()})
	}
	slices.SortFunc(list, func(a, b store.QueueState) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// QueueRules lists what was declared of the queues.
func (s *Store) QueueRules(ctx context.Context) ([]store.QueueRule, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	list := make([]store.QueueRule, 0, len(s.queues))
	for _, q := range s.queues {
		list = append(list, q.rule())
	}
	slices.SortFunc(list, func(a, b store.QueueRule) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func (q *queue) rule() store.QueueRule {
	return store.QueueRule{Name: q.name, Paused: q.paused, Strict: q.strict, Limit: q.limit}
}

// Groups gathers the dead letters.
func (s *Store) Groups(ctx context.Context, f store.Filter, limit int) ([]store.Group, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if f.State == "" {
		f.State = job.Failed
	}
	newest := map[store.Group]int64{} // sequence of the newest of each
	groups := map[store.Group]*store.Group{}
	for _, r := range s.dead.rows {
		j := &r.job
		if !f.Matches(j) {
			continue
		}
		key := store.Group{Fingerprint: j.Fingerprint, Kind: j.Kind, Queue: j.Queue, Class: j.LastClass, Cause: j.Cause}
		g := groups[key]
		if g == nil {
			first := key
			first.FirstAt = j.EndedAt
			g = &first
			groups[key] = g
		}
		g.Count++
		if j.EndedAt.Before(g.FirstAt) {
			g.FirstAt = j.EndedAt
		}
		if c := j.EndedAt.Compare(g.LastAt); c > 0 || c == 0 && j.Seq > newest[key] {
			g.LastAt, g.Error, newest[key] = j.EndedAt, j.LastError, j.Seq
		}
	}
	list := make([]store.Group, 0, len(groups))
	for _, g := range groups {
		list = append(list, *g)
	}
	slices.SortFunc(list, compareGroups)
	return list[:min(len(list), limit)], nil
}

func compareGroups(a, b store.Group) int {
	return cmp.Or(
		cmp.Compare(b.Count, a.Count), b.LastAt.Compare(a.LastAt), strings.Compare(a.Fingerprint, b.Fingerprint),
		strings.Compare(a.Kind, b.Kind), strings.Compare(a.Queue, b.Queue),
		strings.Compare(a.Class.String(), b.Class.String()), strings.Compare(string(a.Cause), string(b.Cause)),
	)
}

// Ahead counts what a claim takes before the job.
func (s *Store) Ahead(ctx context.Context, now time.Time, seq int64, limit int) (int, error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	r, err := s.find(seq)
	if err != nil || r.job.State != job.Queued {
		return 0, err
	}
	now = store.Instant(s.at(now))
	q, n := s.queues[r.job.Queue], 0
	var shelves []*shelf
	if target := q.laneOf(&r.job); target == "" {
		shelves = slices.Collect(maps.Values(q.plain))
	} else if l := q.lanes[target]; l != nil {
		for _, p := range l.parts {
			shelves = append(shelves, p.shelf)
		}
	}
	for _, sh := range shelves {
		for p := range sh.heaps {
			for _, other := range sh.heaps[p].rows {
				if q.before(other, r) && !other.job.DueAt.After(now) && !passed(&other.job, now) {
					n++
				}
			}
		}
	}
	return min(n, limit), nil
}

// Audit lists the acts of operators, newest first.
func (s *Store) Audit(ctx context.Context, limit int) ([]store.AuditRow, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	list := slices.Clone(s.audit[max(0, len(s.audit)-limit):])
	slices.Reverse(list)
	return list, nil
}
