package fetch

import (
	"strings"
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/worker"
)

// EventType names what happened.
type EventType string

const (
	EventPass     EventType = "pass"     // a pass begins: Wave 0 is the first
	EventPage     EventType = "page"     // a page is done, failed, parked or cancelled
	EventRetry    EventType = "retry"    // a try failed; the page is tried again
	EventCooling  EventType = "cooling"  // a wave was planned and waits
	EventGate     EventType = "gate"     // a host's gate opened, closed or paused
	EventProgress EventType = "progress" // figures, now and then
	EventEnded    EventType = "ended"    // nothing is left that would be tried
)

// Event is one line of `ebb fetch --json`.
type Event struct {
	Type    EventType     `json:"event"`
	At      time.Time     `json:"at"`
	URL     string        `json:"url,omitempty"`
	Host    string        `json:"host,omitempty"`
	State   job.State     `json:"state,omitempty"`
	Outcome Outcome       `json:"outcome,omitempty"`
	Class   string        `json:"class,omitempty"`
	Reason  string        `json:"reason,omitempty"`
	Status  int           `json:"status,omitempty"`
	Text    string        `json:"text,omitempty"`
	Delay   time.Duration `json:"delay_ns,omitempty"`
	Until   time.Time     `json:"until,omitzero"`
	Wave    int           `json:"wave,omitempty"`
	Count   int64         `json:"count,omitempty"`
	// Progress is of EventProgress, Tally of EventEnded.
	Progress *Progress `json:"progress,omitempty"`
	Tally    *Tally    `json:"tally,omitempty"`
}

// Progress is how far a pass has come.
type Progress struct {
	Wave    int     `json:"wave"`
	Done    int64   `json:"done"`   // of this pass, by this process
	Failed  int64   `json:"failed"` // of this pass, for now
	Left    int64   `json:"left"`
	Rate    float64 `json:"rate"` // pages a second of policy time, over the last half minute
	ETA     float64 `json:"eta_s,omitempty"`
	Cooling float64 `json:"cooling_s,omitempty"` // until the wave starts
	// Gates are the hosts that are not called for now, and why.
	Gates map[string]string `json:"gates,omitempty"`
}

// meter counts for Progress. Nothing depends on it but when the store is asked
// whether the pass is over.
type meter struct {
	clock clock.Clock
	empty chan struct{}

	mu     sync.Mutex
	wave   int
	done   int64
	failed int64
	left   int64
	coolTo time.Time
	gates  map[string]held
	ends   [32]mark // of the last seconds, a ring by second
	seen   seen     // since it was written down for good
	// trouble is when our own machine's faults began, when the last one came,
	// and what it was.
	trouble   time.Time
	troubleAt time.Time
	troubleIs string
}

type mark struct {
	second int64
	pages  int64
}

func newMeter(c clock.Clock) *meter {
	return &meter{clock: c, empty: make(chan struct{}, 1), gates: map[string]held{}}
}

func (m *meter) begin(wave int, left int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wave, m.left, m.done, m.failed, m.coolTo = wave, left, 0, 0, time.Time{}
}

func (m *meter) cooling(until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.coolTo = until
}

func (m *meter) setLeft(left int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = left
}

// found notes pages that links led to.
func (m *meter) found(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left += int64(n)
}

// ended notes a page that needs no further try in this pass.
func (m *meter) ended(ok bool) {
	now := m.clock.Now().Unix()
	m.mu.Lock()
	defer m.mu.Unlock()
	if ok {
		m.done++
		m.trouble = time.Time{}
		at := &m.ends[now%int64(len(m.ends))]
		if at.second != now {
			*at = mark{second: now}
		}
		at.pages++
	} else {
		m.failed++
	}
	if m.left--; m.left <= 0 {
		select {
		case m.empty <- struct{}{}:
		default:
		}
	}
}

// saw notes a page that succeeded.
func (m *meter) saw(unchanged bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen.Pages++
	if unchanged {
		m.seen.Unchanged++
	}
}

func (m *meter) sawn() seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

func (m *meter) unsee() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = seen{}
}

// local notes a fault of our own machine.
func (m *meter) local(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.trouble.IsZero() {
		m.trouble = m.clock.Now()
	}
	m.troubleAt, m.troubleIs = m.clock.Now(), why
}

