package client_test

import (
	"bytes"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/client"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/work/webhook"
)

// Over HTTP webhooks answer as over the store: one suite for both.
func TestWebhooks(t *testing.T) {
	over := map[string]func(t *testing.T, s *webhook.Service, k *access.Keeper, m *memory.Store) webhook.Ops{
		"store": func(_ *testing.T, s *webhook.Service, _ *access.Keeper, _ *memory.Store) webhook.Ops { return s },
		"http": func(t *testing.T, s *webhook.Service, k *access.Keeper, m *memory.Store) webhook.Ops {
			_, token, err := k.CreateToken(t.Context(), access.NewToken{Name: "t", Scopes: []access.Scope{access.Operate}})
			if err != nil {
				t.Fatal(err)
			}
			h, err := api.New(api.Config{Ops: engine.New(m, nil, engine.Config{}), Keeper: k, Records: m, Webhooks: s})
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(h)
			t.Cleanup(server.Close)
			c, err := client.New(server.URL, token)
			if err != nil {
				t.Fatal(err)
			}
			return c.Webhooks()
		},
	}
	for name, with := range over {
		t.Run(name, func(t *testing.T) {
			m := memory.New(memory.Config{})
			t.Cleanup(func() { _ = m.Close() })
			k, err := access.New(m, nil, bytes.Repeat([]byte{1}, access.KeySize))
			if err != nil {
				t.Fatal(err)
			}
			s, err := webhook.New(webhook.Config{Store: m, Seal: k})
			if err != nil {
				t.Fatal(err)
			}
			ops := with(t, s, k, m)
			id := endpointLife(t, ops)
			eventLife(t, ops, id)
		})
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func endpointLife(t *testing.T, ops webhook.Ops) (id string) {
	ctx, endpoint := t.Context(), must[webhook.Endpoint](t)
	e, secret, err := ops.Add(ctx, webhook.NewEndpoint{URL: "https://crm.example/in", Owner: "acme"})
	if err != nil || !strings.HasPrefix(secret, "whsec_") {
		t.Fatalf("add: %q, %v", secret, err)
	}
	if _, _, err := ops.Add(ctx, webhook.NewEndpoint{URL: "crm"}); !errors.Is(err, webhook.ErrInvalid) {
		t.Errorf("a bad URL: %v", err)
	}
	url := "https://crm.example/v2"
	if got := endpoint(ops.Update(ctx, e.ID, webhook.Change{URL: &url})); got.URL != url || got.Owner != "acme" {
		t.Errorf("updated: %+v", got)
	}
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	if got := endpoint(ops.Pause(ctx, e.ID, "they move", until)); got.State != webhook.Paused || got.Reason != "they move" || !got.PausedUntil.Equal(until) {
		t.Errorf("paused: %+v", got)
	}
	if got := endpoint(ops.Resume(ctx, e.ID, false)); got.State != webhook.Enabled {
		t.Errorf("resumed: %+v", got)
	}
	if got := endpoint(ops.Disable(ctx, e.ID, "left")); got.State != webhook.Disabled || got.Reason != "left" {
		t.Errorf("disabled: %+v", got)
	}
	endpoint(ops.Resume(ctx, e.ID, true))
	if got, next, err := ops.Rotate(ctx, e.ID, -1); err != nil || next == secret || len(got.Secrets) != 1 {
		t.Errorf("rotated at once: %+v, %v", got, err)
	}
	if got := endpoint(ops.Show(ctx, e.ID)); got.URL != url {
		t.Errorf("shown: %+v", got)
	}
	other, _, err := ops.Add(ctx, webhook.NewEndpoint{URL: "https://shop.example"})
	if err != nil {
		t.Fatal(err)
	}
	list := must[webhook.Endpoints](t)
	if all := list(ops.List(ctx, webhook.EndpointFilter{AnyOwner: true}, engine.Page{Limit: 1})); len(all.Endpoints) != 1 || all.Next == "" {
		t.Errorf("first page: %+v", all)
	}
	if own := list(ops.List(ctx, webhook.EndpointFilter{}, engine.Page{})); len(own.Endpoints) != 1 || own.Endpoints[0].ID != other.ID {
		t.Errorf("nobody's: %+v", own)
	}
	if err := ops.Remove(ctx, other.ID); err != nil {
		t.Error(err)
	}
	for _, gone := range []string{other.ID, ""} {
		if _, err := ops.Show(ctx, gone); !errors.Is(err, webhook.ErrNotFound) && !errors.Is(err, webhook.ErrInvalid) {
			t.Errorf("show %q: %v", gone, err)
		}
	}
	return e.ID
}

func eventLife(t *testing.T, ops webhook.Ops, id string) {
	ctx, sent := t.Context(), must[webhook.Event](t)
	m := webhook.Message{Type: "invoice.paid", Payload: []byte("{ \"n\":1 }\n"), Owner: "acme", Key: "k"}
	e := sent(ops.Send(ctx, m))
	if len(e.Deliveries) != 1 || e.Deliveries[0].Endpoint != id {
		t.Fatalf("sent: %+v", e)
	}
	if again := sent(ops.Send(ctx, m)); again.ID != e.ID {
		t.Errorf("again: %s, want %s", again.ID, e.ID)
	}
	m.Payload = []byte("2")
	if _, err := ops.Send(ctx, m); !errors.Is(err, webhook.ErrConflict) {
		t.Errorf("another message under the key: %v", err)
	}
	tested := sent(ops.Test(ctx, id))
	if got := sent(ops.Event(ctx, e.ID)); got.Type != "invoice.paid" || got.Size != 10 {
		t.Errorf("event: %+v", got)
	}
	if events := must[webhook.Events](t)(ops.Events(ctx, webhook.EndpointFilter{Owner: "acme"}, engine.Page{})); len(events.Events) != 3 || // the operational one of Disable too
		!slices.ContainsFunc(events.Events, func(e webhook.Event) bool { return e.ID == tested.ID }) {
		t.Errorf("events: %+v", events)
	}
	list := must[webhook.Deliveries](t)(ops.Deliveries(ctx, webhook.DeliveryFilter{Endpoint: id, State: job.Queued, Since: time.Now().Add(-time.Hour)}, engine.Page{}))
	if len(list.Deliveries) != 2 || list.Deliveries[1].Event != e.ID {
		t.Errorf("deliveries: %+v", list)
	}
	d := must[webhook.DeliveryShown](t)(ops.Delivery(ctx, e.Deliveries[0].ID))
	if string(d.Payload) != "{ \"n\":1 }\n" || d.State != job.Queued {
		t.Errorf("delivery: %+v", d)
	}
	if got := must[webhook.Delivery](t)(ops.Redrive(ctx, d.ID)); got.ID != d.ID || got.State != job.Queued {
		t.Errorf("redriven: %+v", got)
	}
	if r := must[engine.Redrive](t)(ops.RedriveAll(ctx, webhook.DeliveryFilter{Endpoint: id}, 5, true)); r.Matching != 0 || !r.DryRun || r.Rate != 5 {
		t.Errorf("counted: %+v", r)
	}
	if _, err := ops.Delivery(ctx, "nosuch"); !errors.Is(err, webhook.ErrNotFound) {
		t.Errorf("no such delivery: %v", err)
	}
}
