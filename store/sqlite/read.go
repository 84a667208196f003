package sqlite

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Job returns the job.
func (s *Store) Job(ctx context.Context, seq int64) (job.Job, error) {
	var found job.Job
	err := s.read(ctx, "job", false, func(c *conn) (err error) {
		found, err = c.job(ctx, seq)
		return err
	})
	return found, err
}

func (c *conn) job(ctx context.Context, seq int64) (job.Job, error) {
	r, err := c.one(ctx, "job", seq)
	if err != nil {
		return job.Job{}, err
	}
	if r == nil {
		return job.Job{}, store.ErrNotFound
	}
	return readJob(r)
}

// Attempts returns the job's ledger in the order of starts.
func (s *Store) Attempts(ctx context.Context, seq int64) ([]job.Attempt, error) {
	var list []job.Attempt
	err := s.read(ctx, "attempts", true, func(c *conn) error {
		if _, err := c.job(ctx, seq); err != nil {
			return err
		}
		err := c.query(ctx, "attempts", []any{seq}, func(r row) error {
			a, err := readAttempt(r)
			list = append(list, a)
			return err
		})
		if err != nil {
			return err
		}
		r, err := c.one(ctx, "done_start", seq)
		if err == nil && r != nil {
			list = append(list, job.Attempt{
				Seq: seq, Epoch: r.int(0), Start: int(r.int(1)), Process: r.int(2), StartedAt: r.at(3), EndedAt: r.at(4), OK: true,
				HeldBy: r.text(5), Held: r.span(6), Version: r.text(7),
			})
		}
		return err
	})
	return list, err
}

func readAttempt(r row) (job.Attempt, error) {
	class, err := r.class(7)
	return job.Attempt{
		Seq: r.int(0), Epoch: r.int(1), Start: int(r.int(2)), Process: r.int(3), StartedAt: r.at(4), EndedAt: r.at(5),
		OK: r.flag(6), Class: class, Reason: r.text(8), Status: int(r.int(9)), Error: r.text(10), RetryAfter: r.span(11),
		Action: r.text(12), Cause: job.Cause(r.text(13)), Delay: r.span(14), DueAt: r.at(15), HeldBy: r.text(16),
		Held: r.span(17), Counted: retry.Counted(r.text(18)), Rule: r.text(19), Version: r.text(20), Stack: r.text(21),
	}, err
}

// selection is a filter as the statements of filter.sql take it.
type selection struct {
	source string
	suffix string // of the statement that has the best way in
	args   []any  // ?1 to ?11
	seqs   any    // JSON, NULL = all
	from   int64  // only sequence numbers from here up
}

func selectionOf(f store.Filter) selection {
	sel := selection{source: sources[f.State], from: f.From, args: []any{
		orNull(f.State), orNull(f.Cause), orNull(f.Kind), orNull(f.Queue), orNull(f.Target), orNull(f.Batch),
		className(f.Class), orNull(f.Fingerprint), boundary(f.Since), boundary(f.Until), orNull(f.Key),
	}}
	switch {
	case len(f.Seqs) > 0:
		sel.suffix, sel.seqs = "_seqs", jsonList(f.Seqs)
	case f.Batch != "":
		sel.suffix = "_batch"
	}
	return sel
}

// sources says where jobs of a state stand.
var sources = map[job.State]string{
	"": everywhere, job.Queued: live, job.Running: running, job.Succeeded: done, job.Cancelled: done, job.Failed: dead, job.Parked: parked,
}

// boundary rounds up: no stored instant lies between.
func boundary(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return micros(store.Due(t, 0))
}

// ask runs a list or above over the selection from the bound on. A list has a
// second bound.
func (sel selection) ask(ctx context.Context, c *conn, name string, bound int64, limit int, each func(row) error, second ...any) error {
	if sel.source == "" || limit <= 0 { // a state that nobody has
		return nil
	}
	args := append(slices.Clone(sel.args), bound, int64(limit))
	args = append(args, second...)
	if sel.suffix == "_seqs" {
		args = append(args, sel.seqs)
	}
	return c.query(ctx, name+sel.suffix+"@"+sel.source, args, each)
}

// List returns matching jobs, newest first.
func (s *Store) List(ctx context.Context, f store.Filter, page store.Page) ([]job.Job, error) {
	below := page.Before
	if below <= 0 {
		below = math.MaxInt64
	}
	var list []job.Job
	err := s.read(ctx, "list", false, func(c *conn) error {
		return selectionOf(f).ask(ctx, c, "list", below, page.Limit, func(r row) error {
			j, err := readJob(r)
			list = append(list, j)
			return err
		}, max(page.From, f.From))
	})
	return list, err
}

