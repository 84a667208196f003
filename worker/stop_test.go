package worker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// TestDrain: after the first stop running handlers finish and nothing starts.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := newRig(t, s, Config{Concurrency: 2, Handlers: map[string]Handler{"k": func(ctx context.Context, _ *Task) error {
			return sleep(ctx, 20*time.Second)
		}}})
		seqs := r.enqueue(job.New{Kind: "k"}, job.New{Kind: "k"}, job.New{Kind: "k"})
		pass(5 * time.Second)
		r.Stop()
		stopped := time.Now()
		err := <-r.ended
		r.ended <- err
		if took := time.Since(stopped); err != nil || took != 15*time.Second {
			t.Errorf("stopped after %s: %v; want the 15 s that were left", took, err)
		}
		state(t, s, seqs[0], job.Succeeded, "")
		state(t, s, seqs[1], job.Succeeded, "")
		if j := state(t, s, seqs[2], job.Queued, ""); j.History.Starts != 0 {
			t.Errorf("the third started %d times, want 0", j.History.Starts)
		}
		if left, _ := s.Processes(t.Context()); len(left) != 0 {
			t.Errorf("processes left: %+v", left)
		}
	})
}

// TestStopEndsContexts: when the drain takes too long, or at the second stop,
// contexts end, and the starts count as interrupted: free, due at once.
func TestStopEndsContexts(t *testing.T) {
	for name, second := range map[string]bool{"after the drain": false, "at the second stop": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				r := newRig(t, s, Config{Handlers: map[string]Handler{"k": func(ctx context.Context, _ *Task) error {
					<-ctx.Done()
					if !errors.Is(context.Cause(ctx), ErrStopping) {
						t.Errorf("cause %v, want ErrStopping", context.Cause(ctx))
					}
					return errors.New("gave up") // says nothing of a context
				}}})
				seq := r.enqueue(job.New{Kind: "k"})[0]
				pass(time.Second)
				stopped, want := time.Now(), defaultDrain
				r.Stop()
				if second {
					pass(time.Second)
					r.Stop()
					want = time.Second
				}
				err := <-r.ended
				r.ended <- err
				if took := time.Since(stopped); err != nil || took != want {
					t.Errorf("stopped after %s: %v; want %s", took, err, want)
				}
				j := state(t, s, seq, job.Queued, "")
				if a := ledger(t, s, seq)[0]; a.Class != failure.Interrupted || a.Delay != 0 || j.History.Attempts != 0 {
					t.Errorf("ledger %+v, %d attempts spent; want a free interruption", a, j.History.Attempts)
				}
			})
		})
	}
}

// TestStopGivesUp: a handler that does not return is settled without it.
func TestStopGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, release := newStore(), make(chan struct{})
		r := newRig(t, s, Config{Handlers: map[string]Handler{"k": func(context.Context, *Task) error { <-release; return nil }}})
		seq := r.enqueue(job.New{Kind: "k"})[0]
		pass(time.Second)
		stopped := time.Now()
		r.Stop()
		r.Stop()
		err := <-r.ended
		r.ended <- err
		if took := time.Since(stopped); err != nil || took != defaultGrace {
			t.Errorf("stopped after %s: %v; want the grace", took, err)
		}
		close(release)
		pass(time.Second)
		state(t, s, seq, job.Queued, "")
		if a := ledger(t, s, seq)[0]; a.Class != failure.Interrupted || a.Reason != "stuck" {
			t.Errorf("ledger %+v, want interrupted, stuck", a)
		}
		if left, _ := s.Processes(t.Context()); len(left) != 0 {
			t.Errorf("processes left: %+v", left)
		}
	})
}

// TestStopWithoutStore: results that cannot be saved are an error, in time.
func TestStopWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &cut{Store: newStore()}
		r := newRig(t, s, Config{Handlers: map[string]Handler{"k": func(ctx context.Context, _ *Task) error { return sleep(ctx, time.Minute) }}})
		seq := r.enqueue(job.New{Kind: "k"})[0]
		pass(time.Second)
		s.gone.Store(true)
		stopped := time.Now()
		r.Stop()
		r.Stop()
		err := <-r.ended
		r.ended <- err
		if took := time.Since(stopped); !errors.Is(err, ErrUnsaved) || took != 2*defaultGrace {
			t.Errorf("stopped after %s: %v; want ErrUnsaved after twice the grace", took, err)
		}
		state(t, s.Store, seq, job.Running, "")
		if left, _ := s.Store.Processes(t.Context()); len(left) != 1 {
			t.Errorf("%d processes, want the one that others must reap", len(left))
		}
	})
}

