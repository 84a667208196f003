package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/job"
)

// LongPoll is the longest that a claim waits for work.
const LongPoll = 60 * time.Second

// Claim asks for jobs.
type Claim struct {
	Kinds  []string `json:"kinds" doc:"that this worker handles; one or more"`
	Queues []string `json:"queues,omitempty" doc:"to take from; the queue default unless given"`
	Limit  int      `json:"limit,omitempty" doc:"most jobs, 1 to 100; 1 unless given"`
	Wait   float64  `json:"wait_s,omitempty" doc:"how long to wait for work, 1 to 60 seconds; 30 unless given"`
	Worker string   `json:"worker,omitempty" doc:"what operators see, such as a host and its pid"`
}

// Claimed is the leases that a claim got; none if nothing was due in time.
type Claimed struct {
	Leases []Lease `json:"leases"`
	// Silence is how long a lease lasts without a heartbeat.
	Silence float64 `json:"silence_s" doc:"a lease ends after so many seconds without a heartbeat, progress or settle; beat three times as often"`
}

// Lease is the right to run one start of a job. Id and epoch name it in all
// that follows.
type Lease struct {
	ID             string          `json:"id"`
	Epoch          int64           `json:"epoch"`
	Kind           string          `json:"kind"`
	Queue          string          `json:"queue"`
	Target         string          `json:"target,omitempty"`
	Start          int             `json:"start" doc:"1 and up over the job's whole life"`
	Attempt        int             `json:"attempt" doc:"which try of the policy's"`
	Timeout        float64         `json:"timeout_s,omitempty" doc:"the start is over after so many seconds; missing = no limit"`
	Args           json.RawMessage `json:"args,omitempty"`
	ArgsBase64     []byte          `json:"args_base64,omitempty"`
	Progress       json.RawMessage `json:"progress,omitempty"`
	ProgressBase64 []byte          `json:"progress_base64,omitempty"`
	Trace          string          `json:"trace,omitempty"`
}

// LeaseRef names a lease.
type LeaseRef struct {
	ID    string `json:"id"`
	Epoch int64  `json:"epoch"`
}

// Heartbeat says that the leases are being worked on.
type Heartbeat struct {
	Leases []LeaseRef `json:"leases"`
}

// ProgressReport stores what a start has come to, and beats for it.
type ProgressReport struct {
	LeaseRef
	Progress       json.RawMessage `json:"progress,omitempty"`
	ProgressBase64 []byte          `json:"progress_base64,omitempty"`
}

// Settles tells how starts ended, row by row.
type Settles struct {
	Leases []Settle `json:"leases"`
}

// Settle tells how a start ended: well, or by a failure. What becomes of the
// job then is decided here, by its policy.
type Settle struct {
	LeaseRef
	Result       json.RawMessage `json:"result,omitempty" doc:"kept with the job if it succeeded"`
	ResultBase64 []byte          `json:"result_base64,omitempty"`
	Failure      *LeaseFailure   `json:"failure,omitempty" doc:"missing = it succeeded"`
}

// LeaseFailure is what went wrong. A class decides; without one the HTTP
// status does, and without both it is a plain error.
type LeaseFailure struct {
	Class      string  `json:"class,omitempty" doc:"server, throttled, timeout, config, invalid_input, …"`
	Reason     string  `json:"reason,omitempty" doc:"a lower-case word that refines the class"`
	Status     int     `json:"status,omitempty" doc:"HTTP status that a target answered"`
	Error      string  `json:"error,omitempty"`
	RetryAfter float64 `json:"retry_after_s,omitempty" doc:"how long the target asked to be left alone"`
	Order      string  `json:"order,omitempty" doc:"overrides the policy: fail, park or snooze; snooze says that nothing failed, without class, status and retry_after_s"`
	Snooze     float64 `json:"snooze_s,omitempty" doc:"with the order snooze: when to come back"`
}

// LeaseAnswers are one row each, in the order asked.
type LeaseAnswers struct {
	Leases []LeaseAnswer `json:"leases"`
}

// LeaseAnswer says whether a lease still held and what came of it.
type LeaseAnswer struct {
	LeaseRef
	OK bool `json:"ok"`
	// Code is stale where the lease is over: stop working on the job.
	Code  string `json:"code,omitempty" doc:"of ok false: stale, invalid, forbidden or unavailable"`
	Error string `json:"error,omitempty"`
	// State, Delay and Cause are of a settle.
	State job.State `json:"state,omitempty" doc:"where the job is now: succeeded, queued for a retry, failed, parked or cancelled"`
	Delay float64   `json:"delay_s,omitempty" doc:"how long until its next start"`
	Cause job.Cause `json:"cause,omitempty" doc:"why it failed for good, or is parked"`
}

