package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// TestSchedule: 30, 120, 480 s ±20 %, exactly as derived from the seed, then
// failed for want of attempts.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Time
		r := newRig(t, newStore(), Config{Handlers: map[string]Handler{"pay": func(context.Context, *Task) error {
			starts = append(starts, time.Now())
			return errors.New("no route to 10.0.0.9")
		}}})
		seq := r.enqueue(job.New{Kind: "pay", Policy: "processing"})[0]
		pass(time.Hour)

		want := delays(r.Policy("processing"), 7, seq, 3)
		for i, nominal := range []time.Duration{30 * time.Second, 120 * time.Second, 480 * time.Second} {
			if want[i] < nominal*8/10 || want[i] > nominal*12/10 {
				t.Fatalf("delay %d is %s, not %s ±20 %%", i+1, want[i], nominal)
			}
		}
		if len(starts) != 4 {
			t.Fatalf("%d starts, want 4", len(starts))
		}
		for i, d := range want {
			due := store.Due(starts[i], d)
			if got := starts[i+1]; !got.Equal(due) {
				t.Errorf("start %d at %s, want %s: %s after the last", i+2, got, due, d)
			}
		}
		j := state(t, r.store, seq, job.Failed, retry.CauseExhausted)
		if want := (retry.History{Starts: 4, Attempts: 4, Idle: 4, FirstStartAt: store.Instant(starts[0]), LastDelay: want[2]}); j.History != want {
			t.Errorf("history %+v, want %+v", j.History, want)
		}
		rows := ledger(t, r.store, seq)
		for i, a := range rows {
			if a.Start != i+1 || a.Class != failure.Plain || a.Rule != "builtin/error" || a.Version != r.Policy("processing").Version {
				t.Errorf("ledger row %d: %+v", i, a)
			}
			if i < 3 && (a.Delay != want[i] || !a.DueAt.Equal(store.Instant(starts[i+1]))) {
				t.Errorf("ledger row %d: delay %s due %s, want %s %s", i, a.Delay, a.DueAt, want[i], starts[i+1])
			}
		}
		if len(rows) != 4 {
			t.Errorf("%d ledger rows, want 4", len(rows))
		}
	})
}

// TestOutcomes: what a handler returns is what becomes of the job.
func TestOutcomes(t *testing.T) {
	own, cancel := context.WithCancel(t.Context())
	cancel()
	cases := map[string]struct {
		returns error
		state   job.State
		cause   job.Cause
		class   failure.Class
		reason  string
		rule    string
		spent   int
	}{
		"nil":      {nil, job.Succeeded, "", 0, "", "", 1},
		"fatal":    {failure.Fatal(errors.New("bad")), job.Failed, retry.CauseFatal, failure.Plain, "", "handler/fatal", 1},
		"park":     {failure.Park(errors.New("no key")), job.Parked, retry.CauseConfig, failure.Plain, "", "handler/park", 0},
		"lost":     {failure.Park(failure.New(failure.Config, failure.ReasonHostLost, errors.New("gone"))), job.Parked, job.HostLost, failure.Config, "host_lost", "handler/park", 0},
		"snooze":   {failure.Snooze(time.Hour), job.Queued, "", failure.Plain, "", "handler/snooze", 0},
		"class":    {failure.New(failure.InvalidInput, "torn", errors.New("x")), job.Failed, retry.CauseFatal, failure.InvalidInput, "torn", "builtin/invalid_input", 1},
		"misconf":  {failure.New(failure.Config, "key", errors.New("x")), job.Parked, retry.CauseConfig, failure.Config, "key", "builtin/config", 0},
		"plain":    {errors.New("x"), job.Queued, "", failure.Plain, "", "builtin/error", 1},
		"canceled": {own.Err(), job.Queued, "", failure.Plain, "context_canceled", "builtin/error", 1},
	}
	synctest.Test(t, func(t *testing.T) {
		handlers := map[string]Handler{}
		for name, c := range cases {
			handlers[name] = func(_ context.Context, task *Task) error {
				task.SetResult([]byte("done"))
				return c.returns
			}
		}
		r := newRig(t, newStore(), Config{Handlers: handlers})
		for name, c := range cases {
			seq := r.enqueue(job.New{Kind: name})[0]
			pass(time.Second)
			j := state(t, r.store, seq, c.state, c.cause)
			rows := ledger(t, r.store, seq)
			if len(rows) != 1 {
				t.Errorf("%s: %d ledger rows, want 1", name, len(rows))
				continue
			}
			if a := rows[0]; a.OK != (c.returns == nil) || a.Class != c.class || a.Reason != c.reason || a.Rule != c.rule {
				t.Errorf("%s: ledger %+v, want class %s reason %q rule %q", name, a, c.class, c.reason, c.rule)
			}
			if j.History.Attempts != c.spent || j.History.Starts != 1 {
				t.Errorf("%s: %d attempts %d starts, want %d, 1", name, j.History.Attempts, j.History.Starts, c.spent)
			}
			if got := string(j.Result); (got == "done") != (c.returns == nil) {
				t.Errorf("%s: result %q", name, got)
			}
		}
	})
}

