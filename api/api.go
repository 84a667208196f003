// Package api answers "who asks, over HTTP?": engine.Ops under /v1 as JSON,
// the worker protocol under /v1/leases, and /openapi.json, made from the same
// table of routes that serves.
//
// Every /v1 route needs a token or a console session. What a request may do
// is decided before its body is read.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/fetch"
	"github.com/ebbhq/ebb/work/supervise"
	"github.com/ebbhq/ebb/work/supervise/campaign"
	"github.com/ebbhq/ebb/work/webhook"
)

// Config is what the API serves. Ops, Keeper and Records are required.
type Config struct {
	Ops    engine.Ops
	Keeper *access.Keeper
	// Records keep idempotency keys.
	Records store.Records
	// Leases hands jobs to workers of any language; nil = the routes answer
	// that this server has none.
	Leases *Leases
	// Webhooks sends events; nil = the routes answer that this server has
	// none.
	Webhooks webhook.Ops
	// Documents processes documents; nil as above.
	Documents document.Ops
	// Fetches fetches many pages; nil as above.
	Fetches fetch.Ops
	// Runs are supervised processes; nil as above. RunCommands lets
	// administrators submit commands: whoever may, runs programs here.
	Runs        supervise.Ops
	RunCommands bool
	// Campaigns are runs in an order; nil as above.
	Campaigns campaign.Ops
	// Policies are those that a simulation may name.
	Policies []policy.Policy
	// MaxSimulation is how long one simulation may take, in machine time.
	// Default 15 s.
	MaxSimulation time.Duration
	// Reserved are the kinds of the server's own workloads: their routes
	// enqueue them, and a job of one by itself takes the scope admin.
	Reserved []string
	// MaxBody is the most bytes of a request's body. Default 1 MiB.
	MaxBody int64
	// Ready says whether the server can do its work, for /readyz; what an
	// Unready says is told. Default: it can.
	Ready func(context.Context) error
	// Clock ages idempotency keys. Default: the machine's.
	Clock clock.Clock
	// Log has what a caller is not told. Default: slog.Default().
	Log *slog.Logger
	// Version is the server's, for /openapi.json.
	Version string
}

// DefaultMaxBody is the most bytes of a request's body unless Config says
// otherwise.
const DefaultMaxBody = 1 << 20

type server struct {
	Config
	mux    *http.ServeMux
	routes []route
	cross  *http.CrossOriginProtection
	full   atomic.Bool // the last write that failed found no room on the disk

	playing chan struct{} // bounds the simulations at a time
}

// New returns the handler of /v1/*, /openapi.json, /healthz and /readyz.
func New(c Config) (http.Handler, error) {
	if c.Ops == nil || c.Keeper == nil || c.Records == nil {
		return nil, errors.New("api: Ops, Keeper and Records are required")
	}
	if c.MaxBody <= 0 {
		c.MaxBody = DefaultMaxBody
	}
	if c.MaxSimulation <= 0 {
		c.MaxSimulation = 15 * time.Second
	}
	if c.Clock == nil {
		c.Clock = clock.System{}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	s := &server{Config: c, mux: http.NewServeMux(), cross: http.NewCrossOriginProtection(), playing: make(chan struct{}, maxPlaying)}
	s.routes = s.table()
	for i := range s.routes {
		r := &s.routes[i]
		s.mux.Handle(r.method+" "+r.path, s.guarded(r))
	}
	document, err := s.document()
	if err != nil {
		return nil, err
	}
	root := http.NewServeMux()
	root.Handle("/v1/", s.known(s.mux))
	root.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document)
	})
	root.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, health{Status: "ok"}) })
	root.HandleFunc("GET /readyz", s.ready)
	return strict(root), nil
}

type health struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

func (s *server) ready(w http.ResponseWriter, r *http.Request) {
	err := s.room(r.Context())
	if err == nil && s.Ready != nil {
		err = s.Ready(r.Context())
	}
	if err != nil {
		s.Log.Warn("not ready", "error", err)
		reply(w, http.StatusServiceUnavailable, health{"unavailable", why(err)})
		return
	}
	reply(w, http.StatusOK, health{Status: "ok"})
}

// table lists every route.
func (s *server) table() []route {
	var all []route
	for _, part := range [][]route{
		s.jobRoutes(), s.queueRoutes(), s.kindRoutes(), s.targetRoutes(), s.periodicRoutes(), s.deadRoutes(), s.policyRoutes(), s.simulationRoutes(), s.tokenRoutes(), s.leaseRoutes(), s.endpointRoutes(), s.eventRoutes(), s.deliveryRoutes(), s.documentRoutes(), s.fetchRoutes(),
	} {
		all = append(all, part...)
	}
	all = append(all, s.runRoutes()...)
	all = append(all, s.campaignRoutes()...)
	return all
}

// Server returns an HTTP server with the limits that a handler cannot set
// itself: a client that sends its header or body drop by drop is cut off.
// Answers may take as long as a long poll.
func Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      LongPoll + 30*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
}
