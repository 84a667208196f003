package storetest

import (
	"slices"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// beat moves a process's counter and returns its orders.
func (s *script) beat(now time.Time, process int64) []store.Ref {
	s.Helper()
	orders, err := s.Beat(s.ctx, now, process)
	s.must(err)
	return orders
}

// seen returns the process as it is listed; false if it is not.
func (s *script) seen(process int64) (store.Process, bool) {
	s.Helper()
	list, err := s.Processes(s.ctx)
	s.must(err)
	i := slices.IndexFunc(list, func(p store.Process) bool { return p.ID == process })
	if i < 0 {
		return store.Process{}, false
	}
	return list[i], true
}

// reap ends a process at the beat that is listed.
func (s *script) reap(now time.Time, process int64, decide func(job.Job) store.Settle) (int, bool) {
	s.Helper()
	p, _ := s.seen(process)
	n, ok, err := s.Reap(s.ctx, now, process, p.Beat, decide)
	s.must(err)
	return n, ok
}

// crashed decides as the built-in table does of a first crash: free, at once.
func crashed(now time.Time) func(job.Job) store.Settle {
	return func(j job.Job) store.Settle {
		h := j.History.Started(j.LeasedAt)
		h.Crashes++
		h.Free[failure.Crash]++
		return store.Settle{
			To: job.Queued, History: h, Fingerprint: "crash",
			Attempt: &job.Attempt{
				Seq: j.Seq, Start: h.Starts, Epoch: j.Epoch, Process: j.Process, StartedAt: j.LeasedAt, EndedAt: now,
				Class: failure.Crash, Error: "process died", Action: "retry", Counted: retry.CountedFree, Rule: "builtin/crash", Version: "v1",
			},
		}
	}
}

var reapRules = []rule{
	{"a process is listed as it registered", func(s *script) {
		p, err := s.Register(s.ctx, t0, store.Process{
			Host: "host-1", PID: 42, Kinds: []string{"a", "b"}, Queues: []string{"q", "r"}, Config: "c1", Version: "1.2.3", Identity: "host-1/7",
		})
		s.must(err)
		q := s.process(at(1))
		if p.ID == 0 || q <= p.ID {
			s.Fatalf("ids %d and %d: want numbers that rise", p.ID, q)
		}
		s.same("answer", p, store.Process{
			ID: p.ID, Host: "host-1", PID: 42, Kinds: []string{"a", "b"}, Queues: []string{"q", "r"}, Config: "c1", Version: "1.2.3", Identity: "host-1/7",
			Beat: p.Beat, SeenAt: t0, BornAt: t0,
		})
		listed, _ := s.seen(p.ID)
		s.same("listed", listed, p)
	}},
	{"a beat moves the counter and the time", func(s *script) {
		p := s.process(t0)
		before, _ := s.seen(p)
		s.same("orders", len(s.beat(at(5), p)), 0)
		after, _ := s.seen(p)
		if after.Beat <= before.Beat || !after.SeenAt.Equal(at(5)) || !after.BornAt.Equal(t0) {
			s.Fatalf("from %+v to %+v", before, after)
		}
	}},
	{"begun leases are settled as decided, unbegun ones go back", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		suspect := s.suspect(p)
		seq := s.addN(t0, 1)[0]
		j := s.claimOne(at(1), p)
		var asked []job.Job
		n, ok := s.reap(at(30), p, func(j job.Job) store.Settle {
			asked = append(asked, j)
			st := crashed(at(30))(j)
			st.Delay = 10 * time.Second
			return st
		})
		s.same("leases ended", []any{n, ok}, []any{2, true})
		s.same("asked for", asked, []job.Job{j})
		got := s.job(seq)
		s.same("settled", []any{got.State, got.DueAt, got.History.Crashes, got.History.Starts, got.LastClass}, []any{job.Queued, at(40), 1, 1, failure.Crash})
		want := *crashed(at(30))(j).Attempt
		want.DueAt = at(40)
		s.same("ledger", s.ledger(seq), []job.Attempt{want})
		back := s.job(suspect.Seq)
		s.same("unbegun", []any{back.State, back.DueAt, back.History, back.Epoch}, []any{job.Queued, suspect.DueAt, suspect.History, suspect.Epoch})
		s.same("its ledger", len(s.ledger(suspect.Seq)), 2)
		s.same("claimable", seqsOf(s.claim(at(30), q, 9)), []int64{suspect.Seq})
	}},
	{"a begun suspect is asked for", func(s *script) {
		p := s.process(t0)
		j := s.suspect(p)
		s.turn(store.Turn{Process: p, Now: t0, Begin: []store.Ref{refOf(j)}})
		n, _ := s.reap(at(30), p, func(j job.Job) store.Settle {
			return ended(j, at(30), job.Failed, retry.CausePoison)
		})
		s.same("leases ended", n, 1)
		s.inState(job.Failed, j.Seq)
	}},
	{"a beat that moved saves the process", func(s *script) {
		p := s.process(t0)
		seq := s.addN(t0, 1)[0]
		s.claimOne(t0, p)
		before, _ := s.seen(p)
		s.beat(at(1), p)
		n, ok, err := s.Reap(s.ctx, at(30), p, before.Beat, crashed(at(30)))
		s.must(err)
		s.same("reaped", []any{n, ok}, []any{0, false})
		s.inState(job.Running, seq)
		if _, listed := s.seen(p); !listed {
			s.Fatal("the process is gone")
		}
	}},
	{"of two reapers one is first", func(s *script) {
		p := s.process(t0)
		s.addN(t0, 2)
		s.claim(t0, p, 2)
		seen, _ := s.seen(p)
		n, ok := s.reap(at(30), p, crashed(at(30)))
		s.same("first", []any{n, ok}, []any{2, true})
		n, ok, err := s.Reap(s.ctx, at(30), p, seen.Beat, crashed(at(30)))
		s.must(err)
		s.same("second", []any{n, ok}, []any{0, false})
		s.same("never registered", first(s.reap(at(30), 1<<40, crashed(at(30)))), 0)
	}},
	{"a process without leases is removed too", func(s *script) {
		p := s.process(t0)
		n, ok := s.reap(at(30), p, crashed(at(30)))
		s.same("reaped", []any{n, ok}, []any{0, true})
		_, listed := s.seen(p)
		s.same("listed", listed, false)
	}},
	{"other processes' leases are not touched", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		seqs := s.addN(t0, 2)
		s.claimOne(t0, p)
		s.claimOne(t0, q)
		s.reap(at(30), p, crashed(at(30)))
		s.inState(job.Running, seqs[1])
		s.same("its process", s.job(seqs[1]).Process, q)
	}},
	{"the late writes of a reaped process are refused", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		seq := s.addN(t0, 2)[0]
		j := s.claimOne(t0, p)
		s.reap(at(30), p, crashed(at(30)))
		_, err := s.Beat(s.ctx, at(31), p)
		s.refused(err, store.ErrLostProcess)
		before := s.job(seq)
		late := func() {
			_, err = s.Turn(s.ctx, store.Turn{
				Process: p, Now: at(31), Settles: []store.Settle{succeeded(j, at(31))},
				Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 9}},
			})
			s.refused(err, store.ErrLostProcess)
			ok, err := s.Progress(s.ctx, p, refOf(j), []byte("late"), j.History)
			s.must(err)
			s.same("progress", ok, false)
			s.same("job", s.job(seq), before)
		}
		late()
		s.claim(at(31), q, 9) // held by another now
		before = s.job(seq)
		s.same("holder", before.Process, q)
		late()
	}},
	{"an illegal decision reaps nothing", func(s *script) {
		p := s.process(t0)
		seqs := s.addN(t0, 2)
		s.claim(t0, p, 2)
		seen, _ := s.seen(p)
		_, _, err := s.Reap(s.ctx, at(30), p, seen.Beat, func(j job.Job) store.Settle {
			if j.Seq == seqs[0] {
				return crashed(at(30))(j)
			}
			return store.Settle{To: job.Failed}
		})
		s.refused(err, store.ErrState)
		s.inState(job.Running, seqs...)
		_, listed := s.seen(p)
		s.same("listed", listed, true)
	}},
	{"a strict queue's slot is free after the reap", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, true))
		seqs := s.addN(t0, 2)
		s.claimOne(t0, p)
		s.reap(at(30), p, crashed(at(30)))
		// The crashed one is due later now than the one behind it.
		s.same("next", seqsOf(s.claim(at(30), q, 9)), seqs[1:])
	}},
	{"a strict queue's job is the first again after a reap that gives it its place back", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, true))
		seqs := s.addN(t0, 2)
		s.claimOne(t0, p)
		s.reap(at(30), p, func(j job.Job) store.Settle {
			st := crashed(at(30))(j)
			st.DueAt = j.DueAt
			return st
		})
		s.same("next", seqsOf(s.claim(at(30), q, 9)), seqs[:1])
	}},
	{"leave removes a process that holds nothing", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		s.addN(t0, 1)
		j := s.claimOne(t0, q)
		s.must(s.Leave(s.ctx, p))
		s.must(s.Leave(s.ctx, p))
		_, listed := s.seen(p)
		s.same("listed", listed, false)
		_, err := s.Beat(s.ctx, t0, p)
		s.refused(err, store.ErrLostProcess)
		s.must(s.Leave(s.ctx, q))
		_, listed = s.seen(q)
		s.same("one with a lease is listed", listed, true)
		n, ok := s.reap(at(30), q, crashed(at(30)))
		s.same("and can be reaped", []any{n, ok}, []any{1, true})
		s.inState(job.Queued, j.Seq)
	}},
	{"a thousand leases come back in one reap", func(s *script) {
		p, q := s.process(t0), s.process(t0)
		seqs := s.addN(t0, 1000)
		s.same("claimed", len(s.claim(t0, p, 1000)), 1000)
		n, _ := s.reap(at(30), p, crashed(at(30)))
		s.same("ended", n, 1000)
		s.same("claimed again", seqsOf(s.claim(at(30), q, 1000)), seqs)
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Running: 1000})
	}},
	{"zero now is the database's clock", func(s *script) {
		p := s.process(time.Time{})
		s.add(time.Time{}, plain)
		j := s.claimOne(time.Time{}, p)
		s.settled(time.Time{}, p, again(j, j.LeasedAt, time.Hour))
		now, err := s.Now(s.ctx)
		s.must(err)
		got := s.job(j.Seq)
		if wait := got.DueAt.Sub(now); wait > time.Hour || wait < 50*time.Minute {
			s.Fatalf("due in %s", wait)
		}
		s.same("not due", len(s.claim(time.Time{}, p, 1)), 0)
	}},
}

func first[A, B any](a A, _ B) A { return a }
