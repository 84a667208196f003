package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// list returns the sequence numbers of a list.
func (s *script) list(f store.Filter, page store.Page) []int64 {
	s.Helper()
	jobs, err := s.List(s.ctx, f, page)
	s.must(err)
	for i := range jobs {
		if !f.Matches(&jobs[i]) {
			s.Fatalf("listed but not asked for: %+v", jobs[i])
		}
	}
	return seqsOf(jobs)
}

// oneOfEach brings one job into each state and returns them by state.
func (s *script) oneOfEach(process int64) map[job.State]int64 {
	s.Helper()
	seqs := map[job.State]int64{}
	for _, end := range []struct {
		to    job.State
		cause job.Cause
	}{{job.Succeeded, ""}, {job.Failed, retry.CauseFatal}, {job.Parked, retry.CauseConfig}, {job.Cancelled, ""}} {
		seqs[end.to] = s.addN(t0, 1)[0]
		s.settled(t0, process, ended(s.claimOne(t0, process), t0, end.to, end.cause))
	}
	seqs[job.Running] = s.addN(t0, 1)[0]
	s.claimOne(t0, process)
	seqs[job.Queued] = s.addN(t0, 1)[0]
	return seqs
}

var readRules = []rule{
	{"an unknown job is not found", func(s *script) {
		_, err := s.Job(s.ctx, 1<<40)
		s.refused(err, store.ErrNotFound)
		_, err = s.Attempts(s.ctx, 1<<40)
		s.refused(err, store.ErrNotFound)
		_, err = s.Ahead(s.ctx, t0, 1<<40, 10)
		s.refused(err, store.ErrNotFound)
	}},
	{"a list goes from newest to oldest, over all states", func(s *script) {
		s.oneOfEach(s.process(t0))
		all := s.list(store.Filter{}, store.Page{Limit: 100})
		s.same("length", len(all), 6)
		if !slices.IsSortedFunc(all, func(a, b int64) int { return int(b - a) }) {
			s.Fatalf("not from newest to oldest: %v", all)
		}
		for _, limit := range []int{1, 2, 4, 6} {
			var paged []int64
			for before := int64(0); ; {
				page := s.list(store.Filter{}, store.Page{Before: before, Limit: limit})
				if len(page) == 0 {
					break
				}
				paged = append(paged, page...)
				before = page[len(page)-1]
			}
			s.same("pages", paged, all)
		}
	}},
	{"a list by state", func(s *script) {
		for state, seq := range s.oneOfEach(s.process(t0)) {
			s.same(string(state), s.list(store.Filter{State: state}, store.Page{Limit: 10}), []int64{seq})
		}
	}},
	{"a listed job is whole", func(s *script) {
		for state, seq := range s.oneOfEach(s.process(t0)) {
			jobs, err := s.List(s.ctx, store.Filter{State: state}, store.Page{Limit: 10})
			s.must(err)
			s.same(string(state), plainBytes(jobs[0]), plainBytes(s.job(seq)))
		}
	}},
	{"a list by every filter", func(s *script) {
		p := s.process(t0)
		dead := s.letters(p)
		live := s.add(at(15), job.New{Kind: "a", Queue: "q", Target: "x", Batch: "1"}, job.New{Kind: "c"})
		for _, c := range []struct {
			name string
			f    store.Filter
			want []int64
		}{
			{"kind", store.Filter{Kind: "a"}, []int64{live[0], dead[4], dead[3], dead[1], dead[0]}},
			{"queue", store.Filter{Queue: "r"}, []int64{dead[1]}},
			{"target", store.Filter{Target: "x"}, []int64{live[0], dead[3], dead[2], dead[0]}},
			{"batch", store.Filter{Batch: "1"}, []int64{live[0], dead[1], dead[0]}},
			{"class", store.Filter{Class: failure.DNS}, []int64{dead[1]}},
			{"cause", store.Filter{Cause: retry.CausePoison}, []int64{dead[4]}},
			{"fingerprint", store.Filter{Fingerprint: "f1"}, []int64{dead[3], dead[2], dead[0]}},
			{"since", store.Filter{Since: at(15)}, []int64{live[1], live[0], dead[4], dead[3], dead[2]}},
			{"until", store.Filter{Until: at(15)}, []int64{dead[1], dead[0]}},
			{"ids", store.Filter{Seqs: []int64{dead[0], live[1]}}, []int64{live[1], dead[0]}},
			{"from", store.Filter{From: dead[3]}, []int64{live[1], live[0], dead[4], dead[3]}},
			{"state and kind", store.Filter{State: job.Queued, Kind: "c"}, []int64{live[1]}},
		} {
			s.same(c.name, s.list(c.f, store.Page{Limit: 100}), c.want)
		}
	}},
	{"a list by the text of a key", func(s *script) {
		seqs := s.add(t0, job.New{Kind: "mail", Key: "order-17"}, job.New{Kind: "mail", Unique: "bill-170"}, job.New{Kind: "mail", Key: "ORDER-1%"}, job.New{Kind: "mail"})
		for text, want := range map[string][]int64{"17": {seqs[1], seqs[0]}, "order-": {seqs[0]}, "1%": {seqs[2]}, "_": {}} {
			s.same(text, s.list(store.Filter{Key: text}, store.Page{Limit: 10}), want)
			s.same(text+" of those queued", s.list(store.Filter{Key: text, State: job.Queued}, store.Page{Limit: 10}), want)
		}
	}},
	{"a list in stretches of so many rows loses nothing", func(s *script) {
		p := s.process(t0)
		for range 4 {
			s.oneOfEach(p)
		}
		for _, f := range []store.Filter{{}, {State: job.Failed}, {State: job.Cancelled}, {State: job.Running}, {State: job.Queued, Kind: "mail"}, {Kind: "nobody"}} {
			got := []int64{}
			stretches := 0
			for before := int64(0); ; stretches++ {
				floor, err := s.Floor(s.ctx, f, before, 3)
				s.must(err)
				got = append(got, s.list(f, store.Page{Before: before, From: floor, Limit: 100})...)
				if floor == 0 {
					break
				}
				if before != 0 && floor >= before {
					s.Fatalf("the floor %d is not below %d", floor, before)
				}
				before = floor
			}
			s.same(fmt.Sprintf("%+v", f), got, s.list(f, store.Page{Limit: 100}))
			if stretches == 0 || stretches > 8 {
				s.Fatalf("%+v: %d stretches of 3", f, stretches)
			}
		}
		floor, err := s.Floor(s.ctx, store.Filter{}, 0, 25)
		s.must(err)
		s.same("floor under all", floor, int64(0))
	}},
	{"what ended lately, newest first", func(s *script) {
		p := s.process(t0)
		seqs := s.letters(p) // at 0 s to 40 s
		done := s.add(at(50), job.New{Kind: "mail", Policy: "webhook", DueAt: at(60)})[0]
		s.settled(at(70), p, ended(s.claimOne(at(60), p), at(70), job.Succeeded, ""))
		parked := s.addN(at(70), 1)[0]
		s.settled(at(80), p, ended(s.claimOne(at(70), p), at(80), job.Parked, retry.CauseConfig))
		gone := s.addN(at(80), 1)[0]
		_, err := s.Cancel(s.ctx, at(90), "ann", gone)
		s.must(err)
		all, err := s.Recent(s.ctx, at(20), 10)
		s.must(err)
		want := []store.Ended{
			{Seq: gone, State: job.Cancelled, At: at(90), ReadyAt: at(80), Queue: job.DefaultQueue, Policy: "default"},
			{Seq: done, State: job.Succeeded, At: at(70), ReadyAt: at(60), Queue: job.DefaultQueue, Policy: "webhook", Starts: 1},
			{Seq: seqs[4], State: job.Failed, At: at(40), ReadyAt: at(40), Queue: "q", Policy: "default", Starts: 1},
			{Seq: seqs[3], State: job.Failed, At: at(30), ReadyAt: at(30), Queue: "q", Policy: "default", Starts: 1},
			{Seq: seqs[2], State: job.Failed, At: at(20), ReadyAt: at(20), Queue: "q", Policy: "default", Starts: 1},
		}
		s.same(fmt.Sprintf("recent, without %d", parked), all, want)
		some, err := s.Recent(s.ctx, at(20), 2)
		s.must(err)
		s.same("two", some, want[:2])
	}},
	{"a retried job was ready when it was enqueued", func(s *script) {
		p := s.process(t0)
		s.addN(t0, 1)
		again := ended(s.claimOne(t0, p), t0, job.Queued, "")
		again.Delay = 30 * time.Second
		s.settled(t0, p, again)
		s.settled(at(31), p, ended(s.claimOne(at(30), p), at(31), job.Succeeded, ""))
		all, err := s.Recent(s.ctx, t0, 9)
		s.must(err)
		s.same("ready", []any{len(all), all[0].ReadyAt, all[0].Starts}, []any{1, t0, 2})
	}},
	{"dead letters in groups, most first", func(s *script) {
		s.letters(s.process(t0))
		groups, err := s.Groups(s.ctx, store.Filter{}, 10)
		s.must(err)
		want := []store.Group{
			{Fingerprint: "f1", Kind: "a", Queue: "q", Class: failure.Server, Cause: retry.CauseExhausted, Error: "error f1", Count: 2, FirstAt: t0, LastAt: at(30)},
			{Fingerprint: "f3", Kind: "a", Queue: "q", Class: failure.Crash, Cause: retry.CausePoison, Error: "error f3", Count: 1, FirstAt: at(40), LastAt: at(40)},
			{Fingerprint: "f1", Kind: "b", Queue: "q", Class: failure.Server, Cause: retry.CauseFatal, Error: "error f1", Count: 1, FirstAt: at(20), LastAt: at(20)},
			{Fingerprint: "f2", Kind: "a", Queue: "r", Class: failure.DNS, Cause: retry.CauseExhausted, Error: "error f2", Count: 1, FirstAt: at(10), LastAt: at(10)},
		}
		s.same("all", groups, want)
		groups, err = s.Groups(s.ctx, store.Filter{Queue: "q", Since: at(20)}, 2)
		s.must(err)
		want[0].Count, want[0].FirstAt = 1, at(30)
		s.same("filtered and cut", groups, []store.Group{want[1], want[0]})
		newest, err := s.List(s.ctx, store.Filter{State: job.Failed}, store.Page{Limit: 2})
		s.must(err)
		groups, err = s.Groups(s.ctx, store.Filter{From: newest[1].Seq}, 10)
		s.must(err)
		s.same("of the two newest", groups, []store.Group{want[1], want[0]})
	}},
	{"a group's error is its newest", func(s *script) {
		p := s.process(t0)
		for i, text := range []string{"old", "newest", "older"} {
			now := at([]float64{10, 20, 5}[i])
			s.addN(t0, 1)
			st := ended(s.claimOne(now, p), now, job.Failed, retry.CauseFatal)
			st.Attempt.Error = text
			s.settled(now, p, st)
		}
		groups, err := s.Groups(s.ctx, store.Filter{}, 10)
		s.must(err)
		s.same("group", []any{len(groups), groups[0].Error, groups[0].Count, groups[0].FirstAt, groups[0].LastAt}, []any{1, "newest", int64(3), at(5), at(20)})
	}},
	{"queues by name, with what was declared", func(s *script) {
		s.add(t0, job.New{Kind: "mail", Queue: "b", DueAt: at(7)}, job.New{Kind: "mail", Queue: "a"}, job.New{Kind: "mail", Queue: "b", Priority: 5, DueAt: at(3)})
		s.must(s.PauseQueue(s.ctx, t0, "ann", "b", true))
		s.must(s.StrictQueue(s.ctx, "c", true))
		queues, err := s.Queues(s.ctx)
		s.must(err)
		for i := range queues {
			queues[i].Counts = nil
		}
		want := []store.QueueRule{{Name: "a"}, {Name: "b", Paused: true}, {Name: "c", Strict: true}}
		s.same("queues", queues, []store.QueueState{{QueueRule: want[0], DueAt: t0}, {QueueRule: want[1], DueAt: at(3)}, {QueueRule: want[2]}})
		rules, err := s.QueueRules(s.ctx)
		s.must(err)
		s.same("rules", rules, want)
	}},
	{"counts of every state", func(s *script) {
		s.oneOfEach(s.process(t0))
		want := map[job.State]int64{}
		for _, state := range job.States() {
			want[state] = 1
		}
		s.same("counts", s.counts(job.DefaultQueue), want)
	}},
	{"ahead counts what a claim takes first", func(s *script) {
		seqs := s.add(t0,
			job.New{Kind: "mail", Priority: 5},                // 0: itself
			job.New{Kind: "mail", Priority: 5},                // 1: after it
			job.New{Kind: "other", Priority: 4},               // 2: before it, whatever its kind
			job.New{Kind: "mail", Priority: 6},                // 3: less urgent
			job.New{Kind: "mail", Priority: 5, DueAt: at(-9)}, // 4: due before it
			job.New{Kind: "mail", Priority: 0, DueAt: at(99)}, // 5: not due
			job.New{Kind: "mail", Queue: "q", Priority: 0},    // 6: another queue
		)
		for i, want := range []int{2, 3, 0, 4, 1} {
			n, err := s.Ahead(s.ctx, t0, seqs[i], 10)
			s.must(err)
			s.same("ahead", n, want)
		}
		n, err := s.Ahead(s.ctx, t0, seqs[3], 3)
		s.must(err)
		s.same("cut", n, 3)
		p := s.process(t0)
		s.same("claimed", seqsOf(s.claim(t0, p, 9, "mail", "other")), []int64{seqs[2], seqs[4], seqs[0], seqs[1], seqs[3]})
		n, err = s.Ahead(s.ctx, t0, seqs[0], 10)
		s.must(err)
		s.same("of a running job", n, 0)
	}},
	{"counts equal the truth after anything", func(s *script) {
		for seed := range uint64(3) {
			w := newWalk(s, seed)
			for range 150 {
				w.step()
			}
			for _, queue := range walkQueues {
				s.same("counts of "+queue, s.counts(queue), s.truth(queue))
			}
			s.maintain(store.Maintenance{Now: w.now, Limit: 7})
			for _, queue := range walkQueues {
				s.same("counts of "+queue+" after folding", s.counts(queue), s.truth(queue))
			}
		}
	}},
	{"wakes end with their context", func(s *script) {
		ctx, cancel := context.WithCancel(s.ctx)
		wakes, err := s.Wakes(ctx)
		s.must(err)
		cancel()
		for range wakes { // drained, then closed
		}
	}},
}

// truth counts the jobs of a queue one by one.
func (s *script) truth(queue string) map[job.State]int64 {
	s.Helper()
	counts := map[job.State]int64{}
	jobs, err := s.List(s.ctx, store.Filter{Queue: queue}, store.Page{Limit: 100_000})
	s.must(err)
	for _, j := range jobs {
		counts[j.State]++
	}
	return counts
}
