package webhook

import (
	"bytes"
	"net/http"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
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
	if a.Status != 200 || a.Excerpt != "thank you" || a.RequestHeaders["authorization"] != Redacted || a.ResponseHeaders["set-cookie"] != Redacted || a.RemoteAddr == "" || a.Total <= 0 {
		t.Errorf("attempt %+v", a)
	}
	if !bytes.Equal(d.Payload, payload) || d.Type != "invoice.paid" {
		t.Errorf("delivery %+v", d)
	}
}
