package worker

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

// TestSettlesAreAllowed: whatever Decide says becomes a settle that the table
// of transitions holds; a turn with any other would be refused as a whole.
func TestSettlesAreAllowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policy.MustPreset(rapid.SampledFrom(policy.PresetNames()).Draw(t, "policy"))
		f := failure.Of(rapid.SampledFrom(append(failure.Classes(), failure.Unknown)).Draw(t, "class"))
		f.Order = failure.Order(rapid.IntRange(0, 3).Draw(t, "order"))
		f.Snooze = time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "snooze"))
		n := rapid.IntRange(1, 30).Draw(t, "starts")
		now := time.Unix(1_800_000_000, 0)
		h := retry.History{
			Starts: n, Idle: n, Attempts: rapid.IntRange(0, n).Draw(t, "attempts"), Crashes: rapid.IntRange(0, n).Draw(t, "crashes"),
			FirstStartAt: now.Add(-time.Hour), DeadlineAt: now.Add(time.Minute),
		}
		d := retry.Decide(&p, h, f, now, retry.Derive(1, 2, n))
		s := settleOf(store.Ref{Seq: 1, Epoch: 1}, f, d, "config")
		if err := store.CheckSettles([]store.Settle{s}); err != nil {
			t.Fatalf("%s: %v", d, err)
		}
		if s.Delay != 0 && s.To != job.Queued {
			t.Fatalf("%s: delay %s of a job that does not wait", d, s.Delay)
		}
	})
}

// scribe notes what turns settle.
type scribe struct {
	store.Store
	settles []store.Settle
}

func (s *scribe) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	for _, st := range t.Settles {
		attempt := *st.Attempt
		st.Attempt = &attempt // the worker uses it again
		s.settles = append(s.settles, st)
	}
	return s.Store.Turn(ctx, t)
}

// TestPlainSuccess: what the settle of a job that succeeds at its first start
// is, to the letter. Stores end most jobs by a short way, and know them by it.
func TestPlainSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scribe{Store: newStore()}
		r := newRig(t, s, Config{Turns: 1, Handlers: map[string]Handler{"k": func(ctx context.Context, _ *Task) error {
			return sleep(ctx, 3*time.Second)
		}}})
		began := time.Now()
		deadline := began.Add(time.Hour)
		seq := r.enqueue(job.New{Kind: "k", DeadlineAt: deadline})[0]
		pass(time.Minute)
		if len(s.settles) != 1 {
			t.Fatalf("settled %d times, want once", len(s.settles))
		}
		got := s.settles[0]
		first, history := got.Attempt.StartedAt, got.History
		if !first.Equal(began) || !history.FirstStartAt.Equal(first) || !history.DeadlineAt.Equal(deadline) {
			t.Errorf("started at %s, first at %s, deadline %s; want %s, the same, %s", first, history.FirstStartAt, history.DeadlineAt, began, deadline)
		}
		if end := got.Attempt.EndedAt; !end.Equal(began.Add(3 * time.Second)) {
			t.Errorf("ended at %s, want 3 s after %s", end, began)
		}
		got.Attempt.StartedAt, got.Attempt.EndedAt = time.Time{}, time.Time{}
		got.History.FirstStartAt, got.History.DeadlineAt = time.Time{}, time.Time{}
		want := store.Settle{
			Ref: store.Ref{Seq: seq, Epoch: 1}, To: job.Succeeded,
			History: retry.History{Starts: 1, Attempts: 1, Idle: 1},
			Attempt: &job.Attempt{
				Seq: seq, Start: 1, Epoch: 1, Process: r.Process(), OK: true,
				Counted: retry.CountedAttempt, Version: r.Policy(policy.DefaultName).Version,
			},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("settled as\n%+v with\n%+v, want\n%+v with\n%+v", got, *got.Attempt, want, *want.Attempt)
		}
	})
}