// Floor says where a list of the filter may stop.
func (s *Store) Floor(ctx context.Context, f store.Filter, before int64, rows int) (int64, error) {
	sel := selectionOf(f)
	if sel.source == "" || sel.suffix != "" { // nobody, or by an index
		return 0, nil
	}
	if before <= 0 {
		before = math.MaxInt64
	}
	floor := int64(0)
	err := s.read(ctx, "floor", false, func(c *conn) error {
		r, err := c.one(ctx, "floor@"+sel.source, before, int64(max(rows-1, 0)))
		if err == nil && r != nil {
			floor = r.int(0)
		}
		return err
	})
	return floor, err
}

// Queues lists all queues by name.
func (s *Store) Queues(ctx context.Context) ([]store.QueueState, error) {
	list := []store.QueueState{}
	err := s.read(ctx, "queues", true, func(c *conn) error {
		rules, err := c.queueRules(ctx)
		if err != nil {
			return err
		}
		names, places := make([]string, len(rules)), map[string]int{}
		for i, q := range rules {
			names[i], places[q.Name] = q.Name, i
			list = append(list, store.QueueState{QueueRule: q, Counts: map[job.State]int64{}})
		}
		err = c.query(ctx, "tallies", nil, func(r row) error {
			if i, ok := places[r.text(0)]; ok {
				list[i].Counts[job.State(r.text(1))] = r.int(2)
			}
			return nil
		})
		if err != nil {
			return err
		}
		due, err := c.queuesDue(ctx, names)
		for i := range list {
			list[i].DueAt = due[list[i].Name]
		}
		return err
	})
	return list, err
}

// QueueRules lists what was declared of the queues.
func (s *Store) QueueRules(ctx context.Context) (list []store.QueueRule, err error) {
	err = s.read(ctx, "queues", false, func(c *conn) (err error) {
		list, err = c.queueRules(ctx)
		return err
	})
	return list, err
}

func (c *conn) queueRules(ctx context.Context) ([]store.QueueRule, error) {
	list := []store.QueueRule{}
	err := c.query(ctx, "queues", nil, func(r row) error {
		list = append(list, store.QueueRule{
			Name: r.text(0), Paused: r.flag(1), Strict: r.flag(2),
			Limit: store.QueueLimit{Concurrency: int(r.int(3)), Rate: r.float(4)},
		})
		return nil
	})
	return list, err
}

// Groups gathers the dead letters.
func (s *Store) Groups(ctx context.Context, f store.Filter, limit int) ([]store.Group, error) {
	if f.State == "" {
		f.State = job.Failed
	}
	sel := selectionOf(f)
	list := []store.Group{}
	err := s.read(ctx, "groups", true, func(c *conn) error {
		name := "groups"
		if sel.from > 0 {
			name = "groups_from"
		}
		err := c.query(ctx, name, append(slices.Clone(sel.args), sel.seqs, sel.from), func(r row) error {
			class, err := r.class(3)
			list = append(list, store.Group{
				Fingerprint: r.text(0), Kind: r.text(1), Queue: r.text(2), Class: class, Cause: job.Cause(r.text(4)),
				Count: r.int(5), FirstAt: r.at(6), LastAt: r.at(7),
			})
			return err
		})
		if err != nil {
			return err
		}
		slices.SortFunc(list, compareGroups)
		list = list[:min(len(list), max(limit, 0))]
		for i := range list {
			if err := c.newestError(ctx, sel, &list[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}

// newestError fills in the error of the newest job of the group.
func (c *conn) newestError(ctx context.Context, sel selection, g *store.Group) error {
	args := append(slices.Clone(sel.args), sel.seqs, sel.from,
		orNull(g.Fingerprint), g.Kind, g.Queue, className(g.Class), string(g.Cause), micros(g.LastAt))
	r, err := c.one(ctx, "group_error", args...)
	if err == nil && r != nil {
		g.Error = r.text(0)
	}
	return err
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
	n := 0
	err := s.read(ctx, "ahead", true, func(c *conn) error {
		j, err := c.job(ctx, seq)
		if err != nil || j.State != job.Queued {
			return err
		}
		q, err := c.one(ctx, "queue_facts", j.Queue)
		if err != nil {
			return err
		}
		name, args := "ahead", []any{j.Queue, int64(j.Priority), micros(j.DueAt), seq, micros(store.Instant(at(now))), int64(limit)}
		if target := readFacts(q).laneOf(j.Queue, j.Target); target != "" {
			name, args = "ahead_lane", append(args, target)
		}
		r, err := c.one(ctx, name, args...)
		if err == nil {
			n = int(r.int(0))
		}
		return err
	})
	return n, err
}

// Audit lists the acts of operators, newest first.
func (s *Store) Audit(ctx context.Context, limit int) ([]store.AuditRow, error) {
	var list []store.AuditRow
	err := s.read(ctx, "audit", false, func(c *conn) error {
		return c.query(ctx, "audit", []any{int64(limit)}, func(r row) error {
			list = append(list, store.AuditRow{At: r.at(0), Actor: r.text(1), Act: r.text(2), What: r.text(3), Detail: r.text(4)})
			return nil
		})
	})
	return list, err
}
