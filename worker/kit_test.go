package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a worker on a store in memory, with what it was seen to do.
type rig struct {
	t     *testing.T
	store store.Store
	*Worker
	ended chan error

	mu     sync.Mutex
	events []Event
}

// newRig makes a worker and runs it until the test ends. Under synctest the
// machine's clock is the bubble's.
func newRig(t *testing.T, s store.Store, c Config) *rig {
	t.Helper()
	r := buildRig(t, s, c)
	r.run()
	t.Cleanup(r.stop)
	return r
}

func buildRig(t *testing.T, s store.Store, c Config) *rig {
	t.Helper()
	r := &rig{t: t, store: s, ended: make(chan error, 1)}
	if watch := c.Observe; watch == nil {
		c.Observe = r.note
	}
	if c.Seed == 0 {
		c.Seed = 7
	}
	w, err := New(s, c)
	if err != nil {
		t.Fatal(err)
	}
	r.Worker = w
	return r
}

func (r *rig) run() { go func() { r.ended <- r.Run(context.Background()) }() }

// stop stops fast and waits; a rig that ended already is left alone.
func (r *rig) stop() {
	r.Stop()
	r.Stop()
	err := <-r.ended
	r.ended <- err
}

func (r *rig) note(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// seen returns the events of one kind; of all, if it is empty.
func (r *rig) seen(what EventKind) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []Event
	for _, e := range r.events {
		if what == "" || e.What == what {
			list = append(list, e)
		}
	}
	return list
}

func (r *rig) enqueue(jobs ...job.New) []int64 { return enqueue(r.t, r.store, jobs...) }

func enqueue(t *testing.T, s store.Store, jobs ...job.New) []int64 {
	t.Helper()
	answers, err := s.Enqueue(t.Context(), time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	seqs := make([]int64, len(answers))
	for i, a := range answers {
		seqs[i] = a.Seq
	}
	return seqs
}

func jobOf(t *testing.T, s store.Store, seq int64) job.Job {
	t.Helper()
	j, err := s.Job(t.Context(), seq)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// state fails the test unless the job stands there for the cause.
func state(t *testing.T, s store.Store, seq int64, want job.State, cause job.Cause) job.Job {
	t.Helper()
	j := jobOf(t, s, seq)
	if j.State != want || j.Cause != cause {
		t.Errorf("job %d is %s %q (%s), want %s %q", seq, j.State, j.Cause, j.LastError, want, cause)
	}
	return j
}

func ledger(t *testing.T, s store.Store, seq int64) []job.Attempt {
	t.Helper()
	rows, err := s.Attempts(t.Context(), seq)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// elapse waits for d of the bubble's time.
func elapse(d time.Duration) { <-time.After(d) }

// pass lets the bubble's time run until everybody waits again.
func pass(d time.Duration) {
	elapse(d)
	synctest.Wait()
}

// cut is a store that can be taken away: the process that uses it is dead as
// far as anybody else can tell.
type cut struct {
	store.Store
	gone atomic.Bool
}

var errCut = errors.New("the store is away")

func (c *cut) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	if c.gone.Load() {
		return store.Turned{}, errCut
	}
	return c.Store.Turn(ctx, t)
}

func (c *cut) Beat(ctx context.Context, now time.Time, process int64) ([]store.Ref, error) {
	if c.gone.Load() {
		return nil, errCut
	}
	return c.Store.Beat(ctx, now, process)
}

func (c *cut) Processes(ctx context.Context) ([]store.Process, error) {
	if c.gone.Load() {
		return nil, errCut
	}
	return c.Store.Processes(ctx)
}

func (c *cut) NextDue(ctx context.Context, queues, kinds []string) (time.Time, error) {
	if c.gone.Load() {
		return time.Time{}, errCut
	}
	return c.Store.NextDue(ctx, queues, kinds)
}

func (c *cut) Leave(ctx context.Context, process int64) error {
	if c.gone.Load() {
		return errCut
	}
	return c.Store.Leave(ctx, process)
}

func newStore() *memory.Store { return memory.New(memory.Config{}) }

// wide is the default policy with room for many at once.
func wide(name string, change func(*policy.Policy)) policy.Policy {
	p := policy.Base(policy.DefaultName)
	p.Name, p.Concurrency, p.Batch = name, 10_000, 10_000
	if change != nil {
		change(&p)
	}
	return p
}

func delays(p *policy.Policy, seed uint64, seq int64, n int) []time.Duration {
	var list []time.Duration
	for try := 2; try < n+2; try++ {
		u := retry.Derive(seed, uint64(seq), try-1).Unit()
		list = append(list, p.Backoff.Draw(try, 0, u))
	}
	return list
}
