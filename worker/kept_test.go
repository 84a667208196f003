package worker

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

var errDown = failure.New(failure.Server, "down", nil)

// failing fails the first n starts of every job, each after a second.
func failing(n int) Handler {
	return func(ctx context.Context, task *Task) error {
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
		if task.Start() <= n {
			return errDown
		}
		return nil
	}
}

// line is a strict queue with three crawls in it, staggered by a second.
func line(t *testing.T, s store.Store) []int64 {
	t.Helper()
	if err := s.StrictQueue(t.Context(), "line", true); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	crawl := func(after time.Duration) job.New {
		return job.New{Kind: "crawl", Queue: "line", Policy: "annual-crawl", DueAt: now.Add(after)}
	}
	return enqueue(t, s, crawl(0), crawl(time.Second), crawl(2*time.Second))
}

func crawler(n int) Config {
	return Config{Queues: []string{"line"}, Handlers: map[string]Handler{"crawl": failing(n)}}
}

// TestKeepStrict: the crawls of a strict queue run one after the other, each
// with its restarts, however many processes there are.
func TestKeepStrict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		seqs := line(t, s)
		a := newRig(t, s, crawler(3))
		b := newRig(t, s, crawler(3))
		pass(30 * time.Second)
		j := state(t, s, seqs[0], job.Running, "")
		if want := time.Second + 2*time.Minute; j.Begun || j.DueAt.Sub(j.EnqueuedAt) != want || j.Epoch != 2 || len(ledger(t, s, seqs[0])) != 1 {
			t.Errorf("the first crawl waits as begun %t, epoch %d, due after %s with %d starts; want unbegun, 2, %s, 1",
				j.Begun, j.Epoch, j.DueAt.Sub(j.EnqueuedAt), len(ledger(t, s, seqs[0])), want)
		}
		pass(time.Hour)
		var last time.Time
		for _, seq := range seqs {
			state(t, s, seq, job.Succeeded, "")
			rows := ledger(t, s, seq)
			if len(rows) != 4 {
				t.Fatalf("job %d has %d starts, want 4", seq, len(rows))
			}
			for i, row := range rows {
				if row.StartedAt.Before(last) {
					t.Errorf("job %d: start %d at %s, while another waited or ran until %s", seq, row.Start, row.StartedAt, last)
				}
				if wait := row.StartedAt.Sub(last); i > 0 && wait != 2*time.Minute {
					t.Errorf("job %d: start %d came %s after the last, want 2m", seq, row.Start, wait)
				}
				if row.Process != rows[0].Process || row.Start != i+1 || row.Epoch != int64(i+1) {
					t.Errorf("job %d: row %d is start %d, epoch %d in process %d, want all in %d", seq, i+1, row.Start, row.Epoch, row.Process, rows[0].Process)
				}
				last = row.EndedAt
			}
		}
		if n := len(a.seen(Started)) + len(b.seen(Started)); n != 12 {
			t.Errorf("%d starts, want 12", n)
		}
	})
}

// TestKeepSlots: under scrape five pages are under way at most, those that
// wait for their next try among them, and starts keep their distance.
func TestKeepSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := newRig(t, s, Config{Handlers: map[string]Handler{"page": failing(2)}})
		seqs := r.enqueue(times(12, job.New{Kind: "page", Policy: "scrape"})...)
		pass(10 * time.Minute)
		var last time.Time
		under, most := map[int64]bool{}, 0
		for _, e := range r.seen("") {
			switch {
			case e.What == Started:
				if gap := e.At.Sub(last); !last.IsZero() && gap < 150*time.Millisecond {
					t.Errorf("a start came %s after the last, want 150ms", gap)
				}
				last, under[e.Job.Seq] = e.At, true
				most = max(most, len(under))
			case e.What == Settled && e.To != job.Queued:
				delete(under, e.Job.Seq)
			}
		}
		if most != 5 {
			t.Errorf("%d pages were under way at once, want 5", most)
		}
		for _, seq := range seqs {
			state(t, s, seq, job.Succeeded, "")
			if n := len(ledger(t, s, seq)); n != 3 {
				t.Errorf("job %d has %d starts, want 3", seq, n)
			}
		}
	})
}

