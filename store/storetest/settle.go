package storetest

import (
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// everyField is a history in which no field is zero.
func everyField(deadline time.Time) retry.History {
	h := retry.History{
		Starts: 7, Attempts: 3, Waits: 2, Idle: 4, Crashes: 1, FirstStartAt: at(0.000001),
		LastDelay: 1234567891 * time.Nanosecond, DeadlineAt: deadline,
	}
	for i := range h.Free {
		h.Free[i] = uint8(250 - i)
	}
	return h
}

var settleRules = []rule{
	{"to queued: the delay is added to now, rounded up", func(s *script) {
		p := s.process(t0)
		seq := s.addN(t0, 1)[0]
		j := s.claimOne(t0, p)
		s.settled(at(3), p, again(j, at(3), 30*time.Second+time.Nanosecond))
		j = s.job(seq)
		s.same("due", j.DueAt, at(33).Add(time.Microsecond))
		s.same("the rest", []any{j.State, j.Process, j.LeasedAt, j.Begun, j.Epoch, j.EndedAt, j.Cause},
			[]any{job.Queued, int64(0), time.Time{}, false, int64(1), time.Time{}, retry.CauseNone})
		s.same("early", len(s.claim(at(33), p, 1)), 0)
		s.same("epoch of the next lease", s.claimOne(at(33.1), p).Epoch, int64(2))
	}},
	{"to succeeded: result and end", func(s *script) {
		p := s.process(t0)
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, true)) // elsewhere a job with a target waits in its lane
		seq := s.add(t0, job.New{Kind: "mail", Queue: job.DefaultQueue, Target: "x", Batch: "b", Args: []byte("args")})[0]
		j := s.claimOne(at(1), p)
		st := succeeded(j, at(2))
		st.Result = []byte("done\x00\xff")
		s.settled(at(2), p, st)
		got := s.job(seq)
		want := j
		want.State, want.EndedAt, want.Result, want.History = job.Succeeded, at(2), st.Result, st.History
		want.Process, want.LeasedAt, want.Begun = 0, time.Time{}, false
		s.same("job", plainBytes(got), plainBytes(want))
	}},
	{"the first start succeeds, as most do: nothing of its history is lost", func(s *script) {
		p := s.process(t0)
		results := [][]byte{nil, []byte("a result"), nil, []byte("another"), {0, 255}}
		seqs := s.addN(t0, len(results))
		var settles []store.Settle
		for i, j := range s.claim(at(1), p, len(results)) {
			st := succeeded(j, at(2))
			st.History = retry.History{}.Started(st.Attempt.StartedAt)
			st.History.Attempts = 1
			st.Result = results[i]
			settles = append(settles, st)
		}
		s.settled(at(2), p, settles...)
		for i, seq := range seqs {
			s.same("history", s.job(seq).History, settles[i].History)
			s.same("result", string(s.job(seq).Result), string(results[i]))
			list, err := s.Attempts(s.ctx, seq)
			s.same("ledger", []any{len(list), err}, []any{1, error(nil)})
		}
	}},
	{"to failed, parked and cancelled, with every cause", func(s *script) {
		p := s.process(t0)
		for _, tr := range job.Transitions {
			if tr.From != job.Running || tr.To == job.Queued || tr.To == job.Succeeded {
				continue
			}
			causes := tr.Causes
			if len(causes) == 0 {
				causes = []job.Cause{retry.CauseNone}
			}
			for _, cause := range causes {
				seq := s.addN(t0, 1)[0]
				j := s.claimOne(at(1), p)
				st := ended(j, at(2), tr.To, cause)
				st.Config = "c1"
				s.settled(at(2), p, st)
				want := j
				want.State, want.Cause, want.History = tr.To, cause, st.History
				want.Process, want.LeasedAt, want.Begun = 0, time.Time{}, false
				want.LastClass, want.LastError, want.Fingerprint, want.Version = failure.Server, "no answer", "f-mail", "v1"
				if tr.To == job.Parked {
					want.Config = "c1"
				} else {
					want.EndedAt = at(2)
				}
				s.same("job", plainBytes(s.job(seq)), plainBytes(want))
			}
		}
	}},
	{"the history comes back, every field", func(s *script) {
		p := s.process(t0)
		for _, to := range []struct {
			state job.State
			cause job.Cause
		}{
			{job.Queued, ""},
			{job.Succeeded, ""},
			{job.Failed, retry.CausePoison},
			{job.Parked, retry.CauseNoProgress},
			{job.Cancelled, ""},
		} {
			seq := s.add(t0, job.New{Kind: "mail", DeadlineAt: at(1000)})[0]
			st := ended(s.claimOne(t0, p), t0, to.state, to.cause)
			st.History, st.Delay = everyField(at(1000)), 10*time.Minute
			s.settled(t0, p, st)
			s.same("history in "+string(to.state), s.job(seq).History, everyField(at(1000)))
		}
		s.same("claimed again", s.claimOne(at(600), s.process(t0)).History, everyField(at(1000)))
	}},
	{"the deadline is the job's own, whatever the history says", func(s *script) {
		p := s.process(t0)
		seq := s.add(t0, job.New{Kind: "mail", DeadlineAt: at(1000)})[0]
		st := again(s.claimOne(t0, p), t0, 0)
		st.History.DeadlineAt = at(5)
		s.settled(t0, p, st)
		s.same("deadlines", []time.Time{s.job(seq).DeadlineAt, s.job(seq).History.DeadlineAt}, []time.Time{at(1000), at(1000)})
	}},
	{"the last failure is remembered until the next", func(s *script) {
		p := s.process(t0)
		seq := s.addN(t0, 1)[0]
		s.settled(t0, p, again(s.claimOne(t0, p), t0, 0))
		st := again(s.claimOne(t0, p), t0, 0)
		st.Attempt.Class, st.Attempt.Error, st.Attempt.Version, st.Fingerprint = failure.DNS, "no such host", "v2", "f2"
		s.settled(t0, p, st)
		j := s.job(seq)
		s.same("last", []any{j.LastClass, j.LastError, j.Version, j.Fingerprint}, []any{failure.DNS, "no such host", "v2", "f2"})
		s.settled(t0, p, succeeded(s.claimOne(t0, p), t0))
		j = s.job(seq)
		s.same("after success", []any{j.LastClass, j.LastError, j.Version, j.Fingerprint}, []any{failure.DNS, "no such host", "v2", "f2"})
	}},
	{"the ledger has one exact row a start", func(s *script) {
		p := s.process(t0)
		seq := s.addN(t0, 1)[0]
		st := again(s.claimOne(t0, p), at(1), time.Minute)
		*st.Attempt = job.Attempt{
			Seq: seq, Start: 1, Epoch: 1, Process: p, StartedAt: at(0.25), EndedAt: at(0.75),
			Class: failure.Throttled, Reason: "quota", Status: 429, Error: "slow down ü", Stack: "goroutine 1\nmain", RetryAfter: 17 * time.Second,
			Action: "retry", Delay: 60*time.Second + 1, HeldBy: "budget", Held: 3*time.Second + 1,
			Counted: retry.CountedFree, Rule: "classes[0]", Version: "v1",
		}
		want := *st.Attempt
		s.settled(at(1), p, st)
		want.DueAt = at(61)
		s.same("after the first", s.ledger(seq), []job.Attempt{want})

		j := s.claimOne(at(61), p)
		st = succeeded(j, at(62))
		st.Attempt.HeldBy, st.Attempt.Held, st.Attempt.Version = "pause", time.Second, "v2"
		s.settled(at(62), p, st)
		ok := job.Attempt{
			Seq: seq, Start: 2, Epoch: 2, Process: p, StartedAt: at(61), EndedAt: at(62), OK: true,
			HeldBy: "pause", Held: time.Second, Version: "v2",
		}
		s.same("after the second", s.ledger(seq), []job.Attempt{want, ok})
	}},
	{"the ledger's row of every end", func(s *script) {
		p := s.process(t0)
		for _, to := range []struct {
			state job.State
			cause job.Cause
		}{{job.Failed, retry.CauseFatal}, {job.Parked, retry.CauseConfig}, {job.Cancelled, ""}} {
			seq := s.addN(t0, 1)[0]
			st := ended(s.claimOne(t0, p), at(1), to.state, to.cause)
			st.Attempt.DueAt = at(77) // the store knows better: there is no next start
			want := *st.Attempt
			want.DueAt = time.Time{}
			s.settled(at(1), p, st)
			s.same("ledger of "+string(to.state), s.ledger(seq), []job.Attempt{want})
		}
	}},
	{"a job that never began has no row", func(s *script) {
		p := s.process(t0)
		seqs := s.addN(t0, 3)
		jobs := s.claim(t0, p, 3)
		s.settled(t0, p,
			store.Settle{Ref: refOf(jobs[0]), To: job.Queued, History: jobs[0].History},
			store.Settle{Ref: refOf(jobs[1]), To: job.Cancelled, History: jobs[1].History},
			store.Settle{Ref: refOf(jobs[2]), To: job.Parked, Cause: retry.CauseConfig, Config: "c", History: jobs[2].History})
		for _, seq := range seqs {
			s.same("ledger", len(s.ledger(seq)), 0)
		}
		s.same("back at once", seqsOf(s.claim(t0, p, 9)), seqs[:1])
	}},
	{"any text can be settled", func(s *script) {
		p := s.process(t0)
		seq := s.addN(t0, 1)[0]
		st := ended(s.claimOne(t0, p), t0, job.Failed, retry.CauseFatal)
		st.Attempt.Error, st.Attempt.Stack, st.Attempt.Reason, st.Fingerprint = "a\x00b\xff", "\x00", "\xfe", "f\x00"
		s.settled(t0, p, st)
		j, a := s.job(seq), s.ledger(seq)[0]
		s.same("texts", []string{j.LastError, j.Fingerprint, a.Error, a.Stack, a.Reason}, []string{"a\uFFFDb\uFFFD", "f\uFFFD", "a\uFFFDb\uFFFD", "\uFFFD", "\uFFFD"})
	}},
	{"an illegal transition refuses the whole turn", func(s *script) {
		p := s.process(t0)
		seqs := s.addN(t0, 3)
		jobs := s.claim(t0, p, 2)
		for _, bad := range []store.Settle{
			{To: job.Running},
			{To: "gone"},
			{To: job.Succeeded, Cause: retry.CauseFatal},
			{To: job.Queued, Cause: retry.CauseFatal},
			{To: job.Failed},
			{To: job.Failed, Cause: retry.CauseConfig},
			{To: job.Parked, Cause: job.Disabled},
			{To: job.Succeeded, Keep: true},
			{To: job.Failed, Cause: retry.CauseFatal, Keep: true},
			{To: job.Cancelled, Keep: true},
			{To: job.Queued, DueAt: t0, Keep: true},
			{To: job.Queued, DueAt: t0, Delay: time.Second},
			{To: job.Succeeded, DueAt: t0},
		} {
			bad.Ref = refOf(jobs[1])
			_, err := s.Turn(s.ctx, store.Turn{
				Process: p, Now: t0, Settles: []store.Settle{succeeded(jobs[0], t0), bad},
				Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 1}},
			})
			s.refused(err, store.ErrState)
		}
		s.inState(job.Running, seqs[:2]...)
		s.inState(job.Queued, seqs[2])
	}},
	{"settle and claim in one turn: what comes back at once is taken at once", func(s *script) {
		p := s.process(t0)
		seqs := s.addN(t0, 2)
		jobs := s.claim(t0, p, 2)
		answer := s.turn(store.Turn{
			Process: p, Now: at(1), Settles: []store.Settle{again(jobs[0], at(1), 0), succeeded(jobs[1], at(1))},
			Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 9}},
		})
		s.same("claimed", seqsOf(answer.Claimed), seqs[:1])
		s.same("epoch", answer.Claimed[0].Epoch, int64(2))
	}},
	{"a job that is tried again at once may have its place back", func(s *script) {
		p := s.process(t0)
		for _, strict := range []bool{true, false} {
			s.must(s.StrictQueue(s.ctx, job.DefaultQueue, strict))
			seqs := s.addN(at(1), 20)
			for _, now := range []time.Time{at(60), {}} { // by the caller's clock and by the database's
				jobs := s.claim(at(60), p, 1)
				s.same("first", seqsOf(jobs), seqs[:1])
				st := again(jobs[0], at(60), 0)
				st.DueAt = at(1)
				s.settled(now, p, st)
				s.same("due", s.job(seqs[0]).DueAt, at(1))
				rows := s.ledger(seqs[0])
				s.same("due in the ledger", rows[len(rows)-1].DueAt, at(1))
			}
			for i := range seqs {
				j := s.claimOne(at(60), p)
				s.same("in order", j.Seq, seqs[i])
				s.settled(at(60), p, succeeded(j, at(60)))
			}
		}
	}},
	{"progress is kept with its history", func(s *script) {
		p := s.process(t0)
		seq := s.add(t0, job.New{Kind: "mail", DeadlineAt: at(1000)})[0]
		j := s.claimOne(t0, p)
		ok, err := s.Progress(s.ctx, p, refOf(j), []byte("page 3\x00"), everyField(at(1000)))
		s.must(err)
		s.same("applied", ok, true)
		j.Progress, j.History = []byte("page 3\x00"), everyField(at(1000))
		s.same("job", plainBytes(s.job(seq)), plainBytes(j))
		s.settled(t0, p, again(j, t0, 0))
		s.same("the next start knows it", s.claimOne(t0, p).Progress, []byte("page 3\x00"))
	}},
}

// ledger reads a job's attempts.
func (s *script) ledger(seq int64) []job.Attempt {
	s.Helper()
	list, err := s.Attempts(s.ctx, seq)
	s.must(err)
	return list
}
