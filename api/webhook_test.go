package api_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/work/webhook"
	"github.com/ebbhq/ebb/worker"
)

// hooked is a server that sends webhooks, over its store.
func hooked(t *testing.T, s store.Store) (*bench, *webhook.Service) {
	t.Helper()
	keeper, err := access.New(s, nil, bytes.Repeat([]byte{7}, access.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	sender, err := webhook.New(webhook.Config{Store: s, Seal: keeper, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	return newBenchOn(t, s, func(c *api.Config, _ *api.LeasesConfig) { c.Webhooks = sender }), sender
}

func TestServerWithoutWebhooks(t *testing.T) {
	b := newBench(t)
	for _, path := range []string{"/v1/endpoints", "/v1/events", "/v1/deliveries", "/v1/endpoints/ep_1"} {
		b.refused(b.do(b.token("all", access.Admin), "GET", path, ""), 404, "no_webhooks")
	}
}

// An endpoint's life: added, listed, paused, resumed, rotated, disabled,
// removed. Its secrets are told once, and no key keeps them.
func TestEndpoints(t *testing.T) {
	b, _ := hooked(t, memory.New(memory.Config{}))
	operator, reader := b.token("ops", access.Operate), b.token("look", access.Read)
	added := want[api.EndpointSecret](b, b.do(operator, "POST", "/v1/endpoints",
		`{"url": "https://crm.example/in", "types": ["invoice.*"], "owner": "acme", "headers": {"Authorization": "Bearer s3cret"}}`, "Idempotency-Key", "one"), 201)
	if !strings.HasPrefix(added.Secret, "whsec_") || added.Endpoint.State != webhook.Enabled || !slices.Equal(added.Endpoint.Headers, []string{"Authorization"}) {
		t.Fatalf("added %+v", added)
	}
	again := want[api.EndpointSecret](b, b.do(operator, "POST", "/v1/endpoints", `{"url": "https://crm.example/in", "owner": "acme"}`, "Idempotency-Key", "one"), 201)
	if again.Secret == added.Secret || again.Endpoint.ID == added.Endpoint.ID {
		t.Error("a key gave a secret out twice")
	}
	want[api.EndpointSecret](b, b.do(operator, "POST", "/v1/endpoints", `{"url": "https://shop.example/in"}`), 201)

	at := "/v1/endpoints/" + added.Endpoint.ID
	shown := b.do(reader, "GET", at, "")
	if e := want[webhook.Endpoint](b, shown, 200); e.URL != "https://crm.example/in" || bytes.Contains(shown.body, []byte("s3cret")) || bytes.Contains(shown.body, []byte("whsec_")) {
		t.Errorf("shown: %s", shown.body)
	}
	all := want[webhook.Endpoints](b, b.do(reader, "GET", "/v1/endpoints?limit=2", ""), 200)
	rest := want[webhook.Endpoints](b, b.do(reader, "GET", "/v1/endpoints?limit=2&cursor="+all.Next, ""), 200)
	if len(all.Endpoints) != 2 || len(rest.Endpoints) != 1 || rest.Next != "" {
		t.Errorf("pages of %d and %d", len(all.Endpoints), len(rest.Endpoints))
	}
	if own := want[webhook.Endpoints](b, b.do(reader, "GET", "/v1/endpoints?owner=acme", ""), 200); len(own.Endpoints) != 2 {
		t.Errorf("acme has %d endpoints, want 2", len(own.Endpoints))
	}
	if own := want[webhook.Endpoints](b, b.do(reader, "GET", "/v1/endpoints?owner=", ""), 200); len(own.Endpoints) != 1 {
		t.Errorf("nobody has %d endpoints, want 1", len(own.Endpoints))
	}
	if e := want[webhook.Endpoint](b, b.do(operator, "POST", at+"/pause", `{"reason": "they move"}`), 200); e.State != webhook.Paused || e.Reason != "they move" {
		t.Errorf("paused: %+v", e)
	}
	if e := want[webhook.Endpoint](b, b.do(operator, "POST", at+"/resume", ""), 200); e.State != webhook.Enabled {
		t.Errorf("resumed: %+v", e)
	}
	rotated := want[api.EndpointSecret](b, b.do(operator, "POST", at+"/rotate", `{"overlap_s": 3600}`), 200)
	if rotated.Secret == added.Secret || len(rotated.Endpoint.Secrets) != 2 {
		t.Errorf("rotated: %+v", rotated)
	}
	if e := want[webhook.Endpoint](b, b.do(operator, "POST", at+"/change", `{"url": "https://crm.example/v2"}`), 200); e.URL != "https://crm.example/v2" || e.Types[0] != "invoice.*" {
		t.Errorf("changed: %+v", e)
	}
	if e := want[webhook.Endpoint](b, b.do(operator, "POST", at+"/disable", `{"reason": "left us"}`), 200); e.State != webhook.Disabled || e.Reason != "left us" {
		t.Errorf("disabled: %+v", e)
	}
	if g := b.do(operator, "DELETE", at, ""); g.status != 204 {
		t.Errorf("removed: %d %s", g.status, g.body)
	}
	b.refused(b.do(reader, "GET", at, ""), 404, "not_found")
	b.refused(b.do(operator, "POST", "/v1/endpoints", `{"url": "ftp://crm.example"}`), 422, "invalid")
	b.refused(b.do(reader, "POST", "/v1/endpoints", `{"url": "https://crm.example"}`), 403, "forbidden")
	b.refused(b.do(b.token("mailer", access.Operate, "mail"), "POST", "/v1/endpoints", `{"url": "https://crm.example"}`), 403, "forbidden")
}

// 202 means committed: the event and all its deliveries are in the store,
// whatever becomes of the server. The same key and event is answered alike,
// with another event it is refused.
func TestEventsAreCommittedBeforeTheAnswer(t *testing.T) {
	path := t.TempDir() + "/ebb.db"
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := hooked(t, s)
	operator, producer := b.token("ops", access.Operate), b.token("app", access.Produce)
	for i := range 3 {
		want[api.EndpointSecret](b, b.do(operator, "POST", "/v1/endpoints", fmt.Sprintf(`{"url": "https://crm.example/%d", "owner": "acme"}`, i)), 201)
	}
	const event = `{"type": "invoice.paid", "owner": "acme", "payload": {"b":1,  "a": [2 ]}}`
	sent := want[webhook.Event](b, b.do(producer, "POST", "/v1/events", event, "Idempotency-Key", "k1"), 202)
	if sent.Fanout != 3 || len(sent.Deliveries) != 3 {
		t.Fatalf("sent %+v", sent)
	}
	other, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	jobs, err := other.List(t.Context(), store.Filter{Kind: webhook.Kind, Batch: sent.ID}, store.Page{Limit: 10})
	if err != nil || len(jobs) != 3 {
		t.Fatalf("another process sees %d deliveries: %v", len(jobs), err)
	}
	if again := want[webhook.Event](b, b.do(producer, "POST", "/v1/events", event, "Idempotency-Key", "k1"), 202); again.ID != sent.ID || !slices.Equal(again.Deliveries, sent.Deliveries) {
		t.Errorf("again %+v, want %+v", again, sent)
	}
	b.refused(b.do(producer, "POST", "/v1/events", strings.Replace(event, "paid", "sent", 1), "Idempotency-Key", "k1"), 409, "idempotency")
	// Another token's key is another key; the event's own is everybody's.
	if mine := want[webhook.Event](b, b.do(operator, "POST", "/v1/events", event, "Idempotency-Key", "k1"), 202); mine.ID == sent.ID {
		t.Error("two tokens share a key")
	}
	own := strings.Replace(event, `{"type"`, `{"key": "order-7", "type"`, 1)
	one, two := want[webhook.Event](b, b.do(producer, "POST", "/v1/events", own), 202), want[webhook.Event](b, b.do(operator, "POST", "/v1/events", own), 202)
	if one.ID != two.ID {
		t.Error("the event's own key is not everybody's")
	}
	// The payload's exact bytes, JSON or not.
	shown := want[webhook.DeliveryShown](b, b.do(producer, "GET", "/v1/deliveries/"+sent.Deliveries[0].ID, ""), 200)
	if string(shown.Payload) != `{"b":1,  "a": [2 ]}` {
		t.Errorf("payload %q", shown.Payload)
	}
	raw := base64.StdEncoding.EncodeToString([]byte{0, 1, 0xff})
	bin := want[webhook.Event](b, b.do(producer, "POST", "/v1/events", `{"type": "blob", "owner": "acme", "content_type": "application/octet-stream", "payload_base64": "`+raw+`"}`), 202)
	if d := want[webhook.DeliveryShown](b, b.do(producer, "GET", "/v1/deliveries/"+bin.Deliveries[0].ID, ""), 200); !bytes.Equal(d.Payload, []byte{0, 1, 0xff}) {
		t.Errorf("payload %v", d.Payload)
	}
	b.refused(b.do(producer, "POST", "/v1/events", `{"type": "x", "payload": 1, "payload_base64": "AA=="}`), 422, "invalid")
	b.refused(b.do(b.token("look", access.Read), "POST", "/v1/events", event), 403, "forbidden")
	if list := want[webhook.Events](b, b.do(producer, "GET", "/v1/events?owner=acme&limit=2", ""), 200); len(list.Events) != 2 || list.Next == "" {
		t.Errorf("events: %+v", list)
	}
	if e := want[webhook.Event](b, b.do(producer, "GET", "/v1/events/"+sent.ID, ""), 200); len(e.Deliveries) != 3 {
		t.Errorf("event: %+v", e)
	}
}

// What is sent is delivered, listed part by part, explained and sent again.
func TestDeliveries(t *testing.T) {
	s := memory.New(memory.Config{})
	b, sender := hooked(t, s)
	type call struct{ id, body string }
	calls := make(chan call, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasSuffix(r.URL.Path, "/gone") {
			w.WriteHeader(http.StatusGone)
		}
		calls <- call{r.Header.Get("webhook-id"), string(body)}
	}))
	defer receiver.Close()
	w, err := worker.New(s, worker.Config{Handlers: sender.Handlers(), Queues: []string{webhook.Queue}, Policies: sender.Policies(), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(t.Context()) }()
	defer func() {
		w.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	operator := b.token("ops", access.Operate)
	well := want[api.EndpointSecret](b, b.do(operator, "POST", "/v1/endpoints", `{"url": "`+receiver.URL+`/in"}`), 201).Endpoint
	sent := want[webhook.Event](b, b.do(operator, "POST", "/v1/events", `{"type": "a.b", "payload": {"n": 1}}`), 202)
	if got := <-calls; got.id != sent.ID || got.body != `{"n": 1}` {
		t.Errorf("received %+v, want event %s", got, sent.ID)
	}
	if err := w.Quiet(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := want[webhook.DeliveryShown](b, b.do(operator, "GET", "/v1/deliveries/"+sent.Deliveries[0].ID, ""), 200)
	if d.State != job.Succeeded || len(d.Log) != 1 || d.Log[0].Attempt == nil || d.Log[0].Attempt.Status != 200 || d.Log[0].Attempt.Total <= 0 {
		text, _ := json.Marshal(d)
		t.Errorf("delivery: %s", text)
	}
	again := want[webhook.Delivery](b, b.do(operator, "POST", "/v1/deliveries/"+d.ID+"/redrive", ""), 200)
	if got := <-calls; again.ID == d.ID || got.id != sent.ID {
		t.Errorf("sent again as %s with webhook-id %s, want another delivery of the same event", again.ID, got.id)
	}
	tested := want[webhook.Event](b, b.do(operator, "POST", "/v1/endpoints/"+well.ID+"/test", ""), 202)
	if got := <-calls; got.id != tested.ID || !strings.Contains(got.body, `"webhook.test"`) {
		t.Errorf("the test event came as %+v", got)
	}
	if err := w.Quiet(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := want[webhook.Deliveries](b, b.do(operator, "GET", "/v1/deliveries?endpoint="+well.ID+"&state=succeeded&limit=2", ""), 200)
	rest := want[webhook.Deliveries](b, b.do(operator, "GET", "/v1/deliveries?endpoint="+well.ID+"&state=succeeded&limit=2&cursor="+first.Next, ""), 200)
	if len(first.Deliveries) != 2 || len(rest.Deliveries) != 1 || rest.Deliveries[0].ID != d.ID {
		t.Errorf("listed %d and %d", len(first.Deliveries), len(rest.Deliveries))
	}

	dead := want[api.EndpointSecret](b, b.do(operator, "POST", "/v1/endpoints", `{"url": "`+receiver.URL+`/gone", "owner": "left"}`), 201).Endpoint
	lost := want[webhook.Event](b, b.do(operator, "POST", "/v1/events", `{"type": "a.b", "owner": "left", "payload": 2}`), 202)
	<-calls
	if err := w.Quiet(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := want[webhook.Endpoint](b, b.do(operator, "GET", "/v1/endpoints/"+dead.ID, ""), 200); e.State != webhook.Disabled {
		t.Errorf("after 410: %+v", e)
	}
	counted := want[engine.Redrive](b, b.do(operator, "POST", "/v1/deliveries/redrive", `{"filter": {"event": "`+lost.ID+`"}, "dry_run": true}`), 200)
	if counted.Matching != 1 || !counted.DryRun {
		t.Errorf("counted %+v, want 1", counted)
	}
	b.refused(b.do(operator, "GET", "/v1/deliveries?state=lost", ""), 422, "invalid")
	b.refused(b.do(operator, "GET", "/v1/deliveries?since=tomorrow", ""), 400, "parameter")
	b.refused(b.do(operator, "GET", "/v1/deliveries/x", ""), 404, "not_found")
	if since := want[webhook.Deliveries](b, b.do(operator, "GET", "/v1/deliveries?since="+time.Now().Add(time.Hour).UTC().Format(time.RFC3339), ""), 200); len(since.Deliveries) != 0 {
		t.Errorf("%d deliveries of the future", len(since.Deliveries))
	}
}
