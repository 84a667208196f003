package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/worker"
)

// Buckets in seconds. Those of intervals lie beside the presets' delays and
// the ends of their jitter.
var (
	durationBuckets   = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600}
	lagBuckets        = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}
	completionBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1860, 3600, 7200, 21600, 86400}
	intervalBuckets   = []float64{1, 5, 7.5, 10, 15, 24, 30, 36, 48, 60, 72, 96, 120, 144, 192, 240, 288, 384, 480, 576, 768, 960, 1152, 1800, 3600}
)

// metrics are what events are counted in.
type metrics struct {
	promises *promises

	enqueued, started, settled             *prometheus.CounterVec // by kind and queue
	dead, untried, parked                  *prometheus.CounterVec // by kind and queue
	completion, duration                   *prometheus.HistogramVec
	lag, interval, holdTime                *prometheus.HistogramVec
	holds, storeErrors, transitions, stuck *prometheus.CounterVec

	redriven, fired, refused, ordered prometheus.Counter
	reaped, reapedLeases, lost        prometheus.Counter

	kinds, queues, targets, policies, calls *names
	foldedPairs                             prometheus.Counter
	marks                                   marks

	limit int // of lanes with names of their own
	mu    sync.RWMutex
	lanes map[laneName]*lane
	pairs int // lanes whose queue has its name
}

func newMetrics(r prometheus.Registerer, limit int, p *promises) *metrics {
	f := factory{r}
	m := &metrics{promises: p, limit: limit, lanes: make(map[laneName]*lane)}
	lane := []string{"kind", "queue"}
	m.enqueued = f.counters("ebb_jobs_enqueued_total", "Jobs that this process enqueued through telemetry's Ops; one whose unique key was taken is not counted.", lane...)
	m.started = f.counters("ebb_jobs_started_total", "Handlers begun, first tries and retries apart.", append(lane, "try")...)
	m.settled = f.counters("ebb_jobs_settled_total", "Starts whose outcome the store has, by outcome and class of the failure (none where there was none).", append(lane, "outcome", "class")...)
	m.dead = f.counters("ebb_dead_letters_total", "Jobs that became dead letters, by cause, whatever ended them.", append(lane, "cause")...)
	m.untried = f.counters("ebb_dead_letters_untried_total", "Dead letters among them that had not started since they were enqueued or given fresh attempts, by what ended them: their own deadline, or max_hold.", append(lane, "by")...)
	m.parked = f.counters("ebb_jobs_parked_total", "Jobs that were parked, by cause, whatever parked them.", append(lane, "cause")...)
	m.completion = f.histograms("ebb_job_completion_seconds", "Time from a job's enqueue to its success, waits and retries included.", completionBuckets, "kind")
	m.duration = f.histograms("ebb_handler_duration_seconds", "How long handlers ran, by kind and whether they succeeded.", durationBuckets, "kind", "result")
	m.lag = f.histograms("ebb_start_lag_seconds", "Time from a job's due time to its start, first tries and retries apart.", lagBuckets, "queue", "try")
	m.interval = f.histograms("ebb_retry_interval_seconds", "Delay decided on before a retry that spends an attempt, by the number of the try that follows and by what chose it: the policy's schedule, a rule with one of its own, or the target by Retry-After.", intervalBuckets, "policy", "attempt", "chosen_by")
	m.holdTime = f.histograms("ebb_hold_duration_seconds", "Time from due to start of starts that this process had held back, by what held them last.", completionBuckets, "by")
	m.holds = f.counters("ebb_holds_total", "Leases given back or kept waiting unspent, by what held them.", "by")
	m.storeErrors = f.counters("ebb_store_errors_total", "Failed calls of the store, by call; each is made again.", "call")
	m.transitions = f.counters("ebb_target_transitions_total", "Changes of a target's gate that this process made.", "target", "to")
	m.stuck = f.counters("ebb_handlers_stuck_total", "Handlers given up because they did not return after their context ended.", "kind")

	m.redriven = f.counter("ebb_jobs_redriven_total", "Dead letters and parked jobs that were queued again.")
	m.fired = f.counter("ebb_schedule_jobs_total", "Jobs that schedules enqueued.")
	m.refused = f.counter("ebb_settles_refused_total", "Outcomes that the store refused because the lease was lost.")
	m.ordered = f.counter("ebb_cancel_orders_total", "Operators' cancel orders that reached a handler.")
	m.reaped = f.counter("ebb_processes_reaped_total", "Other processes that this one took for dead.")
	m.reapedLeases = f.counter("ebb_leases_reaped_total", "Leases of dead processes that this one ended.")
	m.lost = f.counter("ebb_process_losses_total", "How often this process was taken for dead.")

	folded := f.counters("ebb_label_folds_total", "Uses of a name beyond the limit, counted under the label value other; a lane is a pair of kind and queue.", "label")
	m.kinds = newNames(limit, folded.WithLabelValues("kind"))
	m.queues = newNames(limit, folded.WithLabelValues("queue"))
	m.targets = newNames(limit, folded.WithLabelValues("target"))
	m.policies = newNames(limit, folded.WithLabelValues("policy"))
	m.calls = newNames(limit, folded.WithLabelValues("call"))
	m.foldedPairs = folded.WithLabelValues("lane")
	m.storeErrors.WithLabelValues(turnCall) // an alert needs the 0 before the first
	return m
}

