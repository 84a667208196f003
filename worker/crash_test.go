package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// crash runs a worker until its handlers hang, takes the store away from it
// and ends it: what a dead process leaves behind.
func crash(t *testing.T, s store.Store, c Config) { crashAs(t, s, c, ownIdentity()) }

// crashAs is crash of a process with that identity.
func crashAs(t *testing.T, s store.Store, c Config, own identity) {
	t.Helper()
	c.Handlers = map[string]Handler{"k": func(ctx context.Context, _ *Task) error { <-ctx.Done(); return ctx.Err() }}
	away := &cut{Store: s}
	r := buildRig(t, away, c)
	r.self = own
	r.run()
	pass(time.Second)
	away.gone.Store(true)
	r.stop()
	if err := <-r.ended; !errors.Is(err, ErrUnsaved) {
		t.Fatalf("the crash ended with %v, want ErrUnsaved", err)
	}
}

// TestReap: the jobs of a dead process run again within 30 s, the crash is in
// the ledger, and the attempt budget is not touched.
func TestReap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		seqs := enqueue(t, s, job.New{Kind: "k"}, job.New{Kind: "k", Policy: "processing"})
		crash(t, s, Config{})
		start := time.Now()
		r := newRig(t, s, Config{Handlers: map[string]Handler{"k": func(context.Context, *Task) error { return nil }}})
		pass(20*time.Second - time.Millisecond)
		if early := r.seen(Started); len(early) != 0 {
			t.Fatalf("started %s after the observer came: before the lease was over", early[0].At.Sub(start))
		}
		pass(10 * time.Second)
		if got := r.seen(Started); len(got) != 1 || got[0].At.Sub(start) != 20*time.Second {
			t.Fatalf("restarts %v, want one after 20s", got)
		}
		a := ledger(t, s, seqs[0])[0]
		if a.Class != failure.Crash || a.Counted != retry.CountedFree || a.Start != 1 || a.Rule != "builtin/crash" {
			t.Errorf("ledger %+v, want a free crash", a)
		}
		if j := state(t, s, seqs[0], job.Succeeded, ""); j.History.Attempts != 1 || j.History.Starts != 2 {
			t.Errorf("history %+v, want 2 starts, 1 attempt", j.History)
		}
		// Under processing a crash is an attempt and waits by the schedule.
		p := r.Policy("processing")
		a = ledger(t, s, seqs[1])[0]
		if want := delays(p, 7, seqs[1], 1)[0]; a.Delay != want || a.Counted != retry.CountedAttempt {
			t.Errorf("processing: delay %s counted %s, want %s and an attempt", a.Delay, a.Counted, want)
		}
		if n := r.seen(Reaped); len(n) != 1 || n[0].Count != 2 {
			t.Errorf("reaped %+v, want one process with 2 leases", n)
		}
	})
}

// TestReapManyLive: three processes watch; one dies with 1,000 jobs; all of
// them are done within 30 s, each once more.
func TestReapManyLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		const n = 1000
		jobs := make([]job.New, n)
		for i := range jobs {
			jobs[i] = job.New{Kind: "k", Policy: "wide"}
		}
		enqueue(t, s, jobs...)
		p := []policy.Policy{wide("wide", nil)}
		crash(t, s, Config{Concurrency: n, Policies: p})
		var mu sync.Mutex
		done := 0
		for range 3 {
			newRig(t, s, Config{Policies: p, Observe: func(Event) {}, Handlers: map[string]Handler{"k": func(context.Context, *Task) error {
				mu.Lock()
				defer mu.Unlock()
				done++
				return nil
			}}})
		}
		pass(30 * time.Second)
		if done != n {
			t.Errorf("%d done, want %d", done, n)
		}
	})
}

// TestPoison: a job that kills its process is free three times, alone from
// its second crash on, then a dead letter.
func TestPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		seq := enqueue(t, s, job.New{Kind: "k"})[0]
		for n := 1; n <= 4; n++ {
			crash(t, s, Config{})
			r := newRig(t, s, Config{Handlers: map[string]Handler{"other": func(context.Context, *Task) error { return nil }}})
			pass(25 * time.Second)
			r.stop()
			j := jobOf(t, s, seq)
			if j.History.Crashes != n || j.History.Starts != n {
				t.Fatalf("after crash %d: %d crashes, %d starts", n, j.History.Crashes, j.History.Starts)
			}
			if n < 4 {
				state(t, s, seq, job.Queued, "")
			}
		}
		state(t, s, seq, job.Failed, retry.CausePoison)
	})
}

