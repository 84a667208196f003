package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/work/webhook"
)

// Webhooks asks a server about webhook delivery.
type Webhooks struct{ c *Client }

var _ webhook.Ops = Webhooks{}

// Webhooks returns what asks the client's server about webhooks.
func (c *Client) Webhooks() Webhooks { return Webhooks{c} }

// conflict is webhook.ErrConflict in the server's words.
type conflict struct{ *Problem }

func (conflict) Unwrap() error { return webhook.ErrConflict }

func (w Webhooks) ask(ctx context.Context, method, path string, query url.Values, in, out any) error {
	err := w.c.ask(ctx, method, path, query, in, out)
	var p *Problem
	if errors.As(err, &p) && p.Code == "idempotency" {
		return conflict{p}
	}
	return err
}

// hook asks about something with an id; the empty one would be another path.
func (w Webhooks) hook(ctx context.Context, method, noun, id, what string, in, out any) error {
	if id == "" {
		return invalid("webhook: " + noun + ": the id is empty")
	}
	path := under(plurals[noun], id)
	if what != "" {
		path += "/" + what
	}
	return w.ask(ctx, method, path, nil, in, out)
}

var plurals = map[string]string{"endpoint": "endpoints", "event": "events", "delivery": "deliveries"}

type endpointSecret struct {
	Endpoint webhook.Endpoint `json:"endpoint"`
	Secret   string           `json:"secret"`
}

// single asks once: a secret that was told and lost is not told again, so the
// caller must know.
func (w Webhooks) single() Webhooks {
	c := *w.c
	p := policy.Policy{Attempts: 1, Backoff: patience.Backoff}
	c.policy = &p
	return Webhooks{&c}
}

// Add adds an endpoint.
func (w Webhooks) Add(ctx context.Context, n webhook.NewEndpoint) (webhook.Endpoint, string, error) {
	var out endpointSecret
	err := w.single().ask(ctx, post, "/v1/endpoints", nil, n, &out)
	return out.Endpoint, out.Secret, err
}

// Update changes an endpoint.
func (w Webhooks) Update(ctx context.Context, id string, c webhook.Change) (out webhook.Endpoint, err error) {
	err = w.hook(ctx, post, "endpoint", id, "change", c, &out)
	return out, err
}

// Show returns one endpoint.
func (w Webhooks) Show(ctx context.Context, id string) (out webhook.Endpoint, err error) {
	err = w.hook(ctx, get, "endpoint", id, "", nil, &out)
	return out, err
}

func ownedBy(f webhook.EndpointFilter, p engine.Page) url.Values {
	v := url.Values{}
	if !f.AnyOwner {
		v.Set("owner", f.Owner)
	}
	return bounded(v, p)
}

// List lists endpoints from the oldest.
func (w Webhooks) List(ctx context.Context, f webhook.EndpointFilter, p engine.Page) (out webhook.Endpoints, err error) {
	err = w.ask(ctx, get, "/v1/endpoints", ownedBy(f, p), nil, &out)
	return out, err
}

// Pause makes an endpoint's deliveries wait.
func (w Webhooks) Pause(ctx context.Context, id, reason string, until time.Time) (out webhook.Endpoint, err error) {
	in := struct {
		Reason string    `json:"reason,omitempty"`
		Until  time.Time `json:"until,omitzero"`
	}{reason, until}
	err = w.hook(ctx, post, "endpoint", id, "pause", in, &out)
	return out, err
}

// Resume enables an endpoint that was paused or disabled.
func (w Webhooks) Resume(ctx context.Context, id string, keepParked bool) (out webhook.Endpoint, err error) {
	in := struct {
		KeepParked bool `json:"keep_parked,omitempty"`
	}{keepParked}
	err = w.hook(ctx, post, "endpoint", id, "resume", in, &out)
	return out, err
}

// Disable stops an endpoint.
func (w Webhooks) Disable(ctx context.Context, id, reason string) (out webhook.Endpoint, err error) {
	in := struct {
		Reason string `json:"reason,omitempty"`
	}{reason}
	err = w.hook(ctx, post, "endpoint", id, "disable", in, &out)
	return out, err
}

