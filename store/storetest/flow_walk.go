package storetest

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// FlowTrace is Trace for what work with targets, keys, limits and gates adds.
// Every few steps it also holds what must be true of keys.
func FlowTrace(t *testing.T, open Open, seed uint64, steps int) string {
	t.Helper()
	s := newFlowScript(t, open)
	w := &flowWalk{
		walk: &walk{script: s.script, rng: rand.New(rand.NewPCG(seed, 11)), now: t0, names: map[int64]int{}},
		flow: s, gates: map[string]store.Gate{},
	}
	w.register()
	w.register()
	for range steps {
		w.step()
	}
	w.drain()
	return w.out.String()
}

//go:embed testdata/flow_traces.txt
var flowGolden string

// SameFlowTraces compares the store's traces with those of the in-memory
// store. To see what memory answers: go test ./store/memory -run
// TestFlowTraces -v -seed SEED.
func SameFlowTraces(t *testing.T, open Open) {
	compareTraces(t, flowGolden, "TestFlowTraces", func(t *testing.T, seed uint64) string { return FlowTrace(t, open, seed, GoldenSteps) })
}

// FlowGolden returns the file that SameFlowTraces compares with.
func FlowGolden(t *testing.T, open Open, seeds int) string {
	return writeTraces(seeds, func(seed uint64) string { return FlowTrace(t, open, seed, GoldenSteps) })
}

// flowWalk is a walk among lanes. Steps are LaneRest apart at least, gates
// that open wake their lanes, and discoveries are not cut short: so the
// answers do not depend on how early a store looks.
type flowWalk struct {
	*walk
	flow  *flowScript
	gates map[string]store.Gate // as seen last, which may be long ago
	steps int
}

var walkTargets = []string{"", "", "x", "y", "z"}

func (w *flowWalk) step() {
	w.now = w.now.Add(store.LaneRest + time.Duration(w.rng.IntN(5_000_000))*time.Microsecond)
	w.say("@%s", w.now.Sub(t0))
	for _, act := range []struct {
		weight int
		do     func()
	}{
		{30, w.enqueue},
		{90, w.work},
		{10, w.register},
		{15, w.beatOne},
		{4, w.reapOne},
		{3, w.leave},
		{10, w.cancelOne},
		{8, w.retryOne},
		{4, w.switchQueue},
		{4, w.limit},
		{4, w.pauseKind},
		{6, w.operate},
		{6, w.endWaiting},
		{4, w.maintainAll},
		{5, w.redriveSome},
		{20, w.look},
	} {
		if w.chance(act.weight) {
			act.do()
		}
	}
	if w.steps++; w.steps%5 == 0 {
		w.checkKeys()
	}
}

func (w *flowWalk) enqueue() {
	jobs := make([]job.New, 1+w.rng.IntN(6))
	for i := range jobs {
		n := job.New{Kind: pick(w.walk, walkKinds), Queue: pick(w.walk, walkQueues), Priority: w.rng.IntN(3), Target: pick(w.walk, walkTargets)}
		if w.chance(25) {
			n.DueAt = w.now.Add(time.Duration(w.rng.IntN(60)-10) * time.Second)
		}
		if w.chance(10) {
			n.DeadlineAt = w.now.Add(time.Duration(w.rng.IntN(90)) * time.Second)
		}
		if w.chance(60) {
			n.Key, n.KeyRule = pick(w.walk, []string{"k1", "k2", "k3"}), pick(w.walk, []job.KeyRule{job.KeyBlock, job.KeySkip, job.KeyPark})
		}
		if w.chance(20) {
			n.Unique, n.UniqueScope = pick(w.walk, []string{"u1", "u2"}), pick(w.walk, []job.UniqueScope{"", job.UniqueInQueue, job.UniqueInKind})
			n.Conflict = pick(w.walk, []job.Conflict{"", "", job.ConflictReplace, job.ConflictRefuse})
			n.UniqueFor = time.Duration(w.rng.IntN(3)) * 20 * time.Second
		}
		n.Args = fmt.Appendf(nil, "%d", w.rng.IntN(1000))
		jobs[i] = n
	}
	answers, err := w.Enqueue(w.ctx, w.now, jobs)
	for _, a := range answers {
		if !a.Existing {
			w.seqs = append(w.seqs, a.Seq)
			w.names[a.Seq] = len(w.seqs)
		}
		w.say("enqueued %s existing=%t", w.name(a.Seq), a.Existing)
	}
	w.fault("enqueue", err)
}