// TestComplete: completion in the handler's own transaction counts if and
// only if that commits.
func TestComplete(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(*memory.Tx) error
		fails error
		state job.State
		why   string
	}{
		"committed":             {(*memory.Tx).Commit, nil, job.Succeeded, ""},
		"committed, then error": {(*memory.Tx).Commit, errors.New("late"), job.Succeeded, ""},
		"rolled back":           {(*memory.Tx).Rollback, errors.New("no"), job.Queued, ""},
		"forgotten":             {func(*memory.Tx) error { return nil }, nil, job.Queued, "not_committed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				r := newRig(t, s, Config{Handlers: map[string]Handler{"k": func(ctx context.Context, task *Task) error {
					tx := s.Begin()
					if _, err := s.EnqueueTx(ctx, tx, time.Time{}, []job.New{{Kind: "next", Unique: "u"}}); err != nil {
						return err
					}
					task.SetResult([]byte("42"))
					if err := task.Complete(ctx, tx); err != nil {
						return err
					}
					if err := c.end(tx); err != nil {
						return err
					}
					return c.fails
				}}})
				seq := r.enqueue(job.New{Kind: "k"})[0]
				pass(time.Second)
				j := state(t, s, seq, c.state, "")
				rows := ledger(t, s, seq)
				if len(rows) != 1 || rows[0].OK != (c.state == job.Succeeded) || rows[0].Reason != c.why {
					t.Errorf("ledger %+v", rows)
				}
				next, _ := s.List(t.Context(), store.Filter{Kind: "next"}, store.Page{Limit: 9})
				if done := c.state == job.Succeeded; (len(next) == 1) != done || (string(j.Result) == "42") != done {
					t.Errorf("%d jobs enqueued, result %q; the job is %s", len(next), j.Result, j.State)
				}
			})
		})
	}
}

// TestCompleteTooLate: Complete of a start that was given up is refused.
func TestCompleteTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		seq := enqueue(t, s, job.New{Kind: "k"})[0]
		newRig(t, s, Config{Handlers: map[string]Handler{"k": func(ctx context.Context, task *Task) error {
			if task.Start() > 1 {
				return nil
			}
			if err := sleep(context.WithoutCancel(ctx), 3*time.Minute); err != nil { // deaf to its context
				return err
			}
			if err := task.Complete(context.WithoutCancel(ctx), s.Begin()); !errors.Is(err, ErrLeaseLost) {
				t.Errorf("Complete: %v, want ErrLeaseLost", err)
			}
			return nil
		}}})
		pass(time.Hour)
		if j := state(t, s, seq, job.Succeeded, ""); j.History.Starts != 2 {
			t.Errorf("%d starts, want 2", j.History.Starts)
		}
	})
}

// TestRedrive: the eldest process carries redrives out at their rate, and the
// next one goes on where it stopped.
func TestRedrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		const n = 100
		broken := newRig(t, s, Config{Handlers: map[string]Handler{"k": func(context.Context, *Task) error {
			return failure.Fatal(errors.New("broken"))
		}}})
		broken.enqueue(times(n, job.New{Kind: "k"})...)
		pass(time.Minute)
		broken.stop()
		fixed := Config{Handlers: map[string]Handler{"k": func(context.Context, *Task) error { return nil }}}
		first := newRig(t, s, fixed)
		pass(time.Second)
		second := newRig(t, s, fixed)
		pass(time.Second)
		if _, err := s.StartRedrive(t.Context(), time.Time{}, store.Redrive{Filter: store.Filter{State: job.Failed}, Rate: 2, Actor: "me"}); err != nil {
			t.Fatal(err)
		}
		pass(15 * time.Second)
		moved := func() int64 {
			all, _ := s.Redrives(t.Context(), 9)
			return all[0].Moved
		}
		if got := moved(); got < 18 || got > 32 {
			t.Errorf("%d moved in 10 to 15 s of 2 a second", got)
		}
		if len(first.seen(Redriven)) == 0 || len(second.seen(Redriven)) != 0 {
			t.Errorf("steps: %d by the eldest, %d by the other; want all by the eldest", len(first.seen(Redriven)), len(second.seen(Redriven)))
		}
		first.stop()
		before := moved()
		pass(10 * time.Second)
		if got := moved() - before; got < 10 || got > 25 {
			t.Errorf("%d moved in 10 s after the eldest left, want about 20", got)
		}
		pass(time.Minute)
		list, _ := s.List(t.Context(), store.Filter{State: job.Succeeded}, store.Page{Limit: 2 * n})
		if all, _ := s.Redrives(t.Context(), 9); len(list) != n || all[0].DoneAt.IsZero() {
			t.Errorf("%d succeeded, redrive %+v; want all of %d, done", len(list), all[0], n)
		}
	})
}

