package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/telemetry"
	"github.com/ebbhq/ebb/worker"
)

// checkKind is the kind of checkWork.
const checkKind = "ebb.check"

// goodbye is how long requests under way may take after the order to stop.
const goodbye = 20 * time.Second

// serveFlags are what `ebb serve` can be told.
type serveFlags struct {
	listen   string
	cert     string
	key      string
	insecure bool
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the server: API, worker protocol, console, metrics",
		Long: `Serve the API under /v1, the console at /, /openapi.json, /metrics, /healthz and
/readyz over the database of --db, which is made where it does not exist. Several
servers may share a database. Each does the upkeep too: it takes over from dead
processes, carries out redrives and fires schedules.

On loopback it prints an address that logs a browser in once. Beyond loopback it
listens only with --tls-cert and --tls-key, or with --insecure-listen where
something before it keeps strangers out and encrypts.

Secrets, such as those that sign webhooks, are encrypted in the database with the
key of --key-file. For SQLite it is PATH.key beside the database, made at the
first start. PostgreSQL has no such place: name one file, the same for every
server of the database; without it nothing that has a secret can be kept.

SIGTERM and SIGINT drain: nothing new is taken, what runs may end. Exit codes:
0 stopped; 1 the database or the address cannot be used; 2 wrong usage.`,
		Example: `  ebb serve
  ebb serve --listen 127.0.0.1:8080 --db sqlite:ebb.db
  ebb serve --listen :7070 --tls-cert cert.pem --tls-key key.pem`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return a.serve(c.Context(), f) },
	}
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:7070", "address; port 0 = any free one")
	c.Flags().StringVar(&f.cert, "tls-cert", "", "PEM file of the certificate and its chain")
	c.Flags().StringVar(&f.key, "tls-key", "", "PEM file of the certificate's key")
	c.Flags().BoolVar(&f.insecure, "insecure-listen", false, "listen beyond loopback without TLS")
	a.keyFlag(c)
	a.webhookFlags(c)
	a.campaignFlags(c)
	return c
}

// check refuses what would open the server to strangers by mistake.
func (f *serveFlags) check() (loopback bool, err error) {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return false, usage(fmt.Errorf("serve: --listen %q: want HOST:PORT", f.listen), "ebb serve --listen 127.0.0.1:7070")
	}
	ip := net.ParseIP(host)
	loopback = host == "localhost" || ip != nil && ip.IsLoopback()
	switch {
	case (f.cert == "") != (f.key == ""):
		return loopback, usage(errors.New("serve: --tls-cert and --tls-key go together"), "ebb serve --tls-cert cert.pem --tls-key key.pem")
	case !loopback && f.cert == "" && !f.insecure:
		return loopback, usage(fmt.Errorf("serve: --listen %s: beyond loopback, tokens and jobs would travel in the clear", f.listen),
			"--tls-cert and --tls-key; or --insecure-listen, where something before it encrypts")
	}
	return loopback, nil
}

func (a *app) serve(ctx context.Context, f serveFlags) error {
	loopback, err := f.check()
	if err != nil {
		return err
	}
	policies, err := a.knownPolicies()
	if err != nil {
		return err
	}
	db, err := a.database()
	if err != nil {
		return err
	}
	s, err := db.open(ctx)
	if err != nil {
		return interrupted(ctx, db.unreachable(err))
	}
	on := site{store: s, policies: policies, clock: a.clock, log: slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if on.keeper, err = a.keeper(ctx, s, &db); err == nil {
		err = a.serveTraced(ctx, on, f, loopback)
	}
	return errors.Join(err, closed(s, err))
}

// service is a running server and what it is made of.
type service struct {
	http     *http.Server
	leases   *api.Leases
	upkeep   *worker.Worker
	work     []workload
	keeper   *access.Keeper
	draining atomic.Bool
	full     atomic.Pointer[noRoom]
	// polls ends with the order to stop: who waits for work is told to
	// ask again.
	polls    context.Context //nolint:containedctx // of the server's life, not of a call
	endPolls context.CancelFunc
}

func (a *app) serveOn(ctx context.Context, on site, f serveFlags, loopback bool) error {
	v, err := a.assemble(on, f.cert != "", loopback) //nolint:contextcheck // it only makes; what it makes is given contexts later
	if err != nil {
		return usage(fmt.Errorf("serve: %w", err), "ebb policy check")
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return usage(fmt.Errorf("serve: --tls-cert, --tls-key: %w", err), "PEM files of a certificate and its own key, which this user can read")
		}
		v.http.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return refusedListen("serve", err)
	}
	if err := a.announce(ctx, v, listener.Addr(), f.cert != "", loopback); err != nil {
		return errors.Join(err, listener.Close())
	}
	return v.run(ctx, listener, f)
}

