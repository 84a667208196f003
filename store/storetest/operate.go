package storetest

import (
	"errors"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// cancel cancels and returns the state left behind.
func (s *script) cancel(now time.Time, seq int64) job.State {
	s.Helper()
	state, err := s.Cancel(s.ctx, now, "ann", seq)
	s.must(err)
	return state
}

var cancelRules = []rule{
	{"a queued job is cancelled at once", func(s *script) {
		p := s.process(t0)
		seqs := s.addN(t0, 2)
		s.same("state", s.cancel(at(1), seqs[0]), job.Cancelled)
		j := s.job(seqs[0])
		s.same("job", []any{j.State, j.EndedAt, j.Cause}, []any{job.Cancelled, at(1), retry.CauseNone})
		s.same("claimed", seqsOf(s.claim(at(1), p, 9)), seqs[1:])
	}},
	{"a parked job is cancelled at once", func(s *script) {
		p := s.process(t0)
		seq := s.addN(t0, 1)[0]
		s.settled(t0, p, ended(s.claimOne(t0, p), t0, job.Parked, retry.CauseConfig))
		s.same("state", s.cancel(at(1), seq), job.Cancelled)
		j := s.job(seq)
		s.same("job", []any{j.State, j.EndedAt, j.Cause}, []any{job.Cancelled, at(1), retry.CauseNone})
		s.same("ledger", len(s.ledger(seq)), 1)
	}},
	{"a running job is ordered to stop, by every beat of its process", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		s.addN(t0, 2)
		jobs := s.claim(t0, p, 2)
		s.same("state", s.cancel(at(1), jobs[0].Seq), job.Running)
		s.same("asked again", s.cancel(at(1), jobs[0].Seq), job.Running)
		s.same("other process", len(s.beat(at(2), q)), 0)
		for range 3 { // an answer may be lost
			s.same("orders", s.beat(at(2), p), []store.Ref{refOf(jobs[0])})
		}
		s.settled(at(3), p, ended(jobs[0], at(3), job.Cancelled, retry.CauseNone))
		s.same("orders after the end", len(s.beat(at(4), p)), 0)
		s.inState(job.Cancelled, jobs[0].Seq)
	}},
	{"a running job that succeeds first has succeeded", func(s *script) {
		p := s.process(t0)
		s.addN(t0, 1)
		j := s.claimOne(t0, p)
		s.cancel(at(1), j.Seq)
		s.settled(at(2), p, succeeded(j, at(2)))
		s.inState(job.Succeeded, j.Seq)
		s.same("orders", len(s.beat(at(3), p)), 0)
	}},
	{"a running job that fails first is not tried again", func(s *script) {
		p := s.process(t0)
		s.addN(t0, 1)
		j := s.claimOne(t0, p)
		s.cancel(at(1), j.Seq)
		st := again(j, at(2), time.Minute)
		s.settled(at(2), p, st)
		got := s.job(j.Seq)
		s.same("job", []any{got.State, got.EndedAt, got.History, got.LastError}, []any{job.Cancelled, at(2), st.History, "no answer"})
		want := *st.Attempt
		want.DueAt = time.Time{}
		s.same("ledger", s.ledger(j.Seq), []job.Attempt{want})
		s.same("claimed", len(s.claim(at(999), p, 9)), 0)
	}},
	{"an order survives the death of the process", func(s *script) {
		p := s.process(t0)
		suspect := s.suspect(p)
		s.addN(t0, 1)
		j := s.claimOne(t0, p)
		s.cancel(at(1), j.Seq)
		s.cancel(at(1), suspect.Seq)
		s.reap(at(30), p, crashed(at(30)))
		s.inState(job.Cancelled, j.Seq, suspect.Seq)
		s.same("ledgers", []int{len(s.ledger(j.Seq)), len(s.ledger(suspect.Seq))}, []int{1, 2})
		s.same("end", s.job(suspect.Seq).EndedAt, at(30))
	}},
	{"an order ends a released lease", func(s *script) {
		p := s.process(t0)
		j := s.suspect(p)
		s.cancel(at(1), j.Seq)
		s.same("released", s.turn(store.Turn{Process: p, Now: at(2), Release: []store.Ref{refOf(j)}}).Released, []bool{true})
		s.inState(job.Cancelled, j.Seq)
	}},
	{"an order ends with its lease", func(s *script) {
		p := s.process(t0)
		s.addN(t0, 1)
		j := s.claimOne(t0, p)
		s.cancel(at(1), j.Seq)
		s.settled(at(2), p, ended(j, at(2), job.Failed, retry.CauseFatal))
		s.must(s.Retry(s.ctx, at(3), "ann", j.Seq))
		j = s.claimOne(at(3), p)
		s.same("orders", len(s.beat(at(4), p)), 0)
		s.settled(at(4), p, again(j, at(4), 0))
		s.inState(job.Queued, j.Seq)
	}},
	{"what has ended cannot be cancelled", func(s *script) {
		p := s.process(t0)
		for _, end := range []struct {
			to    job.State
			cause job.Cause
		}{{job.Succeeded, ""}, {job.Failed, retry.CauseFatal}, {job.Cancelled, ""}} {
			seq := s.addN(t0, 1)[0]
			s.settled(t0, p, ended(s.claimOne(t0, p), t0, end.to, end.cause))
			_, err := s.Cancel(s.ctx, t0, "ann", seq)
			s.refused(err, store.ErrState)
			s.inState(end.to, seq)
		}
		_, err := s.Cancel(s.ctx, t0, "ann", 1<<40)
		s.refused(err, store.ErrNotFound)
		rows, err := s.Audit(s.ctx, 10)
		s.must(err)
		s.same("audit rows of refused orders", len(rows), 0)
	}},
	{"a unique key is free after a cancel", func(s *script) {
		u := job.New{Kind: "mail", Unique: "u"}
		s.cancel(t0, s.add(t0, u)[0])
		s.add(t0, u)
	}},
}

