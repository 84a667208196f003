package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// frozen is the store as a process sees it that is stopped for a while: the
// turn that was under way was done, its answer is read long after.
type frozen struct {
	store.Store
	until atomic.Pointer[time.Time]
	once  atomic.Bool
}

func (f *frozen) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	if until := f.until.Load(); until != nil {
		elapse(time.Until(*until))
	}
	answer, err := f.Store.Turn(ctx, t)
	if len(answer.Claimed) > 0 && f.once.CompareAndSwap(false, true) {
		until := time.Now().Add(27 * time.Second) // beats come later than the answer
		f.until.Store(&until)
		elapse(25 * time.Second)
	}
	return answer, err
}

func (f *frozen) Beat(ctx context.Context, now time.Time, process int64) ([]store.Ref, error) {
	if until := f.until.Load(); until != nil && time.Now().Before(*until) {
		return nil, errors.New("stopped")
	}
	return f.Store.Beat(ctx, now, process)
}

// TestStoppedProcessStartsNothingStale: a process that was stopped past its
// lease reads the answer of a turn from before. What it was given is others'
// by now: with a target it would go beside its limit, of a key out of order.
func TestStoppedProcessStartsNothingStale(t *testing.T) {
	for _, n := range []job.New{{Kind: "k"}, {Kind: "k", Target: "t"}, {Kind: "k", Key: "a"}} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore()
			seq := enqueue(t, s, n)[0]
			var stopped, other atomic.Int32
			handler := func(n *atomic.Int32) map[string]Handler {
				return map[string]Handler{"k": func(context.Context, *Task) error { n.Add(1); return nil }}
			}
			r := newRig(t, &frozen{Store: s}, Config{Handlers: handler(&stopped)})
			pass(time.Second)
			newRig(t, s, Config{Handlers: handler(&other)})
			pass(40 * time.Second)
			state(t, s, seq, job.Succeeded, "")
			if stopped.Load() != 0 || other.Load() != 1 {
				t.Errorf("%+v: started %d times by the process that was stopped, %d times by the other; want 0 and 1", n, stopped.Load(), other.Load())
			}
			if len(r.seen(Lost)) != 1 {
				t.Error("the stopped process was not told that it was taken for dead")
			}
			again := enqueue(t, s, job.New{Kind: "k"})[0]
			pass(time.Second)
			state(t, s, again, job.Succeeded, "")
		})
	}
}