// assemble makes the parts and puts them under one root.
func (a *app) assemble(on site, secure, loopback bool) (*service, error) {
	s, policies, log := on.store, on.policies, on.log
	v := &service{keeper: on.keeper}
	v.polls, v.endPolls = context.WithCancel(context.Background())
	t := telemetry.New(telemetry.Config{Store: s, Policies: policies, Clock: a.clock, Version: currentVersion(), Log: log.Handler(), Tracer: on.tracer})
	on.telemetry = t
	on.observe = func(e worker.Event) { v.note(e); t.Observe(e) }
	counted := newTally(t.Ops(engine.New(s, policies, engine.Config{Actor: a.actor(), Clock: a.clock})), s)
	on.ops = counted
	v.leases = api.NewLeases(s, api.LeasesConfig{Policies: policies, Clock: a.clock, Version: currentVersion(), Observe: on.observe, Log: log})
	if err := a.employ(v, on); err != nil {
		return nil, err
	}
	v.work = append(v.work, workload{name: "audit", run: counted.run})
	asks := api.Config{Ops: on.ops, Keeper: v.keeper, Records: s, Leases: v.leases, Policies: policies, Ready: v.ready(s), Log: log, Version: currentVersion()}
	looks := console.Config{Ops: on.ops, Keeper: v.keeper, Policies: policies, Secure: secure, Log: log}
	for _, w := range v.work {
		t.Registry().MustRegister(w.collectors...)
		for kind := range w.handlers {
			if kind != checkKind {
				asks.Reserved = append(asks.Reserved, kind)
			}
		}
		if w.serve != nil {
			w.serve(&asks, &looks)
		}
	}
	asked, err := api.New(asks)
	if err != nil {
		return nil, err
	}
	looked, err := console.New(looks)
	if err != nil {
		return nil, err
	}
	asked = t.Incoming(asked)
	root := http.NewServeMux()
	root.Handle("POST /v1/leases", v.polling(asked))
	for _, path := range []string{"/v1/", "/openapi.json", "/healthz", "/readyz"} {
		root.Handle(path, asked)
	}
	root.Handle("/metrics", metrics(t.Handler(), v.keeper, loopback))
	root.Handle("/", looked)
	v.http = api.Server(root)
	v.http.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	return v, nil
}

// employ makes the workloads and the worker that does them.
func (a *app) employ(v *service, on site) error {
	var err error
	if on.settings, err = a.settings(); err != nil {
		return err
	}
	if v.work, err = a.workloads(on); err != nil {
		return err
	}
	c := worker.Config{Policies: on.policies, Observe: on.observe, Version: currentVersion(), Clock: on.clock}
	crew(v.work, &c)
	for kind, h := range c.Handlers {
		c.Handlers[kind] = on.telemetry.Work(h)
	}
	v.upkeep, err = worker.New(on.store, c)
	return err
}

// polling ends the wait of a long poll when the server drains.
func (v *service) polling(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(v.polls, cancel)() //nolint:contextcheck // the other end of the wait
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// metrics wants a token that may read, unless it is asked from this machine.
func metrics(next http.Handler, keeper *access.Keeper, loopback bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback || !local(r) {
			token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if p, err := keeper.Authenticate(r.Context(), token); err != nil || !p.May(access.Read, "") {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, "/metrics needs a token with the scope read for all queues", http.StatusUnauthorized)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// local reports whether a request that came by loopback was meant for it. A
// page of somebody else whose name was made to point here brings its own name,
// and a proxy tells for whom it asks.
func local(r *http.Request) bool {
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header.Get(h) != "" {
			return false
		}
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// announce prints where the server is, on one line, and on loopback how a
// browser gets in.
func (a *app) announce(ctx context.Context, v *service, at net.Addr, secure, loopback bool) error {
	base := "http://" + at.String()
	if secure {
		base = "https://" + at.String()
	}
	login := ""
	if loopback {
		var err error
		who := access.Principal{Name: a.actor(), Scopes: []access.Scope{access.Admin}}
		if login, err = v.keeper.LoginURL(engine.WithActor(ctx, a.actor()), base, who); err != nil {
			return &failed{code: exitNo, err: fmt.Errorf("serve: %w", err), try: "a database that can be written"}
		}
	}
	switch {
	case a.json:
		return a.printJSON(map[string]string{"address": base, "login": login})
	case login == "":
		fmt.Fprintf(a.stdout, "ebb serves %s\n", base)
	default:
		fmt.Fprintf(a.stdout, "ebb serves %s; log in once, within %s: %s\n", base, span(access.LoginFor), login)
	}
	return nil
}

// run serves until the context ends or a part fails, then drains.
func (v *service) run(ctx context.Context, listener net.Listener, f serveFlags) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 2+len(v.work))
	left := 2
	for _, w := range v.work {
		if w.run == nil {
			continue
		}
		left++
		go func() {
			err := w.run(ctx)
			if err != nil {
				err = &failed{code: exitNo, err: fmt.Errorf("serve: %s: %w", w.name, err), try: "is the database reachable?"}
			}
			ended <- err
		}()
	}
	go func() {
		err := v.upkeep.Run(ctx)
		if err != nil {
			err = &failed{code: exitNo, err: fmt.Errorf("serve: %w", err), try: "is the database reachable?"}
		}
		ended <- err
	}()
	go func() {
		var err error
		if f.cert != "" {
			err = v.http.ServeTLS(listener, "", "") // the pair is in TLSConfig
		} else {
			err = v.http.Serve(listener)
		}
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		} else {
			err = &failed{code: exitNo, err: fmt.Errorf("serve: %w", err), try: "another --listen"}
		}
		ended <- err
	}()
	var first error
	select {
	case <-ctx.Done():
	case first = <-ended:
		left--
	}
	v.draining.Store(true)
	stop()
	v.endPolls()
	v.leases.Stop()
	// The order to stop has ended ctx; the goodbye has a time of its own.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	if err := v.http.Shutdown(last); err != nil {
		_ = v.http.Close() // who has not ended by now is cut off
	}
	for range left {
		first = errors.Join(first, <-ended)
	}
	return first
}

// refusedListen is the error of an address that cannot be listened on: wrong
// usage where it is none.
func refusedListen(command string, err error) error {
	f := &failed{code: exitNo, err: fmt.Errorf("%s: %w", command, err), try: "another --listen; 127.0.0.1:0 takes a free port"}
	var address *net.AddrError
	if errors.As(err, &address) {
		f.code = exitUsage
	}
	return f
}
