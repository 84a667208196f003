package campaign

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/work/supervise"
)

// counted is a store that counts the questions and orders put to it, and goes
// away after so many writes.
type counted struct {
	store.Store
	reads, writes int
	lasts         int // writes that are done before it goes; 0 = it stays
}

var errGone = errors.New("the database went away")

func (c *counted) Record(ctx context.Context, kind, id string) (store.Record, error) {
	c.reads++
	return c.Store.Record(ctx, kind, id)
}

func (c *counted) Records(ctx context.Context, f store.RecordFilter) ([]store.Record, error) {
	c.reads++
	return c.Store.Records(ctx, f)
}

func (c *counted) Job(ctx context.Context, seq int64) (job.Job, error) {
	c.reads++
	return c.Store.Job(ctx, seq)
}

func (c *counted) List(ctx context.Context, f store.Filter, p store.Page) ([]job.Job, error) {
	c.reads++
	return c.Store.List(ctx, f, p)
}

func (c *counted) Attempts(ctx context.Context, seq int64) ([]job.Attempt, error) {
	c.reads++
	return c.Store.Attempts(ctx, seq)
}

// write counts one, and refuses it when the store is gone.
func (c *counted) write() error {
	if c.lasts > 0 && c.writes == c.lasts {
		return errGone
	}
	c.writes++
	return nil
}

func (c *counted) Write(ctx context.Context, now time.Time, w store.Write) ([]store.Enqueued, error) {
	if err := c.write(); err != nil {
		return nil, err
	}
	return c.Store.Write(ctx, now, w)
}

func (c *counted) StrictQueue(ctx context.Context, queue string, strict bool) error {
	if err := c.write(); err != nil {
		return err
	}
	return c.Store.StrictQueue(ctx, queue, strict)
}

func (c *counted) Retry(ctx context.Context, now time.Time, actor string, seq int64) error {
	if err := c.write(); err != nil {
		return err
	}
	return c.Store.Retry(ctx, now, actor, seq)
}

// manySources is a campaign's file.
func manySources(n int, head string) string {
	var b strings.Builder
	b.WriteString("version: 1\n" + head + "\ncommand: [wget, --mirror]\nsources:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {name: s%05d, seeds: [\"http://127.0.0.1/%d/\"]}\n", i, i)
	}
	return b.String()
}

// patient is annual-crawl under another name, with other figures.
func patient() policy.Policy {
	p := policy.MustPreset("annual-crawl")
	p.Name, p.Version = "patient", ""
	p.Backoff.Base = 5 * time.Minute
	p.Backoff.Cap = max(p.Backoff.Cap, p.Backoff.Base)
	return p
}

// serviceOver is a service that knows the policy patient.
func serviceOver(t testing.TB, s store.Store) *Service {
	t.Helper()
	own := []policy.Policy{patient()}
	runs, err := supervise.New(supervise.Config{Store: s, Policies: own, Self: []string{"ebb"}, Clock: clock.NewFake(t0)})
	if err != nil {
		t.Fatal(err)
	}
	service, err := New(Config{Store: s, Runs: runs, Policies: own})
	if err != nil {
		t.Fatal(err)
	}
	return service
}