// TestSuspectsRunAlone: jobs that crashed twice run one at a time, beside
// others; those that had not begun go back unharmed when the process dies.
func TestSuspectsRunAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		seqs := enqueue(t, s, job.New{Kind: "k"}, job.New{Kind: "k"}, job.New{Kind: "k"})
		other := Config{Handlers: map[string]Handler{"other": func(context.Context, *Task) error { return nil }}}
		for range 2 {
			crash(t, s, Config{})
			r := newRig(t, s, other)
			pass(25 * time.Second)
			r.stop()
		}
		crash(t, s, Config{}) // the third: one had begun, two waited
		r := newRig(t, s, other)
		pass(25 * time.Second)
		r.stop()
		crashes := []int{}
		for _, seq := range seqs {
			crashes = append(crashes, jobOf(t, s, seq).History.Crashes)
		}
		if slices.Sort(crashes); !slices.Equal(crashes, []int{2, 2, 3}) {
			t.Fatalf("crashes %v, want 2, 2, 3", crashes)
		}

		enqueue(t, s, job.New{Kind: "plain"}, job.New{Kind: "plain"})
		var alone, most, plain atomic.Int32
		r = newRig(t, s, Config{Handlers: map[string]Handler{
			"k": func(ctx context.Context, _ *Task) error {
				most.Store(max(most.Load(), alone.Add(1)))
				defer alone.Add(-1)
				return sleep(ctx, 10*time.Second)
			},
			"plain": func(ctx context.Context, _ *Task) error { plain.Add(1); return sleep(ctx, 10*time.Second) },
		}})
		pass(time.Second)
		if plain.Load() != 2 || alone.Load() != 1 {
			t.Errorf("%d plain and %d suspects run, want 2 and 1", plain.Load(), alone.Load())
		}
		// One of those that wait is cancelled, and never begins.
		i := slices.IndexFunc(seqs, func(seq int64) bool { return !jobOf(t, s, seq).Begun })
		if _, err := s.Cancel(t.Context(), time.Time{}, "me", seqs[i]); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		state(t, s, seqs[i], job.Cancelled, "")
		if most.Load() != 1 {
			t.Errorf("%d suspects ran at once, want 1", most.Load())
		}
		if n := len(r.seen(Started)); n != 4 {
			t.Errorf("%d starts, want 2 plain and 2 suspects", n)
		}
	})
}

// TestLostProcess: a process that was taken for dead tells its handlers,
// settles nothing of theirs, and takes part again under a new id.
func TestLostProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		starts := 0
		r := newRig(t, s, Config{Handlers: map[string]Handler{"k": func(ctx context.Context, task *Task) error {
			if starts++; starts > 1 {
				return nil
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), ErrLeaseLost) {
				t.Errorf("cause %v, want ErrLeaseLost", context.Cause(ctx))
			}
			return failure.Fatal(errors.New("must not count"))
		}}})
		seq := r.enqueue(job.New{Kind: "k"})[0]
		pass(time.Second)
		first := r.Process()
		processes, _ := s.Processes(t.Context())
		if _, done, err := s.Reap(t.Context(), time.Time{}, first, processes[0].Beat, r.crashed(processes[0], time.Now())); !done || err != nil {
			t.Fatalf("Reap: %t %v", done, err)
		}
		pass(10 * time.Second)
		if second := r.Process(); second == first || second == 0 {
			t.Errorf("process %d, before %d; want a new one", second, first)
		}
		if j := state(t, s, seq, job.Succeeded, ""); j.History.Crashes != 1 || starts != 2 {
			t.Errorf("%d starts, history %+v", starts, j.History)
		}
		if n := len(r.seen(Lost)); n != 1 {
			t.Errorf("%d lost events, want 1", n)
		}
	})
}

// deaf loses the answers of turns that were done.
type deaf struct {
	store.Store
	mu   sync.Mutex
	lose int
}

func (d *deaf) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	answer, err := d.Store.Turn(ctx, t)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lose > 0 {
		d.lose--
		return store.Turned{}, errCut
	}
	return answer, err
}

// TestLostAnswers: a turn that was done but whose answer was lost leaves
// leases that nobody knows of. They are found, and no start is settled twice.
func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deaf{Store: newStore(), lose: 1}
		starts := map[int64]int{}
		var mu sync.Mutex
		r := newRig(t, d, Config{Handlers: map[string]Handler{"k": func(_ context.Context, task *Task) error {
			mu.Lock()
			defer mu.Unlock()
			if starts[task.Job().Seq]++; starts[task.Job().Seq] == 1 {
				d.mu.Lock()
				d.lose = 1 // the settle's answer
				d.mu.Unlock()
			}
			return nil
		}}})
		seqs := r.enqueue(job.New{Kind: "k"}, job.New{Kind: "k"}, job.New{Kind: "k"})
		pass(time.Minute)
		for _, seq := range seqs {
			if j := state(t, d, seq, job.Succeeded, ""); starts[seq] != 1 || j.History.Starts != 1 {
				t.Errorf("job %d: %d starts, history %+v", seq, starts[seq], j.History)
			}
		}
		if n := len(r.seen(Erred)); n == 0 {
			t.Error("no error was seen: nothing was lost")
		}
	})
}

