package simulate

import (
	"fmt"
	"hash/fnv"

	"github.com/ebbhq/ebb/dispatch"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
)

// client is a caller, or a dependency of a layer, at work.
type client struct {
	name   string
	layer  bool
	mode   Mode
	spec   *Client
	policy *policy.Policy
	gate   gate.Config
	seed   uint64 // of retry delays and gate draws
	random stream // of everything else it draws by itself

	timeout    sampler // where hasTimeout
	delay      sampler // where hasDelay
	hasTimeout bool
	hasDelay   bool
	deadline   sampler
	maxHold    int64
	maxWaiting int

	targets    []target
	weights    []float64 // cumulative
	credit     []float64 // of the smooth turn
	sequence   int64
	turn       int32
	firstProc  int32
	procCount  int32
	firstGate  int32 // none without
	gatesEach  int32 // 0: shared by the processes, else targets a process
	firstLane  int32
	sharedGate []int32 // by target, where the scope is shared

	meter callerMeter
}

// target is one name that jobs call.
type target struct {
	name     string
	number   uint64 // hash of the name, that a durable gate's draws derive from
	node     int32
	disabled bool
}

// process is one process of a client.
type process struct {
	client  int32
	workers int // 0 = no limit
	busy    int
	waiting list // jobs that wait for a worker

	connections int // 0 = no limit
	open        int
	line        list // jobs that wait for a connection

	floor   *dispatch.Floor // of mode durable
	event   handle
	items   map[int64]int32 // jobs on the floor by sequence
	admit   func(dispatch.Item) dispatch.Answer
	nextAt  int64 // no start before, by the policy's spacing
	pumping bool
	again   bool // something changed while it pumped
}

func (k *kernel) buildClients() {
	shared := map[string]int32{}
	for i := range k.scenario.Callers {
		c := &k.scenario.Callers[i]
		cl := k.newClient(c.Name, &c.Client, c.Clients, c.Workers, c.Mode, shared)
		cl.deadline, cl.maxWaiting = newSampler(&c.Deadline), c.MaxWaiting
		if c.Seed != 0 {
			cl.seed = c.Seed
		}
	}
	for n := range k.nodes {
		node := &k.nodes[n]
		if node.copy > 0 {
			node.calls = k.nodes[n-node.copy].calls
			continue
		}
		for i := range node.spec.Calls {
			d := &node.spec.Calls[i]
			name := d.Name
			if name == "" {
				name = d.Targets[0].Downstream
			}
			node.calls = append(node.calls, layerCall{
				client: int32(len(k.clients)), count: int32(max(1, d.Calls)), parallel: d.Parallel,
				share: newTimeline(&d.Share, 1), random: newStream(k.seed, "share/"+node.spec.Name+"/"+name, i),
			})
			cl := k.newClient(node.spec.Name+"/"+name, &d.Client, node.spec.Copies, 0, InProcess, shared)
			cl.layer = true
		}
	}
}

func (k *kernel) newClient(name string, spec *Client, procs, workers int, mode Mode, shared map[string]int32) *client {
	index := int32(len(k.clients))
	cl := client{
		name: name, mode: mode, spec: spec, policy: &spec.Policy, gate: gate.Of(&spec.Policy),
		random: newStream(k.seed, "client/"+name, 0), procCount: int32(max(1, procs)), firstProc: int32(len(k.procs)),
		maxHold: int64(spec.Policy.MaxHold), firstGate: none, deadline: newSampler(&Dist{}),
	}
	cl.seed = cl.random.fork(0).state
	if spec.Timeout != nil {
		cl.timeout, cl.hasTimeout = newSampler(spec.Timeout), true
	}
	if spec.Delay != nil {
		cl.delay, cl.hasDelay = newSampler(spec.Delay), true
	}
	k.aim(&cl)
	for range cl.procCount {
		p := process{client: index, workers: workers, waiting: newList(), connections: spec.Connections, line: newList()}
		if mode == Durable {
			cl.gate.Keep = permitLife
			p.floor, p.items = k.newFloor(&cl, int32(len(k.procs)), workers), map[int64]int32{}
			p.admit = k.admitter(int32(len(k.procs)))
		}
		k.procs = append(k.procs, p)
	}
	k.guard(&cl, index, shared)
	k.clients = append(k.clients, cl)
	return &k.clients[index]
}

// aim lists the targets of a client, with their shares of the jobs.
func (k *kernel) aim(cl *client) {
	sum := 0.0
	for _, t := range cl.spec.Targets {
		var nodes []int32
		for n := range k.nodes {
			if k.nodes[n].spec.Name == t.Downstream {
				nodes = append(nodes, int32(n))
			}
		}
		names := max(1, t.Names)
		weight := t.Weight
		if weight == 0 {
			weight = 1
		}
		for _, n := range nodes {
			for i := range names {
				name := k.nodes[n].name
				if names > 1 {
					name = fmt.Sprintf("%s#%d", name, i+1)
				}
				sum += weight / float64(len(nodes)*names)
				cl.targets = append(cl.targets, target{name: name, number: numberOf(name), node: n})
				cl.weights = append(cl.weights, sum)
			}
		}
	}
	cl.credit = make([]float64, len(cl.targets))
}

