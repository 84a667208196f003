package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/worker"
)

// add enqueues one job and returns its id.
func (s *site) add(n engine.NewJob) string {
	s.Helper()
	got, err := s.ops.Enqueue(s.Context(), n)
	if err != nil {
		s.Fatal(err)
	}
	return got[0].ID
}

// work runs a real worker until nothing is left to start.
func (s *site) work(queue string, do worker.Handler) {
	s.Helper()
	s.serve([]string{queue}, map[string]worker.Handler{"mail": do})
}

// serve is work for several queues and kinds.
func (s *site) serve(queues []string, handlers map[string]worker.Handler) {
	s.Helper()
	w, err := worker.New(s.store, worker.Config{Handlers: handlers, Queues: queues, Clock: s.clock, Seed: 1})
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	if err := w.Quiet(ctx); err != nil {
		s.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		s.Fatal(err)
	}
}

// login opens a session of the scopes.
func (s *site) login(k *access.Keeper, p access.Principal) {
	s.Helper()
	at, err := k.LoginURL(s.Context(), "http://ebb.test", p)
	if err != nil {
		s.Fatal(err)
	}
	w := s.ask("GET", strings.TrimPrefix(at, "http://ebb.test"), nil)
	if w.Code != http.StatusSeeOther || len(w.Result().Cookies()) != 1 {
		s.Fatalf("login: %d %v", w.Code, w.Header())
	}
	cookie := w.Result().Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode {
		s.Errorf("cookie %v", cookie)
	}
	s.cookie = cookie.Value
}

