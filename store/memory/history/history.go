// Package history plays seeded histories of the core over the in-memory
// store: simulated workers claim, begin, classify, decide and settle; they
// crash, stop, lose answers and send twice; the clock jumps; operators cancel,
// retry and redrive. After every call that writes, the promises of the store
// are checked. Time is virtual, one goroutine does everything, and a seed gives
// the same history for ever.
package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

// Figures of every history. Machine time runs on; the database's clock is
// machine time plus what it was set wrong by.
const (
	lease      = 20 * time.Second // a process whose beat stands so long is dead
	beatEvery  = 5 * time.Second
	workers    = 4
	slots      = 3 // jobs a worker holds at once
	steps      = 320
	standstill = 80              // rounds of all workers, some 200 s, in which something must go on
	longest    = 10 * standstill // rounds in all: going on for ever is no drain either
)

var (
	t0     = time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)
	queues = []string{"default", "bulk", "strict"}
	kinds  = []string{"a", "b"}
)

// Policies of the jobs: the built-in crash rule, and one where a crash spends
// an attempt.
var policies = map[string]*policy.Policy{
	"free":    sealed("free", nil),
	"counted": sealed("counted", []policy.Rule{{Match: policy.Match{Classes: policy.SetOf(failure.Crash)}, Action: policy.Retry}}),
}

const (
	maxAttempts  = 4
	maxThrottled = 2
)

func sealed(name string, rules []policy.Rule) *policy.Policy {
	p := policy.Base(name)
	p.Attempts = maxAttempts
	p.Backoff = policy.Backoff{Base: 2 * time.Second, Factor: 2, Jitter: policy.Jitter{Kind: policy.JitterProportional, Ratio: 0.2}}
	p.Classes = append([]policy.Rule{{
		Match: policy.Match{Classes: policy.SetOf(failure.Throttled)}, Action: policy.Retry, Counts: policy.CountsFree, Max: maxThrottled,
	}}, rules...)
	p, err := policy.Seal(p)
	if err != nil {
		panic(err) // a constant of this file is wrong
	}
	return &p
}

// world is one history as it goes.
type world struct {
	ctx      context.Context
	seed     uint64
	ablation Ablation
	rng      *rand.Rand
	store    *memory.Store
	mono     time.Duration // machine time since the beginning
	skew     time.Duration // what the database's clock is off by
	calm     bool          // the faults have ended: everything must drain
	workers  []*worker
	held     []*heldTx
	redrives []int64
	truth    truth
	steps    int
	broken   error
}

// errBroken is wrapped by every broken promise.
var errBroken = errors.New("promise broken")

// Run plays the history of one seed. An error names the promise that the
// ablated core broke, and the step.
func Run(seed uint64, a Ablation) error {
	w := &world{
		ctx: context.Background(), seed: seed, ablation: a, rng: rand.New(rand.NewPCG(seed, 3)),
		store: memory.New(memory.Config{Faults: a.faults}), truth: newTruth(),
	}
	for n := range workers {
		w.workers = append(w.workers, &worker{n: n, seen: map[int64]sighting{}, gates: map[string]store.Gate{}})
	}
	w.must("strict", w.store.StrictQueue(w.ctx, "strict", true))
	for range steps {
		w.step()
		if w.broken != nil {
			return w.broken
		}
	}
	w.drain()
	w.finish()
	return w.broken
}

// fail remembers the first broken promise.
func (w *world) fail(format string, args ...any) {
	if w.broken == nil {
		w.broken = fmt.Errorf("seed %d, step %d, at %s: %w: %s", w.seed, w.steps, w.mono, errBroken, fmt.Sprintf(format, args...))
	}
}

// must holds that a call may not fail.
func (w *world) must(what string, err error) {
	if err != nil {
		w.fail("%s failed: %v", what, err)
	}
}

// now is the database's clock.
func (w *world) now() time.Time { return t0.Add(w.mono + w.skew) }

// chance is true n times in a thousand.
func (w *world) chance(n int) bool { return w.rng.IntN(1000) < n }

// upTo is a random duration in whole microseconds.
func (w *world) upTo(d time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(d/time.Microsecond))) * time.Microsecond
}

func pick[T any](w *world, list []T) T { return list[w.rng.IntN(len(list))] }

// step lets some time pass and one actor act.
func (w *world) step() {
	w.steps++
	w.mono += w.upTo(900 * time.Millisecond)
	if w.chance(5) {
		w.skew += w.upTo(65*time.Second) - 5*time.Second
	}
	switch n := w.rng.IntN(100); {
	case n < 82:
		pick(w, w.workers).act(w)
	case n < 87:
		w.enqueue()
	case n < 89:
		w.hold()
	case n < 91:
		w.cancel()
	case n < 93:
		w.retry()
	case n < 95:
		w.redrive()
	case n < 97:
		w.pause(pick(w, queues), w.chance(300))
	case n < 98:
		w.maintain()
	default:
		w.misfortune(pick(w, w.workers))
	}
}

// misfortune befalls a worker: it dies, or stands still for a while.
func (w *world) misfortune(k *worker) {
	if w.chance(500) {
		k.die(w)
		return
	}
	k.stoppedUntil = w.mono + w.upTo(3*lease)
}

// drain ends all faults and lets the workers go on until nothing is left to
// do. Whatever was in the way is removed: paused queues, open transactions.
func (w *world) drain() {
	w.calm = true
	for len(w.held) > 0 && w.broken == nil {
		w.end(w.held[0], true)
	}
	for _, queue := range queues {
		w.pause(queue, false)
	}
	moved := 0
	for round := 0; round-moved < standstill && round < longest; round++ {
		w.mono += time.Second + w.upTo(3*time.Second)
		if round%10 == 0 {
			w.maintain()
		}
		changes := w.truth.changes
		for _, k := range w.workers {
			w.steps++
			k.act(w)
		}
		if w.broken != nil || w.drained() {
			return
		}
		if w.truth.changes > changes {
			moved = round
		}
	}
	for _, seq := range w.truth.order {
		if j := w.truth.jobs[seq]; w.unfinished(&j) {
			w.fail("not drained: %s", brief(&j))
		}
	}
}

func (w *world) drained() bool {
	for _, j := range w.truth.jobs {
		if w.unfinished(&j) {
			return false
		}
	}
	return true
}

// unfinished reports whether the job should still go on: it is queued or
// running, and not behind a dead letter or a parked job of its key.
func (w *world) unfinished(j *job.Job) bool {
	if j.State != job.Queued || j.Key == "" {
		return j.State == job.Queued || j.State == job.Running
	}
	for _, seq := range w.truth.order {
		head := w.truth.jobs[seq]
		if head.Seq >= j.Seq {
			break
		}
		stands := head.State == job.Parked || head.State == job.Failed && head.KeyRule == job.KeyBlock
		if stands && head.Queue == j.Queue && head.Key == j.Key {
			return false
		}
	}
	return true
}

func brief(j *job.Job) string {
	return fmt.Sprintf("job %d (%s, kind %s, queue %s, target %q, key %q/%s, priority %d, due %s, epoch %d, process %d, begun %t, %+v)",
		j.Seq, j.State, j.Kind, j.Queue, j.Target, j.Key, j.KeyRule, j.Priority, j.DueAt.Sub(t0), j.Epoch, j.Process, j.Begun, j.History)
}

func refOf(j *job.Job) store.Ref { return store.Ref{Seq: j.Seq, Epoch: j.Epoch} }