func TestStartAndStopTwice(t *testing.T) {
	idle := Config{Handlers: map[string]Handler{"k": func(context.Context, *Task) error { return nil }}}
	t.Run("stop before start", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := buildRig(t, newStore(), idle)
			r.Stop()
			if err := r.Run(t.Context()); err != nil {
				t.Errorf("Run after Stop: %v, want nil", err)
			}
			if err := r.Run(t.Context()); !errors.Is(err, ErrRunning) {
				t.Errorf("second Run: %v, want ErrRunning", err)
			}
		})
	})
	t.Run("ended context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := buildRig(t, newStore(), idle).Run(ctx); err != nil {
				t.Errorf("Run: %v, want nil", err)
			}
		})
	})
	t.Run("context and stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, ended := newStore(), make(chan error, 1)
			r := buildRig(t, s, Config{Handlers: map[string]Handler{"k": func(ctx context.Context, _ *Task) error { return sleep(ctx, time.Hour) }}})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { ended <- r.Run(ctx) }()
			r.enqueue(job.New{Kind: "k"})
			pass(time.Second)
			start := time.Now()
			cancel()
			pass(2 * time.Second)
			r.Stop() // the second, counted from the context's end
			if err := <-ended; err != nil || time.Since(start) != 2*time.Second {
				t.Errorf("ended after %s: %v, want 2s", time.Since(start), err)
			}
		})
	})
}

// TestStartStopStress: many workers started and stopped from several sides at
// once; every one returns, nothing is left behind, no job is lost.
func TestStartStopStress(t *testing.T) {
	s := newStore()
	const jobs = 200
	for range jobs {
		enqueue(t, s, job.New{Kind: "k"})
	}
	for range 50 {
		r := buildRig(t, s, Config{Handlers: map[string]Handler{"k": func(context.Context, *Task) error { return nil }}})
		var group sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			group.Go(func() {
				if err := r.Run(ctx); err != nil && !errors.Is(err, ErrRunning) {
					t.Errorf("Run: %v", err)
				}
			})
			group.Go(r.Stop)
			group.Go(r.Wake)
		}
		group.Go(cancel)
		group.Wait()
	}
	if left, _ := s.Processes(t.Context()); len(left) != 0 {
		t.Errorf("%d processes left", len(left))
	}
	list, err := s.List(t.Context(), store.Filter{}, store.Page{Limit: jobs})
	if err != nil || len(list) != jobs {
		t.Fatalf("%d jobs: %v", len(list), err)
	}
	for _, j := range list {
		if j.State != job.Succeeded && j.State != job.Queued {
			t.Errorf("job %d is %s after everybody left", j.Seq, j.State)
		}
	}
}

// TestStuckHandlerIsTimeout: timeout, then the grace, then the slot is free
// and the late result is refused.
func TestStuckHandlerIsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, release := newStore(), make(chan struct{})
		starts := 0
		r := newRig(t, s, Config{Concurrency: 1, Handlers: map[string]Handler{
			"stuck": func(ctx context.Context, task *Task) error {
				if starts++; starts > 1 {
					return nil
				}
				if at, ok := ctx.Deadline(); !ok || time.Until(at) != 2*time.Minute {
					t.Errorf("deadline in %s, %t; want the policy's 2m", time.Until(at), ok)
				}
				<-ctx.Done()
				if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(ctx), ErrTimeout) {
					t.Errorf("err %v cause %v", ctx.Err(), context.Cause(ctx))
				}
				<-release
				if err := task.Progress(context.WithoutCancel(ctx), []byte("late")); !errors.Is(err, ErrLeaseLost) {
					t.Errorf("late progress: %v, want ErrLeaseLost", err)
				}
				return nil
			},
			"next": func(context.Context, *Task) error { return nil },
		}})
		seqs := r.enqueue(job.New{Kind: "stuck"}, job.New{Kind: "next"})
		pass(2*time.Minute + defaultGrace - time.Millisecond)
		state(t, s, seqs[0], job.Running, "")
		pass(2 * time.Millisecond)
		state(t, s, seqs[0], job.Queued, "")
		state(t, s, seqs[1], job.Succeeded, "") // its slot was given up
		a := ledger(t, s, seqs[0])[0]
		if a.Class != failure.Timeout || a.Reason != "stuck" || a.EndedAt.Sub(a.StartedAt) != 2*time.Minute+defaultGrace {
			t.Errorf("ledger %+v", a)
		}
		close(release)
		pass(time.Second)
		state(t, s, seqs[0], job.Queued, "") // not succeeded: it came too late
		pass(time.Hour)
		state(t, s, seqs[0], job.Succeeded, "")
		if n := len(ledger(t, s, seqs[0])); n != 2 {
			t.Errorf("%d ledger rows, want 2", n)
		}
		if n := len(r.seen(Stuck)); n != 1 {
			t.Errorf("%d stuck events, want 1", n)
		}
	})
}

