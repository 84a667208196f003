package simulate

// Result is what Run found: every run, and what they say together. Its JSON
// is a function of scenario and seeds alone, byte for byte. Durations and
// instants are seconds of virtual time.
type Result struct {
	Scenario string `json:"scenario"`
	About    string `json:"about,omitempty"`
	// Runs has one entry per seed, in the order of seeds.
	Runs []Outcome `json:"runs"`
	// Estimates has every scalar measure over the runs: see Measures.
	Estimates []Estimate `json:"estimates"`
}

// Outcome is one run.
type Outcome struct {
	Seed uint64 `json:"seed"`
	// EndedAt is the virtual time at which the run ended, From where
	// measuring began (the warm-up).
	From    float64 `json:"from"`
	EndedAt float64 `json:"ended_at"`
	// Events is the number of events the kernel handled.
	Events int64 `json:"events"`
	// CutShort says that work was in the system when the run ended.
	CutShort    bool                `json:"cut_short"`
	Callers     []CallerOutcome     `json:"callers"`
	Downstreams []DownstreamOutcome `json:"downstreams"` // copies one by one
}

// CallerOutcome is what one caller, or one dependency of a layer, saw.
type CallerOutcome struct {
	// Name is the caller's, or "downstream/dependency".
	Name   string       `json:"name"`
	Layer  bool         `json:"layer,omitempty"` // a dependency
	Totals CallerTotals `json:"totals"`
	// Jobs is the time from a job's arrival to its end, of all that
	// succeeded; Calls from a start to its end, of all starts that ended; OK
	// the same of those that succeeded. Waits is the time from a job's
	// arrival to its first start.
	Jobs  Histogram `json:"jobs"`
	Calls Histogram `json:"calls"`
	OK    Histogram `json:"ok"`
	Waits Histogram `json:"waits"`
	// Intervals are the delays before retries as they happened, from the end
	// of a start to the next start: Intervals[0] before start 2, and so on;
	// the last entry holds all later ones.
	Intervals []Histogram `json:"intervals,omitempty"`
	// DeadLetters are the jobs that ended without success, by why.
	DeadLetters []DeadLetters  `json:"dead_letters,omitempty"`
	Failures    []FailureCount `json:"failures,omitempty"`
	Waves       []WaveCount    `json:"waves,omitempty"`
	Recovery    RecoveryTime   `json:"recovery"`
	Series      CallerSeries   `json:"series"`
}

// MaxIntervals is the number of starts whose retry intervals are told apart.
const MaxIntervals = 12

// CallerTotals are the scalars of one caller after the warm-up. Jobs count
// if they arrived after it, starts and calls if they began after it.
type CallerTotals struct {
	// Jobs arrived; of them Succeeded, Dead (ended without success)
	// and Unfinished (neither when the run ended).
	Jobs       int64 `json:"jobs"`
	Succeeded  int64 `json:"succeeded"`
	Dead       int64 `json:"dead"`
	Unfinished int64 `json:"unfinished"`
	// Parked counts how often jobs were held for max_hold and parked until
	// their target was well; one that is parked at the end is unfinished.
	Parked int64 `json:"parked"`
	// Starts are tries begun: Firsts and Retries. Calls are starts whose
	// request was sent; a start that timed out while it waited for a
	// connection sent none. OK and Failed are how starts ended.
	Starts  int64 `json:"starts"`
	Firsts  int64 `json:"firsts"`
	Retries int64 `json:"retries"`
	Calls   int64 `json:"calls"`
	OK      int64 `json:"ok"`
	Failed  int64 `json:"failed"`
	// TimedOut are the starts that the timeout ended.
	TimedOut int64 `json:"timed_out"`
	// Amplification is Calls ÷ Firsts; 0 without firsts.
	Amplification float64 `json:"amplification"`
	// SuccessShare is Succeeded ÷ (Succeeded + Dead), DeadShare its rest;
	// both 0 if no job ended. CallSuccess is OK ÷ (OK + Failed).
	SuccessShare float64 `json:"success_share"`
	DeadShare    float64 `json:"dead_share"`
	CallSuccess  float64 `json:"call_success"`
	// Throughput is jobs that ended a second, Goodput those that succeeded,
	// CallRate calls a second, over the measured time.
	Throughput float64 `json:"throughput"`
	Goodput    float64 `json:"goodput"`
	CallRate   float64 `json:"call_rate"`
	// PeakCalls is the most calls in any whole second of virtual time
	// [k, k+1), PeakAt the second's beginning.
	PeakCalls int64   `json:"peak_calls"`
	PeakAt    float64 `json:"peak_at"`
	// Depth is the number of jobs that are not started at this moment (for
	// the first time or again, delays included), InFlight the number of
	// starts under way, Jobs the number in the system: time averages by exact
	// integrals, and maxima.
	DepthMean    float64 `json:"depth_mean"`
	DepthMax     int64   `json:"depth_max"`
	InFlightMean float64 `json:"in_flight_mean"`
	InFlightMax  int64   `json:"in_flight_max"`
	InSystemMean float64 `json:"in_system_mean"`
	InSystemMax  int64   `json:"in_system_max"`
	// Held is the time that jobs were held by a breaker, a Retry-After pause
	// or an empty budget, in total, as max_hold counts it.
	Held float64 `json:"held"`
	// LastEnd is when the last job ended, since the beginning.
	LastEnd float64 `json:"last_end"`
}

