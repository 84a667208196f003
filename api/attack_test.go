package api_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

// TestNoToken: no route answers a stranger, and none tells which exist.
func TestNoToken(t *testing.T) {
	b := newBench(t)
	for _, r := range routesOf(b) {
		g := b.do("", r.method, r.sample(), "")
		b.refused(g, 401, "unauthorized")
		if g.header.Get("WWW-Authenticate") != `Bearer realm="ebb"` {
			t.Fatalf("%s %s: no WWW-Authenticate", r.method, r.path)
		}
	}
	b.refused(b.do("", "GET", "/v1/nothing", ""), 401, "unauthorized")
	b.refused(b.do("ebb_0123456789abcdef_"+strings.Repeat("A", 43), "GET", "/v1/jobs", ""), 401, "unauthorized")
	b.refused(b.do("", "GET", "/v1/jobs", "", "Authorization", "Basic YTpi"), 401, "unauthorized")
}

// TestReadTokenChangesNothing: on every route that changes something a read
// token is refused, and the missing scope is named.
func TestReadTokenChangesNothing(t *testing.T) {
	b := newBench(t)
	reader := b.token("reader", access.Read)
	n := 0
	for _, r := range routesOf(b) {
		if r.method == "GET" && r.path != "/v1/tokens" || r.path == "/v1/simulations" { // plays, and changes nothing
			continue
		}
		n++
		p := b.refused(b.do(reader, r.method, r.sample(), ""), 403, "forbidden")
		if want := fmt.Sprintf("scope %s is missing: reader has [read]", r.scope); p.Detail != want {
			t.Errorf("%s %s: got %q, want %q", r.method, r.path, p.Detail, want)
		}
	}
	if n < 20 {
		t.Fatalf("only %d routes change something", n)
	}
}

// TestTokenOfAnotherQueue: a token of one queue neither reads nor changes
// another, by any way.
func TestTokenOfAnotherQueue(t *testing.T) {
	b := newBench(t)
	admin, mail := b.token("root", access.Admin), b.token("mailer", access.Operate, "mail")
	bill := want[engine.Enqueued](b, b.do(admin, "POST", "/v1/jobs", `{"kind":"pay","queue":"bills","unique":"u"}`), 201)
	own := want[engine.Enqueued](b, b.do(mail, "POST", "/v1/jobs", `{"kind":"send","queue":"mail"}`), 201)
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/jobs", `{"kind":"send","queue":"bills"}`},
		{"POST", "/v1/jobs", `{"kind":"send"}`}, // the queue default
		{"POST", "/v1/jobs", `{"kind":"send","queue":"mail","unique":"u","on_conflict":"replace"}`},
		{"POST", "/v1/jobs/batch", `{"jobs":[{"kind":"send","queue":"mail"},{"kind":"send","queue":"bills"}]}`},
		{"GET", "/v1/jobs?queue=bills", ""},
		{"GET", "/v1/jobs/" + bill.ID, ""},
		{"GET", "/v1/jobs/" + bill.ID + "/attempts", ""},
		{"GET", "/v1/jobs/" + bill.ID + "/why", ""},
		{"POST", "/v1/jobs/" + bill.ID + "/retry", ""},
		{"POST", "/v1/jobs/" + bill.ID + "/cancel", ""},
		{"GET", "/v1/queues/bills", ""},
		{"POST", "/v1/queues/bills/pause", ""},
		{"PUT", "/v1/queues/bills/limit", `{"concurrency":1}`},
		{"GET", "/v1/dead?queue=bills", ""},
		{"GET", "/v1/dead/groups?queue=bills", ""},
		{"POST", "/v1/redrives", `{"filter":{"queue":"bills"}}`},
		{"GET", "/v1/targets", ""},
		{"POST", "/v1/targets/x/pause", ""},
		{"POST", "/v1/kinds/pay/pause", ""},
		{"PUT", "/v1/periodics/p", `{"name":"p","cron":"@daily","job":{"kind":"pay","queue":"bills"}}`},
	} {
		b.refused(b.do(mail, c.method, c.path, c.body), 403, "forbidden")
	}
	list := want[engine.Jobs](b, b.do(mail, "GET", "/v1/jobs", ""), 200)
	if len(list.Jobs) != 1 || list.Jobs[0].ID != own.ID {
		t.Fatalf("a token of queue mail sees %v", list.Jobs)
	}
	queues := want[api.QueueList](b, b.do(mail, "GET", "/v1/queues", ""), 200)
	if len(queues.Queues) != 1 || queues.Queues[0].Name != "mail" {
		t.Fatalf("a token of queue mail sees %v", queues.Queues)
	}
	if j := want[engine.Job](b, b.do(admin, "GET", "/v1/jobs/"+bill.ID, ""), 200); j.State != job.Queued {
		t.Fatalf("the other queue's job is %s", j.State)
	}
	p := b.do(mail, "POST", "/v1/queues/bills/pause", "").problem()
	if want := "scope operate for queue bills is missing: mailer has [operate] for the queues [mail]"; p.Detail != want {
		t.Fatalf("got %q, want %q", p.Detail, want)
	}
}