// TestRetention: succeeded jobs go after their time, dead letters stay.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := newRig(t, s, Config{SucceededKept: time.Hour, Handlers: map[string]Handler{
			"good": func(context.Context, *Task) error { return nil },
			"bad":  func(context.Context, *Task) error { return failure.Fatal(errors.New("x")) },
		}})
		seqs := r.enqueue(job.New{Kind: "good"}, job.New{Kind: "bad"})
		pass(59 * time.Minute)
		state(t, s, seqs[0], job.Succeeded, "")
		pass(2 * time.Minute)
		if _, err := s.Job(t.Context(), seqs[0]); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the succeeded job is still there: %v", err)
		}
		state(t, s, seqs[1], job.Failed, retry.CauseFatal)
	})
}

// TestObserverChangesNothing: the same jobs with and without one.
func TestObserverChangesNothing(t *testing.T) {
	outcome := func(observe func(Event)) (trace [][]job.Attempt) {
		synctest.Test(t, func(t *testing.T) {
			s := newStore()
			r := buildRig(t, s, Config{Concurrency: 2, Observe: func(Event) {}, Handlers: map[string]Handler{"k": func(_ context.Context, task *Task) error {
				if task.Job().Seq%3 == 0 {
					return errors.New("third")
				}
				return nil
			}}})
			r.config.Observe = observe
			r.run()
			defer r.stop()
			for _, seq := range r.enqueue(times(9, job.New{Kind: "k"})...) {
				pass(10 * time.Minute)
				trace = append(trace, ledger(t, s, seq))
			}
		})
		return trace
	}
	events := make(chan Event, 1000)
	with, without := outcome(func(e Event) { events <- e }), outcome(nil)
	if !reflect.DeepEqual(with, without) {
		t.Errorf("with an observer\n%v\nwithout\n%v", with, without)
	}
	if len(events) < 9*3 {
		t.Errorf("%d events of 9 jobs, want claimed, started and settled of each", len(events))
	}
}

func TestConfigIsChecked(t *testing.T) {
	nothing := func(context.Context, *Task) error { return nil }
	good := func() Config { return Config{Handlers: map[string]Handler{"k": nothing}} }
	hot := wide("hot", func(p *policy.Policy) { p.Target, p.Backoff.Base = policy.Endpoint, time.Second })
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"nil handler":     {func(c *Config) { c.Handlers["x"] = nil }, `handler "x"`},
		"queue twice":     {func(c *Config) { c.Queues = []string{"a", "a"} }, `queue "a"`},
		"no slots":        {func(c *Config) { c.Concurrency = -1 }, "concurrency -1"},
		"late beat":       {func(c *Config) { c.Beat = 10 * time.Second }, "beat 10s"},
		"negative":        {func(c *Config) { c.Poll = -1 }, "poll -1ns"},
		"policy twice":    {func(c *Config) { c.Policies = []policy.Policy{wide("a", nil), wide("a", nil)} }, `policy "a"`},
		"broken policy":   {func(c *Config) { c.Policies = []policy.Policy{{Name: "a"}} }, "policy a"},
		"hammering":       {func(c *Config) { c.Policies = []policy.Policy{hot} }, "refused by lint"},
		"unnamed policy":  {func(c *Config) { c.Policies = []policy.Policy{wide("", nil)} }, `policy ""`},
		"empty kind":      {func(c *Config) { c.Handlers[""] = nothing }, `handler ""`},
		"negative, lease": {func(c *Config) { c.Lease = -time.Second }, "lease -1s"},
	} {
		t.Run(name, func(t *testing.T) {
			config := good()
			c.change(&config)
			if _, err := New(newStore(), config); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("New: %v, want an error with %q", err, c.want)
			}
		})
	}
	if _, err := New(newStore(), good()); err != nil {
		t.Error(err)
	}
}