// DeadLetters counts jobs that ended without success for one reason.
type DeadLetters struct {
	Cause string `json:"cause"` // retry.Cause, or "turned_away"
	Class string `json:"class"` // of the last failure; "unknown" without one
	Jobs  int64  `json:"jobs"`
	// FirstAt and LastAt are when such jobs ended.
	FirstAt float64 `json:"first_at"`
	LastAt  float64 `json:"last_at"`
}

// FailureCount counts failed starts of one class and status.
type FailureCount struct {
	Class  string `json:"class"`
	Status int    `json:"status,omitempty"`
	Starts int64  `json:"starts"`
}

// WaveCount sums up the waves of one number over all batches.
type WaveCount struct {
	Number    int     `json:"number"` // 0 = the first pass
	Planned   int64   `json:"planned"`
	Recovered int64   `json:"recovered"`
	FirstAt   float64 `json:"first_at"` // of the first such wave's beginning
	LastAt    float64 `json:"last_at"`  // of the last one's end
}

// RecoveryTime tells when a caller was well again after a disturbance.
type RecoveryTime struct {
	// Disturbed says that there was a disturbance that ended within the run.
	Disturbed bool    `json:"disturbed"`
	BeganAt   float64 `json:"began_at"`
	EndedAt   float64 `json:"ended_at"`
	// Recovered says that the share of successful starts came back; After is
	// the time from the disturbance's end until then. Not recovered = never.
	Recovered bool    `json:"recovered"`
	After     float64 `json:"after"`
	// Drained says that the jobs in the system came back to at most their
	// greatest number before the disturbance; DrainedAfter is when.
	Drained      bool    `json:"drained"`
	DrainedAfter float64 `json:"drained_after"`
}

// CallerSeries are values per bucket of Width seconds; bucket i begins at
// i × Width. Counts are per bucket, depths time averages within it. The
// warm-up is in the series.
type CallerSeries struct {
	Width       float64   `json:"width"`
	Arrived     []int64   `json:"arrived"`
	Firsts      []int64   `json:"firsts"`
	Retries     []int64   `json:"retries"`
	OK          []int64   `json:"ok"`
	Failed      []int64   `json:"failed"`
	Succeeded   []int64   `json:"succeeded"`
	Dead        []int64   `json:"dead"`
	Depth       []float64 `json:"depth"`
	InFlight    []float64 `json:"in_flight"`
	InSystemMax []int64   `json:"in_system_max"`
}

// DownstreamOutcome is what one downstream saw.
type DownstreamOutcome struct {
	Name   string           `json:"name"`
	Totals DownstreamTotals `json:"totals"`
	// Waits is the time in the queue of all that began service; Services how
	// long servers were busy with one request; Sojourns from arrival to
	// answer, of all that were served.
	Waits    Histogram        `json:"waits"`
	Services Histogram        `json:"services"`
	Sojourns Histogram        `json:"sojourns"`
	Series   DownstreamSeries `json:"series"`
}

