package console_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/work/webhook"
)

// hookSender sends webhooks over the store, to loopback too.
func hookSender(t *testing.T, keeps store.Store, c *clock.Fake) *webhook.Service {
	t.Helper()
	k, err := access.New(keeps, c, bytes.Repeat([]byte{9}, access.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	s, err := webhook.New(webhook.Config{Store: keeps, Seal: k, Clock: c, Actor: "maya", AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// answering is an endpoint whose path says how it answers.
func answering(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Set-Cookie", "session=s3cret")
		if strings.HasSuffix(r.URL.Path, "/down") {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "<b>we are down</b>")
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// webhookWorld gives the world endpoints: one that is well, one that is down,
// one paused and one disabled.
var webhookWorld = worldPart{
	open: func(t *testing.T, keeps store.Store, c *clock.Fake, config *console.Config) {
		config.Webhooks = hookSender(t, keeps, c)
	},
	live: func(w *world) {
		sender, at := hookSender(w.T, w.store, w.clock), answering(w.T)
		add := func(n webhook.NewEndpoint) string {
			e, _, err := sender.Add(w.Context(), n)
			w.ok(err)
			w.clock.Advance(time.Second) // ids follow each other
			return e.ID
		}
		well := add(webhook.NewEndpoint{URL: at + "/in", Description: "Acme's CRM", Owner: "acme", Types: []string{"invoice.*", "customer.created"}, Headers: map[string]string{"Authorization": "Bearer s3cret"}})
		down := add(webhook.NewEndpoint{URL: at + "/down", Owner: "acme"})
		still := add(webhook.NewEndpoint{URL: "https://shop.example/hooks/a-rather-long-path-of-an-endpoint/that-goes-on?and=on", Owner: "shop"})
		gone := add(webhook.NewEndpoint{URL: "https://old.example/in", Owner: "shop"})
		for i := range 6 {
			_, err := sender.Send(w.Context(), webhook.Message{Type: "invoice.paid", Owner: "acme", Payload: []byte(`{"invoice":171` + string('0'+rune(i)) + `,"note":"<b>&</b>"}`)})
			w.ok(err)
		}
		w.serve([]string{webhook.Queue}, sender.Handlers())
		sender.Close() // writes the log of attempts
		_, err := sender.Send(w.Context(), webhook.Message{Type: "order.shipped", Owner: "shop", Payload: []byte(`{"order":9}`)})
		w.ok(err)
		_, err = sender.Pause(w.Context(), still, "they migrate", time.Time{})
		w.ok(err)
		_, err = sender.Disable(w.Context(), gone, "it answered 410 Gone")
		w.ok(err)
		for id, to := range map[string]string{well: "https://crm.example/in", down: "https://billing.example/webhooks"} {
			_, err = sender.Update(w.Context(), id, webhook.Change{URL: &to})
			w.ok(err)
		}
		list, err := sender.Deliveries(w.Context(), webhook.DeliveryFilter{Endpoint: down}, engine.Page{})
		w.ok(err)
		sent, err := sender.Deliveries(w.Context(), webhook.DeliveryFilter{Endpoint: well}, engine.Page{})
		w.ok(err)
		w.endpoint, w.down = well, down
		w.delivered, w.undelivered = sent.Deliveries[0].ID, list.Deliveries[len(list.Deliveries)-1].ID
	},
}

// hookSite is a console with a session that may act, over a sender whose
// endpoint is on loopback.
func hookSite(t *testing.T, p access.Principal) (*site, *webhook.Service) {
	t.Helper()
	c := clock.NewFake(t0)
	keeps := memory.New(memory.Config{Clock: c})
	k, err := access.New(keeps, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	sender := hookSender(t, keeps, c)
	s := over(t, keeps, c, func(config *console.Config) { config.Webhooks, config.Keeper = sender, k })
	s.login(k, p)
	return s, sender
}

var operates = access.Principal{Name: "maya", Scopes: []access.Scope{access.Operate}}

// order posts a form and follows where it leads.
func (s *site) orderHook(path string, form url.Values, texts ...string) string {
	s.Helper()
	w := s.ask("POST", path, strings.NewReader(form.Encode()), "Sec-Fetch-Site", "same-origin")
	if w.Code != http.StatusSeeOther {
		s.Fatalf("POST %s: %d %s", path, w.Code, w.Body)
	}
	s.page(200, w.Header().Get("Location"), texts...)
	return w.Header().Get("Location")
}

func TestNoWebhooksNoPages(t *testing.T) {
	s := open(t)
	s.page(404, "/endpoints")
	if text := s.page(200, "/"); strings.Contains(text, `href="/endpoints"`) {
		t.Error("the navigation leads nowhere")
	}
}

// Endpoints and deliveries on pages: state, health, success rate, breaker, the
// attempts with their timings, and why.
func TestWebhookPages(t *testing.T) {
	s, sender := hookSite(t, operates)
	s.page(200, "/endpoints", "No endpoint yet")
	at := answering(t)
	well, _, err := sender.Add(t.Context(), webhook.NewEndpoint{URL: at + "/in", Owner: "acme", Headers: map[string]string{"Authorization": "Bearer s3cret"}})
	if err != nil {
		t.Fatal(err)
	}
	s.clock.Advance(time.Second)
	down, _, err := sender.Add(t.Context(), webhook.NewEndpoint{URL: at + "/down", Owner: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := sender.Send(t.Context(), webhook.Message{Type: "invoice.paid", Owner: "acme", Payload: []byte(`{"note":"<i>"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	s.serve([]string{webhook.Queue}, sender.Handlers())
	sender.Close()
	s.page(200, "/endpoints", at+"/in", "100", "of 3", "closed", `href="/endpoints?owner=acme"`, `aria-current="page">Webhooks`)
	s.page(200, "/endpoints?owner=other", "Only of the owner <b>other</b>", "No endpoint yet")
	text := s.page(200, "/endpoints/"+well.ID, "of the last 3 succeeded", "Own headers", "Authorization", "invoice.paid", "Send a test event")
	if strings.Contains(text, "s3cret") || strings.Contains(text, "whsec_") {
		t.Error("the page tells a secret")
	}
	s.page(200, "/endpoints/"+down.ID, "nothing ended lately", "503", "queued")
	s.page(200, "/endpoints/"+down.ID+"?state=failed", "No delivery is failed.")
	list, err := sender.Deliveries(t.Context(), webhook.DeliveryFilter{Endpoint: down.ID}, engine.Page{})
	if err != nil {
		t.Fatal(err)
	}
	shown := s.page(200, "/deliveries/"+list.Deliveries[0].ID, "Start 1", "server", "503", "Decided: retry after", "builtin/server", `class="parts"`, "wait ", " ms",
		"&lt;b&gt;we are down&lt;/b&gt;", "set-cookie", "[redacted]", "webhook-id", "Send now", "&lt;i&gt;", "Next attempt")
	if strings.Contains(shown, "s3cret") {
		t.Error("the page tells a cookie")
	}
	s.page(404, "/endpoints/ep_nosuch", "there is none.")
	s.page(404, "/deliveries/nosuch")
}

var secretShown = regexp.MustCompile(`<pre class="secret">(whsec_[^<]+)</pre>`)

// What can be ordered on the pages: add, test, pause, resume, rotate, disable,
// send again.
func TestWebhookOrders(t *testing.T) {
	s, sender := hookSite(t, operates)
	at := answering(t)
	added := s.ask("POST", "/endpoints", strings.NewReader(url.Values{"url": {at + "/in"}, "types": {"invoice.*, a.b"}}.Encode()), "Sec-Fetch-Site", "same-origin")
	first := secretShown.FindStringSubmatch(added.Body.String())
	if added.Code != http.StatusCreated || len(first) < 2 {
		t.Fatalf("added: %d %s", added.Code, added.Body)
	}
	wellFormed(t, "/endpoints", added.Body.String())
	refused := s.ask("POST", "/endpoints", strings.NewReader(url.Values{"url": {"ftp://x"}}.Encode()), "Sec-Fetch-Site", "same-origin")
	if refused.Code != http.StatusBadRequest || !strings.Contains(refused.Body.String(), "must begin with https://") || !strings.Contains(refused.Body.String(), `value="ftp://x"`) {
		t.Errorf("refused: %d %s", refused.Code, refused.Body)
	}
	all, err := sender.List(t.Context(), webhook.EndpointFilter{AnyOwner: true}, engine.Page{})
	if err != nil || len(all.Endpoints) != 1 || len(all.Endpoints[0].Types) != 2 {
		t.Fatalf("endpoints %+v: %v", all, err)
	}
	path := "/endpoints/" + all.Endpoints[0].ID
	delivery := s.orderHook(path+"/test", nil, "A test event is on its way.", "webhook.test", "It has not been sent yet.")
	s.serve([]string{webhook.Queue}, sender.Handlers())
	delivery, _, _ = strings.Cut(delivery, "?")
	s.page(200, delivery, "succeeded", "Send once more")
	if again := s.orderHook(delivery+"/redrive", nil, "It is on its way again.", "queued"); strings.HasPrefix(again, delivery) {
		t.Error("what succeeded is not sent as a delivery of its own")
	}
	s.orderHook(path+"/pause", url.Values{"minutes": {"30"}, "reason": {"they <migrate>"}}, "Paused:", "they &lt;migrate&gt;", "12:30:00 UTC")
	s.orderHook(path+"/resume", nil, "Enabled.")
	rotated := s.ask("POST", path+"/rotate", strings.NewReader(""), "Sec-Fetch-Site", "same-origin")
	if second := secretShown.FindStringSubmatch(rotated.Body.String()); len(second) < 2 || second[1] == first[1] {
		t.Errorf("rotated: %d %s", rotated.Code, rotated.Body)
	}
	s.page(200, path, "signs until")
	s.orderHook(path+"/disable", url.Values{"reason": {"left us"}}, "Disabled.", "left us", "Resume")
	if bad := s.ask("POST", path+"/pause", strings.NewReader("minutes=-3"), "Sec-Fetch-Site", "same-origin"); bad.Code != http.StatusBadRequest {
		t.Errorf("a pause of -3 minutes: %d", bad.Code)
	}
	if foreign := s.ask("POST", path+"/resume", strings.NewReader(""), "Sec-Fetch-Site", "cross-site"); foreign.Code != http.StatusForbidden {
		t.Errorf("a form of another site: %d", foreign.Code)
	}
}

func TestWebhookScopes(t *testing.T) {
	s, sender := hookSite(t, access.Principal{Name: "eve", Scopes: []access.Scope{access.Read}})
	e, _, err := sender.Add(t.Context(), webhook.NewEndpoint{URL: "https://crm.example"})
	if err != nil {
		t.Fatal(err)
	}
	if text := s.page(200, "/endpoints/"+e.ID); strings.Contains(text, "<button>Send a test event") {
		t.Error("who may only look is shown what to press")
	}
	for _, act := range []string{"/pause", "/resume", "/disable", "/rotate", "/test"} {
		if w := s.ask("POST", "/endpoints/"+e.ID+act, strings.NewReader(""), "Sec-Fetch-Site", "same-origin"); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", act, w.Code)
		}
	}
	s, _ = hookSite(t, access.Principal{Name: "eve", Scopes: []access.Scope{access.Operate}, Queues: []string{"mail"}})
	if w := s.ask("GET", "/endpoints", nil); w.Code != http.StatusForbidden {
		t.Errorf("of another queue: %d", w.Code)
	}
}