func kept(t *testing.T) (*site, *access.Keeper) {
	t.Helper()
	s := open(t)
	k, err := access.New(s.store, s.clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.reopen(k, s.ops)
	return s, k
}

// reopen makes the console anew, with sessions.
func (s *site) reopen(k *access.Keeper, ops engine.Ops) {
	s.Helper()
	var err error
	if s.handler, err = console.New(console.Config{Ops: ops, Keeper: k, Now: s.clock.Now}); err != nil {
		s.Fatal(err)
	}
}

func fatal(context.Context, *worker.Task) error {
	return failure.Fatal(errors.New("no <mailbox> & no name"))
}

func TestEmptyPages(t *testing.T) {
	s := open(t)
	s.page(200, "/", "No queue yet", "No dead letters.")
	s.page(200, "/jobs", "No job matches.")
	s.page(200, "/dead", "No dead letters.")
	s.page(200, "/queues", "No queue yet")
	s.page(200, "/targets", "No target")
	s.page(200, "/audit", "Nobody has ordered anything yet.")
	s.page(404, "/nowhere", "There is no such page.")
	s.page(404, "/jobs/nobody", "Not Found")
	s.page(400, "/jobs?state=lost", "The state must be one of: queued, running, succeeded, failed, parked, cancelled.")
}

func TestOverviewAndLists(t *testing.T) {
	s := open(t)
	dead := s.add(engine.NewJob{Kind: "mail", Args: json.RawMessage(`{"to":"<maya>"}`)})
	s.work(job.DefaultQueue, fatal)
	s.clock.Advance(90 * time.Second)
	s.add(engine.NewJob{Kind: "mail", Queue: "slow", Target: "mx.example"})
	s.clock.Advance(time.Minute)
	text := s.page(200, "/", `<b>1 min</b><span class="soft">longest, in <a href="/queue?name=slow">slow</a>`, "Nobody works", "1 died; 2.0\u202f% accepted", "no &lt;mailbox&gt; &amp; no name", `<a href="/queue?name=slow">slow</a>`)
	if !strings.Contains(text, `aria-label="How jobs ended in the last 15 min: 0 succeeded, 1 died, at most 1 in 30 s."`) {
		t.Errorf("the drawing tells nothing: %s", text)
	}
	s.page(200, "/dead", "no &lt;mailbox&gt;", "/jobs/"+dead, "2 min ago")
	s.page(200, "/queue?name=slow", "No live worker serves it.", "state=queued\">1</a>")
	s.page(404, "/queue?name=nobody")
	s.page(200, "/targets", `<a href="/target?name=mx.example" title="mx.example">mx.example</a>`)
	s.page(200, "/target?name=mx.example", "First attempts", "Target mx.example")
	text = s.page(200, "/jobs?kind=mail&queue=slow", "mx.example")
	if strings.Contains(text, dead) {
		t.Error("the filter lets another queue's job through")
	}
	if strings.Contains(s.page(200, "/jobs/"+dead), "<form method=\"post\" action=\"/jobs/") {
		t.Error("without sessions there is a form that acts")
	}
}

// A dead letter that no start failed has no error to name its group and no
// fingerprint to find it by.
func TestDeadWithoutAStart(t *testing.T) {
	s := open(t)
	id := s.add(engine.NewJob{Kind: "mail", DeadlineAt: s.clock.Now().Add(time.Minute)})
	s.clock.Advance(time.Hour)
	s.work(job.DefaultQueue, fatal)
	group := `<a href="/dead?cause=expired&amp;kind=mail&amp;queue=default">no start failed: expired</a>`
	s.page(200, "/", group)
	s.page(200, "/dead", group, `<td class="wrap"><span class="soft">–</span></td>`)
	s.page(200, "/dead?cause=expired&kind=mail&queue=default", "failed · queue default · kind mail · cause expired", "/jobs/"+id)
	if text := s.page(200, "/dead?cause=fatal"); strings.Contains(text, id) {
		t.Errorf("the filter lets another cause through: %s", text)
	}
	s.page(200, "/jobs/"+id, "It was never started.")
}

func TestJobPage(t *testing.T) {
	s := open(t)
	id := s.add(engine.NewJob{Kind: "mail", Policy: "processing", Args: json.RawMessage(`{"to":"<maya>"}`)})
	s.work(job.DefaultQueue, func(context.Context, *worker.Task) error {
		return failure.New(failure.Unavailable, "", errors.New("try later"))
	})
	s.page(200, "/jobs/"+id, `<span class="state queued">queued</span>`, "Failed its 1st of 4 attempts with unavailable at 12:00:00Z", "Start 1", "try later",
		"Decided: retry after", "1 of 4, 1 start", "{\n  &#34;to&#34;: &#34;&lt;maya&gt;&#34;\n}")
	s.clock.Advance(time.Hour)
	s.work(job.DefaultQueue, func(context.Context, *worker.Task) error { return nil })
	text := s.page(200, "/jobs/"+id, `<span class="state succeeded">succeeded</span>`, `<li class="ok"><b>Start 2</b>`)
	if strings.Index(text, "Start 2") > strings.Index(text, "Start 1<") {
		t.Error("the newest attempt does not come first")
	}
}

func TestPaging(t *testing.T) {
	s := open(t)
	want := map[string]bool{}
	for range 120 {
		want["/jobs/"+s.add(engine.NewJob{Kind: "mail"})] = true
	}
	link := regexp.MustCompile(`href="(/jobs/[^"]+)"`)
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	target, pages := "/jobs?kind=mail", 0
	for target != "" {
		text := s.page(200, target)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if !want[m[1]] {
				t.Fatalf("%s is shown twice", m[1])
			}
			delete(want, m[1])
		}
		target = ""
		if m := next.FindStringSubmatch(text); m != nil {
			target = strings.ReplaceAll(m[1], "&amp;", "&")
		}
		pages++
	}
	if pages != 3 || len(want) != 0 {
		t.Errorf("%d pages, %d jobs on none", pages, len(want))
	}
}

func TestPolicies(t *testing.T) {
	s := open(t)
	text := s.page(200, "/policies", "lint passes", "end of an outage of 10m")
	for _, name := range policy.PresetNames() {
		if !strings.Contains(text, `src="/policies/`+name+`.svg"`) {
			t.Errorf("no drawing of %s", name)
		}
		w := s.ask("GET", "/policies/"+name+".svg", nil)
		if w.Code != 200 || w.Header().Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(w.Body.String(), "<svg") {
			t.Errorf("%s.svg: %d %.80s", name, w.Code, w.Body)
		}
	}
	s.page(404, "/policies/nobody.svg")
	s.page(404, "/policies/webhook")
}