// DownstreamTotals are the scalars of one downstream after the warm-up.
// Requests count if they arrived after it.
type DownstreamTotals struct {
	// Requests arrived; of them Admitted to the queue or a server, Waited of
	// those found no free server. OK were answered well, Errors badly after
	// admission or by a fault.
	Requests int64 `json:"requests"`
	Admitted int64 `json:"admitted"`
	Waited   int64 `json:"waited"`
	OK       int64 `json:"ok"`
	Errors   int64 `json:"errors"`
	// Full found no room, Overdue waited longer than MaxWait, Throttled found
	// no token, Refused and Hung met such a
	// fault, Collapsed were answered by a collapse, Conflicts lost the row.
	Full      int64 `json:"full"`
	Overdue   int64 `json:"overdue"`
	Throttled int64 `json:"throttled"`
	Refused   int64 `json:"refused"`
	Hung      int64 `json:"hung"`
	Collapsed int64 `json:"collapsed"`
	Conflicts int64 `json:"conflicts"`
	// Abandoned are requests whose caller gave up while they were in the
	// system; Wasted of them were served in full for nobody, Dropped not.
	Abandoned int64 `json:"abandoned"`
	Wasted    int64 `json:"wasted"`
	Dropped   int64 `json:"dropped"`
	// Lost are messages that the network lost, either way.
	Lost int64 `json:"lost"`
	// LossShare is Full ÷ Requests, WaitShare Waited ÷ Admitted: Erlang's B
	// and C where the model is his. Amplification is Requests ÷ the firsts
	// of all callers that are no layers. ServedShare is how much of the busy
	// time served somebody who still waited.
	LossShare     float64 `json:"loss_share"`
	WaitShare     float64 `json:"wait_share"`
	Amplification float64 `json:"amplification"`
	ServedShare   float64 `json:"served_share"`
	// QueueMean, BusyMean and InSystemMean are time averages by exact
	// integrals of requests that wait, are served (dependencies included,
	// while they hold the server), and both.
	QueueMean    float64 `json:"queue_mean"`
	QueueMax     int64   `json:"queue_max"`
	BusyMean     float64 `json:"busy_mean"`
	InSystemMean float64 `json:"in_system_mean"`
	InSystemMax  int64   `json:"in_system_max"`
	// Utilisation is BusyMean ÷ the time average of servers; 0 for as many
	// servers as requests.
	Utilisation float64 `json:"utilisation"`
	// IdleShare is the share of time with no request in the system.
	IdleShare float64 `json:"idle_share"`
	// Throughput is requests answered a second after service; PeakRequests
	// the most arrivals in any whole second, PeakAt its beginning.
	Throughput   float64 `json:"throughput"`
	PeakRequests int64   `json:"peak_requests"`
	PeakAt       float64 `json:"peak_at"`
	// Collapses is how often it collapsed, CollapsedTime for how long.
	Collapses     int64   `json:"collapses"`
	CollapsedTime float64 `json:"collapsed_time"`
}

// DownstreamSeries are values per bucket, as CallerSeries.
type DownstreamSeries struct {
	Width    float64   `json:"width"`
	Requests []int64   `json:"requests"`
	OK       []int64   `json:"ok"`
	Errors   []int64   `json:"errors"` // everything but OK that was answered
	Wasted   []int64   `json:"wasted"`
	Queue    []float64 `json:"queue"`
	Busy     []float64 `json:"busy"`
	QueueMax []int64   `json:"queue_max"`
}

// Histogram sums up durations in seconds. Count, Mean, SD, Min and Max are
// exact; quantiles are off by at most QuantileError of their value.
type Histogram struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	SD    float64 `json:"sd"` // of the population
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	// Bins are for drawing: at most 64 of equal width over [Min, Max], empty
	// ones included; none where Count is 0.
	Bins []int64 `json:"bins,omitempty"`
}

// QuantileError is the greatest relative error of a quantile.
const QuantileError = 1.0 / (2 * sketchSize)

// Estimate is one scalar measure over the runs.
type Estimate struct {
	// Name is "caller/NAME/measure" or "downstream/NAME/measure", the
	// measure being the JSON name in the totals, or "jobs.p99" and the like.
	Name string  `json:"name"`
	Mean float64 `json:"mean"`
	// Half is half the width of the 95 % confidence interval of the mean by
	// Student's t; 0 for a single run.
	Half float64 `json:"half"`
	SD   float64 `json:"sd"` // of the runs, as a sample
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	// Runs is how many runs had a value: recovery.after has none in a run
	// that never recovered.
	Runs int `json:"runs"`
}

// Caller returns the outcome of a caller, nil for none of that name.
func (o *Outcome) Caller(name string) *CallerOutcome {
	for i := range o.Callers {
		if o.Callers[i].Name == name {
			return &o.Callers[i]
		}
	}
	return nil
}

// Downstream returns the outcome of a downstream, nil for none of that name.
func (o *Outcome) Downstream(name string) *DownstreamOutcome {
	for i := range o.Downstreams {
		if o.Downstreams[i].Name == name {
			return &o.Downstreams[i]
		}
	}
	return nil
}

// Estimate returns the estimate of that name, false for none.
func (r *Result) Estimate(name string) (Estimate, bool) {
	for _, e := range r.Estimates {
		if e.Name == name {
			return e, true
		}
	}
	return Estimate{}, false
}
