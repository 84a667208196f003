package simulate

import (
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/retry"
)

// callerMeter measures one client.
type callerMeter struct {
	total  CallerTotals // counts after the warm-up
	all    callerCounts // counts since the beginning, for the series
	marked callerCounts // all at the beginning of the bucket
	calls  peak

	depth, inFlight, inSystem level

	jobs, tries, ok, waits sketch
	intervals              []sketch
	dead                   []DeadLetters
	failures               []FailureCount
	waves                  []WaveCount
	held                   wide
	lastEnd                int64
	series                 CallerSeries
}

// callerCounts are the counters of a caller's series.
type callerCounts struct {
	arrived, firsts, retries, ok, failed, succeeded, dead int64
}

// interval books the time from the end of start n-1 to start n.
func (m *callerMeter) interval(n int, ns int64) {
	i := min(n-2, MaxIntervals-1)
	for len(m.intervals) <= i {
		m.intervals = append(m.intervals, sketch{})
	}
	m.intervals[i].add(ns)
}

// turnedAway is the cause of jobs that found too many waiting; cancelled of a
// layer's calls whose request nobody waits for any more.
const (
	turnedAway retry.Cause = "turned_away"
	cancelled  retry.Cause = "cancelled"
	disabled   retry.Cause = "disabled"
)

func (m *callerMeter) deadLetter(cause retry.Cause, class failure.Class, now int64) {
	at := seconds(now)
	for i := range m.dead {
		d := &m.dead[i]
		if d.Cause == string(cause) && d.Class == class.String() {
			d.Jobs++
			d.LastAt = at
			return
		}
	}
	m.dead = append(m.dead, DeadLetters{Cause: string(cause), Class: class.String(), Jobs: 1, FirstAt: at, LastAt: at})
}

func (m *callerMeter) failure(class failure.Class, status int) {
	for i := range m.failures {
		f := &m.failures[i]
		if f.Status == status && f.Class == class.String() {
			f.Starts++
			return
		}
	}
	m.failures = append(m.failures, FailureCount{Class: class.String(), Status: status, Starts: 1})
}

// measure ends the warm-up.
func (m *callerMeter) measure(now int64) {
	m.depth.measure(now)
	m.inFlight.measure(now)
	m.inSystem.measure(now)
}

// bucket ends a bucket of the series that is d long.
func (m *callerMeter) bucket(now, d int64) {
	s, a, b := &m.series, &m.all, &m.marked
	s.Arrived = append(s.Arrived, a.arrived-b.arrived)
	s.Firsts = append(s.Firsts, a.firsts-b.firsts)
	s.Retries = append(s.Retries, a.retries-b.retries)
	s.OK = append(s.OK, a.ok-b.ok)
	s.Failed = append(s.Failed, a.failed-b.failed)
	s.Succeeded = append(s.Succeeded, a.succeeded-b.succeeded)
	s.Dead = append(s.Dead, a.dead-b.dead)
	depth, _ := m.depth.bucket(now, d)
	inFlight, _ := m.inFlight.bucket(now, d)
	_, inSystem := m.inSystem.bucket(now, d)
	s.Depth = append(s.Depth, depth)
	s.InFlight = append(s.InFlight, inFlight)
	s.InSystemMax = append(s.InSystemMax, inSystem)
	m.marked = m.all
}

// nodeMeter measures one downstream.
type nodeMeter struct {
	total  DownstreamTotals
	all    nodeCounts
	marked nodeCounts
	peak   peak

	queue, busy, inSystem, servers level

	waits, services, sojourns sketch
	useful, spent             wide // busy time that somebody waited for, and all
	series                    DownstreamSeries
	collapsed                 int64 // time
}

type nodeCounts struct{ requests, ok, errors, wasted int64 }

func (m *nodeMeter) measure(now int64) {
	m.queue.measure(now)
	m.busy.measure(now)
	m.inSystem.measure(now)
	m.servers.measure(now)
}

func (m *nodeMeter) bucket(now, d int64) {
	s, a, b := &m.series, &m.all, &m.marked
	s.Requests = append(s.Requests, a.requests-b.requests)
	s.OK = append(s.OK, a.ok-b.ok)
	s.Errors = append(s.Errors, a.errors-b.errors)
	s.Wasted = append(s.Wasted, a.wasted-b.wasted)
	queue, highest := m.queue.bucket(now, d)
	busy, _ := m.busy.bucket(now, d)
	s.Queue = append(s.Queue, queue)
	s.Busy = append(s.Busy, busy)
	s.QueueMax = append(s.QueueMax, highest)
	m.marked = m.all
}
