package storetest

import (
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// begin asks to begin leases and returns the answers.
func (s *script) begin(now time.Time, process int64, refs ...store.Ref) []bool {
	s.Helper()
	return s.turn(store.Turn{Process: process, Now: now, Begin: refs}).Begun
}

// keep claims a job at t0 and settles it after a second so that its lease
// waits for the delay; it returns the lease as it is then.
func (s *script) keep(process int64, delay time.Duration) job.Job {
	s.Helper()
	j := s.claimOne(t0, process)
	st := kept(j, at(1), delay)
	s.settled(at(1), process, st)
	return waiting(j, st, at(1).Add(delay))
}

var keepRules = []rule{
	{"the start ends, the lease stays under the next epoch", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		seq := s.addN(t0, 1)[0]
		j := s.claimOne(t0, p)
		st := kept(j, at(1), 30*time.Second+time.Nanosecond)
		s.settled(at(1), p, st)
		due := at(31).Add(time.Microsecond)
		s.same("job", plainBytes(s.job(seq)), plainBytes(waiting(j, st, due)))
		want := *st.Attempt
		want.DueAt = due
		s.same("ledger", s.ledger(seq), []job.Attempt{want})
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Running: 1})
		s.same("for others", len(s.claim(at(99), q, 9))+len(s.claim(at(99), p, 9)), 0)
		next, err := s.NextDue(s.ctx, []string{job.DefaultQueue}, []string{"mail"})
		s.must(err)
		s.same("next due", next, time.Time{})
	}},
	{"it begins from its due time on, and not before", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		s.addN(t0, 1)
		j := s.keep(p, 30*time.Second)
		s.same("a microsecond early", s.begin(at(31).Add(-time.Microsecond), p, refOf(j)), []bool{false})
		s.same("a nanosecond early", s.begin(at(31).Add(-time.Nanosecond), p, refOf(j)), []bool{false})
		s.same("another process", s.begin(at(31), q, refOf(j)), []bool{false})
		s.same("the epoch before", s.begin(at(31), p, store.Ref{Seq: j.Seq, Epoch: j.Epoch - 1}), []bool{false})
		s.same("job", plainBytes(s.job(j.Seq)), plainBytes(j))
		s.same("on time", s.begin(at(31), p, refOf(j)), []bool{true})
		s.same("asked again", s.begin(at(32), p, refOf(j)), []bool{true})
		j.Begun, j.LeasedAt = true, at(31)
		s.same("begun", plainBytes(s.job(j.Seq)), plainBytes(j))
	}},
	{"the ledger goes on: each start is a row under its own epoch", func(s *script) {
		p := s.process(t0)
		s.addN(t0, 1)
		j := s.keep(p, 10*time.Second)
		first := s.ledger(j.Seq)[0]
		s.begin(at(11), p, refOf(j))
		second := kept(s.job(j.Seq), at(12), 20*time.Second)
		s.settled(at(12), p, second)
		j = s.job(j.Seq)
		s.same("waits again", []any{j.State, j.Begun, j.Epoch, j.DueAt, j.History.Starts, j.History.Attempts}, []any{job.Running, false, int64(3), at(32), 2, 2})
		s.begin(at(32), p, refOf(j))
		s.settled(at(33), p, succeeded(s.job(j.Seq), at(33)))
		want := *second.Attempt
		want.DueAt = at(32)
		ok := job.Attempt{Seq: j.Seq, Start: 3, Epoch: 3, Process: p, StartedAt: at(32), EndedAt: at(33), OK: true}
		s.same("ledger", s.ledger(j.Seq), []job.Attempt{first, want, ok})
		s.inState(job.Succeeded, j.Seq)
	}},
	{"a settle counts once, however late it comes again", func(s *script) {
		p := s.process(t0)
		seq := s.addN(t0, 1)[0]
		j := s.claimOne(t0, p)
		st := kept(j, at(1), time.Second)
		s.same("twice in a batch", s.settle(at(1), p, st, st), []bool{true, false})
		late := func() {
			before := s.job(seq)
			s.same("again", s.settle(at(5), p, st, succeeded(j, at(5))), []bool{false, false})
			ok, err := s.Progress(s.ctx, p, refOf(j), []byte("late"), retry.History{})
			s.must(err)
			s.same("progress", ok, false)
			s.same("job", s.job(seq), before)
			s.same("ledger", len(s.ledger(seq)), 1)
		}
		late()
		s.same("begun", s.begin(at(5), p, store.Ref{Seq: seq, Epoch: 2}), []bool{true})
		late()
	}},
	{"without a delay it begins in the same turn", func(s *script) {
		p := s.process(t0)
		seq := s.addN(t0, 2)[0]
		j := s.claimOne(t0, p)
		answer := s.turn(store.Turn{
			Process: p, Now: at(1), Settles: []store.Settle{kept(j, at(1), 0)}, Begin: []store.Ref{{Seq: seq, Epoch: 2}},
			Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 9}},
		})
		s.same("answers", []any{answer.Settled, answer.Begun, len(answer.Claimed)}, []any{[]bool{true}, []bool{true}, 1})
		got := s.job(seq)
		s.same("job", []any{got.State, got.Begun, got.Epoch, got.LeasedAt}, []any{job.Running, true, int64(2), at(1)})
	}},
	{"it goes back unspent and is due as it was", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		s.addN(t0, 1)
		j := s.keep(p, 30*time.Second)
		s.same("answers", s.turn(store.Turn{Process: p, Now: at(5), Release: []store.Ref{refOf(j), refOf(j)}}).Released, []bool{true, false})
		got := s.job(j.Seq)
		s.same("job", []any{got.State, got.Process, got.DueAt, got.History, got.Epoch, got.LeasedAt}, []any{job.Queued, int64(0), at(31), j.History, j.Epoch, time.Time{}})
		s.same("early", len(s.claim(at(30), q, 9)), 0)
		s.same("on time", s.claimOne(at(31), q).Epoch, j.Epoch+1)
		s.same("ledger", len(s.ledger(j.Seq)), 1)
	}},
	{"a crash while it waits puts it back unspent and due as it was", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		s.addN(t0, 1)
		j := s.keep(p, time.Minute)
		n, ok := s.reap(at(30), p, func(job.Job) store.Settle {
			s.Error("the reaper asked about a start that had ended")
			return store.Settle{To: job.Queued}
		})
		s.same("ended", []any{n, ok}, []any{1, true})
		got := s.job(j.Seq)
		s.same("job", []any{got.State, got.DueAt, got.History, got.Epoch}, []any{job.Queued, at(61), j.History, j.Epoch})
		s.same("ledger", len(s.ledger(j.Seq)), 1)
		s.same("claimed", []int{len(s.claim(at(60), q, 9)), len(s.claim(at(61), q, 9))}, []int{0, 1})
	}},
	{"a crash after it began again is asked about, from that beginning", func(s *script) {
		p := s.process(t0)
		s.addN(t0, 1)
		j := s.keep(p, time.Minute)
		s.begin(at(61), p, refOf(j))
		var asked []job.Job
		s.reap(at(90), p, func(j job.Job) store.Settle {
			asked = append(asked, j)
			st := crashed(at(90))(j)
			st.Keep = true // of a dead process nothing is kept
			return st
		})
		j.Begun, j.LeasedAt = true, at(61)
		s.same("asked", []any{len(asked), plainBytes(asked[0])}, []any{1, plainBytes(j)})
		got := s.job(j.Seq)
		s.same("job", []any{got.State, got.Process, got.DueAt, got.History.Starts}, []any{job.Queued, int64(0), at(90), 2})
		s.same("ledger", len(s.ledger(j.Seq)), 2)
	}},
	{"a cancel order waits with it and ends it", func(s *script) {
		for _, when := range []string{"before", "after"} {
			p := s.process(t0)
			seq := s.addN(t0, 1)[0]
			j := s.claimOne(t0, p)
			cancel := func() {
				state, err := s.Cancel(s.ctx, at(1), "ann", seq)
				s.must(err)
				s.same("left", state, job.Running)
			}
			if when == "before" {
				cancel()
			}
			s.settled(at(1), p, kept(j, at(1), time.Minute))
			if when == "after" {
				cancel()
			}
			ref := store.Ref{Seq: seq, Epoch: 2}
			s.same("orders, cancelled "+when, s.beat(at(2), p), []store.Ref{ref})
			j = s.job(seq)
			s.settled(at(3), p, store.Settle{Ref: ref, To: job.Cancelled, History: j.History})
			s.inState(job.Cancelled, seq)
			s.same("ledger", len(s.ledger(seq)), 1)
			s.same("orders then", len(s.beat(at(4), p)), 0)
		}
	}},
	{"a lease that goes back under a cancel order ends the job", func(s *script) {
		p := s.process(t0)
		s.addN(t0, 1)
		j := s.keep(p, time.Minute)
		_, err := s.Cancel(s.ctx, at(2), "ann", j.Seq)
		s.must(err)
		s.same("released", s.turn(store.Turn{Process: p, Now: at(3), Release: []store.Ref{refOf(j)}}).Released, []bool{true})
		s.inState(job.Cancelled, j.Seq)
	}},
	{"a strict queue stays occupied", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, true))
		seqs := s.addN(t0, 2)
		j := s.keep(p, time.Minute)
		s.same("while it waits", len(s.claim(at(30), q, 9))+len(s.claim(at(99), q, 9))+len(s.claim(at(99), p, 9)), 0)
		s.begin(at(61), p, refOf(j))
		s.same("while it runs", len(s.claim(at(99), q, 9)), 0)
		s.settled(at(99), p, succeeded(s.job(j.Seq), at(99)))
		s.same("then", seqsOf(s.claim(at(99), q, 9)), seqs[1:])
	}},
	{"a process that keeps a lease does not leave", func(s *script) {
		p := s.process(t0)
		s.addN(t0, 1)
		s.keep(p, time.Minute)
		s.must(s.Leave(s.ctx, p))
		_, listed := s.seen(p)
		s.same("listed", listed, true)
	}},
	{"many are kept together", func(s *script) {
		p := s.process(t0)
		seqs := s.addN(t0, 50)
		var settles []store.Settle
		var refs []store.Ref
		for i, j := range s.claim(t0, p, 50) {
			st := again(j, at(1), time.Minute)
			if st.Keep = i%2 == 0; st.Keep {
				refs = append(refs, store.Ref{Seq: j.Seq, Epoch: 2})
			}
			settles = append(settles, st)
		}
		s.settled(at(1), p, settles...)
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Running: 25, job.Queued: 25})
		for _, ok := range s.begin(at(61), p, refs...) {
			s.same("begun", ok, true)
		}
		s.same("the others", len(s.claim(at(61), p, 99)), 25)
		for _, seq := range seqs {
			s.same("epoch", s.job(seq).Epoch, int64(2))
		}
	}},
}