// TestTimeout: a handler that heeds its context is a timeout as well, whatever
// the error is made of.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := newRig(t, s, Config{Handlers: map[string]Handler{
			"err":   func(ctx context.Context, _ *Task) error { <-ctx.Done(); return ctx.Err() },
			"below": func(ctx context.Context, _ *Task) error { return sleep(ctx, time.Hour) },
			"plain": func(ctx context.Context, _ *Task) error { <-ctx.Done(); return errors.New("aborted") },
			"named": func(ctx context.Context, _ *Task) error {
				<-ctx.Done()
				return failure.New(failure.BodyTimeout, "", ctx.Err())
			},
			"fatal":  func(ctx context.Context, _ *Task) error { <-ctx.Done(); return failure.Fatal(ctx.Err()) },
			"enough": func(ctx context.Context, _ *Task) error { <-ctx.Done(); return nil },
		}})
		for kind, want := range map[string]struct {
			class failure.Class
			state job.State
		}{
			"err": {failure.Timeout, job.Queued}, "below": {failure.Timeout, job.Queued}, "plain": {failure.Timeout, job.Queued},
			"named": {failure.BodyTimeout, job.Queued}, "fatal": {failure.Timeout, job.Failed}, "enough": {0, job.Succeeded},
		} {
			seq := r.enqueue(job.New{Kind: kind})[0]
			pass(2*time.Minute + time.Millisecond)
			if j, a := jobOf(t, s, seq), ledger(t, s, seq)[0]; j.State != want.state || a.Class != want.class {
				t.Errorf("%s: %s, class %s; want %s, %s", kind, j.State, a.Class, want.state, want.class)
			}
		}
	})
}

// TestCancelRunning: an operator's cancel reaches the handler's context with
// the next beat.
func TestCancelRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := newRig(t, s, Config{Handlers: map[string]Handler{
			"heeds":   func(ctx context.Context, _ *Task) error { return sleep(ctx, time.Hour) },
			"ignores": func(ctx context.Context, _ *Task) error { return sleep(context.WithoutCancel(ctx), time.Minute) },
			"ends":    func(ctx context.Context, _ *Task) error { <-ctx.Done(); return nil },
		}})
		seqs := r.enqueue(job.New{Kind: "heeds"}, job.New{Kind: "ignores"}, job.New{Kind: "ends"})
		pass(time.Second)
		for _, seq := range seqs {
			if got, err := s.Cancel(t.Context(), time.Time{}, "me", seq); got != job.Running || err != nil {
				t.Fatalf("Cancel: %s %v", got, err)
			}
		}
		pass(5 * time.Second)
		state(t, s, seqs[0], job.Cancelled, "")
		state(t, s, seqs[1], job.Running, "")
		state(t, s, seqs[2], job.Succeeded, "") // it had finished
		pass(defaultGrace)
		state(t, s, seqs[1], job.Cancelled, "")
		if a := ledger(t, s, seqs[0])[0]; a.Class != failure.Interrupted || a.Reason != "cancelled" || a.Action != "cancel" {
			t.Errorf("ledger %+v", a)
		}
		pass(time.Hour) // the late return changes nothing
		state(t, s, seqs[1], job.Cancelled, "")
		if n := len(r.seen(Ordered)); n != 3 {
			t.Errorf("%d orders, want 3", n)
		}
	})
}

// sleep waits as a handler would.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
