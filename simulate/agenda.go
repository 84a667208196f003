package simulate

// rank orders what happens at one instant; within a rank the order of
// scheduling decides.
type rank uint64

const (
	rankControl rank = iota << 56 // capacity, faults and collapses change, the run's marks
	rankEnd                       // services and messages end
	rankBegin                     // jobs arrive, retries are due
	rankLate                      // timeouts and deadlines: what ends at the same instant was in time
)

// task is what an event does.
type task uint8

const (
	doArrive   task = iota // arg: a source
	doUser                 // arg: a closed user
	doStart                // arg: a job whose delay is over
	doPaced                // arg: a job whose place in the pace has come
	doTimeout              // arg: a job
	doDeadline             // arg: a job
	doThere                // arg: a request that reaches its node
	doServed               // arg: a request whose service ends
	doOverdue              // arg: a request that has waited long enough
	doBack                 // arg: a request whose answer reaches the caller
	doWork                 // arg: a request whose caller has worked on the row
	doLane                 // arg: a lane whose hold may end by time
	doExpire               // arg: a lane in which a job was held long enough
	doProbe                // arg: a gate of which a parked job is let out
	doFloor                // arg: a process whose floor may start something
	doWave                 // arg: a batch whose cooldown is over
	doShared               // arg: a node that shares its servers
	doCapacity             // arg: a node
	doKill                 // arg: a fault that kills
	// What follows moves no work by itself.
	doRecover // arg: a node that collapsed
	doToggle  // arg: a fault that comes and goes
	doWarm    // measuring begins
	doStop    // arrivals end
	doEnd     // the run is cut
)

func (t task) passive() bool { return t >= doRecover }

// handle names a scheduled event; 0 is none.
type handle = int32

type entry struct {
	at  int64
	seq uint64 // rank and order of scheduling
	id  handle
}

type event struct {
	arg  int32
	pos  int32 // in the heap
	task task
}

// agenda is a 4-ary heap of events by (instant, rank, order of scheduling),
// from which an event can be taken out by its handle. What is done or taken
// out is used again: the memory is that of the events pending at once.
type agenda struct {
	heap    []entry
	events  []event // by handle; 0 is not used
	free    []handle
	counter uint64
	passive int // how many pending events move no work
}

func (a *agenda) add(at int64, r rank, t task, arg int32) handle {
	var id handle
	if n := len(a.free); n > 0 {
		id = a.free[n-1]
		a.free = a.free[:n-1]
	} else {
		if len(a.events) == 0 {
			a.events = append(a.events, event{})
		}
		id = handle(len(a.events))
		a.events = append(a.events, event{})
	}
	if t.passive() {
		a.passive++
	}
	a.counter++
	a.events[id] = event{arg: arg, task: t}
	a.heap = append(a.heap, entry{})
	a.up(len(a.heap)-1, entry{at: at, seq: uint64(r) | a.counter, id: id})
	return id
}

// cancel takes an event out; 0 is nothing to take out.
func (a *agenda) cancel(h *handle) {
	id := *h
	if id == 0 {
		return
	}
	*h = 0
	a.remove(int(a.events[id].pos))
}

func (a *agenda) remove(i int) entry {
	e := a.heap[i]
	if a.events[e.id].task.passive() {
		a.passive--
	}
	last := len(a.heap) - 1
	moved := a.heap[last]
	a.heap = a.heap[:last]
	if i < last {
		if i > 0 && before(&moved, &a.heap[(i-1)/4]) {
			a.up(i, moved)
		} else {
			a.down(i, moved)
		}
	}
	a.free = append(a.free, e.id)
	return e
}

// next takes out the first event.
func (a *agenda) next() (at int64, t task, arg int32) {
	e := a.remove(0)
	ev := &a.events[e.id]
	return e.at, ev.task, ev.arg
}

// idle reports whether nothing that could move work is pending.
func (a *agenda) idle() bool { return len(a.heap) == a.passive }

func before(x, y *entry) bool {
	return x.at < y.at || x.at == y.at && x.seq < y.seq
}

func (a *agenda) up(i int, e entry) {
	for i > 0 {
		parent := (i - 1) / 4
		if !before(&e, &a.heap[parent]) {
			break
		}
		a.put(i, a.heap[parent])
		i = parent
	}
	a.put(i, e)
}

func (a *agenda) down(i int, e entry) {
	n := len(a.heap)
	for {
		first := 4*i + 1
		if first >= n {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, n); c++ {
			if before(&a.heap[c], &a.heap[least]) {
				least = c
			}
		}
		if !before(&a.heap[least], &e) {
			break
		}
		a.put(i, a.heap[least])
		i = least
	}
	a.put(i, e)
}

func (a *agenda) put(i int, e entry) {
	a.heap[i] = e
	a.events[e.id].pos = int32(i)
}
