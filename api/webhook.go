package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/telemetry"
	"github.com/ebbhq/ebb/work/webhook"
)

// EndpointSecret is an endpoint with the secret that was just made: it is told
// this once.
type EndpointSecret struct {
	Endpoint webhook.Endpoint `json:"endpoint"`
	Secret   string           `json:"secret" doc:"whsec_…; it cannot be shown again"`
}

// EndpointPause is why and until when an endpoint's deliveries wait.
type EndpointPause struct {
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero" doc:"missing = until it is resumed"`
}

// EndpointDisable is why an endpoint is disabled.
type EndpointDisable struct {
	Reason string `json:"reason,omitempty"`
}

// EndpointRotate is how an endpoint gets a new secret.
type EndpointRotate struct {
	Overlap float64 `json:"overlap_s,omitempty" doc:"how long the secret before signs too, in seconds; missing = a day, negative = it stops at once"`
}

// NewEvent is an event to be sent to all endpoints of its owner that want its
// type.
type NewEvent struct {
	Type          string          `json:"type"`
	Payload       json.RawMessage `json:"payload,omitempty" doc:"sent byte by byte as it stands here"`
	PayloadBase64 []byte          `json:"payload_base64,omitempty" doc:"instead of payload: any bytes"`
	ContentType   string          `json:"content_type,omitempty" doc:"application/json unless given"`
	Owner         string          `json:"owner,omitempty"`
	Key           string          `json:"key,omitempty" doc:"idempotency key of the event itself; stronger than the header"`
	Order         string          `json:"order,omitempty" doc:"events of one order reach an endpoint one after the other"`
	Blocks        bool            `json:"blocks,omitempty" doc:"a dead letter holds up those behind it in its order"`
	Trace         string          `json:"trace,omitempty" doc:"W3C traceparent"`
}

// message is the event as the sender takes it.
func (n *NewEvent) message() (webhook.Message, error) {
	payload := []byte(n.Payload)
	if len(n.PayloadBase64) > 0 {
		if len(payload) > 0 {
			return webhook.Message{}, problem(http.StatusUnprocessableEntity, "invalid", "leave one of them out", "payload and payload_base64: give one")
		}
		payload = n.PayloadBase64
	}
	return webhook.Message{
		Type: n.Type, Payload: payload, ContentType: n.ContentType, Owner: n.Owner, Key: n.Key, Order: n.Order, Blocks: n.Blocks, Trace: n.Trace,
	}, nil
}

// RedriveDeliveries orders dead letters of webhooks to be sent again.
type RedriveDeliveries struct {
	Filter webhook.DeliveryFilter `json:"filter,omitempty"`
	Rate   float64                `json:"rate,omitempty" doc:"deliveries a second; 0 = at once"`
	DryRun bool                   `json:"dry_run,omitempty" doc:"only count"`
}

var errNoWebhooks = problem(http.StatusNotFound, "no_webhooks", "ask a server that sends webhooks", "this server has none")

// ofHooks asks the sender, if there is one and the principal may: webhooks
// are of one queue.
func ofHooks[In, Out any](s *server, scope access.Scope, ask func(context.Context, *In) (Out, error)) func(context.Context, *In) (Out, error) {
	return func(ctx context.Context, in *In) (Out, error) {
		var nothing Out
		if s.Webhooks == nil {
			return nothing, errNoWebhooks
		}
		if err := may(ctx, scope, webhook.Queue); err != nil {
			return nothing, err
		}
		out, err := ask(ctx, in)
		if errors.Is(err, webhook.ErrConflict) {
			return nothing, problem(http.StatusConflict, "idempotency", "take a new key for a new event", "%v", err)
		}
		return out, err
	}
}

// ofEndpoint asks about one endpoint.
func ofEndpoint[Out any](s *server, scope access.Scope, ask func(context.Context, string) (Out, error)) func(context.Context, *idIn) (Out, error) {
	return ofHooks(s, scope, func(ctx context.Context, in *idIn) (Out, error) { return ask(ctx, in.ID) })
}

type endpointsIn struct {
	Owner *string `query:"owner" doc:"only of this owner; missing = of all"`
	page
}

