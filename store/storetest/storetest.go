// Package storetest is the one conformance suite of all stores: what it does
// not state does not exist. Scripts give every call an explicit now, so they
// run as fast as the store answers and read as a timeline.
package storetest

import (
	"context"
	"errors"
	"reflect"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Open returns an empty store that is closed when the test ends.
type Open = func(t *testing.T) store.Store

// Run states every rule of store/DESIGN.md, one subtest a behaviour, each on
// a store of its own.
func Run(t *testing.T, open Open) {
	groups := []struct {
		name  string
		rules []rule
	}{
		{"Enqueue", enqueueRules},
		{"Claim", claimRules},
		{"Settle", settleRules},
		{"Keep", keepRules},
		{"Fence", fenceRules},
		{"Reap", reapRules},
		{"Cancel", cancelRules},
		{"Retry", retryRules},
		{"Park", parkRules},
		{"Redrive", redriveRules},
		{"Audit", auditRules},
		{"Maintain", maintainRules},
		{"Read", readRules},
		{"Concurrent", concurrentRules},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, r := range g.rules {
				t.Run(r.name, func(t *testing.T) {
					defer failOnPanic(t)
					r.run(newScript(t, open))
				})
			}
		})
	}
}

// failOnPanic lets the other rules speak where a script met an answer too
// short to go on with.
func failOnPanic(t *testing.T) {
	t.Helper()
	if p := recover(); p != nil {
		t.Fatalf("the script could not go on: %v\n%s", p, debug.Stack())
	}
}

// rule is one behaviour with the script that shows it.
type rule struct {
	name string
	run  func(s *script)
}

// t0 is where every script begins.
var t0 = time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)

// at returns the instant so many seconds into the script.
func at(seconds float64) time.Time { return t0.Add(time.Duration(seconds * float64(time.Second))) }

// script drives one store and fails its test on every error it did not ask
// for.
type script struct {
	*testing.T
	store.Store
	ctx context.Context
}

func newScript(t *testing.T, open Open) *script {
	return &script{T: t, Store: open(t), ctx: t.Context()}
}

// must fails the test on an error.
func (s *script) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("unexpected error: %v", err)
	}
}

// refused fails the test unless err is the wanted one.
func (s *script) refused(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("got error %v, want %v", err, want)
	}
}

