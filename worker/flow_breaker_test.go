package worker

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// server is a target that can be down, and knows when it was called.
type server struct {
	mu    sync.Mutex
	down  error
	takes time.Duration
	calls []time.Time
}

// heard is the events of a fleet.
type heard struct {
	mu  sync.Mutex
	all []Event
}

func (h *heard) note(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, e)
}

func (h *heard) of(what EventKind) (list []Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.all {
		if e.What == what {
			list = append(list, e)
		}
	}
	return list
}

func (s *server) set(down error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *server) called() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.calls...)
}

func (s *server) handle(ctx context.Context, _ *Task) error {
	s.mu.Lock()
	s.calls = append(s.calls, time.Now())
	down, takes := s.down, s.takes
	s.mu.Unlock()
	if err := sleep(ctx, takes); err != nil {
		return err
	}
	return down
}

// breaking is a policy whose breaker opens after three failures.
func breaking(name string, change func(*policy.Policy)) policy.Policy {
	return calling(name, func(p *policy.Policy) {
		p.Breaker = policy.Breaker{Consecutive: 3, Open: 30 * time.Second, Cap: time.Minute}
		p.PerTarget.Concurrency = 3
		p.MaxHold = time.Hour
		if change != nil {
			change(p)
		}
	})
}

// openFor is how long the n-th opening of the target's breaker lasts.
func openFor(p *policy.Policy, seed uint64, target string, n int) time.Duration {
	c := gate.Of(p)
	s := gate.State{Trips: n - 1, Phase: gate.HalfOpen, Probing: true}
	now := time.Now()
	draw := newBooth(target).draw(seed, &s)
	s, _ = gate.Step(c, s, gate.Done{Failure: failure.Of(failure.Server), Probe: true}, now, draw)
	return s.OpenUntil.Time().Sub(now).Round(time.Microsecond)
}

// TestBreakerAcrossWorkers: three failures open the breaker for all; when its
// time is over exactly one call goes out, whoever makes it; when the target is
// back, few go at once and then all.
func TestBreakerAcrossWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		target := &server{down: errDown, takes: 100 * time.Millisecond}
		p := breaking("b", nil)
		rigs := fleet(t, s, 3, Config{Policies: []policy.Policy{p}, Handlers: map[string]Handler{"k": target.handle}})
		begin := time.Now()
		seqs := enqueue(t, s, times(30, job.New{Kind: "k", Policy: "b", Target: "a"})...)
		pass(20 * time.Second)
		calls := target.called()
		if len(calls) < 3 || len(calls) > 5 { // while the third is on its way, the permits of the others are free
			t.Fatalf("%d calls went out before the breaker opened, want 3 to 5", len(calls))
		}
		before := len(calls)
		g := gateOf(t, s, "a")
		first := openFor(&p, 7, "a", 1)
		if opened := begin.Add(100 * time.Millisecond); g.State.Phase != gate.Open || !g.State.OpenUntil.Time().Equal(opened.Add(first)) {
			t.Errorf("the breaker is %s until %s, want open until %s", g.State.Phase, g.State.OpenUntil.Time(), opened.Add(first))
		}
		noPermits(t, s, "a")

		pass(20 * time.Second) // the first probe has failed
		calls = target.called()
		if calls = calls[before:]; len(calls) != 1 || !calls[0].Equal(begin.Add(100*time.Millisecond+first)) {
			t.Fatalf("calls at %v, want one probe at %s", calls, begin.Add(100*time.Millisecond+first))
		}
		second := openFor(&p, 7, "a", 2)
		probeAt := calls[0].Add(100*time.Millisecond + second)

		target.set(nil)
		pass(2 * time.Minute)
		if calls = target.called()[before:]; !calls[1].Equal(probeAt) {
			t.Errorf("the second probe came at %s, want %s", calls[1], probeAt)
		}
		// One at once after the probe, then two, then all three.
		rows := starts(t, s, seqs)[before+1:]
		for _, at := range []struct{ from, to, most int }{{0, 2, 1}, {2, 4, 2}, {0, len(rows), 3}} {
			if most := mostAtOnce(rows[at.from:at.to]); most > at.most {
				t.Errorf("%d at once in calls %d to %d, want at most %d", most, at.from, at.to, at.most)
			}
		}
		for _, seq := range seqs {
			state(t, s, seq, job.Succeeded, "")
		}
		if probe := rows[0]; probe.Held <= 0 || probe.HeldBy != "breaker" {
			t.Errorf("the probe says that it was held for %s by %q", probe.Held, probe.HeldBy)
		}
		probes, opened, closed := 0, 0, 0
		for _, r := range rigs {
			probes += len(r.seen(Probing))
			opened += len(r.seen(GateOpened))
			closed += len(r.seen(GateClosed))
		}
		if probes != 2 || opened != 2 || closed != 1 {
			t.Errorf("%d probes, %d openings, %d closings; want 2, 2, 1", probes, opened, closed)
		}
		noPermits(t, s, "a")
	})
}

