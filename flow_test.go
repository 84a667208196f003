package ebb_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// Two clients, one key: its jobs run one at a time, in the order of their
// enqueue, through failures and retries.
func TestKeyKeepsOrder(t *testing.T) {
	const jobs = 40
	again := policy.Base("again")
	again.Target, again.Backoff = policy.Process, policy.Backoff{Base: time.Millisecond, Factor: 1}
	again.Waivers = []policy.Waiver{{Rule: "floor", Reason: "calls nobody", Expires: time.Now().AddDate(0, 0, 1)}}
	databases(t, func(t *testing.T, open func(...ebb.Option) *ebb.Client) {
		var mu sync.Mutex
		var order []int
		var running atomic.Int32
		done := make(chan struct{})
		var clients []*ebb.Client
		for range 2 {
			c := open(ebb.WithPolicies(again))
			ebb.Handle(c, "step", func(_ context.Context, task *ebb.Task, n int) error {
				if running.Add(1) > 1 {
					t.Error("two jobs of the key run at once")
				}
				defer running.Add(-1)
				if n%8 == 3 && task.Attempt() == 1 {
					return errors.New("once")
				}
				mu.Lock()
				defer mu.Unlock()
				if order = append(order, n); len(order) == jobs {
					close(done)
				}
				return nil
			})
			clients = append(clients, c)
		}
		list := make([]ebb.Job, jobs)
		want := make([]int, jobs)
		for n := range list {
			list[n], want[n] = ebb.Job{Kind: "step", Args: n, Key: "k", Policy: "again"}, n
		}
		if _, err := clients[0].EnqueueMany(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		runUntil(t, done, clients...)
		if !slices.Equal(order, want) {
			t.Errorf("ran in the order %v", order)
		}
	})
}

// runUntil runs clients until something is done.
func runUntil(t *testing.T, done <-chan struct{}, clients ...*ebb.Client) {
	t.Helper()
	ended := make(chan error, len(clients))
	for _, c := range clients {
		go func() { ended <- c.Run(context.WithoutCancel(t.Context())) }()
	}
	left := len(clients)
	select {
	case <-done:
	case err := <-ended:
		t.Errorf("a client ended before the work did: %v", err)
		left--
	}
	for _, c := range clients {
		c.Stop()
	}
	for range left {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestUniqueWishes(t *testing.T) {
	databases(t, func(t *testing.T, open func(...ebb.Option) *ebb.Client) {
		c := open()
		tomorrow := time.Now().Add(24 * time.Hour)
		first := enqueue(t, c, ebb.Job{Kind: "k", Unique: "u", UniqueScope: ebb.UniqueInKind, DueAt: tomorrow, Args: 1})
		if other := enqueue(t, c, ebb.Job{Kind: "other", Unique: "u", UniqueScope: ebb.UniqueInKind, DueAt: tomorrow}); other == first {
			t.Error("another kind has the key too")
		}
		answer, err := c.Enqueue(t.Context(), ebb.Job{Kind: "k", Unique: "u", UniqueScope: ebb.UniqueInKind, OnConflict: ebb.ReplaceExisting, Args: 2})
		if err != nil || answer.ID != first || !answer.Existing {
			t.Errorf("replace: %+v %v", answer, err)
		}
		if j, err := c.Job(t.Context(), first); err != nil || string(j.Args) != "2" || j.DueAt.After(time.Now()) {
			t.Errorf("replaced: args %s, due %s: %v", j.Args, j.DueAt, err)
		}
		_, err = c.Enqueue(t.Context(), ebb.Job{Kind: "k", Unique: "u", UniqueScope: ebb.UniqueInKind, OnConflict: ebb.RefuseConflict})
		if !errors.Is(err, ebb.ErrUnique) {
			t.Errorf("refuse: %v, want ErrUnique", err)
		}
		if _, err := c.Cancel(t.Context(), first); err != nil {
			t.Error(err)
		}
		long := enqueue(t, c, ebb.Job{Kind: "k", Unique: "long", UniqueFor: time.Hour})
		if _, err := c.Cancel(t.Context(), long); err != nil {
			t.Error(err)
		}
		if again := enqueue(t, c, ebb.Job{Kind: "k", Unique: "long"}); again != long {
			t.Errorf("within its hour the key is given to %s, want %s", again, long)
		}
	})
}

// A paused target holds its jobs and nobody else's; a resumed one lets them
// go. So does a paused kind.
func TestPauseTargetAndKind(t *testing.T) {
	databases(t, func(t *testing.T, open func(...ebb.Option) *ebb.Client) {
		c := open()
		ran := make(chan string, 9)
		for _, kind := range []string{"hook", "mail"} {
			ebb.Handle(c, kind, func(_ context.Context, _ *ebb.Task, name string) error {
				ran <- name
				return nil
			})
		}
		ctx := t.Context()
		if err := errors.Join(c.PauseTarget(ctx, "crm", time.Time{}), c.PauseKind(ctx, "mail")); err != nil {
			t.Fatal(err)
		}
		held := enqueue(t, c, ebb.Job{Kind: "hook", Args: "held", Target: "crm"})
		mail := enqueue(t, c, ebb.Job{Kind: "mail", Args: "mail"})
		enqueue(t, c, ebb.Job{Kind: "hook", Args: "free", Target: "erp", Priority: 9})
		ended := background(t, c)
		if got := <-ran; got != "free" {
			t.Errorf("%s ran, want free", got)
		}
		for _, id := range []string{held, mail} {
			if j, err := c.Job(ctx, id); err != nil || j.History.Starts != 0 || j.State != job.Queued {
				t.Errorf("%s: %s, %d starts: %v", id, j.State, j.History.Starts, err)
			}
		}
		if err := c.ResumeTarget(ctx, "crm"); err != nil {
			t.Error(err)
		}
		if got := <-ran; got != "held" {
			t.Errorf("%s ran, want held", got)
		}
		if err := c.ResumeKind(ctx, "mail"); err != nil {
			t.Error(err)
		}
		if got := <-ran; got != "mail" {
			t.Errorf("%s ran, want mail", got)
		}
		c.Stop()
		ended()
		if err := c.ResumeTarget(ctx, "nobody"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("resume of a target that nobody calls: %v", err)
		}
	})
}

// A limited queue runs so many at once in two clients together, and all of it
// gets done.
func TestLimitQueue(t *testing.T) {
	databases(t, func(t *testing.T, open func(...ebb.Option) *ebb.Client) {
		atMost(t, 3, func() *ebb.Client { return open() }, ebb.Job{}, func(c *ebb.Client) error {
			return c.LimitQueue(t.Context(), "default", ebb.QueueLimit{Concurrency: 3})
		})
	})
}

// So does a target whose policy limits it, in whichever queue its jobs are.
func TestLimitOfTarget(t *testing.T) {
	few := policy.MustPreset("webhook")
	few.Name, few.PerTarget.Concurrency = "few", 3
	databases(t, func(t *testing.T, open func(...ebb.Option) *ebb.Client) {
		opened := func() *ebb.Client { return open(ebb.WithPolicies(few), ebb.WithQueues("default", "bulk")) }
		atMost(t, 3, opened, ebb.Job{Target: "crm", Policy: "few"}, func(*ebb.Client) error { return nil })
	})
}

// atMost runs jobs like one in two clients and fails the test if more than so
// many of them run at once.
func atMost(t *testing.T, most int32, open func() *ebb.Client, like ebb.Job, before func(*ebb.Client) error) {
	const jobs = 60
	var running, left atomic.Int32
	left.Store(jobs)
	done := make(chan struct{})
	var clients []*ebb.Client
	for range 2 {
		c := open()
		ebb.Handle(c, "work", func(context.Context, *ebb.Task, int) error {
			if n := running.Add(1); n > most {
				t.Errorf("%d jobs run at once, at most %d may", n, most)
			}
			runtime.Gosched() // let others overlap
			running.Add(-1)
			if left.Add(-1) == 0 {
				close(done)
			}
			return nil
		})
		clients = append(clients, c)
	}
	if err := before(clients[0]); err != nil {
		t.Fatal(err)
	}
	list := make([]ebb.Job, jobs)
	for n := range list {
		list[n] = like
		list[n].Kind, list[n].Args = "work", n
		if like.Target != "" && n%2 == 0 {
			list[n].Queue = "bulk"
		}
	}
	if _, err := clients[0].EnqueueMany(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	runUntil(t, done, clients...)
}

func TestEveryRefuses(t *testing.T) {
	c, err := ebb.Open(t.Context(), "memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, p := range []struct {
		ebb.Periodic
		want string
	}{
		{ebb.Periodic{Cron: "@daily", Job: ebb.Job{Kind: "k"}}, "the name is empty"},
		{ebb.Periodic{Name: "p", Cron: "daily", Job: ebb.Job{Kind: "k"}}, `"daily": want five fields`},
		{ebb.Periodic{Name: "p", Cron: "@daily", Zone: "Nowhere", Job: ebb.Job{Kind: "k"}}, `zone "Nowhere": want a name`},
		{ebb.Periodic{Name: "p", Cron: "@daily"}, "the kind is empty"},
		{ebb.Periodic{Name: "p", Cron: "@daily", Job: ebb.Job{Kind: "k", Args: func() {}}}, "args"},
		{ebb.Periodic{Name: "p", Cron: "@daily", Job: ebb.Job{Kind: "k", DueAt: time.Now()}}, "due at its times"},
	} {
		if err := c.Every(p.Periodic); err == nil || !strings.Contains(err.Error(), p.want) {
			t.Errorf("%+v: %v, want %q", p.Periodic, err, p.want)
		}
	}
}

// A schedule is put when Run begins; two clients that declare it share it.
func TestEveryIsPutAtRun(t *testing.T) {
	databases(t, func(t *testing.T, open func(...ebb.Option) *ebb.Client) {
		var clients []*ebb.Client
		done := make(chan struct{})
		var runs atomic.Int32
		for range 2 {
			c := open()
			ebb.Handle(c, "tick", func(context.Context, *ebb.Task, string) error { return nil })
			ebb.Handle(c, "go", func(context.Context, *ebb.Task, string) error {
				if runs.Add(1) == 2 {
					close(done)
				}
				return nil
			})
			if err := c.Every(ebb.Periodic{Name: "new-year", Cron: "@yearly", Zone: "Europe/Berlin", Job: ebb.Job{Kind: "tick", Args: "2027"}}); err != nil {
				t.Fatal(err)
			}
			clients = append(clients, c)
		}
		enqueue(t, clients[0], ebb.Job{Kind: "go"})
		enqueue(t, clients[0], ebb.Job{Kind: "go"})
		runUntil(t, done, clients...)
		all, err := clients[0].Store().Periodics(t.Context())
		if err != nil || len(all) != 1 || all[0].Name != "new-year" || string(all[0].Job.Args) != `"2027"` || !all[0].NextAt.After(time.Now()) {
			t.Errorf("schedules %+v: %v", all, err)
		}
		if err := clients[0].DropPeriodic(t.Context(), "new-year"); err != nil {
			t.Error(err)
		}
		if err := clients[0].DropPeriodic(t.Context(), "new-year"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("dropped twice: %v", err)
		}
	})
}