// TestCookies: a forged one opens nothing, a real one nothing for another
// site, and after the logout nothing at all.
func TestCookies(t *testing.T) {
	b := newBench(t)
	link, err := b.keeper.LoginURL(t.Context(), b.url, access.Principal{Name: "maya", Scopes: []access.Scope{access.Admin}})
	if err != nil {
		t.Fatal(err)
	}
	_, once, _ := strings.Cut(link, "?once=")
	value, err := b.keeper.Login(t.Context(), once, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	cookie := func(v string) string { return access.Cookie(v, false).String() }
	b.refused(b.do("", "GET", "/v1/jobs", "", "Cookie", cookie(strings.Repeat("A", 43))), 401, "unauthorized")
	b.refused(b.do("", "GET", "/v1/jobs", "", "Cookie", cookie(value[1:]+"A")), 401, "unauthorized")
	want[engine.Jobs](b, b.do("", "GET", "/v1/jobs", "", "Cookie", cookie(value)), 200)
	job := `{"kind":"k"}`
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"},
		{"Origin", "https://evil.example"},
		{"Origin", "null"},
	} {
		b.refused(b.do("", "POST", "/v1/jobs", job, append(headers, "Cookie", cookie(value))...), 403, "cross_origin")
	}
	want[engine.Enqueued](b, b.do("", "POST", "/v1/jobs", job, "Sec-Fetch-Site", "same-origin", "Cookie", cookie(value)), 201)
	if err := b.keeper.Logout(t.Context(), value); err != nil {
		t.Fatal(err)
	}
	b.refused(b.do("", "GET", "/v1/jobs", "", "Cookie", cookie(value)), 401, "unauthorized")
}

// TestBentPaths: a path that climbs or hides a slash names nothing.
func TestBentPaths(t *testing.T) {
	b := newBench(t)
	admin := b.token("root", access.Admin)
	for _, path := range []string{
		"/v1/../etc/passwd", "/v1/jobs/../tokens", "/v1/jobs/%2e%2e/tokens", "/v1/jobs/..", "/v1//jobs", "/v1/jobs/%2e", "/v1/jobs/",
	} {
		if g := raw(b, "GET "+path+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+admin+"\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(g, "HTTP/1.1 404") &&
			!strings.HasPrefix(g, "HTTP/1.1 307") {
			t.Errorf("%s: got %.200s", path, g)
		}
	}
	p := b.refused(b.do(admin, "GET", "/v1/jobs/..%2f..%2fetc%2fpasswd", ""), 404, "not_found")
	if !strings.Contains(p.Detail, "no such job") {
		t.Fatalf("a name with slashes is one name: got %q", p.Detail)
	}
}

// raw sends bytes and returns all that comes back.
func raw(b *bench, request string) string {
	b.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(c)
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

// zeros counts what is read of an endless body.
type zeros struct{ read atomic.Int64 }

func (z *zeros) Read(p []byte) (int, error) {
	clear(p)
	z.read.Add(int64(len(p)))
	return len(p), nil
}

// TestHugeBody: 1 GB is cut off after the limit, announced or not.
func TestHugeBody(t *testing.T) {
	const gigabyte = 1 << 30
	b := newBench(t)
	admin := b.token("root", access.Admin)
	for _, announced := range []int64{gigabyte, -1} {
		z := &zeros{}
		r, err := http.NewRequestWithContext(t.Context(), "POST", b.url+"/v1/jobs", io.LimitReader(z, gigabyte))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = announced
		r.Header.Set("Authorization", "Bearer "+admin)
		r.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultTransport.RoundTrip(r)
		if err == nil {
			response.Body.Close()
			if response.StatusCode != http.StatusRequestEntityTooLarge {
				t.Fatalf("announced %d: got status %d, want 413", announced, response.StatusCode)
			}
		}
		// The rest is what sockets and buffers hold.
		if n := z.read.Load(); n > 32<<20 {
			t.Fatalf("announced %d: the server took %d bytes", announced, n)
		}
	}
}

// TestSlowClient: who sends a header or a body drop by drop is cut off by the
// server's own limits, and who waits for work is not.
func TestSlowClient(t *testing.T) {
	s := api.Server(http.NotFoundHandler())
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= api.LongPoll || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 {
		t.Fatalf("a limit is missing: %+v", s)
	}
	b := newBench(t)
	admin := b.token("root", access.Admin)
	// The same limits, shorter: the test waits for the server to hang up.
	s.Handler, s.ReadHeaderTimeout, s.ReadTimeout = b.handler, 50*time.Millisecond, 100*time.Millisecond
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(listener) }()
	defer s.Close()
	b.url = "http://" + listener.Addr().String()
	head := "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer " + admin
	if g := raw(b, head); strings.Contains(g, "HTTP/1.1 2") {
		t.Errorf("a header without an end: %s", g)
	}
	if g := raw(b, head+"\r\nContent-Length: 14\r\n\r\n{\"kind\""); !strings.HasPrefix(g, "HTTP/1.1 408") {
		t.Errorf("a body without an end: %s", g)
	}
	if c := want[api.Claimed](b, b.do(admin, "POST", "/v1/leases", `{"kinds":["k"],"wait_s":1}`), 200); len(c.Leases) != 0 {
		t.Errorf("got %+v", c)
	}
}

// TestHeaders: every answer, refusals too, has the strict headers.
func TestHeaders(t *testing.T) {
	b := newBench(t)
	for _, path := range []string{"/v1/jobs", "/healthz", "/readyz", "/openapi.json", "/nothing"} {
		h := b.do("", "GET", path, "").header
		for name, value := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if h.Get(name) != value {
				t.Errorf("%s: %s is %q, want %q", path, name, h.Get(name), value)
			}
		}
	}
}
