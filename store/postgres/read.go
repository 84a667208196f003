package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Job returns the job, wherever it stands.
func (s *Store) Job(ctx context.Context, seq int64) (job.Job, error) {
	jobs, err := s.jobs(ctx, statement("job"), seq)
	if err != nil {
		return job.Job{}, failed("job", err)
	}
	if len(jobs) == 0 {
		return job.Job{}, store.ErrNotFound
	}
	return jobs[0], nil
}

func (s *Store) jobs(ctx context.Context, sql string, args ...any) ([]job.Job, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	var list []job.Job
	err = eachRow(rows, func(r *row) error {
		j, err := r.job()
		list = append(list, j)
		return err
	})
	return list, err
}

// Attempts returns the job's ledger in the order of starts.
func (s *Store) Attempts(ctx context.Context, seq int64) ([]job.Attempt, error) {
	b := &pgx.Batch{}
	var list []job.Attempt
	var exists bool
	b.Queue(statement("attempts"), seq).Query(func(rows pgx.Rows) error {
		return eachRow(rows, func(r *row) error {
			a, err := r.attempt()
			list = append(list, a)
			return err
		})
	})
	b.Queue(statement("exists"), seq).QueryRow(func(r pgx.Row) error { return r.Scan(&exists) })
	if err := s.send(ctx, b); err != nil {
		return nil, failed("attempts", err)
	}
	if !exists {
		return nil, store.ErrNotFound
	}
	return list, nil
}

// views are where jobs of a state are read.
var views = map[job.State]string{
	"": "ebb_all_view", job.Queued: "ebb_live_view", job.Running: "ebb_live_view", job.Succeeded: "ebb_done_view",
	job.Cancelled: "ebb_done_view", job.Failed: "ebb_dead_view", job.Parked: "ebb_parked_view",
}

// where builds the condition of a filter, with its parameters after the first.
type where struct {
	parts []string
	args  []any
}

func (w *where) and(condition string, arg any) {
	w.args = append(w.args, arg)
	w.parts = append(w.parts, strings.ReplaceAll(condition, "?", fmt.Sprintf("$%d", len(w.args))))
}

// filter adds what the filter asks for. Only what it names is asked, so that
// each question has a plan of its own.
func (w *where) filter(f *store.Filter) {
	for _, text := range []struct{ condition, want string }{
		{"cause = ?", string(f.Cause)},
		{"kind = ?", f.Kind},
		{"queue = ?", f.Queue},
		{"target = ?", f.Target},
		{"batch = ?", f.Batch},
		{"last_class = ?", className(f.Class)},
		{"fingerprint = ?", f.Fingerprint},
	} {
		if text.want != "" {
			w.and(text.condition, text.want)
		}
	}
	if f.Key != "" {
		w.and("(position(? IN key) > 0 OR position(? IN unique_key) > 0)", f.Key)
	}
	if f.From > 0 {
		w.and("seq >= ?", f.From)
	}
	if len(f.Seqs) > 0 {
		w.and("seq = ANY (?::bigint[])", f.Seqs)
	}
	// What lives is dated by its enqueue, what has ended by its end.
	const date = "CASE WHEN ended_at IS NULL THEN enqueued_at ELSE ended_at END"
	if !f.Since.IsZero() {
		w.and(date+" >= ?::timestamptz", store.Due(f.Since, 0))
	}
	if !f.Until.IsZero() {
		w.and(date+" < ?::timestamptz", store.Due(f.Until, 0))
	}
}

// state adds what tells two states of one table apart.
func (w *where) state(state job.State) {
	switch state {
	case job.Queued:
		w.parts = append(w.parts, "process IS NULL")
	case job.Running:
		w.parts = append(w.parts, "process IS NOT NULL")
	case job.Succeeded, job.Cancelled:
		w.parts = append(w.parts, "state = '"+string(state)+"'")
	}
}

// build fills the statement's holes.
func (w *where) build(name, from string) (string, []any) {
	condition := "true"
	if len(w.parts) > 0 {
		condition = strings.Join(w.parts, " AND ")
	}
	return strings.NewReplacer("/*from*/", from, "/*filter*/", condition).Replace(statement(name)), w.args
}

// filtered builds a statement whose first parameter is the limit.
func filtered(name string, f store.Filter, limit int) (string, []any) {
	w := &where{args: []any{limit}}
	w.filter(&f)
	w.state(f.State)
	return w.build(name, views[f.State])
}

// filteredAbove is filtered for jobs above a sequence number.
func filteredAbove(name string, f store.Filter, cursor int64, limit int) (string, []any) {
	w := &where{args: []any{limit}}
	w.and("seq > ?", cursor)
	w.filter(&f)
	w.state(f.State)
	return w.build(name, views[f.State])
}

