package storetest

import (
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// redrive carries a redrive out, n jobs a step.
func (s *script) redrive(now time.Time, f store.Filter, n int) store.Redrive {
	s.Helper()
	r, err := s.StartRedrive(s.ctx, now, store.Redrive{Filter: f, Actor: "ann"})
	s.must(err)
	for range 10_000 {
		r, err = s.StepRedrive(s.ctx, now, r.ID, n)
		s.must(err)
		if !r.DoneAt.IsZero() {
			return r
		}
	}
	s.Fatal("the redrive never ends")
	return r
}

// letters makes dead letters that differ in everything a filter looks at.
func (s *script) letters(process int64) []int64 {
	s.Helper()
	var seqs []int64
	for i, l := range []struct {
		n     job.New
		class failure.Class
		print string
		cause job.Cause
	}{
		{job.New{Kind: "a", Queue: "q", Target: "x", Batch: "1"}, failure.Server, "f1", retry.CauseExhausted},
		{job.New{Kind: "a", Queue: "r", Target: "y", Batch: "1"}, failure.DNS, "f2", retry.CauseExhausted},
		{job.New{Kind: "b", Queue: "q", Target: "x", Batch: "2"}, failure.Server, "f1", retry.CauseFatal},
		{job.New{Kind: "a", Queue: "q", Target: "x", Batch: "2"}, failure.Server, "f1", retry.CauseExhausted},
		{job.New{Kind: "a", Queue: "q", Target: "y"}, failure.Crash, "f3", retry.CausePoison},
	} {
		now := at(float64(i * 10))
		s.must(s.StrictQueue(s.ctx, l.n.Queue, true)) // claims do without lanes
		seqs = append(seqs, s.add(now, l.n)[0])
		st := ended(s.claimFrom(l.n.Queue, now, process, 1, l.n.Kind)[0], now, job.Failed, l.cause)
		st.Attempt.Class, st.Fingerprint, st.Attempt.Error = l.class, l.print, "error "+l.print
		s.settled(now, process, st)
	}
	return seqs
}

var redriveRules = []rule{
	{"by every filter, with a dry count first", func(s *script) {
		p := s.process(t0)
		seqs := s.letters(p)
		pick := func(places ...int) []int64 {
			var picked []int64
			for _, i := range places {
				picked = append(picked, seqs[i])
			}
			return picked
		}
		for _, c := range []struct {
			name string
			f    store.Filter
			want []int64
		}{
			{"kind", store.Filter{Kind: "b"}, pick(2)},
			{"queue", store.Filter{Queue: "r"}, pick(1)},
			{"target", store.Filter{Target: "x"}, pick(0, 2, 3)},
			{"batch", store.Filter{Batch: "2"}, pick(2, 3)},
			{"class", store.Filter{Class: failure.Crash}, pick(4)},
			{"fingerprint", store.Filter{Fingerprint: "f1"}, pick(0, 2, 3)},
			{"cause", store.Filter{Cause: retry.CauseExhausted}, pick(0, 1, 3)},
			{"since", store.Filter{Since: at(20)}, pick(2, 3, 4)},
			{"until", store.Filter{Until: at(20)}, pick(0, 1)},
			{"between", store.Filter{Since: at(10), Until: at(40)}, pick(1, 2, 3)},
			{"ids", store.Filter{Seqs: []int64{seqs[4], seqs[1], 1 << 40}}, pick(1, 4)},
			{"all together", store.Filter{Kind: "a", Queue: "q", Target: "x", Class: failure.Server, Fingerprint: "f1", Since: at(1)}, pick(3)},
			{"none", store.Filter{Kind: "a", Target: "z"}, nil},
			{"everything", store.Filter{}, seqs},
		} {
			c.f.State = job.Failed
			n, err := s.Matching(s.ctx, c.f, 100)
			s.must(err)
			s.same(c.name+": dry count", n, len(c.want))
			r := s.redrive(at(100), c.f, 2)
			s.same(c.name+": moved", r.Moved, int64(len(c.want)))
			s.inState(job.Queued, c.want...)
			var failed []int64
			for _, seq := range seqs {
				if s.job(seq).State == job.Failed {
					failed = append(failed, seq)
				}
			}
			s.same(c.name+": left", len(failed), len(seqs)-len(c.want))
			s.failAgain(p, c.want)
		}
	}},
	{"a dry count is bounded", func(s *script) {
		s.letters(s.process(t0))
		n, err := s.Matching(s.ctx, store.Filter{State: job.Failed}, 3)
		s.must(err)
		s.same("counted", n, 3)
	}},
	{"the order is kept: first enqueued, first out", func(s *script) {
		p := s.process(t0)
		seqs := s.addN(t0, 7)
		jobs := s.claim(t0, p, 7)
		for i := range jobs { // they end in the opposite order
			j := jobs[len(jobs)-1-i]
			s.settled(at(float64(i)), p, ended(j, at(float64(i)), job.Failed, retry.CauseFatal))
		}
		s.redrive(at(10), store.Filter{State: job.Failed}, 3)
		s.same("claimed", seqsOf(s.claim(at(10), p, 9)), seqs)
	}},
	{"step by step, resumable, done when nothing is left", func(s *script) {
		p := s.process(t0)
		seqs := s.addN(t0, 5)
		for _, j := range s.claim(t0, p, 5) {
			s.settled(t0, p, ended(j, t0, job.Failed, retry.CauseFatal))
		}
		f := store.Filter{State: job.Failed, Kind: "mail", Seqs: seqs, Until: at(1)}
		r, err := s.StartRedrive(s.ctx, at(1), store.Redrive{Filter: f, Rate: 2.5, Actor: "ann"})
		s.must(err)
		want := store.Redrive{ID: r.ID, Filter: f, Rate: 2.5, Actor: "ann", CreatedAt: at(1)}
		s.same("started", r, want)
		s.inState(job.Failed, seqs...)
		for _, step := range []struct {
			moved int64
			done  time.Time
		}{{2, time.Time{}}, {4, time.Time{}}, {5, at(2)}, {5, at(2)}} {
			list, err := s.Redrives(s.ctx, 10)
			s.must(err)
			s.same("as listed", list, []store.Redrive{want})
			r, err = s.StepRedrive(s.ctx, at(2), r.ID, 2)
			s.must(err)
			want.Moved, want.Cursor, want.DoneAt = step.moved, seqs[step.moved-1], step.done
			s.same("step", r, want)
		}
		s.same("claimed", seqsOf(s.claim(at(2), p, 9)), seqs)
	}},
	{"a step that takes the last is the last", func(s *script) {
		p := s.process(t0)
		s.fail(t0, p, plain)
		s.fail(t0, p, plain)
		r, err := s.StartRedrive(s.ctx, at(1), store.Redrive{Filter: store.Filter{State: job.Failed}})
		s.must(err)
		r, err = s.StepRedrive(s.ctx, at(1), r.ID, 2)
		s.must(err)
		s.same("done", r.DoneAt, at(1))
	}},
	{"a job that fails again is not moved twice", func(s *script) {
		p := s.process(t0)
		a, b := s.fail(t0, p, plain), s.fail(t0, p, plain)
		r, err := s.StartRedrive(s.ctx, at(1), store.Redrive{Filter: store.Filter{State: job.Failed}})
		s.must(err)
		_, err = s.StepRedrive(s.ctx, at(1), r.ID, 1)
		s.must(err)
		s.failAgain(p, []int64{a})
		r, err = s.StepRedrive(s.ctx, at(2), r.ID, 10)
		s.must(err)
		s.same("moved", []any{r.Moved, r.DoneAt}, []any{int64(2), at(2)})
		s.inState(job.Failed, a)
		s.inState(job.Queued, b)
	}},
	{"fresh attempts, same id, kept starts", func(s *script) {
		p := s.process(t0)
		seq := s.fail(t0, p, plain)
		s.redrive(at(1), store.Filter{State: job.Failed}, 10)
		j := s.job(seq)
		s.same("job", []any{j.History, j.DueAt, j.Cause, j.EndedAt}, []any{retry.History{Starts: 1}, at(1), retry.CauseNone, time.Time{}})
	}},
	{"a unique key that was taken leaves the job where it is", func(s *script) {
		p := s.process(t0)
		u := job.New{Kind: "mail", Unique: "u"}
		first, second := s.fail(t0, p, u), s.fail(t0, p, u) // both want u back: the first gets it
		other := s.fail(t0, p, plain)
		r := s.redrive(at(1), store.Filter{State: job.Failed}, 10)
		s.same("moved", r.Moved, int64(2))
		s.inState(job.Queued, first, other)
		s.inState(job.Failed, second)
		r = s.redrive(at(2), store.Filter{State: job.Failed}, 10)
		s.same("moved again", []any{r.Moved, r.DoneAt}, []any{int64(0), at(2)})
		s.inState(job.Failed, second)
	}},
	{"only dead letters and parked jobs", func(s *script) {
		for _, state := range []job.State{"", job.Queued, job.Running, job.Succeeded, job.Cancelled} {
			_, err := s.StartRedrive(s.ctx, t0, store.Redrive{Filter: store.Filter{State: state}})
			s.refused(err, store.ErrState)
			_, err = s.Matching(s.ctx, store.Filter{State: state}, 10)
			s.refused(err, store.ErrState)
		}
		_, err := s.StepRedrive(s.ctx, t0, 1<<40, 10)
		s.refused(err, store.ErrNotFound)
	}},
	{"listed: unfinished oldest first, then the newest done", func(s *script) {
		p := s.process(t0)
		s.fail(t0, p, job.New{Kind: "a"})
		s.fail(t0, p, job.New{Kind: "b"})
		var ids []int64
		for _, kind := range []string{"x", "a", "y", "b"} {
			r, err := s.StartRedrive(s.ctx, t0, store.Redrive{Filter: store.Filter{State: job.Failed, Kind: kind}})
			s.must(err)
			ids = append(ids, r.ID)
		}
		for _, i := range []int{0, 2} {
			_, err := s.StepRedrive(s.ctx, at(float64(i)), ids[i], 10)
			s.must(err)
		}
		list, err := s.Redrives(s.ctx, 3)
		s.must(err)
		var got []int64
		for _, r := range list {
			got = append(got, r.ID)
		}
		s.same("ids", got, []int64{ids[1], ids[3], ids[2]})
	}},
	{"more than ten thousand", func(s *script) {
		p := s.process(t0)
		const n = 10_500
		s.addN(t0, n)
		var settles []store.Settle
		for _, j := range s.claim(t0, p, n) {
			settles = append(settles, ended(j, t0, job.Failed, retry.CauseFatal))
		}
		s.settled(t0, p, settles...)
		r := s.redrive(at(1), store.Filter{State: job.Failed, Kind: "mail"}, 1000)
		s.same("moved", r.Moved, int64(n))
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Queued: n})
	}},
}

// failAgain fails queued jobs as they failed before.
func (s *script) failAgain(process int64, seqs []int64) {
	s.Helper()
	for _, seq := range seqs {
		before := s.job(seq)
		rows := s.ledger(seq)
		last := rows[len(rows)-1]
		s.must(s.Retry(s.ctx, last.EndedAt, "ann", seq))
		claimed := s.claimFrom(before.Queue, at(1e6), process, 1000, before.Kind)
		for _, j := range claimed {
			if j.Seq != seq {
				s.settled(t0, process, store.Settle{Ref: refOf(j), To: job.Queued, History: j.History})
				continue
			}
			st := ended(j, last.EndedAt, job.Failed, last.Cause)
			st.Attempt.Class, st.Fingerprint, st.Attempt.Error = last.Class, before.Fingerprint, last.Error
			s.settled(last.EndedAt, process, st)
		}
	}
}