var retryRules = []rule{
	{"a waiting job becomes due now and keeps its history", func(s *script) {
		p := s.process(t0)
		seq := s.addN(t0, 1)[0]
		st := again(s.claimOne(t0, p), t0, time.Hour)
		s.settled(t0, p, st)
		s.must(s.Retry(s.ctx, at(5), "ann", seq))
		j := s.job(seq)
		s.same("job", []any{j.State, j.DueAt, j.History}, []any{job.Queued, at(5), st.History})
	}},
	{"a job that is due keeps its place", func(s *script) {
		seqs := s.addN(t0, 2)
		s.must(s.Retry(s.ctx, at(5), "ann", seqs[0]))
		s.same("due", s.job(seqs[0]).DueAt, t0)
	}},
	{"a failed or parked job gets fresh attempts", func(s *script) {
		p := s.process(t0)
		for _, end := range []struct {
			to    job.State
			cause job.Cause
		}{{job.Failed, retry.CausePoison}, {job.Parked, retry.CauseNoProgress}} {
			seq := s.add(t0, job.New{Kind: "mail", Priority: 4, Args: []byte("a"), DeadlineAt: at(1000)})[0]
			j := s.claimOne(t0, p)
			_, err := s.Progress(s.ctx, p, refOf(j), []byte("half"), j.History)
			s.must(err)
			st := ended(j, t0, end.to, end.cause)
			st.History, st.Config = everyField(at(1000)), "c"
			s.settled(t0, p, st)
			s.must(s.Retry(s.ctx, at(5), "ann", seq))
			want := j
			want.State, want.DueAt, want.Process, want.LeasedAt, want.Begun = job.Queued, at(5), 0, time.Time{}, false
			want.History = retry.History{Starts: 7, DeadlineAt: at(1000)}
			want.Progress, want.LastClass, want.LastError, want.Fingerprint, want.Version = []byte("half"), st.Attempt.Class, "no answer", "f-mail", "v1"
			s.same("job", plainBytes(s.job(seq)), plainBytes(want))
			s.same("ledger", len(s.ledger(seq)), 1)
			next := s.claimOne(at(5), p)
			s.same("epoch", next.Epoch, int64(2))
			s.settled(at(5), p, succeeded(next, at(5)))
			s.same("start of the second row", s.ledger(seq)[1].Start, 8)
		}
	}},
	{"a deadline that has passed is cleared", func(s *script) {
		p := s.process(t0)
		seq := s.add(t0, job.New{Kind: "mail", DeadlineAt: at(10)})[0]
		s.settled(t0, p, ended(s.claimOne(t0, p), t0, job.Failed, retry.CauseFatal))
		s.must(s.Retry(s.ctx, at(11), "ann", seq))
		s.same("deadline", s.job(seq).DeadlineAt, time.Time{})
		s.same("claimed", len(s.claim(at(11), p, 1)), 1)
	}},
	{"running and ended jobs refuse", func(s *script) {
		p := s.process(t0)
		seq := s.addN(t0, 1)[0]
		j := s.claimOne(t0, p)
		s.refused(s.Retry(s.ctx, t0, "ann", seq), store.ErrState)
		s.settled(t0, p, succeeded(j, t0))
		s.refused(s.Retry(s.ctx, t0, "ann", seq), store.ErrState)
		seq = s.addN(t0, 1)[0]
		s.cancel(t0, seq)
		s.refused(s.Retry(s.ctx, t0, "ann", seq), store.ErrState)
		s.refused(s.Retry(s.ctx, t0, "ann", 1<<40), store.ErrNotFound)
	}},
	{"a taken unique key refuses", func(s *script) {
		p := s.process(t0)
		u := job.New{Kind: "mail", Unique: "u"}
		seq := s.fail(t0, p, u)
		s.add(t0, u)
		s.refused(s.Retry(s.ctx, t0, "ann", seq), store.ErrState)
		s.inState(job.Failed, seq)
	}},
	{"wakes who waits", func(s *script) {
		p := s.process(t0)
		seq := s.fail(t0, p, plain)
		wakes, err := s.Wakes(s.ctx)
		s.must(err)
		s.must(s.Retry(s.ctx, at(5), "ann", seq))
		s.woken(wakes)
	}},
}