// work takes a turn with lanes and swaps in it.
func (w *flowWalk) work() {
	at := w.anyProcess()
	p := &w.procs[at]
	t := store.Turn{Process: p.id, Now: w.now}
	for _, j := range p.leases {
		switch {
		case !j.Begun && w.chance(50):
			t.Begin = append(t.Begin, refOf(j))
		case w.chance(15):
			t.Release = append(t.Release, refOf(j))
		case w.chance(60):
			t.Settles = append(t.Settles, w.outcome(j))
		}
	}
	for _, queue := range walkQueues {
		kinds := walkKinds[:1+w.rng.IntN(3)]
		switch w.rng.IntN(4) {
		case 0, 1:
			t.Lanes = append(t.Lanes, store.LaneClaim{Queue: queue, Kinds: kinds, Lanes: 100, Firsts: w.rng.IntN(4), Retries: w.rng.IntN(3), Limit: 1000})
		case 2:
			target := pick(w.walk, []string{"x", "y", "z", store.QueueTarget(queue)})
			t.Lanes = append(t.Lanes, store.LaneClaim{
				Queue: queue, Kinds: kinds, Target: target, Firsts: w.rng.IntN(4), Retries: w.rng.IntN(3), Limit: w.rng.IntN(4), Begin: w.rng.IntN(3),
			})
		}
		if w.chance(60) {
			t.Claims = append(t.Claims, store.Claim{Queue: queue, Kinds: kinds, Limit: w.rng.IntN(4)})
		}
	}
	for _, target := range []string{"x", "y", store.QueueTarget("bulk")} {
		if w.chance(20) {
			t.Swaps = append(t.Swaps, w.swapped(target, p.id))
		}
	}
	answer, err := w.Turn(w.ctx, t)
	slices.SortFunc(answer.Claimed, func(a, b job.Job) int { return int(a.Seq - b.Seq) })
	w.say("P%d turn settled=%v begun=%v released=%v swapped=%v", at+1, answer.Settled, answer.Begun, answer.Released, answer.Swapped)
	w.fault("turn", err)
	if err == nil {
		w.after(p, t, answer)
	}
	for _, j := range answer.Claimed {
		w.say("  claimed %s", w.tell(j))
	}
	for _, g := range answer.Gates {
		w.gates[g.Target] = g
		w.say("  gate %s", w.tellGate(g))
	}
	for i, ok := range answer.Swapped {
		if g := t.Swaps[i].Gate; ok && w.chance(80) {
			g.Version++
			w.gates[g.Target] = g
		}
	}
}

// swapped is a random change of a gate as it was seen last, and of what the
// process holds of it; 0 = nobody.
func (w *flowWalk) swapped(target string, process int64) store.Swap {
	g, known := w.gates[target]
	if !known {
		g = store.Gate{Target: target, Room: store.NoLimit}
	}
	if held := g.GrantOf(process); process != 0 {
		for i := range held.Size() {
			g.State, _ = gate.Step(gate.Config{}, g.State, gate.Abandon{Retry: i < held.Retries}, w.now, 0)
		}
		g = granted(g, w.now, store.Grant{Process: process, Firsts: w.rng.IntN(3), Retries: w.rng.IntN(2), Probe: w.chance(10)})
	}
	g.OpenAt = pick(w.walk, []time.Time{{}, {}, {}, store.Instant(w.now.Add(10 * time.Second)), store.Never})
	g.Room = pick(w.walk, []int{store.NoLimit, store.NoLimit, 2, 1, 0})
	g.Policy = pick(w.walk, []string{"", "webhook"})
	return store.Swap{Gate: g, Wake: true}
}

