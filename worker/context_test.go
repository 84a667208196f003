package worker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/store"
)

// TestRunContext: whether or not somebody asked before, a handler's context
// ends for the cause that ended it first, and so do those derived from it.
func TestRunContext(t *testing.T) {
	why := errors.New("why")
	for name, c := range map[string]struct {
		end   func(r *run, parent context.CancelCauseFunc)
		err   error
		cause error
	}{
		"under way":             {func(*run, context.CancelCauseFunc) {}, nil, nil},
		"returned":              {func(r *run, _ context.CancelCauseFunc) { r.ctx.returned() }, context.Canceled, context.Canceled},
		"timeout":               {func(r *run, _ context.CancelCauseFunc) { r.ctx.end(ErrTimeout) }, context.DeadlineExceeded, ErrTimeout},
		"cancelled":             {func(r *run, _ context.CancelCauseFunc) { r.ctx.end(ErrCancelled) }, context.Canceled, ErrCancelled},
		"cancelled, returned":   {func(r *run, _ context.CancelCauseFunc) { r.ctx.end(why); r.ctx.returned() }, context.Canceled, why},
		"returned, cancelled":   {func(r *run, _ context.CancelCauseFunc) { r.ctx.returned(); r.ctx.end(why) }, context.Canceled, context.Canceled},
		"its parent":            {func(_ *run, parent context.CancelCauseFunc) { parent(why) }, context.Canceled, why},
		"its parent, cancelled": {func(r *run, parent context.CancelCauseFunc) { parent(why); r.ctx.end(ErrTimeout) }, context.Canceled, why},
	} {
		for _, asked := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r, parent := contextOf(t)
					var after int
					if asked {
						child, cancel := context.WithCancel(&r.ctx)
						defer cancel()
						context.AfterFunc(child, func() { after++ })
					}
					c.end(r, parent)
					if err := r.ctx.Err(); !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
						t.Errorf("asked before: %t: error %v, want %v", asked, err, c.err)
					}
					if cause := context.Cause(&r.ctx); !errors.Is(cause, c.cause) || (cause == nil) != (c.cause == nil) {
						t.Errorf("asked before: %t: cause %v, want %v", asked, cause, c.cause)
					}
					child, cancel := context.WithCancel(&r.ctx)
					defer cancel()
					if cause := context.Cause(child); !errors.Is(cause, c.cause) || (cause == nil) != (c.cause == nil) {
						t.Errorf("asked before: %t: cause of its child %v, want %v", asked, cause, c.cause)
					}
					if done := isDone(&r.ctx); done != (c.err != nil) {
						t.Errorf("asked before: %t: done %t with error %v", asked, done, c.err)
					}
					synctest.Wait()
					if want := asked && c.err != nil; (after == 1) != want {
						t.Errorf("asked before: %t: told %d times", asked, after)
					}
				})
			})
		}
	}
}

// TestRunContextCauseOfAReturn: returned tells why the context had ended
// before, and nothing where it had not.
func TestRunContextCauseOfAReturn(t *testing.T) {
	r, _ := contextOf(t)
	if cause := r.ctx.returned(); cause != nil {
		t.Errorf("cause %v, want none", cause)
	}
	ordered, _ := contextOf(t)
	ordered.ctx.end(ErrCancelled)
	if cause := ordered.ctx.returned(); !errors.Is(cause, ErrCancelled) {
		t.Errorf("cause %v, want %v", cause, ErrCancelled)
	}
	stopped, parent := contextOf(t)
	parent(ErrStopping)
	if cause := stopped.ctx.returned(); !errors.Is(cause, ErrStopping) {
		t.Errorf("cause %v, want %v", cause, ErrStopping)
	}
}

// TestRunContextDeadline: on the machine's clock it is the timeout's, told in
// the machine's time although the loop counts in the store's.
func TestRunContextDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := contextOf(t)
		r.worker.skew.Store(int64(time.Hour))
		r.startedAt = r.worker.now()
		if at, ok := r.ctx.Deadline(); !ok || !at.Equal(time.Now().Add(r.policy.Timeout)) {
			t.Errorf("deadline %s %t, want %s from %s", at, ok, r.policy.Timeout, time.Now())
		}
	})
}

// TestRunContextRace is for the race detector: everybody asks while it ends.
func TestRunContextRace(t *testing.T) {
	r, parent := contextOf(t)
	var group sync.WaitGroup
	for _, f := range []func(){
		func() { <-r.ctx.Done() },
		func() { isDone(&r.ctx) },
		func() { _ = context.Cause(&r.ctx) },
		func() { _ = r.ctx.Err() },
		func() { _ = r.ctx.Value(1) },
		func() { r.ctx.end(ErrTimeout) },
		func() { r.ctx.returned() },
		func() { parent(ErrStopping) },
	} {
		group.Go(f)
	}
	group.Wait()
	if err := r.ctx.Err(); err == nil {
		t.Error("it has not ended")
	}
}

func contextOf(t *testing.T) (*run, context.CancelCauseFunc) {
	t.Helper()
	w := idleWorker(t, func(context.Context, *Task) error { return nil })
	parent, cancel := context.WithCancelCause(t.Context())
	return w.startOf(parent), cancel
}

func isDone(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// tardy answers the first question for the time late, by the clock of its end.
type tardy struct {
	store.Store
	calls int
}

func (s *tardy) Now(ctx context.Context) (time.Time, error) {
	if s.calls++; s.calls == 1 {
		if err := sleep(ctx, 2*time.Second); err != nil { // it opens a connection
			return time.Time{}, err
		}
	}
	return s.Store.Now(ctx)
}

// The store's clock is known by its quickest answer, not by one that took long.
func TestAClockIsNotLearntFromASlowAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tardy{Store: newStore()}
		w := &Worker{store: s, storeClock: true, clock: clock.System{}}
		if err := w.compareClocks(t.Context()); err != nil {
			t.Fatal(err)
		}
		theirs, err := s.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if off := w.now().Sub(theirs).Abs(); off > clockError {
			t.Errorf("off by %s after %d questions", off, s.calls)
		}
	})
}