// picky refuses every turn that carries a result of this text.
type picky struct{ store.Store }

func (p picky) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	for _, s := range t.Settles {
		if string(s.Result) == "too large" {
			return store.Turned{}, errCut
		}
	}
	return p.Store.Turn(ctx, t)
}

// TestOneBadResult: a result that the store does not take holds up its own
// job alone.
func TestOneBadResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		seqs := enqueue(t, s, times(60, job.New{Kind: "k", Policy: "wide"})...)
		newRig(t, picky{s}, Config{Policies: []policy.Policy{wide("wide", nil)}, Handlers: map[string]Handler{"k": func(_ context.Context, task *Task) error {
			if task.Job().Seq == seqs[17] {
				task.SetResult([]byte("too large"))
			}
			return nil
		}}})
		pass(2 * time.Minute)
		for i, seq := range seqs {
			if i != 17 {
				state(t, s, seq, job.Succeeded, "")
			}
		}
		state(t, s, seqs[17], job.Running, "")
	})
}

// TestStoreComesBack: while the store is away nothing is lost; when it is
// back, results are saved and work goes on. No call is made in a tight loop.
func TestStoreComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &cut{Store: newStore()}
		r := newRig(t, s, Config{Lease: time.Minute, Handlers: map[string]Handler{"k": func(ctx context.Context, _ *Task) error { return sleep(ctx, 2*time.Second) }}})
		first := r.enqueue(job.New{Kind: "k"})[0]
		pass(time.Second)
		s.gone.Store(true)
		second := r.enqueue(job.New{Kind: "k"})[0]
		pass(50 * time.Second)
		if n := len(r.seen(Erred)); n < 8 || n > 80 {
			t.Errorf("%d failed calls in 50 s, want some, but no storm", n)
		}
		s.gone.Store(false)
		pass(10 * time.Second)
		for _, seq := range []int64{first, second} {
			if j := state(t, s, seq, job.Succeeded, ""); j.History.Starts != 1 {
				t.Errorf("job %d started %d times", seq, j.History.Starts)
			}
		}
	})
}

// TestProgressResets: progress and checkpoints are stored, count crashes
// anew, and the next start finds the report.
func TestProgressResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		start := 0
		r := newRig(t, s, Config{Handlers: map[string]Handler{"k": func(ctx context.Context, task *Task) error {
			switch start++; start {
			case 1:
				if err := task.Progress(ctx, []byte("7 of 9")); err != nil {
					t.Error(err)
				}
				return failure.New(failure.DiskFull, "", errors.New("x"))
			case 2:
				if err := task.Checkpoint(ctx); err != nil {
					t.Error(err)
				}
			}
			if got := string(task.Job().Progress); got != "7 of 9" {
				t.Errorf("start %d finds %q", start, got)
			}
			return nil
		}}})
		seq := r.enqueue(job.New{Kind: "k"})[0]
		pass(time.Minute)
		j := state(t, s, seq, job.Succeeded, "")
		if j.History.Idle != 0 || j.History.Starts != 2 || string(j.Progress) != "7 of 9" {
			t.Errorf("history %+v progress %q", j.History, j.Progress)
		}
	})
}

// TestProgressBeforeCrash: what the reaper decides on knows of the progress.
func TestProgressBeforeCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		seq := enqueue(t, s, job.New{Kind: "k"})[0]
		other := Config{Handlers: map[string]Handler{"other": func(context.Context, *Task) error { return nil }}}
		for range 6 { // more than the three free crashes in a row
			away := &cut{Store: s}
			r := buildRig(t, away, Config{Handlers: map[string]Handler{"k": func(ctx context.Context, task *Task) error {
				if err := task.Checkpoint(ctx); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
				return nil
			}}})
			r.run()
			pass(time.Second)
			away.gone.Store(true)
			r.stop()
			o := newRig(t, s, other)
			pass(25 * time.Second)
			o.stop()
		}
		if j := state(t, s, seq, job.Queued, ""); j.History.Starts != 6 || j.History.Crashes != 1 {
			t.Errorf("history %+v, want 6 starts and 1 crash since the last progress", j.History)
		}
	})
}