// troubleLasts is how long a fault of our own counts as lasting: longer than
// we wait before the next try. A fault long ago, with all hosts held since,
// keeps nobody from saving anything.
const troubleLasts = 5 * time.Minute

// stuck returns for how long our own faults have kept pages from being saved.
func (m *meter) stuck() (time.Duration, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.trouble.IsZero() || m.clock.Now().Sub(m.troubleAt) > troubleLasts {
		m.trouble = time.Time{}
		return 0, ""
	}
	return m.clock.Now().Sub(m.trouble), m.troubleIs
}

// held is why a host is not called.
type held struct {
	why   string
	until time.Time // zero = not known
}

func (m *meter) gate(host, state string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if state == "" {
		delete(m.gates, host)
		return
	}
	_, at, _ := strings.Cut(state, " until ")
	until, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		until = time.Time{}
	}
	m.gates[host] = held{why: state, until: until}
}

// Progress returns how far the pass under way has come.
func (r *Runner) Progress() Progress {
	m := r.meter
	now := m.clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	p := Progress{Wave: m.wave, Done: m.done, Failed: m.failed, Left: max(0, m.left)}
	var pages, seconds int64
	for _, at := range m.ends {
		if age := now.Unix() - at.second; age >= 0 && age < int64(len(m.ends)) {
			pages += at.pages
			seconds = max(seconds, age+1)
		}
	}
	if seconds > 0 {
		p.Rate = float64(pages) / float64(seconds)
	}
	if p.Rate > 0 {
		p.ETA = float64(p.Left) / p.Rate
	}
	if m.coolTo.After(now) {
		p.Cooling = m.coolTo.Sub(now).Seconds()
	}
	if len(m.gates) > 0 {
		p.Gates = make(map[string]string, len(m.gates))
		for host, h := range m.gates {
			if h.until.IsZero() || h.until.After(now) {
				p.Gates[host] = h.why
			}
		}
	}
	return p
}

// observe hears the worker.
func (r *Runner) observe(e worker.Event) {
	if r.o.Watch != nil {
		r.o.Watch(e)
	}
	switch e.What {
	case worker.Settled:
		r.settled(e)
	case worker.Ended:
		for range e.Count {
			r.meter.ended(false)
		}
	case worker.GateOpened, worker.GatePaused:
		r.meter.gate(e.Target, string(e.What)+" "+e.Text)
		r.o.Observe(Event{Type: EventGate, At: e.At, Host: e.Target, State: "", Text: string(e.What) + " " + e.Text})
	case worker.GateClosed:
		r.meter.gate(e.Target, "")
		r.o.Observe(Event{Type: EventGate, At: e.At, Host: e.Target, Text: string(e.What)})
	case worker.Erred:
		r.meter.local("ledger: " + e.Err.Error())
		r.o.Log.Warn("fetch: store", "call", e.Text, "error", e.Err)
	}
}

// settled hears how a try ended.
func (r *Runner) settled(e worker.Event) {
	was := r.flight.take(e.Job.Seq)
	out := Event{Type: EventPage, At: e.At, URL: was.url, Host: e.Job.Target, State: e.To, Wave: was.wave}
	if e.To != job.Succeeded {
		out.Class, out.Reason, out.Status = e.Failure.Class.String(), e.Failure.Reason, e.Failure.Status
		if e.Failure.Err != nil {
			out.Text = e.Failure.Err.Error()
		}
	}
	if e.Failure.Class.Group() == failure.Local && e.Failure.Class != failure.Interrupted {
		r.meter.local(out.Class + ": " + out.Text)
	}
	if e.To == job.Queued {
		out.Type, out.Delay = EventRetry, e.Decision.Delay
		r.o.Observe(out)
		return
	}
	out.Outcome = outcomeOf(e.To, e.Decision.Cause, e.Failure.Class, was.unchanged)
	if e.To == job.Succeeded {
		r.meter.saw(was.unchanged)
	}
	r.meter.ended(e.To == job.Succeeded)
	r.o.Observe(out)
}

// flying is a page under way.
type flying struct {
	url       string
	wave      int
	unchanged bool
}

// flights are the pages under way in this process, by job.
type flights struct {
	mu sync.Mutex
	by map[int64]flying
}

func (f *flights) put(seq int64, page flying) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.by[seq] = page
}

func (f *flights) take(seq int64) flying {
	f.mu.Lock()
	defer f.mu.Unlock()
	page := f.by[seq]
	delete(f.by, seq)
	return page
}