func (in *endpointsIn) filter() webhook.EndpointFilter {
	if in.Owner == nil {
		return webhook.EndpointFilter{AnyOwner: true}
	}
	return webhook.EndpointFilter{Owner: *in.Owner}
}

func (s *server) endpointRoutes() []route {
	type bodyIn struct{ Body webhook.NewEndpoint }
	type changeIn struct {
		idIn
		Body webhook.Change
	}
	hooks := s.Webhooks
	add := handle(s, access.Operate, http.MethodPost, "/v1/endpoints", "addEndpoint", "Add an endpoint; its secret is told this once",
		ofHooks(s, access.Operate, func(ctx context.Context, in *bodyIn) (EndpointSecret, error) {
			e, secret, err := hooks.Add(ctx, in.Body)
			return EndpointSecret{e, secret}, err
		}))
	add.status, add.once = http.StatusCreated, false // a secret is not kept with a key
	return append([]route{
		add,
		handle(s, access.Read, http.MethodGet, "/v1/endpoints", "listEndpoints", "List endpoints, oldest first",
			ofHooks(s, access.Read, func(ctx context.Context, in *endpointsIn) (webhook.Endpoints, error) {
				return hooks.List(ctx, in.filter(), in.page.engine())
			})),
		handle(s, access.Read, http.MethodGet, "/v1/endpoints/{id}", "showEndpoint", "Show an endpoint",
			ofEndpoint(s, access.Read, func(ctx context.Context, id string) (webhook.Endpoint, error) { return hooks.Show(ctx, id) })),
		handle(s, access.Operate, http.MethodPost, "/v1/endpoints/{id}/change", "changeEndpoint", "Change what is named of an endpoint",
			ofHooks(s, access.Operate, func(ctx context.Context, in *changeIn) (webhook.Endpoint, error) {
				return hooks.Update(ctx, in.ID, in.Body)
			})),
		handle(s, access.Operate, http.MethodDelete, "/v1/endpoints/{id}", "removeEndpoint", "Forget an endpoint and cancel what waits for it",
			ofEndpoint(s, access.Operate, func(ctx context.Context, id string) (none, error) { return none{}, hooks.Remove(ctx, id) })),
	}, s.endpointOrders()...)
}

// endpointOrders are what an operator does with an endpoint.
func (s *server) endpointOrders() []route {
	type pauseIn struct {
		idIn
		Body EndpointPause
	}
	type resumeIn struct {
		idIn
		Body Resume
	}
	type disableIn struct {
		idIn
		Body EndpointDisable
	}
	type rotateIn struct {
		idIn
		Body EndpointRotate
	}
	hooks := s.Webhooks
	rotate := handle(s, access.Operate, http.MethodPost, "/v1/endpoints/{id}/rotate", "rotateSecret", "Give an endpoint a new secret, told this once; the one before signs too for a while",
		ofHooks(s, access.Operate, func(ctx context.Context, in *rotateIn) (EndpointSecret, error) {
			e, secret, err := hooks.Rotate(ctx, in.ID, time.Duration(in.Body.Overlap*float64(time.Second)))
			return EndpointSecret{e, secret}, err
		}))
	rotate.once = false // a secret is not kept with a key
	test := handle(s, access.Operate, http.MethodPost, "/v1/endpoints/{id}/test", "testEndpoint", "Send a signed test event to an endpoint alone",
		ofEndpoint(s, access.Operate, func(ctx context.Context, id string) (webhook.Event, error) { return hooks.Test(ctx, id) }))
	test.status = http.StatusAccepted
	return []route{
		handle(s, access.Operate, http.MethodPost, "/v1/endpoints/{id}/pause", "pauseEndpoint", "Let an endpoint's deliveries wait",
			ofHooks(s, access.Operate, func(ctx context.Context, in *pauseIn) (webhook.Endpoint, error) {
				return hooks.Pause(ctx, in.ID, in.Body.Reason, in.Body.Until)
			})),
		handle(s, access.Operate, http.MethodPost, "/v1/endpoints/{id}/resume", "resumeEndpoint", "Enable an endpoint that was paused or disabled",
			ofHooks(s, access.Operate, func(ctx context.Context, in *resumeIn) (webhook.Endpoint, error) {
				return hooks.Resume(ctx, in.ID, in.Body.KeepParked)
			})),
		handle(s, access.Operate, http.MethodPost, "/v1/endpoints/{id}/disable", "disableEndpoint", "Stop an endpoint; its deliveries are parked",
			ofHooks(s, access.Operate, func(ctx context.Context, in *disableIn) (webhook.Endpoint, error) {
				return hooks.Disable(ctx, in.ID, in.Body.Reason)
			})),
		rotate, test,
	}
}

