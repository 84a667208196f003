package simulate

import (
	"time"

	"github.com/ebbhq/ebb/failure"
)

// Downstream is a service that is called: network, limits, faults, a queue
// and servers. A request passes them in this order: the leg there; Limit;
// Collapse; Faults; the queue; a server for Service; Dependencies; the leg
// back.
type Downstream struct {
	Name string
	// Copies is the number of independent downstreams of this description,
	// named NAME/1 and up. 0 = 1, named NAME.
	Copies int

	// Servers serve one request each. 0 = as many as there are requests.
	Servers int
	// Capacity multiplies Servers over time, rounded to the nearest whole
	// number; work in service is finished when it falls. Empty = 1.
	Capacity Curve
	// Queue is the most requests that wait for a server. nil = no limit,
	// 0 = a loss system.
	Queue *int
	// Full is the answer to a request that finds the queue full. The zero
	// Answer = HTTP 503, at once.
	Full Answer
	// MaxWait is drawn for each request that must wait: after so long in the
	// queue it is answered as by Full. Zero = no limit.
	MaxWait Dist
	// Order says which waiting request is served next. "" = FIFO.
	Order Order
	// Service is how long a server is busy with one request at speed 1. Zero
	// = no time.
	Service Dist
	// PerJob keeps a job's first draw of Service for all its tries.
	PerJob bool
	// Speed is the rate at which servers work over time; a service begun at
	// one speed goes on at the next, exactly. Empty = 1.
	Speed Curve
	// Load multiplies a service time by the number of requests in service
	// when it begins, its own included (that number is the At of Load, in
	// units, not in time). Empty = 1.
	Load LoadCurve

	// Abandoned says what becomes of a request whose caller has given up.
	// "" = Serve.
	Abandoned Abandoned

	Faults   []Fault
	Limit    *RateLimit
	Collapse *Collapse
	Row      *Row
	Network  Network
	// Calls are made in order after the service, while the server is held
	// unless ReleaseServer is set.
	Calls []Dependency
	// ReleaseServer frees the server while the Calls are made, as in an
	// asynchronous service.
	ReleaseServer bool
	// CallFailed is the answer when one of Calls failed for good. The zero
	// Answer = HTTP 502.
	CallFailed Answer
}

// Order is the discipline of a queue.
type Order string

const (
	FIFO Order = "fifo"
	LIFO Order = "lifo"
	// PS shares the servers' speed equally among all requests in the system
	// (at most one server's speed each); nothing waits, Queue and Load do not
	// apply.
	PS Order = "ps"
)

// Abandoned says what becomes of a request whose caller has given up. The
// server learns of it at the same instant.
type Abandoned string

const (
	// Serve: it is served as any other, for nobody.
	Serve Abandoned = "serve"
	// Skip: when its turn comes it is dropped, at no cost; in service it is
	// finished.
	Skip Abandoned = "skip"
	// Remove: it leaves the queue at once; in service it is finished.
	Remove Abandoned = "remove"
	// Cancel: it leaves the queue or its server at once, and calls of its
	// own are not retried any more.
	Cancel Abandoned = "cancel"
)

// Answer is how a downstream says no. The zero Answer is the default of its
// field.
type Answer struct {
	// Class is the failure's; Unknown = that of Status.
	Class failure.Class
	// Status is the HTTP status; 0 = none.
	Status int
	// RetryAfter is what the answer asks for. 0 = nothing.
	RetryAfter time.Duration
	// After is how long the answer takes, without a server. Zero = no time.
	After Dist
}

// FaultKind is how a downstream fails.
type FaultKind string

const (
	// FaultError answers Answer (zero = HTTP 500) on arrival, without a
	// server.
	FaultError FaultKind = "error"
	// FaultServed answers Answer (zero = HTTP 500) after the full service:
	// failing costs as much as succeeding.
	FaultServed FaultKind = "served"
	// FaultRefuse refuses the connection: class refused.
	FaultRefuse FaultKind = "refuse"
	// FaultHang never answers: the caller's timeout ends the try. Without a
	// timeout it never ends.
	FaultHang FaultKind = "hang"
)