// TestSnoozeComesBack: a snooze spends nothing and comes back when it said.
func TestSnoozeComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Time
		r := newRig(t, newStore(), Config{Handlers: map[string]Handler{"k": func(_ context.Context, task *Task) error {
			starts = append(starts, time.Now())
			if task.Start() != len(starts) || task.Attempt() != 1 {
				t.Errorf("start %d attempt %d, want %d and 1", task.Start(), task.Attempt(), len(starts))
			}
			if task.Start() < 4 {
				return failure.Snooze(7 * time.Minute)
			}
			return nil
		}}})
		seq := r.enqueue(job.New{Kind: "k"})[0]
		pass(time.Hour)
		for i := range 3 {
			if got := starts[i+1].Sub(starts[i]); got != 7*time.Minute {
				t.Errorf("start %d came %s after the last, want 7m", i+2, got)
			}
		}
		if j := state(t, r.store, seq, job.Succeeded, ""); j.History.Waits != 3 {
			t.Errorf("%d waits, want 3", j.History.Waits)
		}
	})
}

func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newStore(), Config{Handlers: map[string]Handler{
			"text":  func(context.Context, *Task) error { panic("boom") },
			"error": func(context.Context, *Task) error { panic(failure.Fatal(errors.New("boom"))) },
			"exit":  func(context.Context, *Task) error { exit(); return nil },
		}})
		for kind, want := range map[string]string{"text": "error: panic: panic: boom", "error": "error: panic: panic: boom", "exit": "error: panic: panic: " + errGoexit.Error()} {
			seq := r.enqueue(job.New{Kind: kind})[0]
			pass(time.Second)
			a := ledger(t, r.store, seq)[0]
			if a.Class != failure.Plain || a.Reason != "panic" || a.Error != want || len(a.Stack) < 100 {
				t.Errorf("%s: class %s reason %q error %q stack of %d bytes; want %q", kind, a.Class, a.Reason, a.Error, len(a.Stack), want)
			}
		}
	})
}

func TestUnknownPolicyParks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		ran := 0
		handlers := map[string]Handler{"k": func(context.Context, *Task) error { ran++; return nil }}
		r := newRig(t, s, Config{Handlers: handlers})
		seq := r.enqueue(job.New{Kind: "k", Policy: "mine"})[0]
		pass(time.Second)
		j := state(t, s, seq, job.Parked, retry.CauseConfig)
		if a := ledger(t, s, seq)[0]; a.Reason != "unknown_policy" || a.Version != "" || j.History.Attempts != 0 || ran != 0 {
			t.Errorf("ran %d times, spent %d attempts, ledger %+v", ran, j.History.Attempts, a)
		}
		// A worker that knows it has another fingerprint: the job is released.
		r.stop()
		newRig(t, s, Config{Handlers: handlers, Policies: []policy.Policy{wide("mine", nil)}})
		pass(time.Second)
		if state(t, s, seq, job.Succeeded, ""); ran != 1 {
			t.Errorf("ran %d times, want 1", ran)
		}
	})
}

func TestOnlyKnownKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		r := newRig(t, newStore(), Config{Handlers: map[string]Handler{"known": func(context.Context, *Task) error { ran++; return nil }}})
		seqs := r.enqueue(job.New{Kind: "other"}, job.New{Kind: "known"}, job.New{Kind: "known", DueAt: time.Now().Add(time.Minute)})
		pass(2 * time.Minute)
		state(t, r.store, seqs[0], job.Queued, "")
		state(t, r.store, seqs[1], job.Succeeded, "")
		state(t, r.store, seqs[2], job.Succeeded, "")
		if ran != 2 {
			t.Errorf("ran %d, want 2", ran)
		}
	})
}