// List returns matching jobs, newest first.
func (s *Store) List(ctx context.Context, f store.Filter, page store.Page) ([]job.Job, error) {
	if _, known := views[f.State]; !known {
		return nil, nil
	}
	w := &where{args: []any{page.Limit}}
	if page.Before > 0 {
		w.and("seq < ?", page.Before)
	}
	if page.From > 0 {
		w.and("seq >= ?", page.From)
	}
	w.filter(&f)
	w.state(f.State)
	sql, args := w.build("list", views[f.State])
	jobs, err := s.jobs(ctx, sql, args...)
	return jobs, failed("list", err)
}

// Floor says where a list of the filter may stop.
func (s *Store) Floor(ctx context.Context, f store.Filter, before int64, rows int) (int64, error) {
	if _, known := views[f.State]; !known || len(f.Seqs) > 0 { // nobody, or by an index
		return 0, nil
	}
	w := &where{args: []any{max(rows-1, 0)}}
	if before > 0 {
		w.and("seq < ?", before)
	}
	sql, args := w.build("floor", views[f.State])
	floor := int64(0)
	err := s.pool.QueryRow(ctx, sql, args...).Scan(&floor)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return floor, failed("floor", err)
}

// Queues lists all queues by name.
func (s *Store) Queues(ctx context.Context) ([]store.QueueState, error) {
	by, heads := map[string]*store.QueueState{}, map[string]instants{}
	b := &pgx.Batch{}
	l := s.scans.list()
	b.Queue(statement("queues_declared"), l.queues, l.from).Query(func(rows pgx.Rows) error {
		return eachRow(rows, func(r *row) error {
			q := &store.QueueState{QueueRule: r.queueRule(), DueAt: r.instant(), Counts: map[job.State]int64{}}
			by[q.Name], heads[q.Name] = q, headsOf(r.next())
			return nil
		})
	})
	b.Queue(statement("tallies")).Query(func(rows pgx.Rows) error {
		return eachRow(rows, func(r *row) error {
			q := by[r.word()]
			for _, state := range []job.State{job.Queued, job.Running, job.Succeeded, job.Failed, job.Parked, job.Cancelled} {
				if n := r.number(); q != nil && n != 0 {
					q.Counts[state] = n
				}
			}
			return nil
		})
	})
	began := time.Now()
	if err := s.send(ctx, b); err != nil {
		return nil, failed("queues", err)
	}
	s.scans.listed(l, heads, time.Since(began))
	list := make([]store.QueueState, 0, len(by))
	for _, q := range by {
		list = append(list, *q)
	}
	slices.SortFunc(list, func(a, b store.QueueState) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// QueueRules lists what was declared of the queues.
func (s *Store) QueueRules(ctx context.Context) ([]store.QueueRule, error) {
	list, b := []store.QueueRule{}, &pgx.Batch{}
	b.Queue(statement("queue_rules")).Query(func(rows pgx.Rows) error {
		return eachRow(rows, func(r *row) error {
			list = append(list, r.queueRule())
			return nil
		})
	})
	return list, failed("queues", s.send(ctx, b))
}

func (r *row) queueRule() store.QueueRule {
	return store.QueueRule{
		Name: r.text(), Paused: r.flag(), Strict: r.flag(), Limit: store.QueueLimit{Concurrency: int(r.number()), Rate: r.float()},
	}
}

// Groups gathers the dead letters: from the maintained counts where they can
// answer, else from the rows.
func (s *Store) Groups(ctx context.Context, f store.Filter, limit int) ([]store.Group, error) {
	if f.State != "" && f.State != job.Failed {
		return nil, nil
	}
	name := "groups"
	if f.Target != "" || f.Key != "" || f.Batch != "" || f.From > 0 || len(f.Seqs) > 0 || !f.Since.IsZero() || !f.Until.IsZero() {
		name = "groups_of_rows"
	}
	w := &where{args: []any{limit}}
	w.filter(&f)
	sql, args := w.build(name, "")
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, failed("groups", err)
	}
	var list []store.Group
	err = eachRow(rows, func(r *row) (err error) {
		g := store.Group{Fingerprint: r.text(), Kind: r.word(), Queue: r.word()}
		if g.Class, err = r.class(); err != nil {
			return err
		}
		g.Cause, g.Count, g.FirstAt, g.LastAt, g.Error = job.Cause(r.word()), r.number(), r.instant(), r.instant(), r.text()
		list = append(list, g)
		return nil
	})
	return list, failed("groups", err)
}

// Ahead counts what a claim takes before the job.
func (s *Store) Ahead(ctx context.Context, now time.Time, seq int64, limit int) (int, error) {
	b := &pgx.Batch{}
	n, exists := 0, false
	b.Queue(statement("ahead"), seq, nullable(store.Instant(now)), limit).QueryRow(func(r pgx.Row) error { return r.Scan(&n) })
	b.Queue(statement("exists"), seq).QueryRow(func(r pgx.Row) error { return r.Scan(&exists) })
	if err := s.send(ctx, b); err != nil {
		return 0, failed("ahead", err)
	}
	if !exists {
		return 0, store.ErrNotFound
	}
	return n, nil
}