// turnCall is the call that everything else depends on.
const turnCall = "turn"

type factory struct{ r prometheus.Registerer }

func (f factory) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	f.r.MustRegister(c)
	return c
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	f.r.MustRegister(c)
	return c
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	f.r.MustRegister(h)
	return h
}

type laneName struct{ kind, queue string }

// lane is the series of one kind in one queue, found once and kept: what a
// job costs here is a map lookup and some additions.
type lane struct {
	kind, queue string // as labels
	enqueued    prometheus.Counter
	started     [2]prometheus.Counter // first, retry
	lag         [2]prometheus.Observer
	duration    [2]prometheus.Observer // failed, ok
	completion  prometheus.Observer
	succeeded   prometheus.Counter
}

var (
	tries   = [2]string{"first", "retry"}
	results = [2]string{"failed", "ok"}
)

// lane returns the series of a kind in a queue. Beyond the limit of pairs the
// queue becomes other, beyond that of kinds both do.
func (m *metrics) lane(kind, queue string) *lane {
	name := laneName{kind, queue}
	m.mu.RLock()
	found := m.lanes[name]
	m.mu.RUnlock()
	if found != nil {
		return found
	}
	return m.addLane(name)
}

func (m *metrics) addLane(name laneName) *lane {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.lanes[name]; l != nil {
		return l // somebody was faster
	}
	label := laneName{m.kinds.fold(name.kind), valid(name.queue)}
	switch {
	case label.kind == other:
		label.queue = other
		name = label
	case m.pairs < m.limit:
		m.pairs++
	default:
		m.foldedPairs.Inc()
		label.queue = other
		name = label
	}
	if m.lanes[name] == nil {
		m.lanes[name] = m.newLane(label.kind, label.queue)
	}
	return m.lanes[name]
}

// newLane makes the series. Counters that alerts compute rates of begin at 0:
// a counter that is born with its first failure shows no increase.
func (m *metrics) newLane(kind, queue string) *lane {
	l := &lane{kind: kind, queue: queue}
	l.enqueued = m.enqueued.WithLabelValues(kind, queue)
	for i := range tries {
		l.started[i] = m.started.WithLabelValues(kind, queue, tries[i])
		l.lag[i] = m.lag.WithLabelValues(queue, tries[i])
		l.duration[i] = m.duration.WithLabelValues(kind, results[i])
	}
	l.completion = m.completion.WithLabelValues(kind)
	l.succeeded = m.settled.WithLabelValues(kind, queue, string(job.Succeeded), classNone)
	for _, t := range job.Transitions {
		for _, cause := range t.Causes {
			m.ended(t.To).WithLabelValues(kind, queue, string(cause))
		}
	}
	for _, by := range []string{worker.ByDeadline, worker.ByHold} {
		m.untried.WithLabelValues(kind, queue, by)
	}
	return l
}

// ended returns what counts the ends of a state by cause.
func (m *metrics) ended(s job.State) *prometheus.CounterVec {
	if s == job.Parked {
		return m.parked
	}
	return m.dead
}

// classNone is the class of an outcome that was no failure.
const classNone = "none"

// outcomeOf names what became of a start.
func outcomeOf(to job.State, f *failure.Failure, d *retry.Decision) (outcome, class string) {
	class = classNone
	if f.Class != failure.Unknown || f.Err != nil {
		class = f.Class.String()
	}
	switch {
	case to != job.Queued:
		return string(to), class
	case f.Order == failure.OrderSnooze:
		return "snoozed", classNone
	case d.Counted == retry.CountedApart:
		return "deferred", class
	}
	return "retried", class
}
