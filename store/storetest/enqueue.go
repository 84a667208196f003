package storetest

import (
	"bytes"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

var enqueueRules = []rule{
	{"answers in the order of the batch, sequence numbers rising", func(s *script) {
		first := s.addN(t0, 50)
		second := s.addN(t0, 50)
		all := append(slices.Clone(first), second...)
		if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != 100 {
			s.Fatalf("not rising: %v", all)
		}
	}},
	{"an empty batch is no error", func(s *script) {
		answers, err := s.Enqueue(s.ctx, t0, nil)
		s.must(err)
		if len(answers) != 0 {
			s.Fatalf("answered %v", answers)
		}
	}},
	{"defaults are filled", func(s *script) {
		j := s.job(s.add(t0, job.New{Kind: "mail"})[0])
		want := job.Job{Seq: j.Seq, State: job.Queued, EnqueuedAt: t0}
		want.New = job.New{Kind: "mail", Queue: job.DefaultQueue, Policy: policy.DefaultName, DueAt: t0}
		s.same("job", plainBytes(j), want)
	}},
	{"every field comes back", func(s *script) {
		n := job.New{
			Kind: "mail", Queue: "bulk", Target: "https://example.org", Key: "customer-7", Unique: "welcome-7", Policy: "webhook",
			Priority: 9, DueAt: at(60), DeadlineAt: at(3600), Batch: "b1", Args: []byte(`{"to":"ü"}`), Trace: "00-ab-cd-01",
		}
		seq := s.add(t0, n)[0]
		want := job.Job{Seq: seq, New: n, State: job.Queued, EnqueuedAt: t0, History: retry.History{DeadlineAt: at(3600)}}
		s.same("job", plainBytes(s.job(seq)), want)
	}},
	{"instants are cut to microseconds, a due time is rounded up", func(s *script) {
		now := t0.Add(1999 * time.Nanosecond)
		seqs := s.add(now, job.New{Kind: "mail"}, job.New{Kind: "mail", DueAt: now, DeadlineAt: now.Add(time.Hour)})
		micro := t0.Add(time.Microsecond)
		a, b := s.job(seqs[0]), s.job(seqs[1])
		s.same("enqueued at", a.EnqueuedAt, micro)
		s.same("due now", a.DueAt, micro)
		s.same("due as asked", b.DueAt, t0.Add(2*time.Microsecond))
		s.same("deadline", b.DeadlineAt, micro.Add(time.Hour))
	}},
	{"instants come back in UTC", func(s *script) {
		east := time.FixedZone("east", 3600)
		j := s.job(s.add(t0.In(east), job.New{Kind: "mail", DueAt: at(5).In(east)})[0])
		s.same("instants", []time.Time{j.EnqueuedAt, j.DueAt}, []time.Time{t0, at(5)})
	}},
	{"zero now is the database's clock", func(s *script) {
		before, err := s.Now(s.ctx)
		s.must(err)
		j := s.job(s.add(time.Time{}, plain)[0])
		after, err := s.Now(s.ctx)
		s.must(err)
		if j.EnqueuedAt.Before(before) || j.EnqueuedAt.After(after) || !j.DueAt.Equal(j.EnqueuedAt) {
			s.Fatalf("enqueued at %s, due %s; the clock went from %s to %s", j.EnqueuedAt, j.DueAt, before, after)
		}
	}},
	{"arguments are opaque bytes", func(s *script) {
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		for _, args := range [][]byte{nil, {}, {0}, {0xff, 0xfe}, []byte("\x00"), []byte(`\x00`), []byte("'; --"), every, bytes.Repeat(every, 4096)} {
			seq := s.add(t0, job.New{Kind: "mail", Args: args})[0]
			if got := s.job(seq).Args; !bytes.Equal(got, args) {
				s.Fatalf("%d bytes came back as %d: %.40q, want %.40q", len(args), len(got), got, args)
			}
		}
		p := s.process(t0)
		if got := s.claim(t0, p, 100); len(got) != 9 || len(got[8].Args) != 1<<20 {
			s.Fatalf("claimed %d jobs", len(got))
		}
	}},
	{"a bad job refuses the whole batch", func(s *script) {
		bad := map[string]job.New{
			"no kind":         {},
			"low priority":    {Kind: "mail", Priority: -1},
			"high priority":   {Kind: "mail", Priority: job.MaxPriority + 1},
			"invalid utf-8":   {Kind: "mail", Target: "\xff"},
			"a zero byte":     {Kind: "mail", Unique: "a\x00b"},
			"a broken queue":  {Kind: "mail", Queue: "\xc3"},
			"a broken policy": {Kind: "mail", Policy: "\x00"},
		}
		for name, n := range bad {
			if answers, err := s.Enqueue(s.ctx, t0, []job.New{plain, n, plain}); err == nil {
				s.Fatalf("%s: accepted as %v", name, answers)
			}
		}
		s.nothingThere()
	}},
	{"a unique key is given once among living jobs", func(s *script) {
		seq := s.add(t0, job.New{Kind: "mail", Unique: "u"})[0]
		answers, err := s.Enqueue(s.ctx, t0, []job.New{plain, {Kind: "other", Queue: "q", Unique: "u"}, plain})
		s.must(err)
		s.same("the taken one", answers[1], store.Enqueued{Seq: seq, Existing: true})
		if answers[0].Existing || answers[2].Existing || answers[0].Seq >= answers[2].Seq {
			s.Fatalf("neighbours: %+v", answers)
		}
	}},
	{"a unique key is given once within a batch", func(s *script) {
		u, v := job.New{Kind: "mail", Unique: "u"}, job.New{Kind: "mail", Unique: "v"}
		answers, err := s.Enqueue(s.ctx, t0, []job.New{u, v, u, v, u})
		s.must(err)
		a, b := answers[0].Seq, answers[1].Seq
		s.same("answers", answers, []store.Enqueued{{Seq: a}, {Seq: b}, {Seq: a, Existing: true}, {Seq: b, Existing: true}, {Seq: a, Existing: true}})
		s.same("queued", s.counts(job.DefaultQueue)[job.Queued], int64(2))
	}},
	{"a unique key is free after the end, but not while parked", func(s *script) {
		p := s.process(t0)
		u := job.New{Kind: "mail", Unique: "u"}
		for _, end := range []struct {
			to    job.State
			cause job.Cause
		}{{job.Succeeded, ""}, {job.Failed, retry.CauseFatal}, {job.Cancelled, ""}} {
			seq := s.add(t0, u)[0]
			j := s.claimOne(t0, p)
			s.same("while running", s.enqueueOne(t0, u), store.Enqueued{Seq: seq, Existing: true})
			s.settled(t0, p, ended(j, t0, end.to, end.cause))
		}
		seq := s.add(t0, u)[0]
		s.settled(t0, p, ended(s.claimOne(t0, p), t0, job.Parked, retry.CauseConfig))
		s.same("while parked", s.enqueueOne(t0, u), store.Enqueued{Seq: seq, Existing: true})
	}},
	{"a priority and a due time of its own", func(s *script) {
		p := s.process(t0)
		s.add(t0, job.New{Kind: "mail", DueAt: at(10)}, job.New{Kind: "mail", Priority: 9, DueAt: at(-10)})
		s.same("at 0 s", len(s.claim(t0, p, 10)), 1)
		s.same("at 10 s", len(s.claim(at(10), p, 10)), 1)
	}},
	{"a thousand jobs in one batch", func(s *script) {
		seqs := s.addN(t0, 1000)
		p := s.process(t0)
		s.same("claimed", seqsOf(s.claim(t0, p, 2000)), seqs)
	}},
	{"wakes who waits", func(s *script) {
		wakes, err := s.Wakes(s.ctx)
		s.must(err)
		s.addN(t0, 3)
		s.woken(wakes)
	}},
}

// plainBytes makes empty and absent bytes the same.
func plainBytes(j job.Job) job.Job {
	for _, b := range []*[]byte{&j.Args, &j.Progress, &j.Result} {
		if len(*b) == 0 {
			*b = nil
		}
	}
	return j
}

// enqueueOne enqueues one job, new or not.
func (s *script) enqueueOne(now time.Time, n job.New) store.Enqueued {
	s.Helper()
	answers, err := s.Enqueue(s.ctx, now, []job.New{n})
	s.must(err)
	return answers[0]
}

// counts returns the maintained counts of a queue without zeros.
func (s *script) counts(queue string) map[job.State]int64 {
	s.Helper()
	counts := map[job.State]int64{}
	queues, err := s.Queues(s.ctx)
	s.must(err)
	for _, q := range queues {
		if q.Name != queue {
			continue
		}
		for state, n := range q.Counts {
			if n < 0 {
				s.Fatalf("queue %s counts %d %s", queue, n, state)
			}
			if n != 0 {
				counts[state] = n
			}
		}
	}
	return counts
}

// nothingThere fails the test if any job is stored or counted.
func (s *script) nothingThere() {
	s.Helper()
	list, err := s.List(s.ctx, store.Filter{}, store.Page{Limit: 10})
	s.must(err)
	if len(list) != 0 {
		s.Fatalf("found %+v", list)
	}
	if n := s.counts(job.DefaultQueue); len(n) != 0 {
		s.Fatalf("counted %v", n)
	}
}