// TestRetryAfterPausesForAll: what one process was told holds in all.
func TestRetryAfterPausesForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		f := failure.Failure{Class: failure.Throttled, RetryAfter: 45 * time.Second, Blame: failure.BlameTarget}
		target := &server{down: &failure.Error{Failure: f}}
		var told heard
		fleet(t, s, 3, Config{
			Observe: told.note,
			Policies: []policy.Policy{breaking("b", func(p *policy.Policy) {
				p.Breaker, p.PerTarget.Concurrency = policy.Breaker{}, 1
			})},
			Handlers: map[string]Handler{"k": target.handle},
		})
		begin := time.Now()
		seqs := enqueue(t, s, times(6, job.New{Kind: "k", Policy: "b", Target: "a"})...)
		pass(10 * time.Second)
		target.set(nil)
		pass(time.Minute)
		calls := target.called()
		for i, at := range calls {
			if at.After(begin) && at.Before(begin.Add(45*time.Second)) {
				t.Errorf("call %d came %s after the target asked for 45s", i, at.Sub(begin))
			}
		}
		if !calls[1].Equal(begin.Add(45 * time.Second)) {
			t.Errorf("the second call came after %s, want 45s", calls[1].Sub(begin))
		}
		for _, seq := range seqs {
			state(t, s, seq, job.Succeeded, "")
		}
		if row := ledger(t, s, seqs[1])[0]; row.Held != 45*time.Second || row.HeldBy != "retry_after" {
			t.Errorf("held for %s by %q, want 45s by retry_after", row.Held, row.HeldBy)
		}
		for _, e := range told.of(Started) {
			if e.Job.Seq == seqs[1] && (e.Held != 45*time.Second || e.HeldBy != "retry_after") {
				t.Errorf("its start was told as held for %s by %q", e.Held, e.HeldBy)
			}
		}
	})
}

// TestRestartKeepsGates: what a gate knows outlives all processes.
func TestRestartKeepsGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		target := &server{down: errDown}
		p := breaking("b", func(p *policy.Policy) {
			p.Budget = policy.Budget{Kind: policy.BudgetTokens, Ratio: 0.1, Floor: 10}
			p.Backoff.Base = time.Second
		})
		c := Config{Policies: []policy.Policy{p}, Handlers: map[string]Handler{"k": target.handle}}
		old := fleet(t, s, 2, c)
		enqueue(t, s, times(10, job.New{Kind: "k", Policy: "b", Target: "a"})...)
		pass(time.Second)
		for _, r := range old {
			r.stop()
		}
		before := gateOf(t, s, "a")
		if before.State.Phase != gate.Open || len(before.Grants) > 0 || before.State.InFlight != 0 {
			t.Fatalf("after the stop the breaker is %s, grants %v, %d in flight", before.State.Phase, before.Grants, before.State.InFlight)
		}
		n := len(target.called())
		fleet(t, s, 2, c)
		pass(20 * time.Second)
		if got := len(target.called()); got != n {
			t.Errorf("%d calls while the breaker is open", got-n)
		}
		after := gateOf(t, s, "a")
		if after.State.OpenUntil != before.State.OpenUntil || after.State.Spent != before.State.Spent {
			t.Errorf("open until %s, spent %d; want as before the restart: %s, %d", after.State.OpenUntil.Time(), after.State.Spent, before.State.OpenUntil.Time(), before.State.Spent)
		}
		pass(15 * time.Second)
		calls := target.called()
		if len(calls) != n+1 || !calls[n].Equal(before.State.OpenUntil.Time()) {
			t.Errorf("calls %v after the restart, want one probe at %s", calls[n:], before.State.OpenUntil.Time())
		}
	})
}