func TestStrangersAreAskedToLogIn(t *testing.T) {
	s, k := kept(t)
	id := s.add(engine.NewJob{Kind: "secret-kind"})
	for _, target := range []string{"/", "/jobs", "/jobs/" + id, "/dead", "/simulate", "/policies", "/policies/webhook.svg", "/nowhere"} {
		if strings.Contains(s.page(401, target, "Log in"), "secret-kind") {
			t.Errorf("%s tells strangers", target)
		}
	}
	s.cookie = "forged"
	s.page(401, "/", "Log in")
	s.cookie = ""
	s.page(401, "/login?once=wrong", "That opens nothing")
	s.login(k, access.Principal{Name: "maya", Scopes: []access.Scope{access.Read}})
	s.page(200, "/", "maya", "Log out")
	if w := s.ask("POST", "/logout", strings.NewReader("")); w.Code != http.StatusSeeOther {
		t.Errorf("logout: %d", w.Code)
	}
	s.page(401, "/", "Log in")
}

func (s *site) order(status int, target string, form url.Values, headers ...string) string {
	s.Helper()
	w := s.ask("POST", target, strings.NewReader(form.Encode()), headers...)
	if w.Code != status {
		s.Fatalf("POST %s: status %d, want %d: %s", target, w.Code, status, w.Body)
	}
	return w.Header().Get("Location") + w.Body.String()
}

func TestOrders(t *testing.T) {
	s, k := kept(t)
	id := s.add(engine.NewJob{Kind: "mail", Target: "mx.example"})
	s.login(k, access.Principal{Name: "maya", Scopes: []access.Scope{access.Operate}})

	s.page(200, "/jobs/"+id, `action="/jobs/`+id+`/cancel"`)
	if got := s.order(303, "/queue/pause", url.Values{"name": {"default"}}); got != "/queue?done=paused&name=default" {
		t.Errorf("went to %s", got)
	}
	s.page(200, "/queue?name=default&done=paused", "by maya", "Paused: nothing more starts.", `action="/queue/resume"`)
	s.order(303, "/queue/resume", url.Values{"name": {"default"}})
	s.order(303, "/target/pause", url.Values{"name": {"mx.example"}, "minutes": {"5"}})
	s.page(200, "/target?name=mx.example", "maya", `action="/target/resume"`)
	s.order(400, "/target/pause", url.Values{"name": {"mx.example"}, "minutes": {"NaN"}})
	s.order(303, "/target/resume", url.Values{"name": {"mx.example"}})
	s.order(303, "/jobs/"+id+"/cancel", nil)
	s.page(200, "/jobs/"+id+"?done=cancelled", "The job is cancelled", `<span class="state cancelled">`)
	s.order(409, "/jobs/"+id+"/cancel", nil)
	if strings.Contains(s.page(200, "/?done=%3Cb%3Ehello"), "hello") {
		t.Error("the address brings words of its own")
	}
}

func TestRedriveCountsFirst(t *testing.T) {
	s, k := kept(t)
	id := s.add(engine.NewJob{Kind: "mail"})
	s.work(job.DefaultQueue, fatal)
	s.login(k, access.Principal{Name: "maya", Scopes: []access.Scope{access.Operate}})
	s.page(200, "/jobs?state=failed&kind=mail", `action="/dead/redrive"`, `<input type="hidden" name="kind" value="mail">`)
	if strings.Contains(s.page(200, "/jobs?kind=mail"), "/dead/redrive") {
		t.Error("jobs of any state are offered for a redrive")
	}
	form := url.Values{"kind": {"mail"}, "rate": {"10"}}
	text := s.order(200, "/dead/redrive", form)
	wellFormed(t, "redrive", text)
	if !strings.Contains(text, "Redrive 1 job?") || !strings.Contains(text, "10 a second") {
		t.Errorf("dry run: %s", text)
	}
	if all, err := s.ops.Redrives(t.Context(), 10); err != nil || len(all) != 0 {
		t.Errorf("the dry run ordered %v, %v", all, err)
	}
	form.Set("sure", "yes")
	if got := s.order(303, "/dead/redrive", form); got != "/dead?done=redriven" {
		t.Errorf("went to %s", got)
	}
	all, err := s.ops.Redrives(t.Context(), 10)
	if err != nil || len(all) != 1 || all[0].Actor != "maya" || all[0].Rate != 10 || all[0].Filter.Kind != "mail" {
		t.Errorf("ordered %+v, %v", all, err)
	}
	s.page(200, "/dead?done=redriven", "The redrive is ordered.", "kind mail", id)
	s.order(400, "/dead/redrive", url.Values{"rate": {"-1"}})
}

