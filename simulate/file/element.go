package file

import (
	"reflect"
	"strings"

	"github.com/ebbhq/ebb/simulate"
)

// element declares one kind of mapping of the file once: the reader, the
// canonical print, the JSON Schema and the reference all read it.
type element struct {
	name   string // in the schema and the reference
	typ    reflect.Type
	about  string
	fields []field
	// forms are the ways to write it without a mapping, for the reference.
	forms []string
}

// field is one key. Its Go field is the one of the same name in camel case.
type field struct {
	key      string
	doc      string
	words    []string // of an enumeration
	required bool
	rate     bool // a number "a second", which may be written 200/s
	// limit marks a whole number that bounds: none says that nothing does,
	// and 0, which would bound everything, is refused.
	limit bool
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// goNames are the fields whose Go name is not the key in camel case.
var goNames = map[string]string{"sd": "SD"}

// in returns the Go value of the field.
func (f field) in(v reflect.Value) reflect.Value {
	name, ok := goNames[f.key]
	if !ok {
		for _, part := range strings.Split(f.key, "_") {
			name += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return v.FieldByName(name)
}

func (e *element) keys() []string {
	keys := make([]string, len(e.fields))
	for i, f := range e.fields {
		keys[i] = f.key
	}
	return keys
}

func (e *element) field(key string) (field, bool) {
	for _, f := range e.fields {
		if f.key == key {
			return f, true
		}
	}
	return field{}, false
}

// elementOf finds the element of a Go type.
func elementOf(t reflect.Type) *element {
	for i := range elements {
		if elements[i].typ == t {
			return &elements[i]
		}
	}
	return nil
}

func enumWords[T ~string](values ...T) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}

var (
	modeWords      = enumWords(simulate.InProcess, simulate.Durable, simulate.Waves)
	pickWords      = enumWords(simulate.RoundRobin, simulate.Random, simulate.Least, simulate.TwoChoices)
	gateWords      = enumWords(simulate.GateNone, simulate.GateShared, simulate.GateCaller, simulate.GateClient)
	endWords       = enumWords(simulate.Cut, simulate.Drain)
	arrivalWords   = enumWords(simulate.Poisson, simulate.Regular, simulate.Batch, simulate.Closed, simulate.Trace, simulate.Renewal)
	orderWords     = enumWords(simulate.FIFO, simulate.LIFO, simulate.PS)
	abandonedWords = enumWords(simulate.Serve, simulate.Skip, simulate.Remove, simulate.Cancel)
	faultWords     = enumWords(simulate.FaultError, simulate.FaultServed, simulate.FaultRefuse, simulate.FaultHang)
	negativeWords  = enumWords(simulate.Redraw, simulate.Clamp, simulate.Absolute)
	distWords      = enumWords(simulate.Fixed, simulate.Exponential, simulate.Normal, simulate.Lognormal, simulate.Uniform,
		simulate.Pareto, simulate.Gamma, simulate.Weibull, simulate.Mixture, simulate.Empirical)
)

// clientFields are what callers and dependencies have in common.
var clientFields = []field{
	{key: "policy", required: true, doc: "the retry policy: a name under policies, FILE#NAME of a policy file (FILE alone where it holds one), a preset's name, or none: one try, no timeout"},
	{key: "targets", required: true, doc: "whom it calls; a job keeps its target for life"},
	{key: "pick", words: pickWords, doc: "how jobs choose among targets: in turn by weight (round_robin, the default), drawn by weight (random), the one with the fewest requests in the system (least), the better of two drawn (two_choices)"},
	{key: "gate", words: gateWords, doc: "who shares breaker, pause, budget and limits per target: nobody has them (none, the default), all callers with shared as in a store, the caller, each process"},
	{key: "timeout", doc: "drawn for each start instead of the policy's timeout"},
	{key: "delay", doc: "drawn instead of the policy's delay before a retry, for delays that no policy has; the policy decides all else"},
	{key: "connections", limit: true, doc: "most calls under way in a process; a start that finds none free waits and its timeout runs; default no limit"},
}

var elements = []element{
	{
		name: "scenario", typ: typeOf[simulate.Scenario](),
		about: "The file itself. Beside these keys it has version, policies, seeds, variants and compare.",
		fields: []field{
			{key: "name", doc: "what it is called; default the file's name"},
			{key: "about", doc: "what it shows, in a sentence"},
			{key: "seed", doc: "the first seed; seed i of a run of n is seed + i; default 0"},
			{key: "origin", doc: "the instant of virtual time 0, such as 2026-04-08T09:00:00Z; default 2000-01-01T00:00:00Z"},
			{key: "length", doc: "when the run ends; needed unless every stream of arrivals ends by itself"},
			{key: "warm_up", doc: "how much of the beginning is not measured; default 0s"},
			{key: "bucket", doc: "width of the series' buckets; default 1s, doubled as often as needed for 600 buckets"},
			{key: "recovery", doc: "what recovered means here"},
			{key: "callers", required: true, doc: "who has work to do"},
			{key: "downstreams", required: true, doc: "who is called"},
		},
	},
	{
		name: "length", typ: typeOf[simulate.Length](),
		about: "When a run ends.",
		forms: []string{"`10m`: arrivals for 10 minutes, then cut"},
		fields: []field{
			{key: "time", doc: "when arrivals end; default not by time"},
			{key: "jobs", doc: "number of jobs of all callers, warm-up included, after which no more arrive; default not by number"},
			{key: "end", words: endWords, doc: "what happens then: the run is cut (default), or drains until no work is left"},
			{key: "max_time", doc: "cuts a run that drains; default no limit"},
		},
	},
	{
		name: "recovery", typ: typeOf[simulate.Recovery](),
		about: "What recovered means: the share of successful starts is back.",
		fields: []field{
			{key: "began_at", doc: "first instant of the disturbance; default computed from faults and changing curves"},
			{key: "ended_at", doc: "last instant of the disturbance; default computed"},
			{key: "share", doc: "how much of the success share before the disturbance counts as recovered; default 0.9"},
			{key: "for", doc: "for how long it must hold; default to the run's end"},
		},
	},
	{
		name: "caller", typ: typeOf[simulate.Caller](),
		about: "Work that calls downstreams: jobs that arrive, processes that start them, and a policy.",
		fields: append([]field{
			{key: "name", required: true, doc: "what it is called"},
			{key: "arrivals", required: true, doc: "streams of jobs, which add up"},
			{key: "mode", words: modeWords, doc: "who retries: retry.Do in a worker that it keeps (in_process, the default), a queue with due times (durable), passes over what failed (waves)"},
			{key: "clients", doc: "number of processes; default 1"},
			{key: "workers", limit: true, doc: "jobs that a process works on at once; default no limit; in mode durable beside the policy's concurrency, in mode waves not allowed"},
			{key: "max_waiting", limit: true, doc: "most jobs that wait for their first start in a process; more are turned away and count as dead letters; default no limit"},
			{key: "deadline", doc: "drawn for each job: no start later than this after its arrival; default none"},
			{key: "seed", doc: "of the retry delays, to compare with a real worker of that seed; default derived from the run's seed"},
		}, clientFields...),
	},
	{
		name: "arrivals", typ: typeOf[simulate.Arrivals](),
		about: "One stream of jobs.",
		forms: []string{
			"`poisson 200/s`, `constant 200/s`: at that rate", "`batch 882`: at once",
			"`closed 50`, `closed 50 think exp 1s`: users who wait for their answer", "`renewal uniform 1s 3s`: apart by draws",
			"`trace times.csv`: as recorded",
		},
		fields: []field{
			{key: "kind", required: true, words: arrivalWords, doc: "the process by which jobs arrive; the first job of constant comes after one interval"},
			{key: "name", doc: "tells streams of one caller apart in their randomness; default the position"},
			{key: "rate", rate: true, doc: "jobs a second, of poisson and constant"},
			{key: "jobs", doc: "size of a batch; for the others the most jobs of this stream, default no limit"},
			{key: "size", doc: "jobs that each arrival of poisson, constant, renewal and trace brings; default 1"},
			{key: "every", doc: "repeats a batch; default once"},
			{key: "users", doc: "size of a closed set"},
			{key: "think", doc: "time a closed user waits before every job but the first; default none"},
			{key: "first", doc: "time a closed user waits before the first job; default none"},
			{key: "gap", doc: "time before every job of renewal"},
			{key: "times", doc: "instants of a trace, ascending, from `from` on: a list, or the name of a CSV file"},
			{key: "from", doc: "no job before this; default 0s"},
			{key: "until", doc: "no job at or after this; default no end"},
			{key: "priority", doc: "of the jobs of a durable caller, 0 to 9; 0, the default, goes first"},
		},
	},
	{
		name: "target", typ: typeOf[simulate.Target](),
		about: "A share of the jobs.",
		forms: []string{"`api`: the downstream of that name"},
		fields: []field{
			{key: "downstream", required: true, doc: "name of a downstream; each of its copies is a target of its own"},
			{key: "weight", doc: "share of the jobs relative to the other targets'; default 1"},
			{key: "names", doc: "divides the target into that many names, each with its own gate and lane; default 1"},
		},
	},
	{
		name: "downstream", typ: typeOf[simulate.Downstream](),
		about: "A service that is called. A request passes the leg there, limit, collapse, faults, the queue, a server, its own calls, and the leg back.",
		fields: []field{
			{key: "name", required: true, doc: "what it is called"},
			{key: "copies", doc: "independent downstreams of this description, NAME/1 and up; default 1"},
			{key: "servers", limit: true, doc: "requests served at once; default as many as there are"},
			{key: "capacity", doc: "multiplies servers over time; default 1"},
			{key: "queue", doc: "most requests that wait for a server; 0 = a loss system; default no limit"},
			{key: "full", doc: "answer to a request that finds the queue full; default 503 at once"},
			{key: "max_wait", doc: "drawn for each request that must wait: after so long in the queue it is answered as by full; default no limit"},
			{key: "order", words: orderWords, doc: "which waiting request is served next; ps shares the servers among all; default fifo"},
			{key: "service", doc: "how long a server is busy with one request; default no time"},
			{key: "per_job", doc: "keeps a job's first draw of service for all its tries"},
			{key: "speed", doc: "multiplies the speed of service over time; default 1"},
			{key: "load", doc: "multiplies a service time by the number in service when it begins; default 1"},
			{key: "abandoned", words: abandonedWords, doc: "what becomes of a request whose caller has given up: served for nobody (serve, the default), dropped when its turn comes (skip), taken from the queue at once (remove), from its server too (cancel)"},
			{key: "faults", doc: "how it fails, in order; the first that hits decides"},
			{key: "limit", doc: "a rate limit that answers 429"},
			{key: "collapse", doc: "breaks under stress and recovers only in peace"},
			{key: "row", doc: "makes a call one optimistic write of a row that all contend for"},
			{key: "network", doc: "the way there and back"},
			{key: "calls", doc: "calls to other downstreams after the service: a layer"},
			{key: "release_server", doc: "frees the server while the calls are made"},
			{key: "call_failed", doc: "answer when one of calls failed for good; default 502"},
		},
	},
	{
		name: "answer", typ: typeOf[simulate.Answer](),
		about: "How a downstream says no.",
		forms: []string{"`503`: an HTTP status", "`timeout`, `reset`, …: a class of failure"},
		fields: []field{
			{key: "class", doc: "class of the failure; default that of the status"},
			{key: "status", doc: "HTTP status, 300 to 599; default none"},
			{key: "retry_after", doc: "what the answer asks for; default nothing"},
			{key: "after", doc: "how long the answer takes, without a server; default no time"},
		},
	},
	{
		name: "fault", typ: typeOf[simulate.Fault](),
		about: "An outage, a brownout, a share of errors.",
		fields: []field{
			{key: "kind", required: true, words: faultWords, doc: "error answers on arrival, served after the full service, refuse refuses the connection, hang never answers"},
			{key: "from", doc: "beginning; default 0s"},
			{key: "until", doc: "end; default for ever"},
			{key: "probability", doc: "that it hits a request; default 1"},
			{key: "per_job", doc: "draws once a job: what is hit is hit at every try"},
			{key: "answer", doc: "of error and served; default 500"},
			{key: "up", doc: "with down: it comes and goes at random between from and until; for a draw of up it hits nobody"},
			{key: "down", doc: "for a draw of down it hits, then it is up again; default down throughout"},
			{key: "kills", doc: "ends, at from and at every beginning of down, all requests in the system with this answer"},
		},
	},
	{
		name: "limit", typ: typeOf[simulate.RateLimit](),
		about: "A token bucket, or a fixed window, that answers 429.",
		fields: []field{
			{key: "rate", rate: true, doc: "tokens a second"},
			{key: "burst", required: true, doc: "size of the bucket, which begins full; of a window the requests in it"},
			{key: "window", doc: "makes it a fixed window: at most burst requests in each; default a bucket"},
			{key: "retry_after", doc: "what a refusal asks for; default nothing"},
			{key: "exact", doc: "a refusal asks for the time until the next token or window"},
			{key: "whole_seconds", doc: "rounds that up to whole seconds, as the header does"},
			{key: "after", doc: "how long a refusal takes; default no time"},
		},
	},
	{
		name: "collapse", typ: typeOf[simulate.Collapse](),
		about: "A service that breaks under stress. One of in_system and rate is needed, one of answer and speed, one of recovery and quiet.",
		fields: []field{
			{key: "in_system", doc: "requests in the system over which it collapses"},
			{key: "rate", doc: "arrivals in any `over` over which it collapses"},
			{key: "over", doc: "the sliding window of rate; default 1s"},
			{key: "answer", doc: "answer to every request while collapsed"},
			{key: "speed", doc: "speed of services that begin while collapsed"},
			{key: "kills", doc: "ends, at the collapse, all requests in the system with answer"},
			{key: "recovery", doc: "how long a collapse lasts at least"},
			{key: "prolong", doc: "what each request meanwhile adds to it; default nothing"},
			{key: "quiet", doc: "time without a request that must have passed before it ends; default none"},
			{key: "max_recovery", doc: "longest collapse, however often it is hit; default no bound"},
		},
	},
	{
		name: "row", typ: typeOf[simulate.Row](),
		about: "One optimistic write: read the version, work, write; the write fails if another came first.",
		fields: []field{
			{key: "work", doc: "time between read and write; default none"},
			{key: "conflict", doc: "answer to a lost race; default 503 of class unavailable"},
		},
	},
	{
		name: "network", typ: typeOf[simulate.Network](),
		about: "The way to a downstream and back.",
		fields: []field{
			{key: "there", doc: "time of the way there; default none"},
			{key: "back", doc: "time of the way back; default none"},
			{key: "loss_there", doc: "probability that a request is lost; default 0"},
			{key: "loss_back", doc: "probability that an answer is lost; default 0"},
		},
	},
	{
		name: "dependency", typ: typeOf[simulate.Dependency](),
		about: "A call that a downstream makes on serving a request, under a policy of its own, with tries in place.",
		fields: append([]field{
			{key: "name", doc: "tells dependencies of one downstream apart; default the first target's name"},
			{key: "share", doc: "probability that a request needs the call; default 1"},
			{key: "calls", doc: "how many such calls a request makes, one after the other; default 1"},
			{key: "parallel", doc: "makes them all at once; the request goes on when the last has ended, and fails then if one failed for good"},
		}, clientFields...),
	},
	{
		name: "distribution", typ: typeOf[simulate.Dist](),
		about: "A distribution of durations.",
		forms: []string{
			"`20ms`: always", "`exp 20ms`: the mean", "`normal 20ms 5ms`: mean and deviation", "`lognormal 20ms 30ms`: the same, of the durations themselves",
			"`lognormal median=20ms sigma=1`", "`uniform 10ms 30ms`: least and most", "`pareto 10ms 1.5`: least and shape; a third is the most",
			"`gamma 20ms 2`: mean and shape", "`weibull 20ms 0.7`: scale and shape", "`90% exp 20ms, 10% 2s`: a mixture", "`[10ms, 12ms, 30ms]`: one of them, or the name of a CSV file of durations",
		},
		fields: []field{
			{key: "kind", words: distWords, doc: "default constant"},
			{key: "mean", doc: "of constant, exponential, normal, lognormal, gamma"},
			{key: "sd", doc: "standard deviation of normal and lognormal"},
			{key: "median", doc: "of lognormal, with sigma instead of mean and sd"},
			{key: "sigma", doc: "deviation of the logarithm"},
			{key: "min", doc: "least of uniform and pareto"},
			{key: "max", doc: "most of uniform; bound of pareto, default none"},
			{key: "scale", doc: "of weibull"},
			{key: "shape", doc: "of gamma, weibull and pareto"},
			{key: "parts", doc: "of a mixture"},
			{key: "values", doc: "of empirical: a list, or the name of a CSV file"},
			{key: "negative", words: negativeWords, doc: "what becomes of a normal draw under 0; default redraw"},
			{key: "offset", doc: "added to every draw; default none"},
		},
	},
	{
		name: "part", typ: typeOf[simulate.Part](),
		about: "A component of a mixture.",
		fields: []field{
			{key: "weight", required: true, doc: "share of the draws; weights need not add up to 1"},
			{key: "dist", required: true, doc: "what is drawn"},
		},
	},
	{
		name: "value", typ: typeOf[simulate.Value](),
		about: "A value of empirical.",
		forms: []string{"`20ms`: weight 1"},
		fields: []field{
			{key: "value", required: true, doc: "the duration"},
			{key: "weight", doc: "how often it is drawn relative to the others; default 1"},
		},
	},
	{
		name: "point", typ: typeOf[simulate.Point](),
		about: "A value of a function of time.",
		fields: []field{
			{key: "at", required: true, doc: "instant"},
			{key: "value", required: true, rate: true, doc: "value from there on, on a straight line to the next point"},
		},
	},
	{
		name: "load_point", typ: typeOf[simulate.LoadPoint](),
		about: "The multiplier of the service time at a number in service; straight lines between points, flat outside.",
		fields: []field{
			{key: "in_service", required: true, doc: "requests in service, the new one included"},
			{key: "multiply", required: true, doc: "multiplier of the service time"},
		},
	},
}