// TestMaxHold: work that its target holds too long is parked within a second of
// its time, with its attempts unspent; it is let out one by one to see, and all
// of it goes when the target is well.
func TestMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		target := &server{down: errDown}
		p := breaking("b", func(p *policy.Policy) { p.MaxHold, p.Attempts = 5*time.Minute, 2 })
		var told heard
		fleet(t, s, 2, Config{Policies: []policy.Policy{p}, Handlers: map[string]Handler{"k": target.handle}, Observe: told.note})
		seqs := enqueue(t, s, times(40, job.New{Kind: "k", Policy: "b", Target: "a"})...)
		pass(5*time.Minute - time.Second)
		queued := 0
		for _, seq := range seqs {
			if j := jobOf(t, s, seq); j.State == job.Queued || j.State == job.Running {
				queued++
			}
		}
		if queued < 25 {
			t.Errorf("%d wait before max_hold is over, want most", queued)
		}
		pass(3 * time.Second)
		held, probes := 0, 0
		for _, seq := range seqs {
			switch j := jobOf(t, s, seq); {
			case j.State == job.Parked && j.Cause == retry.CauseTargetDown && j.History.Starts == 0:
				held++
			case j.State == job.Queued && j.DueAt.After(j.EnqueuedAt) && j.History.Starts == 0:
				probes++ // it was parked, and goes to see
			case j.History.Starts == 0:
				t.Errorf("job %d, which never started, is %s %s", seq, j.State, j.Cause)
			}
		}
		if held < 20 || probes > 1 {
			t.Errorf("%d were held to the end and %d go to see, want most and at most one", held, probes)
		}
		ended := 0
		for _, e := range told.of(Ended) {
			if ended += e.Count; e.To != job.Parked || e.Cause != retry.CauseTargetDown || e.Target != "a" || e.Job.Kind != "k" || e.Job.Queue != job.DefaultQueue {
				t.Errorf("%d ended and are told to be %s (%s), of target %q, kind %q, queue %q", e.Count, e.To, e.Cause, e.Target, e.Job.Kind, e.Job.Queue)
			}
		}
		if ended < held {
			t.Errorf("%d were held to the end, %d were told of", held, ended)
		}
		before := len(target.called())
		pass(10 * time.Minute)
		if n := len(target.called()) - before; n < 9 || n > 21 {
			t.Errorf("%d calls in 10 minutes, want about one a minute", n)
		}
		target.set(nil)
		pass(2 * time.Minute)
		for _, seq := range seqs {
			j := jobOf(t, s, seq)
			if j.State != job.Succeeded && (j.State != job.Failed || j.Cause != retry.CauseExhausted) {
				t.Errorf("job %d is %s %s two minutes after the target is back", seq, j.State, j.Cause)
			}
			if n := j.History.Starts; n > 2 || j.State == job.Failed && n != 2 {
				t.Errorf("job %d is %s after %d starts, want 2 at most, and 2 where it failed", seq, j.State, n)
			}
		}
	})
}

// TestDisabledTarget: a 410 ends all work of its target until an operator says
// otherwise.
func TestDisabledTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		target := &server{down: &failure.Error{Failure: failure.Failure{Class: failure.Gone, Status: 410}}}
		r := newRig(t, s, Config{Handlers: map[string]Handler{"k": target.handle}, Concurrency: 1})
		seqs := enqueue(t, s, times(5, job.New{Kind: "k", Policy: "webhook", Target: "a"})...)
		pass(time.Minute)
		if n := len(target.called()); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
		state(t, s, seqs[0], job.Failed, retry.CauseFatal)
		for _, seq := range seqs[1:] {
			state(t, s, seq, job.Parked, job.Disabled)
		}
		if g := gateOf(t, s, "a"); g.Disabled != "410 by webhook rule classes[0]" || !g.OpenAt.Equal(store.Never) {
			t.Errorf("disabled %q until %s", g.Disabled, g.OpenAt)
		}
		if n := len(r.seen(TargetDisabled)); n != 1 {
			t.Errorf("%d times told that the target is disabled, want once", n)
		}
	})
}

// TestAPauseLongerThanMaxHold: a provider asks for a pause longer than max_hold,
// then is well. Nobody is parked or given up for it.
func TestAPauseLongerThanMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		f := failure.Failure{Class: failure.Throttled, RetryAfter: 700 * time.Second, Blame: failure.BlameTarget}
		target := &server{down: &failure.Error{Failure: f}, takes: time.Second}
		newRig(t, s, Config{Handlers: map[string]Handler{"k": target.handle}})
		if hold := policy.MustPreset("processing").MaxHold; hold >= f.RetryAfter {
			t.Fatalf("max_hold is %s: nothing is tested", hold)
		}
		seqs := enqueue(t, s, times(100, job.New{Kind: "k", Policy: "processing", Target: "model"})...)
		pass(600 * time.Second)
		target.set(nil)
		pass(30 * time.Minute)
		for _, seq := range seqs {
			state(t, s, seq, job.Succeeded, "")
		}
	})
}