// same fails the test unless both are deeply equal.
func (s *script) same(what string, got, want any) {
	s.Helper()
	if !reflect.DeepEqual(got, want) {
		s.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// add enqueues jobs that are all new and returns their sequence numbers.
func (s *script) add(now time.Time, jobs ...job.New) []int64 {
	s.Helper()
	answers, err := s.Enqueue(s.ctx, now, jobs)
	s.must(err)
	seqs := make([]int64, len(answers))
	for i, a := range answers {
		if a.Existing {
			s.Fatalf("job %d of the batch is not new: %+v", i, a)
		}
		seqs[i] = a.Seq
	}
	return seqs
}

// addN enqueues n plain jobs.
func (s *script) addN(now time.Time, n int) []int64 {
	s.Helper()
	return s.add(now, slices.Repeat([]job.New{plain}, n)...)
}

// plain is a job without any wish.
var plain = job.New{Kind: "mail"}

// process registers a process that handles the kinds, or mail if there are
// none.
func (s *script) process(now time.Time, kinds ...string) int64 {
	s.Helper()
	p, err := s.Register(s.ctx, now, store.Process{Host: "h", PID: 1, Kinds: orMail(kinds), Queues: []string{job.DefaultQueue}})
	s.must(err)
	return p.ID
}

func orMail(kinds []string) []string {
	if len(kinds) == 0 {
		return []string{plain.Kind}
	}
	return kinds
}

// turn takes a turn that must not fail.
func (s *script) turn(t store.Turn) store.Turned {
	s.Helper()
	answer, err := s.Turn(s.ctx, t)
	s.must(err)
	if len(answer.Settled) != len(t.Settles) || len(answer.Begun) != len(t.Begin) || len(answer.Released) != len(t.Release) {
		s.Fatalf("a turn of %d settles, %d begins, %d releases was answered by %d, %d, %d",
			len(t.Settles), len(t.Begin), len(t.Release), len(answer.Settled), len(answer.Begun), len(answer.Released))
	}
	return answer
}

// claim takes up to limit jobs of the kinds (or mail) from the default queue.
func (s *script) claim(now time.Time, process int64, limit int, kinds ...string) []job.Job {
	s.Helper()
	return s.claimFrom(job.DefaultQueue, now, process, limit, kinds...)
}

func (s *script) claimFrom(queue string, now time.Time, process int64, limit int, kinds ...string) []job.Job {
	s.Helper()
	return s.turn(store.Turn{
		Process: process, Now: now,
		Claims: []store.Claim{{Queue: queue, Kinds: orMail(kinds), Limit: limit}},
	}).Claimed
}

// claimOne claims exactly one job.
func (s *script) claimOne(now time.Time, process int64) job.Job {
	s.Helper()
	jobs := s.claim(now, process, 1)
	if len(jobs) != 1 {
		s.Fatalf("claimed %d jobs, want 1", len(jobs))
	}
	return jobs[0]
}

// settle settles and returns the answers.
func (s *script) settle(now time.Time, process int64, settles ...store.Settle) []bool {
	s.Helper()
	return s.turn(store.Turn{Process: process, Now: now, Settles: settles}).Settled
}

// settled settles what must be applied.
func (s *script) settled(now time.Time, process int64, settles ...store.Settle) {
	s.Helper()
	for i, ok := range s.settle(now, process, settles...) {
		if !ok {
			s.Fatalf("settle %d of %+v was refused", i, settles[i].Ref)
		}
	}
}

// woken waits for a wake; the limit is there for stores that never wake.
func (s *script) woken(wakes <-chan struct{}) {
	s.Helper()
	select {
	case _, open := <-wakes:
		if !open {
			s.Fatal("the wakes are closed")
		}
	case <-time.After(30 * time.Second):
		s.Fatal("nobody was woken")
	}
}

// job reads a job that must be there.
func (s *script) job(seq int64) job.Job {
	s.Helper()
	j, err := s.Job(s.ctx, seq)
	s.must(err)
	return j
}

// inState fails the test unless all jobs are in the state.
func (s *script) inState(want job.State, seqs ...int64) {
	s.Helper()
	for _, seq := range seqs {
		if j := s.job(seq); j.State != want {
			s.Fatalf("job %d is %s (cause %q), want %s", seq, j.State, j.Cause, want)
		}
	}
}

func seqsOf(jobs []job.Job) []int64 {
	seqs := make([]int64, len(jobs))
	for i := range jobs {
		seqs[i] = jobs[i].Seq
	}
	return seqs
}

func refOf(j job.Job) store.Ref { return store.Ref{Seq: j.Seq, Epoch: j.Epoch} }

// succeeded settles a claimed job well.
func succeeded(j job.Job, now time.Time) store.Settle {
	h := j.History.Started(j.LeasedAt)
	return store.Settle{
		Ref: refOf(j), To: job.Succeeded, History: h,
		Attempt: &job.Attempt{Seq: j.Seq, Start: h.Starts, Epoch: j.Epoch, Process: j.Process, StartedAt: j.LeasedAt, EndedAt: now, OK: true},
	}
}

// again settles a claimed job to be tried after the delay; it spends an
// attempt.
func again(j job.Job, now time.Time, delay time.Duration) store.Settle {
	s := ended(j, now, job.Queued, retry.CauseNone)
	s.Delay, s.History.LastDelay = delay, delay
	s.Attempt.Action, s.Attempt.Delay = "retry", delay
	return s
}

// kept settles a claimed job as again does, and keeps its lease.
func kept(j job.Job, now time.Time, delay time.Duration) store.Settle {
	st := again(j, now, delay)
	st.Keep = true
	return st
}

// waiting is what a kept lease is after its settle.
func waiting(j job.Job, st store.Settle, due time.Time) job.Job {
	a := st.Attempt
	j.Epoch++
	j.Begun, j.DueAt, j.History = false, due, st.History
	j.LastClass, j.LastError, j.Version, j.Fingerprint = a.Class, a.Error, a.Version, st.Fingerprint
	return j
}

// ended settles a claimed job to the state for the cause, after a failure of
// class server.
func ended(j job.Job, now time.Time, to job.State, cause job.Cause) store.Settle {
	h := j.History.Started(j.LeasedAt)
	h.Attempts++
	return store.Settle{
		Ref: refOf(j), To: to, Cause: cause, History: h, Fingerprint: "f-" + j.Kind,
		Attempt: &job.Attempt{
			Seq: j.Seq, Start: h.Starts, Epoch: j.Epoch, Process: j.Process, StartedAt: j.LeasedAt, EndedAt: now,
			Class: failure.Server, Error: "no answer", Action: "fail", Cause: cause, Counted: retry.CountedAttempt,
			Rule: "builtin/server", Version: "v1",
		},
	}
}

// fail brings a new job to failed(exhausted) and returns it.
func (s *script) fail(now time.Time, process int64, n job.New) int64 {
	s.Helper()
	seq := s.add(now, n)[0]
	queue := n.Queue
	if queue == "" {
		queue = job.DefaultQueue
	}
	for _, j := range s.claimFrom(queue, now, process, 1000, n.Kind) {
		if j.Seq == seq {
			s.settled(now, process, ended(j, now, job.Failed, retry.CauseExhausted))
			return seq
		}
	}
	s.Fatalf("job %d was not claimed", seq)
	return 0
}
