package simulate

import (
	"math"
	"strconv"

	"github.com/ebbhq/ebb/failure"
)

// node is one downstream at work.
type node struct {
	spec *Downstream
	name string
	copy int // 0 and up

	servers  int // now; unlimited without a number
	capacity timeline
	speed    timeline
	service  sampler
	maxWait  sampler
	there    sampler
	back     sampler
	lossIn   timeline
	lossOut  timeline
	work     sampler
	faults   []fault
	full     reply
	failed   reply // a call of its own failed
	conflict reply
	throttle reply
	calls    []layerCall

	services  stream
	network   stream
	hits      stream
	answers   stream
	waiting   list
	serving   list
	away      list // calls its own without a server
	queueMost int  // none without a limit

	bucket   tokenBucket
	collapse collapse
	row      uint64 // version
	share    sharing

	meter nodeMeter
}

// reply is an Answer at work.
type reply struct {
	failure failure.Failure
	after   sampler
}

type fault struct {
	spec        *Fault
	probability timeline
	reply       reply
	off         bool // it comes and goes, and is up
	up, down    sampler
	random      stream
}

// kill is a fault that ends what is in the system when it begins, or one that
// comes and goes.
type kill struct {
	node  int32
	fault int
}

// stand is where a request stands.
type stand uint8

const (
	going      stand = iota // on its way there
	inLine                  // waits for a server
	inService               // a server works on it
	calling                 // its own calls are under way
	comingBack              // its answer is on its way
	atCaller                // the caller works on the row
	hanging                 // nothing will come
)

// request is one call on its way, from the send to the answer.
type request struct {
	failure failure.Failure // of its answer, unless ok
	arrived int64           // at the node
	served  int64           // begin of service
	after   int64           // how long its answer takes
	version uint64          // of the row it read
	need    float64         // of shared service: the clock's reading at its end

	job     int32 // who waits; none if nobody does any more
	node    int32
	inner   int32 // the last job of its own calls under way; none
	event   handle
	call    int32 // which of the node's calls comes next
	repeat  int32 // how many of that call are left
	pending int32 // how many of that call are under way

	stand    stand
	ok       bool
	measured bool
	counted  bool // in the system
	writes   bool // of a row: the second half
	doomed   bool // a fault answers after service
	broken   bool // one of its own calls failed
	onServer bool
}

func (k *kernel) buildNodes() {
	for i := range k.scenario.Downstreams {
		d := &k.scenario.Downstreams[i]
		for c := range max(1, d.Copies) {
			n := k.newNode(d, c)
			k.nodes = append(k.nodes, n)
		}
	}
	for i := range k.nodes {
		k.capacity(int32(i))
		for f := range k.nodes[i].faults {
			fault := &k.nodes[i].faults[f]
			switch at := int64(fault.spec.From); {
			case !fault.spec.Up.IsZero():
				fault.off = true
				k.agenda.add(at+fault.up.draw(&fault.random), rankControl, doToggle, int32(len(k.kills)))
			case fault.spec.Kills:
				k.agenda.add(at, rankControl, doKill, int32(len(k.kills)))
			}
			k.kills = append(k.kills, kill{node: int32(i), fault: f})
		}
	}
}

