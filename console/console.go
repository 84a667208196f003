// Package console answers "who looks?": pages for people over engine.Ops,
// rendered on the server. They read without a script, load nothing from
// elsewhere, and change nothing but by a form that a session with the scope
// operate sends from this site.
package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate/report"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/fetch"
	"github.com/ebbhq/ebb/work/supervise"
	"github.com/ebbhq/ebb/work/supervise/campaign"
	"github.com/ebbhq/ebb/work/webhook"
)

//go:embed page asset
var files embed.FS

// Config is what the console shows. Ops is required.
type Config struct {
	Ops engine.Ops
	// Keeper opens sessions; nil = whoever reaches the server may look, and
	// nobody may act.
	Keeper *access.Keeper
	// Policies are those of the configured file, sealed; the presets that none
	// of them replaces are shown beside them.
	Policies []policy.Policy
	// Webhooks sends events; nil = there are no pages of endpoints.
	Webhooks webhook.Ops
	// Documents processes documents; nil = there are no pages of them.
	Documents document.Ops
	// Fetches fetches many pages; nil = there are no pages of them.
	Fetches fetch.Ops
	// Runs are supervised processes; nil = there are no pages of them.
	Runs supervise.Ops
	// Campaigns are runs in an order; nil = there are no pages of them.
	Campaigns campaign.Ops
	// Secure marks the session's cookie for TLS alone.
	Secure bool
	// Now is the time that ages are told by. Default: the machine's.
	Now func() time.Time
	// Log has what a visitor is not told. Default: slog.Default().
	Log *slog.Logger
	// MaxSimulation is how long one simulation may take, in machine time.
	// Default 15 s.
	MaxSimulation time.Duration
}

type server struct {
	Config
	policies []policy.Policy // of the file, then the presets
	pages    map[string]*template.Template
	cross    *http.CrossOriginProtection
	playing  chan struct{} // bounds the simulations at a time
	bulks    bulks
}

// maxPlaying is how many simulations run at a time; further ones are refused.
const maxPlaying = 2

// New returns the handler of the console, at / and below.
func New(c Config) (http.Handler, error) {
	if c.Ops == nil {
		return nil, errors.New("console: Ops is required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.MaxSimulation <= 0 {
		c.MaxSimulation = 15 * time.Second
	}
	s := &server{Config: c, cross: http.NewCrossOriginProtection(), playing: make(chan struct{}, maxPlaying)}
	s.policies = withPresets(c.Policies)
	if err := s.parse(); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	assets, err := fs.Sub(files, "asset")
	if err != nil {
		return nil, err
	}
	mux.HandleFunc("GET /asset/chart.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write([]byte(report.CSS()))
	})
	mux.Handle("GET /asset/{file}", http.StripPrefix("/asset/", http.FileServerFS(assets)))
	mux.HandleFunc("GET /login", s.login)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
	for _, routes := range []map[string]handler{s.routes(), s.webhookRoutes(), s.documentRoutes(), s.fetchRoutes()} {
		for pattern, h := range routes {
			mux.Handle(pattern, s.known(h))
		}
	}
	for pattern, h := range s.runRoutes() {
		mux.Handle(pattern, s.known(h))
	}
	for pattern, h := range s.campaignRoutes() {
		mux.Handle(pattern, s.known(h))
	}
	return strict(s.cross.Handler(mux)), nil
}

// handler answers with a page or with an error that becomes one.
type handler func(w http.ResponseWriter, r *http.Request) error

func (s *server) routes() map[string]handler {
	return map[string]handler{
		"GET /{$}":               s.overview,
		"GET /jobs":              s.jobs,
		"GET /jobs/{id}":         s.job,
		"GET /dead":              s.dead,
		"GET /queues":            s.queues,
		"GET /queue":             s.queue,
		"GET /targets":           s.targets,
		"GET /target":            s.target,
		"GET /policies":          s.listPolicies,
		"GET /policies/{file}":   s.plotPolicy,
		"GET /simulate":          s.simulate,
		"GET /audit":             s.audit,
		"GET /":                  nowhere,
		"POST /jobs/{id}/retry":  s.orderJob(s.Ops.Retry, "retried"),
		"POST /jobs/{id}/cancel": s.orderJob(s.Ops.Cancel, "cancelled"),
		"POST /queue/pause":      s.orderQueue(s.Ops.PauseQueue, "paused"),
		"POST /queue/resume":     s.orderQueue(s.Ops.ResumeQueue, "resumed"),
		"POST /target/pause":     s.ordered(s.pauseTarget),
		"POST /target/resume":    s.ordered(s.resumeTarget),
		"POST /target/probe":     s.ordered(s.probeTarget),
		"POST /target/close":     s.ordered(s.closeTarget),
		"POST /dead/redrive":     s.ordered(s.redrive),
		"POST /jobs/all":         s.ordered(s.all),
		"POST /jobs/all/stop":    s.ordered(s.stopAll),
	}
}

func nowhere(http.ResponseWriter, *http.Request) error {
	return &refusal{http.StatusNotFound, "There is no such page."}
}

// withPresets adds the presets that the policies do not replace.
func withPresets(own []policy.Policy) []policy.Policy {
	list := append([]policy.Policy(nil), own...)
	known := map[string]bool{}
	for i := range own {
		known[own[i].Name] = true
	}
	for _, name := range policy.PresetNames() {
		if !known[name] {
			list = append(list, policy.MustPreset(name))
		}
	}
	return list
}

// strict sets the headers of every answer.
func strict(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		next.ServeHTTP(w, r)
	})
}

// page is what the layout shows around a body.
type page struct {
	Title string
	Nav   string // the entry that is marked
	Who   string // empty = no session
	// Operate: forms that change something are shown.
	Operate bool
	Notice  string
	Body    any
}

// show renders a page whole before any of it is sent.
func (s *server) show(w http.ResponseWriter, r *http.Request, status int, name string, p page) error {
	if who, ok := access.PrincipalOf(r.Context()); ok {
		p.Who = who.Name
		p.Operate = who.Session && who.Has(access.Operate)
	}
	p.Notice = noticeOf(r.URL.Query())
	var b bytes.Buffer
	if err := s.pages[name].ExecuteTemplate(&b, "layout.html", p); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, err := w.Write(b.Bytes())
	if err != nil {
		s.Log.Debug("console: answer", "error", err)
	}
	return nil
}

// refusal is an error whose words are for the visitor.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

// fail answers with a page that says what is wrong.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, text := http.StatusInternalServerError, "The store could not be asked. The server's log says why."
	var own *refusal
	switch {
	case errors.As(err, &own):
		status, text = own.status, own.text
	case errors.Is(err, engine.ErrNotFound):
		status, text = http.StatusNotFound, sentence(err.Error())
	case errors.Is(err, engine.ErrInvalid):
		status, text = http.StatusBadRequest, sentence(err.Error())
	case errors.Is(err, engine.ErrState):
		status, text = http.StatusConflict, sentence(err.Error())
	case errors.Is(err, context.Canceled):
		return
	default:
		s.Log.Error("console", "path", r.URL.Path, "error", err)
	}
	err = s.show(w, r, status, "error.html", page{Title: http.StatusText(status), Body: text})
	if err != nil {
		s.Log.Error("console", "path", r.URL.Path, "error", err)
		http.Error(w, "the page could not be made; the server's log says why", http.StatusInternalServerError)
	}
}
