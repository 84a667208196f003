// Package enginetest is the one suite of every engine.Ops: what the local
// engine answers, any other way to ask must answer too.
package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

// Run asks everything that can be asked. wrap returns the Ops under test,
// which must end up at the given engine.
func Run(t *testing.T, wrap func(t *testing.T, local *engine.Engine) engine.Ops) {
	inMemory := func(_ *testing.T, c clock.Clock) store.Store { return memory.New(memory.Config{Clock: c}) }
	run(t, queueParts, inMemory, wrap)
	run(t, flowParts, inMemory, wrap)
}

// RunFlow asks what concerns flow control over a store of the caller's, which
// open makes empty and the suite closes: what holds work back is told from
// what stores keep, and they must keep it alike.
func RunFlow(t *testing.T, open func(t *testing.T, c clock.Clock) store.Store) {
	run(t, flowParts, open, func(_ *testing.T, local *engine.Engine) engine.Ops { return local })
}

type part struct {
	name  string
	rules []rule
}

var (
	queueParts = []part{{"Enqueue", enqueueRules}, {"Job", jobRules}, {"Why", whyRules}, {"Queue", queueRules}, {"Dead", deadRules}}
	flowParts  = []part{{"Target", targetRules}, {"Probe", probeRules}, {"Limit", limitRules}, {"Key", keyRules}, {"Periodic", periodicRules}}
)

func run(t *testing.T, parts []part, open func(*testing.T, clock.Clock) store.Store, wrap func(*testing.T, *engine.Engine) engine.Ops) {
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			for _, r := range p.rules {
				t.Run(r.name, func(t *testing.T) { r.run(newBench(t, open, wrap)) })
			}
		})
	}
}

// rule is one behaviour with the script that shows it.
type rule struct {
	name string
	run  func(b *bench)
}

// T0 is where the clock of every script begins.
var T0 = time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)

// Actor is whom the audit must name.
const Actor = "maya"

// bench is one Ops over a store that the script can also reach behind its
// back, as workers do.
type bench struct {
	*testing.T
	engine.Ops
	store   store.Store
	clock   *clock.Fake
	ctx     context.Context
	process int64 // of the script's worker; 0 = none yet
}

func newBench(t *testing.T, open func(*testing.T, clock.Clock) store.Store, wrap func(*testing.T, *engine.Engine) engine.Ops) *bench {
	c := clock.NewFake(T0)
	s := open(t, c)
	t.Cleanup(func() { _ = s.Close() })
	return &bench{T: t, Ops: wrap(t, engine.New(s, nil, engine.Config{Clock: c, Actor: Actor})), store: s, clock: c, ctx: t.Context()}
}

// must fails the test on an error.
func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("unexpected error: %v", err)
	}
}

// refused fails the test unless err is the wanted one, in these words.
func (b *bench) refused(err, want error, words string) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Fatalf("got error %v, want %v", err, want)
	}
	if err.Error() != words {
		b.Fatalf("got the words\n%s, want\n%s", err, words)
	}
}

// same fails the test unless both are deeply equal.
func (b *bench) same(what string, got, want any) {
	b.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// add enqueues one job and returns its id.
func (b *bench) add(n engine.NewJob) string {
	b.Helper()
	added, err := b.Enqueue(b.ctx, n)
	b.must(err)
	return added[0].ID
}

// work registers a worker for the kinds in the queues.
func (b *bench) work(queues []string, kinds ...string) {
	b.Helper()
	p, err := b.store.Register(b.ctx, b.clock.Now(), store.Process{Host: "alpha", PID: 4711, Kinds: kinds, Queues: queues, Config: "c0ffee"})
	b.must(err)
	b.process = p.ID
}

// claim takes what a worker of the default queue would take next.
func (b *bench) claim(kinds ...string) job.Job {
	b.Helper()
	turned, err := b.store.Turn(b.ctx, store.Turn{
		Process: b.process, Now: b.clock.Now(), Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: kinds, Limit: 1}},
	})
	b.must(err)
	if len(turned.Claimed) != 1 {
		b.Fatalf("claimed %d jobs, want 1", len(turned.Claimed))
	}
	return turned.Claimed[0]
}

// fail settles a lease as the worker does: by the policy, half-way between
// the ends of its jitter.
func (b *bench) fail(j job.Job, f failure.Failure, fingerprint string) {
	b.Helper()
	p := policy.MustPreset(j.Policy)
	now := b.clock.Now()
	h := j.History.Started(j.LeasedAt)
	d := retry.Decide(&p, h, f, now, 1<<63)
	s := store.Settle{
		Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Failed, Cause: d.Cause, Delay: d.Delay, History: d.Next, Fingerprint: fingerprint,
		Attempt: &job.Attempt{
			Seq: j.Seq, Start: h.Starts, Epoch: j.Epoch, Process: b.process, StartedAt: j.LeasedAt, EndedAt: now,
			Class: f.Class, Reason: f.Reason, Status: f.Status, Action: string(d.Action), Cause: d.Cause, Delay: d.Delay,
			Counted: d.Counted, Rule: d.Rule, Version: d.Version,
		},
	}
	if f.Err != nil {
		s.Attempt.Error = f.Err.Error()
	}
	switch {
	case d.Action.Retries():
		s.To = job.Queued
	case d.Action == policy.Park:
		s.To, s.Config = job.Parked, "c0ffee"
	}
	b.settle(s)
}

// succeed settles a lease as done.
func (b *bench) succeed(j job.Job, result string) {
	b.Helper()
	h := j.History.Started(j.LeasedAt)
	h.Attempts++
	b.settle(store.Settle{
		Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Succeeded, History: h, Result: []byte(result),
		Attempt: &job.Attempt{
			Seq: j.Seq, Start: h.Starts, Epoch: j.Epoch, Process: b.process, StartedAt: j.LeasedAt, EndedAt: b.clock.Now(),
			OK: true, Version: policy.MustPreset(j.Policy).Version,
		},
	})
}

func (b *bench) settle(s store.Settle) {
	b.Helper()
	turned, err := b.store.Turn(b.ctx, store.Turn{Process: b.process, Now: b.clock.Now(), Settles: []store.Settle{s}})
	b.must(err)
	if !turned.Settled[0] {
		b.Fatalf("settle of %s was refused", job.FormatID(s.Seq))
	}
}

// die enqueues a job and lets it fail for good.
func (b *bench) die(n engine.NewJob, f failure.Failure, fingerprint string) string {
	b.Helper()
	id := b.add(n)
	if b.process == 0 {
		b.work([]string{job.DefaultQueue}, n.Kind)
	}
	b.fail(b.claim(n.Kind), f, fingerprint)
	return id
}

func rejected(err string) failure.Failure {
	f := failure.Of(failure.Rejected)
	f.Status, f.Err = 404, errors.New(err)
	return f
}

// encoded returns the value as programs see it.
func (b *bench) encoded(v any) string {
	b.Helper()
	text, err := json.Marshal(v)
	b.must(err)
	return string(text)
}

func ids(list engine.Jobs) []string {
	var all []string
	for _, j := range list.Jobs {
		all = append(all, j.ID)
	}
	return all
}
