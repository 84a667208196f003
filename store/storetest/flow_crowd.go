package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// What holds when processes meet.
var flowCrowdRules = []flowRule{
	{"a crowd drains lanes: each job once, of each lane in order", func(s *flowScript) {
		var jobs []job.New
		for i := range 200 {
			jobs = append(jobs, to(fmt.Sprint("t", i%5)))
		}
		seqs := s.add(t0, jobs...)
		got := make([][]job.Job, crowd)
		var processes []int64
		for range crowd {
			processes = append(processes, s.process(t0))
		}
		s.together(func(n int) error {
			turn := store.Turn{Process: processes[n], Now: t0}
			for round, idle := 0, 0; idle < 3; round++ {
				turn.Now = turn.Now.Add(store.LaneRest)
				c := everything
				c.Limit, c.Lanes = 7, 3
				turn.Lanes = []store.LaneClaim{c, named(fmt.Sprint("t", round%5), 2)}
				answer, err := s.Turn(s.ctx, turn)
				if err != nil {
					return err
				}
				if slices.Contains(answer.Settled, false) {
					return fmt.Errorf("settled %v", answer.Settled)
				}
				got[n] = append(got[n], answer.Claimed...)
				turn.Settles = nil
				for _, j := range answer.Claimed {
					turn.Settles = append(turn.Settles, succeeded(j, t0))
				}
				if idle++; len(answer.Claimed) > 0 {
					idle = 0
				}
			}
			return nil
		})
		all := slices.Concat(got...)
		s.same("each once", slices.Sorted(slices.Values(seqsOf(all))), seqs)
		s.same("counts", s.counts(job.DefaultQueue), map[job.State]int64{job.Succeeded: 200})
	}},
	{"a crowd behind gates: no limit broken, nothing lost, what is granted is in flight", func(s *flowScript) {
		c := newFlowCrowd(s)
		s.together(c.work)
		c.check()
	}},
}

// Sizes of the crowd behind gates.
const (
	crowdJobs    = 120
	crowdLimit   = 3 // of each target, in all processes
	crowdTargets = 3
	crowdKeys    = 5
)

// flowCrowd is processes that take permits by swaps, claim by lanes, run,
// settle, die and are reaped, all at the same time.
type flowCrowd struct {
	*flowScript
	config gate.Config
	left   atomic.Int64 // jobs that have not ended

	mu      sync.Mutex
	flight  map[string]int   // running by target
	running map[string]int64 // the job of each key that is running
	last    map[string]int64 // the job of each key that started last
}

func newFlowCrowd(s *flowScript) *flowCrowd {
	c := &flowCrowd{
		flowScript: s, config: gate.Config{PerTarget: policy.PerTarget{Concurrency: crowdLimit}},
		flight: map[string]int{}, running: map[string]int64{}, last: map[string]int64{},
	}
	var jobs []job.New
	for i := range crowdJobs {
		n := to(fmt.Sprint("t", i%crowdTargets))
		if i%3 > 0 {
			n.Key, n.KeyRule = fmt.Sprint("k", i%crowdKeys), job.KeySkip
		}
		jobs = append(jobs, n)
	}
	s.add(t0, jobs...)
	c.left.Store(crowdJobs)
	return c
}

// work is one process after the other: each dies now and then.
func (c *flowCrowd) work(n int) error {
	rng := rand.New(rand.NewPCG(uint64(n), 5))
	for now, process := t0, int64(0); c.left.Load() > 0; now = now.Add(store.LaneRest) {
		if process == 0 {
			p, err := c.Register(c.ctx, now, store.Process{Kinds: []string{"mail"}})
			if err != nil {
				return err
			}
			process = p.ID
		}
		dies := rng.IntN(15) == 0
		if err := c.round(rng, process, fmt.Sprint("t", rng.IntN(crowdTargets)), now, dies); err != nil {
			return err
		}
		if dies {
			if _, ok, err := c.Reap(c.ctx, now, process, 0, crashed(now)); err != nil {
				return err
			} else if !ok {
				return fmt.Errorf("process %d was not reaped", process)
			}
			process = 0
		}
		if now.Sub(t0) > time.Hour {
			return fmt.Errorf("%d jobs are left after %s", c.left.Load(), now.Sub(t0))
		}
	}
	return nil
}

// round takes permits of the target, begins as many jobs, and ends them,
// unless it dies before.
func (c *flowCrowd) round(rng *rand.Rand, process int64, target string, now time.Time, dies bool) error {
	g, permits, err := c.carve(process, target, 1+rng.IntN(2), now)
	if err != nil || permits == 0 {
		return err
	}
	by := named(target, permits)
	if by.Begin = permits; rng.IntN(2) == 0 { // found, begun one by one
		by = everything
		by.Limit, by.Lanes = permits, 1
	}
	answer, err := c.Turn(c.ctx, store.Turn{Process: process, Now: now, Lanes: []store.LaneClaim{by}})
	if err != nil {
		return err
	}
	mine := slices.DeleteFunc(slices.Clone(answer.Claimed), func(j job.Job) bool { return j.Target != target })
	back := store.Turn{Process: process, Now: now}
	for _, j := range answer.Claimed {
		if j.Target != target { // no permit: it goes back unspent
			back.Release = append(back.Release, refOf(j))
		}
	}
	if err := c.start(target, mine); err != nil {
		return err
	}
	for _, j := range mine {
		back.Settles = append(back.Settles, outcomeOf(rng, j, now))
	}
	if c.stop(target, mine); dies { // before the database knows, never after
		return nil
	}
	for permits > 0 {
		if permits, err = c.giveBack(&g, &back, permits); err != nil {
			return err
		}
	}
	return nil
}

