package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Where jobs wait, and what discovery takes.
var laneRules = []flowRule{
	{"a job with a target waits in its lane and nowhere else", func(s *flowScript) {
		p := s.process(t0)
		n := job.New{Kind: "mail", Target: "x", Priority: 3, DeadlineAt: at(99), Args: []byte("a\x00b"), Trace: "t", Key: "k"}
		seq := s.add(t0, n)[0]
		s.same("a plain claim", len(s.claim(at(1), p, 9)), 0)
		answer := s.lanes(at(2.5), p, everything)
		n.Queue, n.Policy, n.DueAt = job.DefaultQueue, "default", t0
		want := job.Job{
			Seq: seq, New: n, State: job.Running, EnqueuedAt: t0, History: retry.History{DeadlineAt: at(99)},
			Epoch: 1, Process: p, LeasedAt: at(2.5),
		}
		s.same("claimed", plainBytes(answer.Claimed[0]), want)
		s.same("read", plainBytes(s.job(seq)), want)
		s.same("gates", answer.Gates, []store.Gate{{Target: "x", Room: store.NoLimit}})
		s.same("begun", s.begin(at(3), p, refOf(answer.Claimed[0])), []bool{true})
		want.Begun, want.LeasedAt = true, at(3)
		s.same("after the begin", plainBytes(s.job(seq)), want)
	}},
	{"a job without a target is in no lane", func(s *flowScript) {
		p := s.process(t0)
		seq := s.addN(t0, 1)[0]
		s.found("discovery", t0, p)
		s.same("plain", s.claimOne(t0, p).Seq, seq)
	}},
	{"those of lanes follow those of claims", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, to("x"), plain)
		answer := s.turn(store.Turn{
			Process: p, Now: t0, Lanes: []store.LaneClaim{everything},
			Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 5}},
		})
		s.same("claimed", seqsOf(answer.Claimed), []int64{seqs[1], seqs[0]})
		s.same("begun", []bool{answer.Claimed[0].Begun, answer.Claimed[1].Begun}, []bool{true, false})
		s.same("gates", answer.Gates, []store.Gate{{Target: "x", Room: store.NoLimit}})
	}},
	{"only the named queue and the known kinds", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, job.New{Kind: "mail", Queue: "bulk", Target: "x"}, job.New{Kind: "other", Target: "x"}, to("x"))
		s.found("default", t0, p, seqs[2])
		c := everything
		c.Queue = "bulk"
		s.same("bulk", seqsOf(s.lanes(t0, p, c).Claimed), seqs[:1])
		c.Kinds = nil
		s.same("no kinds", len(s.lanes(t0, p, c).Claimed), 0)
	}},
	{"the earliest looks first, ties by name", func(s *flowScript) {
		p := s.process(t0)
		b := s.add(at(1), to("b"))[0]
		d := s.add(at(2), to("d"), to("c"))
		a := s.add(at(3), to("a"))[0]
		s.found("order", at(5), p, b, d[1], d[0], a)
	}},
	{"the lanes that waited longest take turns", func(s *flowScript) {
		p := s.process(t0)
		var jobs []job.New
		for _, target := range []string{"a", "b", "c"} {
			jobs = append(jobs, slices.Repeat([]job.New{to(target)}, 4)...)
		}
		s.add(t0, jobs...)
		c := everything
		c.Lanes, c.Limit = 1, 1
		var order []string
		for i := range 6 {
			now := at(float64(i) * 2)
			for _, j := range s.lanes(now, p, c).Claimed {
				order = append(order, j.Target)
			}
		}
		s.same("order", order, []string{"a", "b", "c", "a", "b", "c"})
	}},
	{"a lane that got nothing because the limit was used up is next", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, to("a"), to("b"), to("c"))
		c := everything
		c.Limit = 2
		s.same("first", seqsOf(s.lanes(t0, p, c).Claimed), seqs[:2])
		s.same("then", seqsOf(s.lanes(t0, p, c).Claimed), seqs[2:])
	}},
	{"equal parts, lane by lane", func(s *flowScript) {
		p := s.process(t0)
		var jobs []job.New
		for _, target := range []string{"c", "a", "c", "a", "b", "c", "a", "c", "a", "c", "a"} {
			jobs = append(jobs, to(target))
		}
		s.add(t0, jobs...)
		for _, want := range []struct {
			limit int
			now   float64
			got   []string
		}{
			{6, 0, []string{"a", "a", "a", "b", "c", "c"}},
			{3, 10, []string{"a", "a", "c"}},
			{9, 20, []string{"c", "c"}},
		} {
			c := everything
			c.Limit = want.limit
			var got []string
			for _, j := range s.lanes(at(want.now), p, c).Claimed {
				got = append(got, j.Target)
			}
			s.same(fmt.Sprint("limit ", want.limit), got, want.got)
		}
	}},
	{"at most so many lanes", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, to("a"), to("b"), to("c"), to("a"))
		c := everything
		c.Lanes = 2
		s.same("two", seqsOf(s.lanes(t0, p, c).Claimed), []int64{seqs[0], seqs[3], seqs[1]})
		c.Lanes = 0
		s.same("none", len(s.lanes(t0, p, c).Claimed), 0)
		c.Lanes, c.Limit = 2, 0
		s.same("a limit of 0", len(s.lanes(t0, p, c).Claimed), 0)
	}},
	{"of each lane at most so many first attempts and retries", func(s *flowScript) {
		p := s.process(t0)
		retries := map[string][]int64{}
		for _, target := range []string{"a", "b"} {
			retries[target] = s.add(t0, to(target), to(target), to(target))
			for _, j := range s.serve(t0, p, target, 3) {
				s.settled(t0, p, again(j, t0, time.Second))
			}
		}
		firsts := map[string][]int64{"a": s.add(at(2), to("a"), to("a"), to("a")), "b": s.add(at(2), to("b"))}
		c := everything
		c.Firsts, c.Retries = 2, 1
		s.same("claimed", seqsOf(s.lanes(at(5), p, c).Claimed),
			[]int64{retries["a"][0], firsts["a"][0], firsts["a"][1], retries["b"][0], firsts["b"][0]})
	}},
	{"the least of a lane by priority, due time, sequence", func(s *flowScript) {
		p := s.process(t0)
		rng := rand.New(rand.NewPCG(1, 2))
		var jobs []job.New
		for range 100 {
			jobs = append(jobs, job.New{Kind: "mail", Target: "x", Priority: rng.IntN(3), DueAt: at(float64(rng.IntN(5)))})
		}
		seqs := s.add(t0, jobs...)
		var got []int64
		for round := range 20 {
			c := everything
			c.Limit = 9
			got = append(got, seqsOf(s.lanes(at(float64(10+round)), p, c).Claimed)...)
		}
		s.same("order", got, inOrder(jobs, seqs))
	}},
	{"a paused queue is left alone", func(s *flowScript) {
		p := s.process(t0)
		seq := s.add(t0, to("x"))[0]
		s.must(s.PauseQueue(s.ctx, t0, "ann", job.DefaultQueue, true))
		s.found("paused", at(1), p)
		s.same("by name", len(s.serve(at(1), p, "x", 9)), 0)
		s.must(s.PauseQueue(s.ctx, at(2), "ann", job.DefaultQueue, false))
		s.found("resumed", at(2), p, seq)
	}},
	{"not after the deadline, but on it", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, job.New{Kind: "mail", Target: "x", DeadlineAt: at(4)}, job.New{Kind: "mail", Target: "x", DeadlineAt: at(5)}, to("x"))
		s.found("claimed", at(5), p, seqs[1:]...)
		s.inState(job.Queued, seqs[0])
	}},
	{"a strict queue has no lanes", func(s *flowScript) {
		p := s.process(t0)
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, true))
		seqs := s.add(t0, to("x"), to("y"))
		s.found("discovery", t0, p)
		s.same("by name", len(s.serve(t0, p, "x", 9)), 0)
		answer := s.turn(store.Turn{Process: p, Now: t0, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 9}}})
		s.same("plain", seqsOf(answer.Claimed), seqs[:1])
		s.same("begun, and no gate", []any{answer.Claimed[0].Begun, len(answer.Gates)}, []any{true, 0})
	}},
	{"a queue that becomes strict, and then not, moves what waits", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, to("x"), plain, to("y"))
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, true))
		s.found("strict", at(1), p)
		j := s.claimOne(at(1), p)
		s.same("in order", j.Seq, seqs[0])
		s.must(s.StrictQueue(s.ctx, job.DefaultQueue, false))
		s.settled(at(1), p, again(j, at(1), 0))
		s.same("plain again", seqsOf(s.claim(at(1), p, 9)), seqs[1:2])
		s.same("lanes again", slices.Sorted(slices.Values(seqsOf(s.discover(at(1), p)))), []int64{seqs[0], seqs[2]})
	}},
	{"a released lane job has its place again", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, to("x"), to("x"))
		j := s.serveOne(t0, p, "x")
		answer := s.turn(store.Turn{Process: p, Now: at(3), Release: []store.Ref{refOf(j)}, Lanes: []store.LaneClaim{named("x", 5)}})
		s.same("released and claimed", []any{answer.Released, seqsOf(answer.Claimed)}, []any{[]bool{true}, seqs})
		got := s.job(seqs[0])
		s.same("unspent", []any{got.DueAt, got.History, got.Epoch}, []any{t0, retry.History{}, int64(2)})
	}},
	{"what waits: lanes and targets", func(s *flowScript) {
		p := s.process(t0)
		s.firstAndRetry(p)
		s.add(t0, to("x"), to("x"), job.New{Kind: "mail", Queue: "bulk", Target: "x", DueAt: at(7)}, to("y"))
		lanes, err := s.Lanes(s.ctx, "x", 2)
		s.must(err)
		for i := range lanes {
			if lanes[i].LookAt.After(at(7)) || lanes[i].LookAt.IsZero() {
				s.Fatalf("look of %+v", lanes[i])
			}
			lanes[i].LookAt = time.Time{}
		}
		s.same("lanes", lanes, []store.Lane{
			{Queue: "bulk", Target: "x", Firsts: 1}, {Queue: job.DefaultQueue, Target: "x", Firsts: 2, Retries: 1},
		})
		lanes, err = s.Lanes(s.ctx, "z", 2)
		s.must(err)
		s.same("no lanes", len(lanes), 0)
		several, err := s.LanesOf(s.ctx, []string{"z", "x", "y"}, 2)
		s.must(err)
		var queues [][]string
		for _, lanes := range several {
			names := []string{}
			for _, l := range lanes {
				names = append(names, fmt.Sprint(l.Queue, " ", l.Target, " ", l.Firsts, " ", l.Retries))
			}
			queues = append(queues, names)
		}
		s.same("lanes of several", queues, [][]string{{}, {"bulk x 1 0", job.DefaultQueue + " x 2 1"}, {job.DefaultQueue + " y 1 0"}})
		s.swap(t0, p, store.Swap{Gate: store.Gate{Target: "w", Room: 3}})
		list := func(after string, limit int) (names []string) {
			gates, err := s.Targets(s.ctx, after, limit)
			s.must(err)
			for _, g := range gates {
				names = append(names, fmt.Sprint(g.Target, " ", g.Version))
			}
			return names
		}
		s.same("targets", list("", 9), []string{"w 1", "x 0", "y 0"})
		s.same("page", list("w", 1), []string{"x 0"})
		s.same("beyond", len(list("y", 1)), 0)
		s.same("all of y", len(s.serve(t0, p, "y", 9)), 1)
		s.same("without y", list("", 9), []string{"w 1", "x 0"})
	}},
	{"ahead of a job is what stands before it in its lane", func(s *flowScript) {
		s.addN(t0, 3)
		seqs := s.add(t0, to("x"), to("y"), to("x"), dueAt(at(50)), to("x"))
		n, err := s.Ahead(s.ctx, at(1), seqs[4], 10)
		s.must(err)
		s.same("ahead", n, 2)
		n, err = s.Ahead(s.ctx, at(1), seqs[1], 10)
		s.must(err)
		s.same("ahead of y", n, 0)
	}},
	{"a queue's earliest due time may be a lane's", func(s *flowScript) {
		s.add(t0, dueAt(at(5)), job.New{Kind: "mail", DueAt: at(9)})
		queues, err := s.Queues(s.ctx)
		s.must(err)
		s.same("due", queues[0].DueAt, at(5))
		first := dueAt(at(3)) // it goes last, and is due first
		first.Priority = 9
		s.add(t0, first)
		queues, err = s.Queues(s.ctx)
		s.must(err)
		s.same("of another priority", queues[0].DueAt, at(3))
	}},
}