var parkRules = []rule{
	{"a process with another config releases what it knows, in order", func(s *script) {
		p := s.process(t0, "a", "b")
		var parked []int64
		for i, kind := range []string{"a", "b", "a", "a"} {
			parked = append(parked, s.add(t0, job.New{Kind: kind})[0])
			st := ended(s.claim(t0, p, 1, kind)[0], t0, job.Parked, retry.CauseConfig)
			if st.Config = "c1"; i == 3 {
				st.Cause = retry.CauseNoProgress
				st.Attempt.Cause = st.Cause
			}
			s.settled(t0, p, st)
		}
		register := func(now time.Time, config string, kinds ...string) int64 {
			p, err := s.Register(s.ctx, now, store.Process{Kinds: kinds, Config: config})
			s.must(err)
			return p.ID
		}
		register(at(1), "c1", "a", "b")
		s.inState(job.Parked, parked...)
		q := register(at(2), "c2", "a")
		s.inState(job.Parked, parked[1], parked[3])
		got := s.claim(at(2), q, 9, "a", "b")
		s.same("released", seqsOf(got), []int64{parked[0], parked[2]})
		s.same("fresh", []any{got[0].History, got[0].DueAt, got[0].Cause, got[0].Config}, []any{retry.History{Starts: 1}, at(2), retry.CauseNone, ""})
	}},
	{"a redrive of parked jobs releases the group in its order", func(s *script) {
		p := s.process(t0)
		seqs := s.addN(t0, 5)
		for _, j := range s.claim(t0, p, 5) {
			s.settled(t0, p, ended(j, t0, job.Parked, retry.CauseNoProgress))
		}
		r := s.redrive(at(1), store.Filter{State: job.Parked, Cause: retry.CauseNoProgress}, 2)
		s.same("moved", r.Moved, int64(5))
		s.same("claimed", seqsOf(s.claim(at(1), p, 9)), seqs)
	}},
}

var auditRules = []rule{
	{"each act leaves a row, newest first", func(s *script) {
		p := s.process(t0)
		seqs := s.addN(t0, 2)
		s.cancel(at(1), seqs[0])
		s.must(s.Retry(s.ctx, at(2), "bob", seqs[1]))
		s.must(s.PauseQueue(s.ctx, at(3), "cyd", "q", true))
		s.must(s.PauseQueue(s.ctx, at(4), "cyd", "q", false))
		s.claimOne(at(4), p)
		s.cancel(at(5), seqs[1])
		_, err := s.StartRedrive(s.ctx, at(6), store.Redrive{Filter: store.Filter{State: job.Failed, Kind: "mail"}, Actor: "dan"})
		s.must(err)
		rows, err := s.Audit(s.ctx, 100)
		s.must(err)
		for i := range rows {
			if rows[i].Act == "dead.redrive" {
				rows[i].What = ""
				continue
			}
			rows[i].Detail = ""
		}
		s.same("rows", rows, []store.AuditRow{
			{At: at(6), Actor: "dan", Act: "dead.redrive", Detail: "failed, kind mail"},
			{At: at(5), Actor: "ann", Act: "job.cancel", What: job.FormatID(seqs[1])},
			{At: at(4), Actor: "cyd", Act: "queue.resume", What: "q"},
			{At: at(3), Actor: "cyd", Act: "queue.pause", What: "q"},
			{At: at(2), Actor: "bob", Act: "job.retry", What: job.FormatID(seqs[1])},
			{At: at(1), Actor: "ann", Act: "job.cancel", What: job.FormatID(seqs[0])},
		})
		rows, err = s.Audit(s.ctx, 2)
		s.must(err)
		s.same("limited", len(rows), 2)
		s.same("newest", rows[0].At, at(6))
	}},
}

// maintain takes steps until nothing is left, and returns what has expired.
func (s *script) maintain(m store.Maintenance) (expired []store.EndCount) {
	s.Helper()
	for range 10_000 {
		done, err := s.Maintain(s.ctx, m)
		s.must(err)
		expired = append(expired, done.Expired...)
		if !done.More {
			return expired
		}
	}
	s.Fatal("maintenance never ends")
	return nil
}