func (k *kernel) newNode(d *Downstream, copyOf int) node {
	n := node{
		spec: d, name: d.Name, copy: copyOf, servers: unlimited, queueMost: int(none),
		capacity: newTimeline(&d.Capacity, 1), speed: newTimeline(&d.Speed, 1), service: newSampler(&d.Service), maxWait: newSampler(&d.MaxWait),
		there: newSampler(&d.Network.There), back: newSampler(&d.Network.Back),
		lossIn: newTimeline(&d.Network.LossThere, 0), lossOut: newTimeline(&d.Network.LossBack, 0),
		full: newReply(&d.Full, 503), failed: newReply(&d.CallFailed, 502), throttle: newReply(&Answer{}, 429),
		services: newStream(k.seed, "service/"+d.Name, copyOf), network: newStream(k.seed, "network/"+d.Name, copyOf),
		hits: newStream(k.seed, "faults/"+d.Name, copyOf), answers: newStream(k.seed, "answers/"+d.Name, copyOf),
		waiting: newList(), serving: newList(), away: newList(),
	}
	if d.Copies > 1 {
		n.name = d.Name + "/" + strconv.Itoa(copyOf+1)
	}
	if d.Queue != nil {
		n.queueMost = *d.Queue
	}
	for i := range d.Faults {
		f := &d.Faults[i]
		r := newReply(&f.Answer, 500)
		if f.Kind == FaultRefuse {
			r = newReply(&Answer{Class: failure.Refused, After: f.Answer.After}, 0)
		}
		n.faults = append(n.faults, fault{
			spec: f, probability: newTimeline(&f.Probability, 1), reply: r,
			up: newSampler(&f.Up), down: newSampler(&f.Down), random: newStream(k.seed, "outages/"+n.name, i),
		})
	}
	if d.Limit != nil {
		n.bucket = tokenBucket{tokens: d.Limit.Burst}
		n.throttle.after = newSampler(&d.Limit.After)
	}
	if d.Row != nil {
		n.work = newSampler(&d.Row.Work)
		n.conflict = newReply(&d.Row.Conflict, 0)
		if d.Row.Conflict.Class == failure.Unknown && d.Row.Conflict.Status == 0 {
			n.conflict.failure = failure.Of(failure.Unavailable)
			n.conflict.failure.RetryAfter = d.Row.Conflict.RetryAfter
		}
	}
	if d.Collapse != nil {
		n.collapse = newCollapse(d.Collapse)
	}
	return n
}

func newReply(a *Answer, status int) reply {
	if a.Status != 0 || a.Class != failure.Unknown {
		status = a.Status
	}
	f := failure.Failure{}
	if status != 0 {
		f = failure.Status(status)
	}
	if a.Class != failure.Unknown {
		f.Class, f.Blame = a.Class, a.Class.Blame()
	}
	f.RetryAfter = a.RetryAfter
	return reply{failure: f, after: newSampler(&a.After)}
}

// capacity sets the number of servers and when it changes next.
func (k *kernel) capacity(i int32) {
	n := &k.nodes[i]
	if n.spec.Servers == 0 {
		return
	}
	n.settleShare(k.now)
	n.servers = int(math.Round(float64(n.spec.Servers) * n.capacity.at(k.now)))
	n.meter.servers.add(k.now, int64(n.servers)-n.meter.servers.n)
	if at, ok := n.capacity.nextWhole(k.now, float64(n.spec.Servers)); ok {
		k.agenda.add(at, rankControl, doCapacity, i)
	}
	k.reshare(i)
	k.fill(i)
}

// depart puts a request on the way to its node.
func (k *kernel) depart(r int32) {
	q := k.requests.at(r)
	n := &k.nodes[q.node]
	q.stand, q.inner = going, none
	if p := n.lossIn.at(k.now); p > 0 && n.network.unit() < p {
		q.stand = hanging
		n.lost(k.measured)
		return
	}
	if n.there.zero() {
		k.reach(r)
		return
	}
	q.event = k.agenda.add(k.after(n.there.draw(&n.network)), rankEnd, doThere, r)
}

func (n *node) lost(measured bool) {
	if measured {
		n.meter.total.Lost++
	}
}

// reach is a request's arrival at its node.
func (k *kernel) reach(r int32) {
	q := k.requests.at(r)
	q.event = 0
	n := &k.nodes[q.node]
	q.arrived, q.measured = k.now, k.measured
	n.meter.all.requests++
	if q.measured {
		n.meter.total.Requests++
		n.meter.peak.hit(k.now)
	}
	if q.job == none && n.spec.Abandoned != Serve && n.spec.Abandoned != "" {
		k.drop(r)
		return
	}
	if k.limited(r) || k.stressed(r) || k.faulted(r, false) {
		return
	}
	k.admitRequest(r)
}