// TestKeepFirst: a job that waits in the only slot goes before all others of
// its queue, which have been due for longer.
func TestKeepFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		one := wide("one", func(p *policy.Policy) { p.Concurrency, p.Slot = 1, policy.SlotKeep })
		r := newRig(t, s, Config{Policies: []policy.Policy{one}, Handlers: map[string]Handler{"k": func(_ context.Context, task *Task) error {
			if task.Start() < 3 {
				return failure.Snooze(time.Millisecond)
			}
			return nil
		}}})
		seqs := r.enqueue(times(2, job.New{Kind: "k", Policy: "one"})...)
		pass(time.Minute)
		var order []int64
		for _, e := range r.seen(Started) {
			order = append(order, e.Job.Seq)
		}
		if want := []int64{seqs[0], seqs[0], seqs[0], seqs[1], seqs[1], seqs[1]}; !slices.Equal(order, want) {
			t.Errorf("starts %v, want %v", order, want)
		}
	})
}

// TestKeepCrash: a process that dies while a lease waits spends nothing; the
// next one begins it at its due time.
func TestKeepCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		seqs := line(t, s)
		c := &cut{Store: s}
		first := newRig(t, c, crawler(1))
		pass(10 * time.Second)
		c.gone.Store(true)
		second := newRig(t, s, crawler(1))
		pass(30 * time.Second)
		j := state(t, s, seqs[0], job.Queued, "")
		due := ledger(t, s, seqs[0])[0].DueAt
		if !j.DueAt.Equal(due) || j.History.Starts != 1 || j.History.Crashes != 0 {
			t.Errorf("due %s with %+v, want %s, 1 start and no crash", j.DueAt, j.History, due)
		}
		pass(time.Hour)
		for _, seq := range seqs {
			state(t, s, seq, job.Succeeded, "")
		}
		rows := ledger(t, s, seqs[0])
		if len(rows) != 2 || rows[1].StartedAt.Before(due) || rows[1].Process != second.Process() {
			t.Errorf("ledger %+v, want a second start in process %d from %s on", rows, second.Process(), due)
		}
		if n := len(first.seen(Started)); n != 1 {
			t.Errorf("the dead process made %d starts, want 1", n)
		}
	})
}

// TestKeepCancel: a cancel reaches a lease that waits with the next beat, and
// the next job gets the slot.
func TestKeepCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		seqs := line(t, s)
		r := newRig(t, s, crawler(1))
		pass(10 * time.Second)
		if got, err := s.Cancel(t.Context(), time.Time{}, "me", seqs[0]); got != job.Running || err != nil {
			t.Fatalf("Cancel: %s %v", got, err)
		}
		pass(5 * time.Second) // a beat
		state(t, s, seqs[0], job.Cancelled, "")
		if n := len(ledger(t, s, seqs[0])); n != 1 {
			t.Errorf("%d rows, want that of the start before", n)
		}
		if e := r.seen(Started); len(e) != 2 || e[1].Job.Seq != seqs[1] {
			t.Errorf("starts %+v, want the second crawl's after the first one's", e)
		}
		pass(time.Hour)
		state(t, s, seqs[1], job.Succeeded, "")
		state(t, s, seqs[2], job.Succeeded, "")
	})
}

// TestKeepStop: a process that stops gives back at once what waits, unspent
// and due as it was.
func TestKeepStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		seqs := line(t, s)
		r := buildRig(t, s, crawler(1))
		r.run()
		pass(10 * time.Second)
		j := state(t, s, seqs[0], job.Running, "")
		stopped := time.Now()
		r.Stop()
		if err := <-r.ended; err != nil || time.Since(stopped) != 0 {
			t.Errorf("stopped with %v after %s, want at once", err, time.Since(stopped))
		}
		after := state(t, s, seqs[0], job.Queued, "")
		if !after.DueAt.Equal(j.DueAt) || after.History != j.History {
			t.Errorf("due %s with %+v, want %s and %+v", after.DueAt, after.History, j.DueAt, j.History)
		}
		if list, err := s.Processes(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("processes %v %v, want none", list, err)
		}
	})
}