func (s *server) leaseRoutes() []route {
	routes := []route{
		handle(s, access.Work, http.MethodPost, "/v1/leases", "claimLeases", "Claim jobs; waits for work up to wait_s",
			func(ctx context.Context, in *struct{ Body Claim }) (Claimed, error) { return s.claim(ctx, in.Body) }),
		handle(s, access.Work, http.MethodPost, "/v1/leases/heartbeat", "beatLeases", "Keep leases",
			func(ctx context.Context, in *struct{ Body Heartbeat }) (LeaseAnswers, error) {
				return s.leased(len(in.Body.Leases), func() []LeaseAnswer { return s.Leases.beat(ctx, in.Body.Leases) })
			}),
		handle(s, access.Work, http.MethodPost, "/v1/leases/progress", "reportProgress", "Store what a start has come to",
			func(ctx context.Context, in *struct{ Body ProgressReport }) (LeaseAnswers, error) {
				return s.leased(1, func() []LeaseAnswer { return []LeaseAnswer{s.Leases.progress(ctx, &in.Body)} })
			}),
		handle(s, access.Work, http.MethodPost, "/v1/leases/settle", "settleLeases", "Tell how starts ended; answered when it is durable",
			func(ctx context.Context, in *struct{ Body Settles }) (LeaseAnswers, error) {
				return s.leased(len(in.Body.Leases), func() []LeaseAnswer { return s.Leases.settle(ctx, in.Body.Leases) })
			}),
	}
	for i := range routes {
		routes[i].once = false // the epoch makes them safe
	}
	return routes
}

func (s *server) claim(ctx context.Context, c Claim) (Claimed, error) {
	if s.Leases == nil {
		return Claimed{}, errNoLeases
	}
	if err := c.fill(); err != nil {
		return Claimed{}, err
	}
	for _, queue := range c.Queues {
		if err := may(ctx, access.Work, queue); err != nil {
			return Claimed{}, err
		}
	}
	return s.Leases.claim(ctx, c)
}

func (s *server) leased(rows int, ask func() []LeaseAnswer) (LeaseAnswers, error) {
	if s.Leases == nil {
		return LeaseAnswers{}, errNoLeases
	}
	if err := checkRows(rows); err != nil {
		return LeaseAnswers{}, err
	}
	return LeaseAnswers{ask()}, nil
}

var errNoLeases = problem(http.StatusNotImplemented, "no_leases", "ask a server that was started with workers", "this server hands out no leases")

// fill checks a claim and sets what was left out.
func (c *Claim) fill() error {
	bad := func(format string, args ...any) error {
		return problem(http.StatusUnprocessableEntity, "invalid", "mend what is named and ask again", format, args...)
	}
	const mostNames = 100
	if c.Limit == 0 {
		c.Limit = 1
	}
	if c.Wait == 0 {
		c.Wait = 30
	}
	if len(c.Queues) == 0 {
		c.Queues = []string{job.DefaultQueue}
	}
	switch {
	case len(c.Kinds) == 0 || len(c.Kinds) > mostNames || len(c.Queues) > mostNames:
		return bad("lease: name 1 to %d kinds and queues", mostNames)
	case c.Limit < 1 || c.Limit > mostLeases:
		return bad("lease: limit %d: must be 1 to %d", c.Limit, mostLeases)
	case !(c.Wait >= 1 && c.Wait <= LongPoll.Seconds()):
		return bad("lease: wait_s %v: must be 1 to %v", c.Wait, LongPoll.Seconds())
	case len(c.Worker) > 200 || !printable(c.Worker):
		return bad("lease: worker: must be at most 200 bytes of text")
	}
	for _, name := range slices.Concat(c.Kinds, c.Queues) {
		if name == "" || len(name) > 255 || !printable(name) {
			return bad("lease: %.20q: a kind or queue has 1 to 255 bytes of text", name)
		}
	}
	return nil
}

func printable(name string) bool { return !strings.ContainsRune(name, 0) }

// mostRows bounds what one request tells of leases.
const mostRows = 1000

func checkRows(n int) error {
	if n > mostRows {
		return problem(http.StatusUnprocessableEntity, "invalid", "send them in parts", "lease: %d rows: at most %d at once", n, mostRows)
	}
	return nil
}

// mostLeases is the most that one claim gets.
const mostLeases = 100