// numberOf is a target's number, as the worker makes it.
func numberOf(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64()
}

// pick chooses the target of the next job.
func (k *kernel) pick(cl *client) int32 {
	if len(cl.targets) == 1 {
		return 0
	}
	load := func(t int) int64 { return k.nodes[cl.targets[t].node].meter.inSystem.n }
	switch cl.spec.Pick {
	case Random:
		return int32(pickWeight(cl.weights, cl.random.unit()))
	case TwoChoices:
		a, b := pickWeight(cl.weights, cl.random.unit()), pickWeight(cl.weights, cl.random.unit())
		if load(b) < load(a) {
			a = b
		}
		return int32(a)
	case Least:
		best := 0
		for t := range cl.targets {
			if load(t) < load(best) {
				best = t
			}
		}
		return int32(best)
	}
	return cl.inTurn()
}

// inTurn chooses smoothly by weight.
func (cl *client) inTurn() int32 {
	if len(cl.spec.Targets) == 1 {
		return int32((cl.sequence - 1) % int64(len(cl.targets)))
	}
	best, last := 0, 0.0
	for i, sum := range cl.weights {
		cl.credit[i] += sum - last
		last = sum
		if cl.credit[i] > cl.credit[best]+1e-12 {
			best = i
		}
	}
	cl.credit[best] -= last
	return int32(best)
}

// nextProc deals the next job to a process.
func (cl *client) nextProc() int32 {
	p := cl.turn
	cl.turn = (cl.turn + 1) % cl.procCount
	return p
}

// limit draws the timeout of the next start; 0 = none.
func (cl *client) limit() int64 {
	if cl.hasTimeout {
		return max(1, cl.timeout.draw(&cl.random))
	}
	return int64(cl.policy.Timeout)
}

func (cl *client) disable(target int32) { cl.targets[target].disabled = true }

// hire gives a job a worker, or lets it wait for one.
func (k *kernel) hire(i int32) {
	j := k.jobs.at(i)
	p := &k.procs[j.proc]
	if p.workers > 0 && p.busy >= p.workers {
		if most := k.clients[j.client].maxWaiting; most > 0 && p.waiting.n >= most {
			k.turnAway(i)
			return
		}
		j.stage = waiting
		p.waiting.push(k.jobs.links, i)
		return
	}
	p.busy++
	j.slot = true
	k.pace(i)
}

// turnAway refuses a job that found too many waiting.
func (k *kernel) turnAway(i int32) {
	j := k.jobs.at(i)
	j.stage, j.cause = delayed, turnedAway
	k.bury(i)
}

// dismiss frees a job's worker for the next that waits.
func (k *kernel) dismiss(i int32) {
	j := k.jobs.at(i)
	if !j.slot {
		return
	}
	j.slot = false
	p := &k.procs[j.proc]
	p.busy--
	if next := p.waiting.shift(k.jobs.links); next != none {
		n := k.jobs.at(next)
		p.busy++
		n.slot, n.stage = true, delayed
		n.event = k.agenda.add(k.now, rankEnd, doStart, next)
	}
}

// connect gives a start a connection, or lets it wait for one.
func (k *kernel) connect(i int32) {
	p := &k.procs[k.jobs.at(i).proc]
	if p.connections > 0 && p.open >= p.connections {
		k.jobs.at(i).linked = true
		p.line.push(k.jobs.links, i)
		return
	}
	p.open++
	k.send(i)
}

// disconnect frees the connection of a start that ended.
func (k *kernel) disconnect(i int32) {
	j := k.jobs.at(i)
	p := &k.procs[j.proc]
	if j.linked {
		j.linked = false
		p.line.remove(k.jobs.links, i)
		return
	}
	p.open--
	if next := p.line.shift(k.jobs.links); next != none {
		k.jobs.at(next).linked = false
		p.open++
		k.send(next)
	}
}

// send sends the request of a start.
func (k *kernel) send(i int32) {
	j := k.jobs.at(i)
	cl := &k.clients[j.client]
	if j.counted {
		cl.meter.total.Calls++
		cl.meter.calls.hit(k.now)
	}
	r, q := k.requests.take()
	q.job, q.node = i, cl.targets[j.target].node
	j.request = r
	k.depart(r)
}

// detach takes a job that leaves out of whatever it waits in.
func (k *kernel) detach(i int32) {
	j := k.jobs.at(i)
	switch j.stage {
	case waiting:
		k.procs[j.proc].waiting.remove(k.jobs.links, i)
	case heldBack:
		k.unhold(i)
	case parked:
		j.stage = delayed
	}
	if k.clients[j.client].mode == Durable {
		k.unfloor(i)
		return
	}
	k.dismiss(i)
}