// Fault makes a downstream fail: an outage, a brownout, a share of errors.
// Faults are tried in order at the instant a request arrives (FaultServed: at
// the instant its service begins); the first that hits decides.
type Fault struct {
	Kind FaultKind
	// From and Until bound it: From ≤ t < Until. Until 0 = for ever.
	From, Until time.Duration
	// Probability that it hits a request. Empty = 1.
	Probability Curve
	// PerJob makes the draw once a job: a job that it hits it hits at every
	// try.
	PerJob bool
	Answer Answer
	// Up and Down make it come and go at random between From and Until: it
	// begins up, for a draw of Up in which it hits nobody, then down for a
	// draw of Down in which it hits, and so on. Both zero = down throughout.
	Up, Down Dist
	// Kills also ends, at From (at every beginning of Down), all requests
	// that wait or are served, with this fault's answer.
	Kills bool
}

// RateLimit is a token bucket that answers 429.
type RateLimit struct {
	// Rate is the tokens a second, Burst the bucket's size; it begins full.
	Rate  float64
	Burst float64
	// Window, if over 0, makes it a fixed window instead: at most Burst
	// requests in each [k × Window, (k+1) × Window).
	Window time.Duration
	// RetryAfter is what a refusal asks for; 0 = nothing, unless Exact.
	RetryAfter time.Duration
	// Exact asks for the time until the next token (the next window), and
	// WholeSeconds rounds what is asked for up to whole seconds, as the
	// header does.
	Exact, WholeSeconds bool
	// After is how long a refusal takes. Zero = no time.
	After Dist
}

// Collapse is a service that breaks under stress and recovers only when it is
// left in peace.
type Collapse struct {
	// InSystem is the number of requests in the system (waiting, in service,
	// the new one included) over which it collapses. 0 = not by this.
	InSystem int
	// Rate is the number of arrivals in any Over (a sliding window) over
	// which it collapses. 0 = not by this. Over 0 = 1 s.
	Rate int
	Over time.Duration
	// While collapsed: with Answer every request is answered so on arrival;
	// without, servers that begin a service work at Speed (over 0).
	Answer *Answer
	Speed  float64
	// Kills also ends, at the collapse, all requests that wait or are served
	// with Answer. It needs Answer.
	Kills bool
	// Recovery is how long a collapse lasts at least. Each request that
	// arrives meanwhile adds Prolong to it, and puts its end at least Quiet
	// into the future.
	Recovery time.Duration
	Prolong  time.Duration
	Quiet    time.Duration
	// MaxRecovery bounds a collapse, however often it is hit. 0 = no bound.
	MaxRecovery time.Duration
}

// Row makes a call one optimistic write of a single row that all callers
// contend for: a request reads its version (legs, queue and service as any
// request), the caller works for Work, and a second request writes. The write
// fails with Conflict if another write succeeded in between; the try fails
// with it, and its retry begins with the read.
type Row struct {
	Work Dist
	// Conflict is the answer to a lost race. The zero Answer = HTTP 503 with
	// class unavailable (a serialization failure, which is worth a retry).
	Conflict Answer
}

// Network is the way to a downstream and back.
type Network struct {
	There, Back Dist
	// LossThere and LossBack are the probabilities that a message is lost:
	// the caller hears nothing and its timeout ends the try. Empty = 0.
	LossThere, LossBack Curve
}

// LoadCurve is a function of a number: straight lines between Points, flat
// outside. No points = 1.
type LoadCurve struct {
	Points []LoadPoint
}

// LoadPoint is the multiplier of the service time at a number in service.
type LoadPoint struct {
	InService float64
	Multiply  float64
}