var maintainRules = []rule{
	{"a deadline that passed while queued fails the job as expired", func(s *script) {
		p := s.process(t0)
		seqs := s.add(t0, job.New{Kind: "mail", DeadlineAt: at(10), Unique: "u"}, job.New{Kind: "mail", DeadlineAt: at(11)},
			plain, job.New{Kind: "mail", DeadlineAt: at(10), DueAt: at(50)})
		running := s.add(t0, job.New{Kind: "run", DeadlineAt: at(10)})[0]
		s.claim(t0, p, 1, "run")
		s.maintain(store.Maintenance{Now: at(10), Limit: 100})
		s.inState(job.Queued, seqs...)
		s.same("counted", s.maintain(store.Maintenance{Now: at(11), Limit: 100}), []store.EndCount{{
			To: job.Failed, Cause: retry.CauseExpired, Kind: "mail", Queue: job.DefaultQueue, Policy: policy.DefaultName, Untried: true, Count: 2,
		}})
		s.inState(job.Failed, seqs[0], seqs[3])
		s.inState(job.Queued, seqs[1], seqs[2])
		s.inState(job.Running, running)
		j := s.job(seqs[0])
		s.same("job", []any{j.Cause, j.EndedAt, j.History.Starts, len(s.ledger(j.Seq))}, []any{retry.CauseExpired, at(11), 0, 0})
		s.add(at(11), job.New{Kind: "mail", Unique: "u"})
	}},
	{"retention ends what was kept long enough, and its ledger", func(s *script) {
		p := s.process(t0)
		ok, cancelled := s.addN(t0, 1)[0], int64(0)
		j := s.claimOne(t0, p)
		s.settled(t0, p, again(j, t0, 0))
		s.settled(t0, p, succeeded(s.claimOne(t0, p), t0))
		cancelled = s.addN(t0, 1)[0]
		s.cancel(t0, cancelled)
		dead := s.fail(t0, p, plain)
		waiting := s.addN(t0, 1)[0]
		s.settled(t0, p, ended(s.claimOne(t0, p), t0, job.Parked, retry.CauseConfig))

		s.maintain(store.Maintenance{Now: at(1e6), Limit: 100}) // 0 = for ever
		s.inState(job.Succeeded, ok)
		keep := store.Maintenance{SucceededKept: time.Minute, FailedKept: time.Hour, Limit: 100}
		keep.Now = at(59)
		s.maintain(keep)
		s.inState(job.Succeeded, ok)
		s.inState(job.Cancelled, cancelled)
		keep.Now = at(61)
		s.maintain(keep)
		s.gone(ok, cancelled)
		s.inState(job.Failed, dead)
		keep.Now = at(3599)
		s.maintain(keep)
		s.inState(job.Failed, dead)
		keep.Now = at(3601)
		s.maintain(keep)
		s.gone(dead)
		s.inState(job.Parked, waiting)
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Parked: 1})
	}},
	{"a step is bounded and says that more is left", func(s *script) {
		var jobs []job.New
		for range 10 {
			jobs = append(jobs, job.New{Kind: "mail", DeadlineAt: at(1)})
		}
		s.add(t0, jobs...)
		done, err := s.Maintain(s.ctx, store.Maintenance{Now: at(2), Limit: 3})
		s.must(err)
		s.same("more", done.More, true)
		s.same("failed after one step", s.counts(job.DefaultQueue)[job.Failed], int64(3))
		s.maintain(store.Maintenance{Now: at(2), Limit: 3})
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Failed: 10})
	}},
	{"an expired job can be redriven", func(s *script) {
		p := s.process(t0)
		seq := s.add(t0, job.New{Kind: "mail", DeadlineAt: at(1)})[0]
		s.maintain(store.Maintenance{Now: at(2), Limit: 10})
		s.redrive(at(3), store.Filter{State: job.Failed, Cause: retry.CauseExpired}, 10)
		s.same("claimed", seqsOf(s.claim(at(3), p, 9)), []int64{seq})
	}},
}

// gone fails the test if any of the jobs is still known.
func (s *script) gone(seqs ...int64) {
	s.Helper()
	for _, seq := range seqs {
		if _, err := s.Job(s.ctx, seq); !errors.Is(err, store.ErrNotFound) {
			s.Fatalf("job %d: %v, want it gone", seq, err)
		}
		if list, err := s.Attempts(s.ctx, seq); !errors.Is(err, store.ErrNotFound) {
			s.Fatalf("ledger of job %d: %v, %v, want it gone", seq, list, err)
		}
	}
}