func outcomeOf(rng *rand.Rand, j job.Job, now time.Time) store.Settle {
	switch rng.IntN(6) {
	case 0:
		return again(j, now, 0)
	case 1:
		return ended(j, now, job.Failed, retry.CauseExhausted)
	}
	return succeeded(j, now)
}

// carve swaps up to n permits out of the target's gate.
func (c *flowCrowd) carve(process int64, target string, n int, now time.Time) (store.Gate, int, error) {
	gates, err := c.Gates(c.ctx, []string{target})
	if err != nil {
		return store.Gate{}, 0, err
	}
	g, permits := gates[0], 0
	if err := balanced(&g); err != nil {
		return g, 0, err
	}
	for range n {
		next, v := gate.Step(c.config, g.State, gate.Ask{}, now, 0)
		if !v.Admit {
			break
		}
		g.State = next
		permits++
	}
	if permits == 0 {
		return g, 0, nil
	}
	held := g.GrantOf(process)
	held.Firsts += permits
	g.SetGrant(held)
	answer, err := c.Turn(c.ctx, store.Turn{Process: process, Now: now, Swaps: []store.Swap{{Gate: g}}})
	if err != nil || !answer.Swapped[0] {
		return g, 0, err
	}
	g.Version++
	return g, permits, nil
}

// balanced holds that what is granted is what is in flight, and within the
// limit.
func balanced(g *store.Gate) error {
	sum := 0
	for _, held := range g.Grants {
		sum += held.Size()
	}
	if sum != g.State.InFlight || sum > crowdLimit {
		return fmt.Errorf("%s: %d permits are out, %d in flight, at most %d: %+v", g.Target, sum, g.State.InFlight, crowdLimit, g.Grants)
	}
	return nil
}

// giveBack does the turn with the permits swapped in, and returns how many
// are still out: a lost swap is tried again from the row it was answered with.
func (c *flowCrowd) giveBack(g *store.Gate, t *store.Turn, permits int) (int, error) {
	for range permits {
		g.State, _ = gate.Step(c.config, g.State, gate.Done{OK: true}, t.Now, 0)
	}
	held := g.GrantOf(t.Process)
	held.Firsts -= permits
	g.SetGrant(held)
	t.Swaps = []store.Swap{{Gate: *g, Wake: true}}
	answer, err := c.Turn(c.ctx, *t)
	if err != nil {
		return 0, err
	}
	if slices.Contains(answer.Settled, false) || slices.Contains(answer.Released, false) {
		return 0, fmt.Errorf("settled %v, released %v", answer.Settled, answer.Released)
	}
	for _, st := range t.Settles {
		if !st.To.Live() {
			c.left.Add(-1)
		}
	}
	if t.Settles, t.Release = nil, nil; answer.Swapped[0] {
		return 0, nil
	}
	*g = answer.Gates[0]
	return permits, balanced(g)
}

// start holds that the jobs may run beside what runs.
func (c *flowCrowd) start(target string, jobs []job.Job) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flight[target] += len(jobs); c.flight[target] > crowdLimit {
		return fmt.Errorf("%d calls of %s at once", c.flight[target], target)
	}
	for _, j := range jobs {
		if j.Key == "" {
			continue
		}
		if c.running[j.Key] != 0 || j.Seq < c.last[j.Key] {
			return fmt.Errorf("%s: job %d starts beside %d and after %d", j.Key, j.Seq, c.running[j.Key], c.last[j.Key])
		}
		c.running[j.Key], c.last[j.Key] = j.Seq, j.Seq
	}
	return nil
}

func (c *flowCrowd) stop(target string, jobs []job.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flight[target] -= len(jobs)
	for _, j := range jobs {
		delete(c.running, j.Key)
	}
}

// check holds what must be true at the end.
func (c *flowCrowd) check() {
	c.Helper()
	counts := c.counts(job.DefaultQueue)
	c.same("ended", counts[job.Succeeded]+counts[job.Failed], int64(crowdJobs))
	c.same("counts", counts, c.truth(job.DefaultQueue))
	targets, err := c.Targets(c.ctx, "", 100)
	c.must(err)
	c.same("targets", len(targets), crowdTargets)
	for _, g := range targets {
		c.same("permits out", []int{len(g.Grants), g.State.InFlight}, []int{0, 0})
	}
}