func TestOrdersAreRefused(t *testing.T) {
	s, k := kept(t)
	id := s.add(engine.NewJob{Kind: "mail"})
	cancel := "/jobs/" + id + "/cancel"
	s.order(401, cancel, nil)
	s.login(k, access.Principal{Name: "reader", Scopes: []access.Scope{access.Read}})
	s.order(403, cancel, nil)
	s.order(403, "/queue/pause", url.Values{"name": {"default"}})
	s.order(403, "/target/pause", url.Values{"name": {"mx"}})
	s.order(403, "/dead/redrive", url.Values{"kind": {"mail"}})
	if strings.Contains(s.page(200, "/jobs/"+id), cancel) {
		t.Error("a reader is shown the form")
	}
	s.login(k, access.Principal{Name: "maya", Scopes: []access.Scope{access.Operate}})
	s.order(403, cancel, nil, "Sec-Fetch-Site", "cross-site")
	s.order(403, cancel, nil, "Origin", "http://evil.test")
	s.order(400, "/queue/pause", url.Values{"name": {strings.Repeat("x", 70<<10)}})
	if j, err := s.ops.Job(t.Context(), id); err != nil || j.State != job.Queued {
		t.Errorf("the job is %s, %v", j.State, err)
	}
	open := open(t)
	open.order(403, "/queue/pause", url.Values{"name": {"default"}})
}

func TestOneQueueOnly(t *testing.T) {
	s, k := kept(t)
	own := s.add(engine.NewJob{Kind: "mail", Queue: "own"})
	other := s.add(engine.NewJob{Kind: "other-kind", Queue: "elsewhere"})
	s.login(k, access.Principal{Name: "maya", Scopes: []access.Scope{access.Operate}, Queues: []string{"own"}})
	for _, target := range []string{"/", "/jobs", "/queues", "/dead"} {
		if text := s.page(200, target); strings.Contains(text, "elsewhere") || strings.Contains(text, "other-kind") {
			t.Errorf("%s tells of another queue: %s", target, text)
		}
	}
	s.page(200, "/jobs/"+own)
	s.page(403, "/jobs/"+other, "lacks the scope read for the queue elsewhere")
	s.page(403, "/jobs?queue=elsewhere")
	s.page(403, "/queue?name=elsewhere")
	s.page(403, "/targets", "for all queues")
	s.order(403, "/jobs/"+other+"/cancel", nil)
	s.order(403, "/dead/redrive", url.Values{"queue": {"elsewhere"}})
	s.order(303, "/jobs/"+own+"/cancel", nil)
}

// TestLookingSpendsNoLogin: a HEAD, as link checkers send it, leaves the
// one-time address to whom it was given; and behind a proxy that speaks TLS the
// cookie is for TLS alone.
func TestLookingSpendsNoLogin(t *testing.T) {
	s, k := kept(t)
	at, err := k.LoginURL(t.Context(), "http://ebb.test", access.Principal{Name: "maya", Scopes: []access.Scope{access.Operate}})
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimPrefix(at, "http://ebb.test")
	if w := s.ask("HEAD", path, nil); w.Code != http.StatusOK || len(w.Result().Cookies()) != 0 {
		t.Fatalf("HEAD: %d %v", w.Code, w.Header())
	}
	w := s.ask("GET", path, nil, "X-Forwarded-Proto", "https")
	if cookies := w.Result().Cookies(); w.Code != http.StatusSeeOther || len(cookies) != 1 || !cookies[0].Secure {
		t.Fatalf("GET: %d %v", w.Code, w.Header())
	}
}