func (w *flowWalk) limit() {
	queue, l := pick(w.walk, walkQueues), pick(w.walk, []store.QueueLimit{{}, {Concurrency: 2}, {Rate: 0.5}})
	w.say("limit %s %v", queue, l)
	w.fault("limit", w.flow.LimitQueue(w.ctx, w.now, "eve", queue, l))
}

func (w *flowWalk) pauseKind() {
	kind, on := pick(w.walk, walkKinds), w.chance(40)
	w.say("pause kind %s %t", kind, on)
	w.fault("pause", w.flow.PauseKind(w.ctx, w.now, "eve", kind, on))
}

// operate swaps a gate by an order.
func (w *flowWalk) operate() {
	target := pick(w.walk, []string{"x", "y", "z"})
	sw := w.swapped(target, 0)
	sw.Disabled = pick(w.walk, []string{"", "gone"})
	ok, err := w.flow.SwapGate(w.ctx, w.now, store.AuditRow{Actor: "eve", Act: "target.pause", What: target}, sw)
	w.say("order %s swapped=%t", target, ok)
	w.fault("order", err)
	w.gates[target] = w.flow.gate(target)
	w.say("  gate %s", w.tellGate(w.gates[target]))
}

func (w *flowWalk) endWaiting() {
	e := store.Ending{
		Target: pick(w.walk, []string{"x", "y", "z"}), DueBy: w.now.Add(-time.Duration(w.rng.IntN(20)) * time.Second),
		Any: w.chance(50), Retries: w.chance(50), Limit: 1 + w.rng.IntN(3), To: job.Failed, Cause: retry.CauseExpired,
	}
	if w.chance(50) {
		e.To, e.Cause = job.Parked, retry.CauseTargetDown
	}
	ended, err := w.flow.EndWaiting(w.ctx, w.now, e)
	w.say("end waiting of %s: %d", e.Target, store.EndTotal(ended))
	w.fault("end waiting", err)
}

// look reads what is the same however early a store looks.
func (w *flowWalk) look() {
	switch w.rng.IntN(5) {
	case 0:
		seq := w.anyJob()
		n, err := w.Ahead(w.ctx, w.now, seq, 5)
		w.say("ahead of %s: %d", w.name(seq), n)
		w.fault("ahead", err)
	case 1:
		w.lookAtQueues()
	case 2:
		for _, target := range []string{"x", "y", "z"} {
			lanes, err := w.flow.Lanes(w.ctx, target, 5)
			for _, l := range lanes {
				w.say("lane %s %s firsts=%d retries=%d", l.Queue, l.Target, l.Firsts, l.Retries)
			}
			w.fault("lanes", err)
		}
	case 3:
		gates, err := w.flow.Targets(w.ctx, "", 9)
		for _, g := range gates {
			w.say("target %s", w.tellGate(g))
		}
		w.fault("targets", err)
	case 4:
		w.lookAtGroups(store.Filter{})
	}
}

func (w *flowWalk) tell(j job.Job) string {
	return fmt.Sprintf("%s target=%s key=%s/%s blocked=%t", w.describe(j), j.Target, j.Key, j.KeyRule, j.Blocked)
}

func (w *flowWalk) tellGate(g store.Gate) string {
	var grants []string
	for _, held := range g.Grants {
		grants = append(grants, fmt.Sprintf("%s:%d+%d/%t", w.holder(held.Process), held.Firsts, held.Retries, held.Probe))
	}
	return fmt.Sprintf("%s version=%d grants=%s flight=%d/%d open=%s room=%d disabled=%s policy=%s", g.Target, g.Version, strings.Join(grants, ","),
		g.State.InFlight, g.State.Retries, instant(g.OpenAt), g.Room, g.Disabled, g.Policy)
}