// faulted lets the first fault that hits decide; at the beginning of service
// only those that answer after it.
func (k *kernel) faulted(r int32, service bool) bool {
	q := k.requests.at(r)
	n := &k.nodes[q.node]
	for i := range n.faults {
		f := &n.faults[i]
		if (f.spec.Kind == FaultServed) != service || f.off || k.now < int64(f.spec.From) || f.spec.Until > 0 && k.now >= int64(f.spec.Until) {
			continue
		}
		if !k.hit(q, n, f, i) {
			continue
		}
		k.suffer(r, f)
		return true
	}
	return false
}

// hit draws whether a fault hits a request.
func (k *kernel) hit(q *request, n *node, f *fault, i int) bool {
	p := f.probability.at(k.now)
	if !f.spec.PerJob || q.job == none || i >= 32 {
		return p >= 1 || p > 0 && n.hits.unit() < p
	}
	j := k.jobs.at(q.job)
	drawn, hit := uint64(1)<<i, uint64(1)<<(32+i)
	if j.faults&drawn == 0 {
		j.faults |= drawn
		if n.hits.unit() < p {
			j.faults |= hit
		}
	}
	return j.faults&hit != 0
}

// suffer answers by a fault.
func (k *kernel) suffer(r int32, f *fault) {
	q := k.requests.at(r)
	n := &k.nodes[q.node]
	switch f.spec.Kind {
	case FaultServed:
		q.doomed, q.failure, q.after = true, f.reply.failure, f.reply.after.draw(&n.answers)
	case FaultHang:
		if q.measured {
			n.meter.total.Hung++
		}
		q.stand = hanging
		k.forgotten(r)
	case FaultRefuse:
		if q.measured {
			n.meter.total.Refused++
		}
		k.refuse(r, &f.reply)
	default:
		if q.measured {
			n.meter.total.Errors++
		}
		k.refuse(r, &f.reply)
	}
}

// refuse answers badly, without a server.
func (k *kernel) refuse(r int32, a *reply) {
	q := k.requests.at(r)
	n := &k.nodes[q.node]
	n.meter.all.errors++
	q.ok, q.failure = false, a.failure
	k.reply(r, a.after.draw(&n.answers))
}

// reply sends the answer back after a while.
func (k *kernel) reply(r int32, after int64) {
	q := k.requests.at(r)
	n := &k.nodes[q.node]
	if k.forgotten(r) {
		return
	}
	q.stand = comingBack
	if p := n.lossOut.at(k.now); p > 0 && n.network.unit() < p {
		q.stand = hanging
		n.lost(k.measured)
		return
	}
	after += n.back.draw(&n.network)
	q.event = k.agenda.add(k.after(after), rankEnd, doBack, r)
}

// forgotten gives back a request that nobody waits for and that has left its
// node.
func (k *kernel) forgotten(r int32) bool {
	q := k.requests.at(r)
	if q.job != none || q.counted {
		return false
	}
	k.requests.give(r)
	return true
}

// answered is the arrival of an answer at the caller.
func (k *kernel) answered(r int32) {
	q := k.requests.at(r)
	q.event = 0
	n := &k.nodes[q.node]
	if n.spec.Row != nil && q.ok && !q.writes {
		q.stand = atCaller
		q.event = k.agenda.add(k.after(n.work.draw(&n.answers)), rankEnd, doWork, r)
		return
	}
	i, ok, f := q.job, q.ok, q.failure
	k.requests.give(r)
	k.conclude(i, ok, f)
}

// worked sends the write of a row.
func (k *kernel) worked(r int32) {
	q := k.requests.at(r)
	q.event, q.writes = 0, true
	k.depart(r)
}