type deliveriesIn struct {
	Endpoint string    `query:"endpoint"`
	Event    string    `query:"event"`
	State    string    `query:"state" doc:"queued, running, succeeded, failed, parked or cancelled"`
	Since    time.Time `query:"since" doc:"created (living) or ended (others) at or after"`
	Until    time.Time `query:"until" doc:"… and before"`
	page
}

func (s *server) eventRoutes() []route {
	type sendIn struct {
		Key  string `header:"Idempotency-Key" doc:"the same key with the same event is sent once and answered alike for 24 h, with another event 409"`
		Body NewEvent
	}
	hooks := s.Webhooks
	send := handle(s, access.Produce, http.MethodPost, "/v1/events", "sendEvent", "Send an event; it and its deliveries are committed before the answer",
		ofHooks(s, access.Produce, func(ctx context.Context, in *sendIn) (webhook.Event, error) {
			m, err := in.Body.message()
			if err != nil {
				return webhook.Event{}, err
			}
			if m.Trace == "" {
				m.Trace = telemetry.Traceparent(ctx)
			}
			if m.Key == "" && in.Key != "" {
				p, _ := access.PrincipalOf(ctx)
				m.Key = "http " + digest([]byte(p.Name+"\x00"+p.TokenID+"\x00"+in.Key))
			}
			return hooks.Send(ctx, m)
		}))
	send.status, send.once = http.StatusAccepted, false // the sender keeps the key with the commit
	return []route{
		send,
		handle(s, access.Read, http.MethodGet, "/v1/events", "listEvents", "List events, newest first",
			ofHooks(s, access.Read, func(ctx context.Context, in *endpointsIn) (webhook.Events, error) {
				return hooks.Events(ctx, in.filter(), in.page.engine())
			})),
		handle(s, access.Read, http.MethodGet, "/v1/events/{id}", "showEvent", "Show an event and name its deliveries",
			ofEndpoint(s, access.Read, func(ctx context.Context, id string) (webhook.Event, error) { return hooks.Event(ctx, id) })),
	}
}

func (s *server) deliveryRoutes() []route {
	type redriveIn struct{ Body RedriveDeliveries }
	hooks := s.Webhooks
	return []route{
		handle(s, access.Read, http.MethodGet, "/v1/deliveries", "listDeliveries", "List deliveries, newest first",
			ofHooks(s, access.Read, func(ctx context.Context, in *deliveriesIn) (webhook.Deliveries, error) {
				f := webhook.DeliveryFilter{Endpoint: in.Endpoint, Event: in.Event, State: job.State(in.State), Since: in.Since, Until: in.Until}
				return hooks.Deliveries(ctx, f, in.page.engine())
			})),
		handle(s, access.Read, http.MethodGet, "/v1/deliveries/{id}", "showDelivery", "Show a delivery with the log of its attempts",
			ofEndpoint(s, access.Read, func(ctx context.Context, id string) (webhook.DeliveryShown, error) { return hooks.Delivery(ctx, id) })),
		handle(s, access.Operate, http.MethodPost, "/v1/deliveries/{id}/redrive", "redriveDelivery", "Send a delivery again, with the same webhook-id",
			ofEndpoint(s, access.Operate, func(ctx context.Context, id string) (webhook.Delivery, error) { return hooks.Redrive(ctx, id) })),
		handle(s, access.Operate, http.MethodPost, "/v1/deliveries/redrive", "redriveDeliveries", "Order dead letters, or parked deliveries, to be sent again",
			ofHooks(s, access.Operate, func(ctx context.Context, in *redriveIn) (engine.Redrive, error) {
				return hooks.RedriveAll(ctx, in.Body.Filter, in.Body.Rate, in.Body.DryRun)
			})),
	}
}