// inOrder sorts the jobs' numbers as claims take them.
func inOrder(jobs []job.New, seqs []int64) []int64 {
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if c := jobs[a].Priority - jobs[b].Priority; c != 0 {
			return c
		}
		return jobs[a].DueAt.Compare(jobs[b].DueAt)
	})
	sorted := make([]int64, len(order))
	for i, at := range order {
		sorted[i] = seqs[at]
	}
	return sorted
}

// Claims of a lane by its name.
var nameRules = []flowRule{
	{"whatever its gate and its look say", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, to("x"), to("x"), to("y"))
		s.shut(t0, p, store.Never, 0)
		s.hold(t0, p, "x", false, at(600))
		answer := s.lanes(t0, p, named("x", 1))
		s.same("claimed", seqsOf(answer.Claimed), seqs[:1])
		s.same("gate", answer.Gates, []store.Gate{{Target: "x", Version: 1, OpenAt: store.Never}})
		s.same("never before the due time", len(s.serve(at(-1), p, "x", 9)), 0)
		s.same("rest", seqsOf(s.serve(t0, p, "x", 9)), seqs[1:2])
	}},
	{"the first so many are begun", func(s *flowScript) {
		p := s.process(t0)
		s.add(t0, to("x"), to("x"), to("x"), to("x"))
		c := named("x", 3)
		c.Begin = 2
		got := s.lanes(t0, p, c).Claimed
		s.same("begun", []bool{got[0].Begun, got[1].Begun, got[2].Begun}, []bool{true, true, false})
		for _, j := range got {
			s.same("read", s.job(j.Seq), j)
		}
		c.Begin = 9
		s.same("more than there are", s.lanes(t0, p, c).Claimed[0].Begun, true)
	}},
	{"suspects are passed over and do not count", func(s *flowScript) {
		p := s.process(t0)
		s.add(t0, to("x"))
		st := again(s.serveOne(t0, p, "x"), t0, 0)
		st.History.Crashes = store.SuspectCrashes
		s.settled(t0, p, st)
		s.add(at(1), to("x"), to("x"))
		c := named("x", 3)
		c.Begin = 1
		got := s.lanes(at(2), p, c).Claimed
		s.same("begun", []bool{got[0].Begun, got[1].Begun, got[2].Begun}, []bool{false, true, false})
	}},
	{"a gate that the caller knows is not told again", func(s *flowScript) {
		p := s.process(t0)
		s.add(t0, to("x"), to("x"), to("x"), to("x"), to("y"))
		s.shut(t0, p, at(9), 3)
		told := func(known int64, swaps ...store.Swap) []string {
			x, y := named("x", 1), named("y", 1)
			x.Known, y.Known = known, 7
			answer := s.turn(store.Turn{Process: p, Now: t0, Lanes: []store.LaneClaim{x, y}, Swaps: swaps})
			names := []string{}
			for _, g := range answer.Gates {
				if g.Target == "x" {
					names = append(names, fmt.Sprint(g.Version, " ", g.Room))
				}
			}
			return names
		}
		s.same("another version", told(2), []string{"1 3"})
		s.same("the same", told(1), []string{})
		s.same("one that the turn swaps", told(1, store.Swap{Gate: store.Gate{Target: "x", Version: 1, Room: 4}}), []string{"2 4"})
		s.same("a swap that is lost", told(2, store.Swap{Gate: store.Gate{Target: "x", Version: 1, Room: 5}}), []string{"2 4"})
	}},
	{"of a great many each is what is read of it", func(s *flowScript) {
		const n = 300
		p := s.process(t0)
		for i := range n {
			seqs := s.add(t0, to("x"), job.New{Kind: "mail", Target: "y", Priority: i % 3, Key: fmt.Sprint(i), KeyRule: job.KeySkip, Batch: "b", Args: []byte{byte(i)}})
			if i%50 == 0 {
				for _, j := range s.serve(t0, p, "x", 1) {
					st := again(j, t0, time.Millisecond*time.Duration(i+1))
					st.History.Crashes = i / 50
					s.settled(t0, p, st)
				}
				s.add(t0, job.New{Kind: "mail", Unique: fmt.Sprint(seqs), DeadlineAt: at(99)})
			}
		}
		claims := []store.LaneClaim{named("x", n), named("y", n)}
		for i := range claims {
			claims[i].Begin = n
		}
		answer := s.lanes(at(1), p, claims...)
		suspects := 0
		for _, j := range answer.Claimed {
			s.same("read", s.job(j.Seq), j)
			if !j.Begun {
				suspects++
			}
		}
		s.same("claimed, and not begun", []int{len(answer.Claimed), suspects}, []int{2 * n, n/50 - store.SuspectCrashes})
		var settles []store.Settle
		for _, j := range answer.Claimed {
			settles = append(settles, succeeded(j, at(2)))
		}
		s.settled(at(2), p, settles...)
	}},
	{"first attempts and retries are bounded apart", func(s *flowScript) {
		p := s.process(t0)
		first, second := s.firstAndRetry(p)
		c := named("x", 9)
		c.Firsts = 0
		s.same("retries", seqsOf(s.lanes(at(1), p, c).Claimed), []int64{second})
		c.Firsts, c.Retries = 1, 0
		s.same("firsts", seqsOf(s.lanes(at(1), p, c).Claimed), []int64{first})
	}},
	{"several lanes in one turn", func(s *flowScript) {
		p := s.process(t0)
		seqs := s.add(t0, to("y"), to("x"), to("z"))
		answer := s.lanes(t0, p, named("x", 1), named("y", 1), everything, named("none", 1))
		s.same("claimed", seqsOf(answer.Claimed), []int64{seqs[1], seqs[0], seqs[2]})
		s.same("gates", []string{answer.Gates[0].Target, answer.Gates[1].Target, answer.Gates[2].Target}, []string{"x", "y", "z"})
	}},
	{"a lane is served in the turn that settles, releases or holds it", func(s *flowScript) {
		p := s.process(t0)
		s.add(t0, to("x"))
		j := s.serveOne(t0, p, "x")
		answer := s.turn(store.Turn{
			Process: p, Now: at(1), Settles: []store.Settle{again(j, at(1), 0)},
			Holds: []store.LaneHold{{Queue: job.DefaultQueue, Target: "x", Until: at(60)}},
			Lanes: []store.LaneClaim{everything, named("x", 1)},
		})
		s.same("the hold came first, the name did not mind", len(answer.Claimed), 1)
		s.same("epoch", answer.Claimed[0].Epoch, int64(2))
	}},
}
