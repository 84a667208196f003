package telemetry

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/worker"
)

// observe counts an event.
func (m *metrics) observe(e *worker.Event) {
	switch e.What {
	case worker.Claimed:
		m.lane(e.Job.Kind, e.Job.Queue)
	case worker.Started:
		m.begun(e)
	case worker.Settled:
		m.ends(e)
	case worker.Held:
		by := holdOf(e.Text)
		m.holds.WithLabelValues(by).Inc()
		m.marks.put(e.Job.Seq, by)
	case worker.Refused:
		m.refused.Inc()
	case worker.Stuck:
		m.stuck.WithLabelValues(m.lane(e.Job.Kind, e.Job.Queue).kind).Inc()
	case worker.Ordered:
		m.ordered.Inc()
	case worker.Lost:
		m.lost.Inc()
	case worker.Reaped:
		m.reaped.Inc()
		add(m.reapedLeases, e.Count)
	case worker.Redriven:
		add(m.redriven, e.Count)
	case worker.Ended:
		m.endedWaiting(e)
	case worker.Fired:
		add(m.fired, e.Count)
	case worker.Probing, worker.GateOpened, worker.GateClosed, worker.GatePaused, worker.TargetDisabled:
		m.transitions.WithLabelValues(m.targets.fold(e.Target), transitionOf(e.What)).Inc()
	case worker.Erred:
		m.storeErrors.WithLabelValues(m.calls.fold(callOf(e.Text))).Inc()
	case worker.Stopped:
		if e.Err != nil {
			m.storeErrors.WithLabelValues("stop").Inc()
		}
	}
}

func add(c prometheus.Counter, n int) { c.Add(float64(max(n, 0))) }

func (m *metrics) begun(e *worker.Event) {
	l := m.lane(e.Job.Kind, e.Job.Queue)
	try := 0
	if store.Retrying(e.Job.History) {
		try = 1
	}
	late := seconds(e.At.Sub(e.Job.DueAt))
	l.started[try].Inc()
	l.lag[try].Observe(late)
	if by, held := m.marks.take(e.Job.Seq); held {
		m.holdTime.WithLabelValues(by).Observe(late)
	}
}

func (m *metrics) ends(e *worker.Event) {
	l := m.lane(e.Job.Kind, e.Job.Queue)
	if e.To == job.Succeeded {
		l.succeeded.Inc()
		l.duration[1].Observe(seconds(e.Took))
		l.completion.Observe(seconds(e.At.Sub(e.Job.EnqueuedAt)))
		return
	}
	outcome, class := outcomeOf(e.To, &e.Failure, &e.Decision)
	m.settled.WithLabelValues(l.kind, l.queue, outcome, class).Inc()
	unbegun := e.Took == 0 && (e.To == job.Cancelled || e.To == job.Parked)
	if !unbegun {
		l.duration[0].Observe(seconds(e.Took))
	}
	switch e.To {
	case job.Failed, job.Parked:
		m.ended(e.To).WithLabelValues(l.kind, l.queue, string(e.Cause)).Inc()
	case job.Queued:
		m.retried(e)
	}
}

// endedWaiting counts jobs that were failed or parked by something else than
// the settle of a start.
func (m *metrics) endedWaiting(e *worker.Event) {
	l := m.lane(e.Job.Kind, e.Job.Queue)
	add(m.ended(e.To).WithLabelValues(l.kind, l.queue, string(e.Cause)), e.Count)
	if e.To == job.Failed && e.Untried {
		add(m.untried.WithLabelValues(l.kind, l.queue, e.Text), e.Count)
	}
}

// retried notes the interval before a retry. Free starts, snoozes and waits
// for our own machine follow other schedules and are left out.
func (m *metrics) retried(e *worker.Event) {
	d := &e.Decision
	if d.Counted != retry.CountedAttempt || e.Failure.Order != failure.OrderNone {
		return
	}
	name := e.Job.Policy
	if name == "" {
		name = policy.DefaultName
	}
	by := "schedule"
	switch {
	case d.Floored:
		by = "target"
	case m.promises.ownSchedule(name, d.Rule):
		by = "rule"
	}
	m.interval.WithLabelValues(m.policies.fold(name), attemptOf(d.Next.Attempts+1), by).Observe(seconds(d.Delay))
}

// maxAttempt is the last try with a label of its own.
const maxAttempt = 21

// attemptOf labels the number of a try.
func attemptOf(n int) string {
	if n > maxAttempt {
		return strconv.Itoa(maxAttempt) + "+"
	}
	return strconv.Itoa(n)
}

func seconds(d time.Duration) float64 { return max(d, 0).Seconds() }

// callOf names the call of the store in a text such as "schedule NAME".
func callOf(text string) string {
	if strings.HasPrefix(text, "schedule ") {
		return "schedule"
	}
	return strings.ReplaceAll(text, " ", "_")
}

// transitionOf names what a gate did.
func transitionOf(what worker.EventKind) string {
	switch what {
	case worker.GateOpened:
		return "open"
	case worker.GateClosed:
		return "closed"
	case worker.GatePaused:
		return "paused"
	case worker.TargetDisabled:
		return "disabled"
	}
	return string(what)
}

// marks remembers what held jobs back until they start here. It forgets the
// oldest: a job may start in another process, or never.
type marks struct {
	mu         sync.Mutex
	young, old map[int64]string
}

// maxMarks is how many each of the two halves holds.
const maxMarks = 5000

func (m *marks) put(seq int64, by string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.young == nil || len(m.young) >= maxMarks {
		m.young, m.old = make(map[int64]string), m.young
	}
	m.young[seq] = by
}

func (m *marks) take(seq int64) (by string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if by, ok = m.young[seq]; !ok {
		by, ok = m.old[seq]
	}
	delete(m.young, seq)
	delete(m.old, seq)
	return by, ok
}
