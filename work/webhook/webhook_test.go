package webhook

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/worker"
)

func TestDeliver(t *testing.T) {
	got := receive(t, func(w http.ResponseWriter, _ call) {
		w.Header().Set("Set-Cookie", "session=1")
		_, _ = w.Write([]byte("thank you"))
	})
	r := newRig(t)
	e, secret := r.add(NewEndpoint{URL: got.URL + "/in", Types: []string{"invoice.*"}, Headers: map[string]string{"Authorization": "Bearer s3cret"}})
	r.add(NewEndpoint{URL: got.URL + "/other", Types: []string{"refund.made"}})
	payload := []byte("{\"amount\":  1.50, \"zero\":\"\\u0000\"}\n")
	event := r.send(Message{Type: "invoice.paid", Payload: payload})
	if event.Fanout != 1 || len(event.Deliveries) != 1 || event.Deliveries[0].Endpoint != e.ID {
		t.Fatalf("sent %+v, want one delivery to %s", event, e.ID)
	}
	c := <-got.calls
	if !bytes.Equal(c.Body, payload) || c.Path != "/in" || c.Header.Get("Authorization") != "Bearer s3cret" || c.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s to %s with %v", c.Body, c.Path, c.Header)
	}
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := hook.Verify(c.Body, c.Header); err != nil {
		t.Error(err)
	}
	if id := c.Header.Get("webhook-id"); id != event.ID {
		t.Errorf("webhook-id %s, want %s", id, event.ID)
	}
	d := r.await(event.Deliveries[0].ID, "succeeded")
	if len(d.Log) != 1 || d.Log[0].Attempt == nil {
		t.Fatalf("log %+v, want one attempt", d.Log)
	}
	a := d.Log[0].Attempt
	if a.Status != 200 || a.Excerpt != "thank you" || a.RemoteAddr == "" || a.Total <= 0 {
		t.Errorf("attempt %+v", a)
	}
	if !bytes.Equal(d.Payload, payload) || d.Type != "invoice.paid" {
		t.Errorf("delivery %+v", d)
	}
}

// The log of a failed attempt has the headers of both sides, without secrets,
// and a bounded excerpt of the answer.
func TestAttemptLog(t *testing.T) {
	got := receive(t, func(w http.ResponseWriter, _ call) {
		w.Header().Set("Set-Cookie", "session=1")
		w.Header().Set("Server", "nginx")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write(bytes.Repeat([]byte("sorry "), 1000))
	})
	r := newRig(t)
	r.add(NewEndpoint{URL: got.URL, Headers: map[string]string{"X-Tenant": "17", "Authorization": "Bearer s3cret"}})
	d := r.settled(r.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID)
	a := d.Log[0].Attempt
	for name, want := range map[string]string{"authorization": Redacted, "x-tenant": Redacted, "webhook-signature": Redacted, "webhook-id": d.Event, "content-type": "application/json"} {
		if a.RequestHeaders[name] != want {
			t.Errorf("request header %s is %q, want %q", name, a.RequestHeaders[name], want)
		}
	}
	for name, want := range map[string]string{"set-cookie": Redacted, "server": "nginx"} {
		if a.ResponseHeaders[name] != want {
			t.Errorf("response header %s is %q, want %q", name, a.ResponseHeaders[name], want)
		}
	}
	if len(a.Excerpt) != 1<<10 || a.Size != 6000 || a.Status != 502 || a.FirstByte <= 0 || a.Connect <= 0 || a.Total < a.FirstByte {
		t.Errorf("%d bytes kept of %d, status %d, %+v", len(a.Excerpt), a.Size, a.Status, a)
	}
}

// between does something before a ledger is read.
type between struct {
	store.Store
	do func()
}

func (b *between) Attempts(ctx context.Context, seq int64) ([]job.Attempt, error) {
	b.do()
	return b.Store.Attempts(ctx, seq)
}

// A delivery that ends while it is read is shown as it was before or after,
// never half of each.
func TestDeliveryIsReadAsOne(t *testing.T) {
	answer := make(chan struct{})
	got := receive(t, func(w http.ResponseWriter, _ call) {
		<-answer
		w.WriteHeader(http.StatusGone)
	})
	among := &between{Store: memory.New(memory.Config{}), do: func() {}}
	r := newRig(t, func(c *Config, _ *worker.Config) { c.Store = among })
	r.add(NewEndpoint{URL: got.URL})
	id := r.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID
	<-got.calls
	among.do = func() {
		among.do = func() {}
		close(answer)
		r.await(id, "failed")
	}
	if d, err := r.Delivery(t.Context(), id); err != nil || d.State != job.Running || len(d.Log) != 0 {
		t.Errorf("%s with %d rows (%v), want running and none", d.State, len(d.Log), err)
	}
	if d := r.await(id, "failed"); len(d.Log) != 1 || d.LastClass != "gone" {
		t.Errorf("%q with %d rows, want gone and 1", d.LastClass, len(d.Log))
	}
}