// muffled does turns that keep a lease and loses the answers of the first few;
// it also answers the first few begins as if they came too early.
type muffled struct {
	store.Store
	mu          sync.Mutex
	lose, early int
}

func (m *muffled) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(t.Begin) > 0 && m.early > 0 {
		m.early--
		begin := t.Begin
		t.Begin = nil
		answer, err := m.Store.Turn(ctx, t)
		answer.Begun = make([]bool, len(begin))
		return answer, err
	}
	answer, err := m.Store.Turn(ctx, t)
	for _, st := range t.Settles {
		if st.Keep && m.lose > 0 {
			m.lose--
			return store.Turned{}, errCut
		}
	}
	return answer, err
}

// TestKeepDeadline: a lease that could not begin before its job's deadline
// goes back, and the job expires.
func TestKeepDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &muffled{Store: newStore(), early: 1000}
		keep := wide("keep", func(p *policy.Policy) { p.Slot = policy.SlotKeep })
		r := newRig(t, m, Config{Policies: []policy.Policy{keep}, Handlers: map[string]Handler{"k": func(context.Context, *Task) error {
			return failure.Snooze(time.Hour)
		}}})
		seq := r.enqueue(job.New{Kind: "k", Policy: "keep", DeadlineAt: time.Now().Add(time.Hour + time.Second)})[0]
		pass(2 * time.Hour)
		if j := state(t, m, seq, job.Failed, retry.CauseExpired); j.History.Starts != 1 {
			t.Errorf("history %+v, want 1 start", j.History)
		}
	})
}

// TestKeepLostAnswer: a lease that was kept without our hearing of it is found
// and begun when it is due; every start counts once.
func TestKeepLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &muffled{Store: newStore(), lose: 2, early: 4}
		seqs := line(t, m)
		r := newRig(t, m, crawler(3))
		pass(time.Hour)
		for _, seq := range seqs {
			j := state(t, m, seq, job.Succeeded, "")
			if rows := ledger(t, m, seq); len(rows) != 4 || j.History.Starts != 4 || j.History.Attempts != 4 {
				t.Errorf("job %d: %d rows, history %+v; want 4 starts", seq, len(rows), j.History)
			}
		}
		if n := len(r.seen(Started)); n != 12 {
			t.Errorf("%d starts, want 12", n)
		}
		if m.lose+m.early > 0 || len(r.seen(Erred)) != 2 {
			t.Errorf("%d answers and %d begins were not lost, %d errors seen", m.lose, m.early, len(r.seen(Erred)))
		}
	})
}

// TestKeepSuspects: two that crashed twice still run one at a time after a
// wait in their slots.
func TestKeepSuspects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var g gauge
		keep := wide("keep", func(p *policy.Policy) { p.Slot = policy.SlotKeep })
		seqs := enqueue(t, s, times(3, job.New{Kind: "k", Policy: "keep"})...)
		for range 2 {
			crash(t, s, Config{Policies: []policy.Policy{keep}})
			r := newRig(t, s, Config{Policies: []policy.Policy{keep}, Handlers: map[string]Handler{"other": g.handler(0)}})
			pass(25 * time.Second)
			r.stop()
		}
		run := g.handler(10 * time.Second)
		newRig(t, s, Config{Policies: []policy.Policy{keep}, Handlers: map[string]Handler{"k": func(ctx context.Context, task *Task) error {
			if err := run(ctx, task); err != nil || task.Start() > 3 {
				return err
			}
			return errDown
		}}})
		pass(time.Hour)
		for _, seq := range seqs {
			state(t, s, seq, job.Succeeded, "")
		}
		if g.most.Load() != 1 || g.total.Load() != 6 {
			t.Errorf("%d at once, %d starts; want 1 and 6", g.most.Load(), g.total.Load())
		}
	})
}