// TestPriorityAndDue: one slot, and the order of starts is (priority, due,
// sequence).
func TestPriorityAndDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		s, now := newStore(), time.Now()
		enqueue(t, s,
			job.New{Kind: "k", Args: []byte("late"), Priority: 5, DueAt: now.Add(-time.Second)},
			job.New{Kind: "k", Args: []byte("early"), Priority: 5, DueAt: now.Add(-2 * time.Second)},
			job.New{Kind: "k", Args: []byte("first"), Priority: 0},
			job.New{Kind: "k", Args: []byte("last"), Priority: 9, DueAt: now.Add(-time.Hour)},
			job.New{Kind: "k", Args: []byte("tomorrow"), Priority: 0, DueAt: now.Add(24 * time.Hour)},
			job.New{Kind: "k", Args: []byte("second"), Priority: 0},
		)
		newRig(t, s, Config{Concurrency: 1, Handlers: map[string]Handler{"k": func(_ context.Context, task *Task) error {
			order = append(order, string(task.Args()))
			return nil
		}}})
		pass(time.Hour)
		if got, want := len(order), 5; got != want {
			t.Fatalf("%d starts, want %d", got, want)
		}
		for i, want := range []string{"first", "second", "early", "late", "last"} {
			if order[i] != want {
				t.Errorf("start %d is %s, want %s", i+1, order[i], want)
			}
		}
	})
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		r := newRig(t, newStore(), Config{Handlers: map[string]Handler{"k": func(context.Context, *Task) error { ran++; return errors.New("x") }}})
		soon := time.Now().Add(10 * time.Second)
		seqs := r.enqueue(
			job.New{Kind: "k", DeadlineAt: soon},                               // its retry would be too late
			job.New{Kind: "k", DeadlineAt: soon, DueAt: soon.Add(time.Minute)}, // never starts
		)
		pass(2 * time.Minute)
		for _, seq := range seqs {
			state(t, r.store, seq, job.Failed, retry.CauseExpired)
		}
		if a := ledger(t, r.store, seqs[0]); len(a) != 1 || a[0].Rule != "deadline" {
			t.Errorf("ledger %+v, want one row by rule deadline", a)
		}
		if ran != 1 {
			t.Errorf("ran %d, want 1", ran)
		}
	})
}

// TestTwoClocks: policy time runs 60 times faster; heartbeats and the lease
// stay with the machine's clock.
func TestTwoClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, machine := newStore(), clock.NewFake(time.Now())
		policyTime := clock.Scaled{Start: time.Now(), Factor: 60}
		r := newRig(t, s, Config{Clock: policyTime, Machine: machine, Handlers: map[string]Handler{"k": func(context.Context, *Task) error {
			return errors.New("x")
		}}})
		seq := r.enqueue(job.New{Kind: "k", DueAt: time.Now()})[0]
		r.Wake()
		pass(11 * time.Second) // 11 minutes, and the schedule takes 10.5 ±20 %
		if n := len(ledger(t, s, seq)); n < 3 {
			t.Errorf("%d starts in 11 minutes of policy time, want 3 or 4", n)
		}
		beat := func() int64 {
			processes, err := s.Processes(t.Context())
			if err != nil || len(processes) != 1 {
				t.Fatalf("%d processes: %v", len(processes), err)
			}
			return processes[0].Beat
		}
		if got := beat(); got != 0 {
			t.Errorf("%d beats while the machine's clock stood still, want none", got)
		}
		for range 3 {
			machine.Advance(5 * time.Second)
			synctest.Wait()
		}
		if got := beat(); got != 3 {
			t.Errorf("%d beats in 15 s of machine time, want 3", got)
		}
	})
}

// TestDrainMany: ten thousand jobs that do nothing, with all turns and the
// gathering of results at work.
func TestDrainMany(t *testing.T) {
	const n = 10_000
	s := newStore()
	jobs := make([]job.New, n)
	for i := range jobs {
		jobs[i] = job.New{Kind: "k", Policy: "wide"}
	}
	seqs := enqueue(t, s, jobs...)
	r := newRig(t, s, Config{
		Concurrency: 1000, Observe: func(Event) {}, Policies: []policy.Policy{wide("wide", nil)},
		Handlers: map[string]Handler{"k": func(context.Context, *Task) error { return nil }},
	})
	if err := r.Quiet(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, seq := range seqs {
		if j := jobOf(t, s, seq); j.State != job.Succeeded || j.History.Starts != 1 {
			t.Fatalf("job %d is %s after %d starts", seq, j.State, j.History.Starts)
		}
	}
}