func parsed(t testing.TB, text string) *Campaign {
	t.Helper()
	c, err := Parse("annual.yaml", []byte(text), "/srv")
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

// A campaign of many sources is scheduled, told and changed in a number of
// calls that grows with its batches of 500 and not with its sources.
func TestCallsGrowWithBatches(t *testing.T) {
	const batches = 3
	n := batches * batchSize
	c := &counted{Store: memory.New(memory.Config{Clock: clock.NewFake(t0)})}
	t.Cleanup(func() { _ = c.Close() })
	s := serviceOver(t, c)
	plain, other := parsed(t, manySources(n, "")), parsed(t, manySources(n, "policy: patient"))
	for _, step := range []struct {
		name          string
		reads, writes int // for each batch, with a few beside them
		do            func() error
	}{
		{"schedule", 3, 2, scheduling(t, s, plain, n)},
		{"again", 5, 0, scheduling(t, s, plain, 0)},
		{"another policy", 10, 1, scheduling(t, s, other, n)},
		{"another year", 5, 2, func() error {
			p, err := s.Schedule(t.Context(), t0, "maya", plain, 2027, true)
			if err == nil && p.Changes() != n {
				err = fmt.Errorf("%d changes", p.Changes())
			}
			return err
		}},
		// Records of two years are looked through now.
		{"status", 8, 0, func() error {
			st, err := s.Show(t.Context(), "annual-2026")
			if err == nil && (len(st.Sources) != n || st.State != "waiting" || st.Sources[n-1].Run.RestartsLeft != 20) {
				err = fmt.Errorf("%d sources, %s", len(st.Sources), st.State)
			}
			return err
		}},
		{"report", 16, 0, func() error {
			r, err := s.Report(t.Context(), t0, "annual-2027")
			if err == nil && r.Waiting != n {
				err = fmt.Errorf("%d wait", r.Waiting)
			}
			return err
		}},
		{"list", 8, 0, func() error {
			list, err := s.List(t.Context())
			if err == nil && len(list) != 2 {
				err = fmt.Errorf("%d campaigns", len(list))
			}
			return err
		}},
	} {
		c.reads, c.writes = 0, 0
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		t.Logf("%s: %d reads, %d writes", step.name, c.reads, c.writes)
		if c.reads > step.reads*batches+5 || c.writes > step.writes*batches+3 {
			t.Errorf("%s of %d sources: %d reads, %d writes; want at most %d and %d for each of %d batches", step.name, n, c.reads, c.writes, step.reads, step.writes, batches)
		}
	}
}

func scheduling(t *testing.T, s *Service, c *Campaign, changes int) func() error {
	return func() error {
		p, err := s.Schedule(t.Context(), t0, "maya", c, 2026, true)
		if err == nil && p.Changes() != changes {
			err = fmt.Errorf("%d changes, want %d", p.Changes(), changes)
		}
		return err
	}
}

// Whichever write of a schedule is the last before the process dies, the next
// schedule does what is left of it, and the one after that finds nothing to do.
func TestScheduleIsRepairedWhereverItStopped(t *testing.T) {
	const n = 50
	for _, file := range []struct {
		name         string
		before, file *Campaign
	}{
		{"new", nil, parsed(t, manySources(n, ""))},
		{"changed", parsed(t, manySources(n, "")), parsed(t, manySources(n, "policy: patient"))},
	} {
		t.Run(file.name, func(t *testing.T) {
			for lasts := 1; ; lasts++ {
				c := &counted{Store: memory.New(memory.Config{Clock: clock.NewFake(t0)})}
				s := serviceOver(t, c)
				s.batch = 20
				if file.before != nil {
					if err := scheduling(t, s, file.before, n)(); err != nil {
						t.Fatal(err)
					}
				}
				c.writes, c.lasts = 0, lasts
				_, err := s.Schedule(t.Context(), t0, "maya", file.file, 2026, true)
				if err == nil {
					if lasts < 5 {
						t.Errorf("%d writes did it all", lasts)
					}
					return
				}
				if !errors.Is(err, errGone) {
					t.Fatalf("after %d writes: %v", lasts, err)
				}
				c.lasts = 0
				if _, err := s.Schedule(t.Context(), t0.Add(time.Hour), "maya", file.file, 2026, true); err != nil {
					t.Fatalf("after %d writes: %v", lasts, err)
				}
				whole(t, c, s, n, file.file.policy())
				if err := scheduling(t, s, file.file, 0)(); err != nil {
					t.Errorf("after %d writes: %v", lasts, err)
				}
				_ = c.Close()
			}
		})
	}
}

// whole fails unless every source has one job, at its time, under the policy.
func whole(t *testing.T, s store.Store, service *Service, n int, name string) {
	t.Helper()
	list, err := s.List(t.Context(), store.Filter{Kind: supervise.Kind}, store.Page{Limit: 2 * n})
	if err != nil || len(list) != n {
		t.Fatalf("%d jobs of %d sources: %v", len(list), n, err)
	}
	st, err := service.Show(t.Context(), "annual")
	if err != nil || len(st.Sources) != n {
		t.Fatalf("%d sources: %v", len(st.Sources), err)
	}
	for i := range st.Sources {
		o, j := &st.Sources[i], &list[n-1-i]
		want := t0.Add(time.Duration(i) * time.Second)
		if o.Run.Job != j.ID() || !j.DueAt.Equal(want) || j.State != job.Queued || j.Policy != name || o.Run.Spec.Policy != name {
			t.Fatalf("source %d: job %s of %s, due %s, %s, policies %s and %s", i, j.ID(), o.Run.Job, j.DueAt, j.State, j.Policy, o.Run.Spec.Policy)
		}
	}
}

// A queued run follows the file to another policy and keeps its place; one
// that runs keeps what it began with.
func TestAnotherPolicy(t *testing.T) {
	first, second := parsed(t, manySources(3, "")), parsed(t, manySources(3, "policy: patient"))
	databases(t, func(t *testing.T, again func() store.Store) {
		s := again()
		defer func() { _ = s.Close() }()
		service := serviceOver(t, s)
		if err := scheduling(t, service, first, 3)(); err != nil {
			t.Fatal(err)
		}
		before := jobsOf(t, s)
		p, err := s.Register(t.Context(), t0, store.Process{Host: "desk", Kinds: []string{supervise.Kind}, Queues: []string{DefaultQueue}})
		if err != nil {
			t.Fatal(err)
		}
		claim := store.Claim{Queue: DefaultQueue, Kinds: []string{supervise.Kind}, Limit: 1}
		turned, err := s.Turn(t.Context(), store.Turn{Process: p.ID, Now: t0.Add(time.Minute), Claims: []store.Claim{claim}})
		if err != nil || len(turned.Claimed) != 1 {
			t.Fatalf("%+v %v", turned, err)
		}
		plan, err := service.Schedule(t.Context(), t0.Add(time.Minute), "maya", second, 2026, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := states(&plan); got != "s00000-2026:change s00001-2026:change s00002-2026:change" {
			t.Error(got)
		}
		if got := plan.Steps[0].Text; got != "the file has changed; it began under policy annual-crawl and keeps its restarts and delays" {
			t.Error(got)
		}
		if got := plan.Steps[1].Text; got != "the file has changed: policy patient instead of annual-crawl" {
			t.Error(got)
		}
		after := jobsOf(t, s)
		for i, want := range []string{"annual-crawl", "patient", "patient"} {
			a, b := &after[i], &before[i]
			if a.Policy != want || a.Seq != b.Seq || !a.DueAt.Equal(b.DueAt) || string(a.Args) != string(b.Args) || a.Unique != b.Unique || a.Batch != b.Batch || a.Queue != b.Queue {
				t.Errorf("job %d: policy %s, want %s\n%+v\n%+v", i, a.Policy, want, a, b)
			}
		}
		if err := scheduling(t, service, second, 0)(); err != nil {
			t.Error(err)
		}
		audit, err := s.Audit(t.Context(), 1)
		if err != nil || len(audit) != 1 || audit[0].Act != "run.change" {
			t.Errorf("%+v %v", audit, err)
		}
	})
}

// jobsOf are the jobs of runs, oldest first.
func jobsOf(t *testing.T, s store.Store) []job.Job {
	t.Helper()
	list, err := s.List(t.Context(), store.Filter{Kind: supervise.Kind}, store.Page{Limit: 100})
	if err != nil || len(list) != 3 {
		t.Fatalf("%d jobs: %v", len(list), err)
	}
	return []job.Job{list[2], list[1], list[0]}
}

// A job that waits under a policy other than its run's, as schedules left them
// that changed only the run, is put right.
func TestPolicyThatWasLeftBehind(t *testing.T) {
	d := newDesk(t, annual)
	d.schedule(true)
	j := d.run("phac-2026")
	seq, err := job.ParseID(j.Job)
	if err != nil {
		t.Fatal(err)
	}
	old, err := d.store.Job(t.Context(), seq)
	if err != nil {
		t.Fatal(err)
	}
	n := old.New
	n.Policy, n.Conflict = "default", job.ConflictReplace
	if _, err := d.store.Enqueue(t.Context(), t0, []job.New{n}); err != nil {
		t.Fatal(err)
	}
	p := d.schedule(true)
	if got := states(&p); got != "hc-2026:keep phac-2026:change cihr-2026:keep" || p.Steps[1].Text != "it waits under policy default; policy annual-crawl holds when it begins" {
		t.Error(got, p.Steps[1].Text)
	}
	if now, err := d.store.Job(t.Context(), seq); err != nil || now.Policy != "annual-crawl" || !now.DueAt.Equal(old.DueAt) {
		t.Errorf("%+v %v", now, err)
	}
}
