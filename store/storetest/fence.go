package storetest

import (
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

var fenceRules = []rule{
	{"a stale settle is refused row by row, its neighbours are applied", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		seqs := s.addN(t0, 4)
		jobs := s.claim(t0, p, 3)
		other := s.claim(t0, q, 1)[0]
		old, foreign, gone := jobs[1], other, jobs[2]
		old.Epoch--
		gone.Seq = 1 << 40
		answers := s.settle(at(1), p,
			succeeded(jobs[0], at(1)), succeeded(old, at(1)), succeeded(foreign, at(1)), succeeded(gone, at(1)), succeeded(jobs[2], at(1)))
		s.same("answers", answers, []bool{true, false, false, false, true})
		s.inState(job.Succeeded, seqs[0], seqs[2])
		s.inState(job.Running, seqs[1], seqs[3])
		s.same("the refused ones' ledgers", len(s.ledger(seqs[1]))+len(s.ledger(seqs[3])), 0)
	}},
	{"a future epoch is refused too", func(s *script) {
		p := s.process(t0)
		seq := s.addN(t0, 1)[0]
		j := s.claimOne(t0, p)
		j.Epoch++
		s.same("answers", s.settle(t0, p, succeeded(j, t0)), []bool{false})
		s.inState(job.Running, seq)
	}},
	{"a settle counts once, however often it is sent", func(s *script) {
		p := s.process(t0)
		seq := s.addN(t0, 1)[0]
		st := again(s.claimOne(t0, p), t0, 0)
		s.same("twice in a batch", s.settle(t0, p, st, st), []bool{true, false})
		s.same("again", s.settle(at(1), p, st), []bool{false})
		s.claimOne(at(1), p)
		s.same("after the next claim", s.settle(at(2), p, st), []bool{false})
		s.inState(job.Running, seq)
		s.same("ledger", len(s.ledger(seq)), 1)
		s.same("attempts", s.job(seq).History.Attempts, 1)
	}},
	{"a lease named by two settles is ended by the first", func(s *script) {
		p := s.process(t0)
		seq := s.addN(t0, 1)[0]
		j := s.claimOne(t0, p)
		s.same("answers", s.settle(t0, p, ended(j, t0, job.Failed, retry.CauseFatal), succeeded(j, t0)), []bool{true, false})
		s.inState(job.Failed, seq)
	}},
	{"a stale settle changes nothing in any state", func(s *script) {
		p := s.process(t0)
		for _, to := range []struct {
			state job.State
			cause job.Cause
		}{
			{job.Queued, ""}, {job.Succeeded, ""}, {job.Failed, retry.CauseFatal}, {job.Parked, retry.CauseConfig}, {job.Cancelled, ""},
		} {
			seq := s.addN(t0, 1)[0]
			j := s.claimOne(t0, p)
			st := ended(j, t0, to.state, to.cause)
			st.Delay = 1e9 * 3600
			s.settled(t0, p, st)
			before := s.job(seq)
			late := s.turn(store.Turn{
				Process: p, Now: at(1), Settles: []store.Settle{ended(j, at(1), job.Failed, retry.CauseExhausted), succeeded(j, at(1))},
				Begin: []store.Ref{refOf(j)}, Release: []store.Ref{refOf(j)},
			})
			s.same("answers", late, store.Turned{Settled: []bool{false, false}, Begun: []bool{false}, Released: []bool{false}})
			ok, err := s.Progress(s.ctx, p, refOf(j), []byte("late"), retry.History{Starts: 99})
			s.must(err)
			s.same("progress", ok, false)
			s.same("job in "+string(to.state), s.job(seq), before)
			s.same("ledger", len(s.ledger(seq)), 1)
		}
	}},
	{"progress needs the exact lease", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		seq := s.addN(t0, 1)[0]
		j := s.claimOne(t0, p)
		for _, wrong := range []struct {
			process int64
			ref     store.Ref
		}{{q, refOf(j)}, {p, store.Ref{Seq: seq, Epoch: 0}}, {p, store.Ref{Seq: seq, Epoch: 2}}, {p, store.Ref{Seq: seq + 1, Epoch: 1}}, {0, refOf(j)}} {
			ok, err := s.Progress(s.ctx, wrong.process, wrong.ref, []byte("x"), retry.History{Starts: 9})
			s.must(err)
			s.same("applied", ok, false)
		}
		s.same("job", s.job(seq), j)
	}},
	{"begin marks a suspect, again and again", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		j := s.suspect(p)
		s.same("other process", s.turn(store.Turn{Process: q, Now: t0, Begin: []store.Ref{refOf(j)}}).Begun, []bool{false})
		s.same("begun", s.job(j.Seq).Begun, false)
		s.same("answers", s.turn(store.Turn{Process: p, Now: t0, Begin: []store.Ref{refOf(j), {Seq: j.Seq, Epoch: j.Epoch - 1}, refOf(j)}}).Begun, []bool{true, false, true})
		s.same("begun", s.job(j.Seq).Begun, true)
		s.same("asked again", s.turn(store.Turn{Process: p, Now: t0, Begin: []store.Ref{refOf(j)}}).Begun, []bool{true})
	}},
	{"release gives an unbegun lease back as it was", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		j := s.suspect(p)
		ref := refOf(j)
		s.same("other process", s.turn(store.Turn{Process: q, Now: t0, Release: []store.Ref{ref}}).Released, []bool{false})
		s.same("answers", s.turn(store.Turn{Process: p, Now: at(5), Release: []store.Ref{ref, ref}}).Released, []bool{true, false})
		got := s.job(j.Seq)
		s.same("due and history", []any{got.State, got.DueAt, got.History, got.Epoch, got.Process}, []any{job.Queued, j.DueAt, j.History, j.Epoch, int64(0)})
		s.same("ledger", len(s.ledger(j.Seq)), 2)
		s.same("next epoch", s.claimOne(at(5), q).Epoch, j.Epoch+1)
	}},
	{"release gives a begun lease back as it was, too", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		seqs := s.addN(t0, 3)
		j := s.claimOne(at(1), p)
		for _, wrong := range []store.Ref{{Seq: j.Seq, Epoch: j.Epoch - 1}, {Seq: j.Seq, Epoch: j.Epoch + 1}, {Seq: seqs[1], Epoch: 0}} {
			s.same("wrong", s.turn(store.Turn{Process: p, Now: at(2), Release: []store.Ref{wrong}}).Released, []bool{false})
		}
		s.same("other process", s.turn(store.Turn{Process: q, Now: at(2), Release: []store.Ref{refOf(j)}}).Released, []bool{false})
		s.same("job", s.job(j.Seq), j)
		s.same("answers", s.turn(store.Turn{Process: p, Now: at(2), Release: []store.Ref{refOf(j), refOf(j)}}).Released, []bool{true, false})
		want := j
		want.State, want.Process, want.LeasedAt, want.Begun = job.Queued, 0, time.Time{}, false
		s.same("back", plainBytes(s.job(j.Seq)), plainBytes(want))
		s.same("ledger", len(s.ledger(j.Seq)), 0)
		s.same("its place", seqsOf(s.claim(at(2), q, 9)), seqs)
		s.same("late", s.turn(store.Turn{Process: p, Now: at(3), Settles: []store.Settle{succeeded(j, at(3))}, Release: []store.Ref{refOf(j)}}),
			store.Turned{Settled: []bool{false}, Released: []bool{false}})
	}},
	{"begin and release in one turn: it goes back", func(s *script) {
		p := s.process(t0)
		j := s.suspect(p)
		answer := s.turn(store.Turn{Process: p, Now: t0, Begin: []store.Ref{refOf(j)}, Release: []store.Ref{refOf(j)}})
		s.same("answers", answer, store.Turned{Begun: []bool{true}, Released: []bool{true}})
		got := s.job(j.Seq)
		s.same("job", []any{got.State, got.Begun, got.DueAt, got.History}, []any{job.Queued, false, j.DueAt, j.History})
	}},
	{"a turn of an unknown process changes nothing", func(s *script) {
		p := s.process(t0)
		seqs := s.addN(t0, 2)
		j := s.claim(t0, p, 1)[0]
		for _, process := range []int64{0, 1 << 40} {
			_, err := s.Turn(s.ctx, store.Turn{
				Process: process, Now: t0, Settles: []store.Settle{succeeded(j, t0)},
				Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 9}},
			})
			s.refused(err, store.ErrLostProcess)
			_, err = s.Beat(s.ctx, t0, process)
			s.refused(err, store.ErrLostProcess)
		}
		s.inState(job.Running, seqs[0])
		s.inState(job.Queued, seqs[1])
	}},
}

// suspect returns a job, claimed unbegun, that crashed twice.
func (s *script) suspect(process int64) job.Job {
	s.Helper()
	s.addN(t0, 1)
	for n := range store.SuspectCrashes {
		st := again(s.claimOne(t0, process), t0, 0)
		st.History.Crashes = n + 1
		s.settled(t0, process, st)
	}
	return s.claimOne(t0, process)
}
