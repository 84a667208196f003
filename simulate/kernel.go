package simulate

import (
	"context"
	"fmt"
	"time"
)

// kernel is one run: all state, on one goroutine.
type kernel struct {
	scenario *Scenario
	seed     uint64
	origin   time.Time
	trace    func(Event)

	now    int64 // nanoseconds since origin
	agenda agenda
	events int64
	still  still

	jobs     pool[job]
	requests pool[request]
	clients  []client // callers first, then dependencies
	nodes    []node
	procs    []process
	gates    []gateCell
	lanes    []lane
	sources  []source
	users    []user
	batches  []batch
	kills    []kill

	buckets  buckets
	from     int64 // measuring begins
	measured bool
	arrived  int64 // jobs of all callers
	active   int   // sources and users that may still bring a job
	stopped  bool  // no more arrivals
	over     bool
}

// defaultOrigin is virtual time 0 of scenarios that name none.
var defaultOrigin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func newKernel(s *Scenario, seed uint64, trace func(Event)) *kernel {
	k := &kernel{scenario: s, seed: seed, origin: s.Origin, trace: trace, buckets: newBuckets(s), still: still{patience: patience}}
	if k.origin.IsZero() {
		k.origin = defaultOrigin
	}
	k.buildNodes()
	k.buildClients()
	k.buildSources()
	if s.WarmUp > 0 {
		k.from = int64(s.WarmUp)
		k.agenda.add(k.from, rankControl, doWarm, 0)
	} else {
		k.measure()
	}
	if s.Length.Time > 0 {
		k.agenda.add(int64(s.Length.Time), rankControl, doStop, 0)
	}
	if s.Length.MaxTime > 0 {
		k.agenda.add(int64(s.Length.MaxTime), rankControl, doEnd, 0)
	}
	return k
}

// measure ends the warm-up.
func (k *kernel) measure() {
	k.measured = true
	k.eachMeter(func(m meter) { m.measure(k.now) })
}

// run handles events until the run is over.
func (k *kernel) run(ctx context.Context, most int64) error {
	for !k.over && !k.drained() && k.agenda.heap[0].at < horizon {
		at, task, arg := k.agenda.next()
		if at >= k.buckets.end {
			k.roll(at)
		}
		k.now = at
		k.events++
		if k.events&0xfff == 0 {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if k.still.stands(k) {
				return fmt.Errorf("simulate: %s: virtual time stands at %s: something goes on for ever in no time, such as a closed user without think whose calls take none; give it a duration",
					k.scenario.Name, time.Duration(k.now))
			}
		}
		if most > 0 && k.events > most {
			return fmt.Errorf("simulate: %s: more than %d events by %s of virtual time: shorten length, or raise the limit",
				k.scenario.Name, most, time.Duration(k.now))
		}
		k.handle(task, arg)
	}
	k.finish()
	return nil
}

// still notices that virtual time does not move any more.
type still struct {
	patience int64 // events at one instant, beside what the work in it explains
	at       int64 // the instant
	since    int64 // events by then
	most     int64 // jobs in the system at once in that instant
}

// patience is for a job that is tried some million times at one instant;
// explained is the events of a job that is tried a few times.
const (
	patience  = 1 << 25
	explained = 64
)

func (s *still) stands(k *kernel) bool {
	if k.now != s.at {
		s.at, s.since, s.most = k.now, k.events, 0
	}
	s.most = max(s.most, int64(k.jobs.used))
	return k.events-s.since > s.patience+explained*s.most
}

// drained reports whether nothing is left to happen: no more arrivals, and
// either no work in the system or none of it that could go on.
func (k *kernel) drained() bool {
	if len(k.agenda.heap) == 0 {
		return true
	}
	if !k.stopped && k.active > 0 {
		return false
	}
	if !k.stopped && k.scenario.Length.Time > 0 && k.scenario.Length.End != Drain {
		return false // the measured time is length.time, whatever happens in it
	}
	return k.agenda.idle() || k.jobs.used == 0 && k.requests.used == 0
}

func (k *kernel) handle(t task, arg int32) {
	switch t {
	case doServed:
		k.served(arg)
	case doArrive:
		k.bring(arg)
	case doThere:
		k.reach(arg)
	case doBack:
		k.answered(arg)
	case doTimeout:
		k.timedOut(arg)
	case doStart:
		k.due(arg)
	case doPaced:
		k.paced(arg)
	case doUser:
		k.think(arg)
	case doDeadline:
		k.deadline(arg)
	case doWork:
		k.worked(arg)
	case doLane:
		k.laneDue(arg)
	case doExpire:
		k.laneExpired(arg)
	case doProbe:
		k.probeDue(arg)
	case doFloor:
		k.floorDue(arg)
	case doWave:
		k.waveDue(arg)
	case doShared:
		k.shareEnded(arg)
	case doOverdue:
		k.overdue(arg)
	default:
		k.control(t, arg)
	}
}

func (k *kernel) control(t task, arg int32) {
	switch t {
	case doCapacity:
		k.capacity(arg)
	case doKill:
		k.killed(arg)
	case doToggle:
		k.toggled(arg)
	case doRecover:
		k.recovered(arg)
	case doWarm:
		k.measure()
	case doStop:
		k.stop()
	case doEnd:
		k.over = true
	}
}

// stop ends the arrivals, and the run unless it drains.
func (k *kernel) stop() {
	k.stopped = true
	for i := range k.sources {
		k.agenda.cancel(&k.sources[i].event)
	}
	for i := range k.users {
		k.agenda.cancel(&k.users[i].event)
	}
	if k.scenario.Length.End != Drain {
		k.over = true
	}
}

// time is the instant as the policies see it.
func (k *kernel) time() time.Time { return k.origin.Add(time.Duration(k.now)) }

// instant is a policy's time as virtual time, at least now.
func (k *kernel) instant(t time.Time) int64 {
	return max(k.now, int64(t.Sub(k.origin)))
}

// horizon, 73 years, is where every run ends: sums of two instants before it
// do not overflow, and what is put off beyond it never happens.
const horizon = 1 << 61

// after is the instant d from now, at most the horizon.
func (k *kernel) after(d int64) int64 { return k.now + min(d, horizon-k.now) }