// Rotate gives an endpoint a new secret.
func (w Webhooks) Rotate(ctx context.Context, id string, overlap time.Duration) (webhook.Endpoint, string, error) {
	in := struct {
		Overlap float64 `json:"overlap_s,omitempty"`
	}{overlap.Seconds()}
	var out endpointSecret
	err := w.single().hook(ctx, post, "endpoint", id, "rotate", in, &out)
	return out.Endpoint, out.Secret, err
}

// Test sends a test event to an endpoint.
func (w Webhooks) Test(ctx context.Context, id string) (out webhook.Event, err error) {
	err = w.hook(ctx, post, "endpoint", id, "test", nil, &out)
	return out, err
}

// Remove forgets an endpoint.
func (w Webhooks) Remove(ctx context.Context, id string) error {
	return w.hook(ctx, http.MethodDelete, "endpoint", id, "", nil, nil)
}

// Send sends an event. Without a key of its own, a repeated request is sent
// once all the same.
func (w Webhooks) Send(ctx context.Context, m webhook.Message) (out webhook.Event, err error) {
	in := struct {
		Type          string `json:"type"`
		PayloadBase64 []byte `json:"payload_base64,omitempty"`
		ContentType   string `json:"content_type,omitempty"`
		Owner         string `json:"owner,omitempty"`
		Key           string `json:"key,omitempty"`
		Order         string `json:"order,omitempty"`
		Blocks        bool   `json:"blocks,omitempty"`
		Trace         string `json:"trace,omitempty"`
	}{
		// In base64 every byte arrives as it is; JSON in JSON would be compacted.
		Type: m.Type, PayloadBase64: m.Payload, ContentType: m.ContentType, Owner: m.Owner, Key: m.Key, Order: m.Order, Blocks: m.Blocks, Trace: m.Trace,
	}
	err = w.ask(ctx, post, "/v1/events", nil, in, &out)
	return out, err
}

// Event returns one event with its deliveries.
func (w Webhooks) Event(ctx context.Context, id string) (out webhook.Event, err error) {
	err = w.hook(ctx, get, "event", id, "", nil, &out)
	return out, err
}

// Events lists events from the newest.
func (w Webhooks) Events(ctx context.Context, f webhook.EndpointFilter, p engine.Page) (out webhook.Events, err error) {
	err = w.ask(ctx, get, "/v1/events", ownedBy(f, p), nil, &out)
	return out, err
}

// Deliveries lists deliveries from the newest.
func (w Webhooks) Deliveries(ctx context.Context, f webhook.DeliveryFilter, p engine.Page) (out webhook.Deliveries, err error) {
	v := url.Values{}
	for name, value := range map[string]string{"endpoint": f.Endpoint, "event": f.Event, "state": string(f.State)} {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	err = w.ask(ctx, get, "/v1/deliveries", bounded(v, p), nil, &out)
	return out, err
}

// Delivery returns one delivery with its log.
func (w Webhooks) Delivery(ctx context.Context, id string) (out webhook.DeliveryShown, err error) {
	err = w.hook(ctx, get, "delivery", id, "", nil, &out)
	return out, err
}

// Redrive sends a delivery again.
func (w Webhooks) Redrive(ctx context.Context, id string) (out webhook.Delivery, err error) {
	err = w.hook(ctx, post, "delivery", id, "redrive", nil, &out)
	return out, err
}

// RedriveAll orders deliveries to be sent again.
func (w Webhooks) RedriveAll(ctx context.Context, f webhook.DeliveryFilter, rate float64, dryRun bool) (out engine.Redrive, err error) {
	in := struct {
		Filter webhook.DeliveryFilter `json:"filter"`
		Rate   float64                `json:"rate,omitempty"`
		DryRun bool                   `json:"dry_run,omitempty"`
	}{f, rate, dryRun}
	err = w.ask(ctx, post, "/v1/deliveries/redrive", nil, in, &out)
	return out, err
}
