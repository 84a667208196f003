package webhook

import (
	"context"
	"time"

	"github.com/ebbhq/ebb/engine"
)

// Ops is everything that can be asked of webhook delivery, and ordered.
// *Service answers over a store, client.Webhooks over HTTP. Errors wrap
// ErrInvalid, ErrNotFound, ErrState or ErrConflict where the caller is at
// fault.
type Ops interface {
	Add(ctx context.Context, n NewEndpoint) (Endpoint, string, error)
	Update(ctx context.Context, id string, c Change) (Endpoint, error)
	Show(ctx context.Context, id string) (Endpoint, error)
	List(ctx context.Context, f EndpointFilter, p engine.Page) (Endpoints, error)
	Pause(ctx context.Context, id, reason string, until time.Time) (Endpoint, error)
	Resume(ctx context.Context, id string, keepParked bool) (Endpoint, error)
	Disable(ctx context.Context, id, reason string) (Endpoint, error)
	Rotate(ctx context.Context, id string, overlap time.Duration) (Endpoint, string, error)
	Test(ctx context.Context, id string) (Event, error)
	Remove(ctx context.Context, id string) error

	Send(ctx context.Context, m Message) (Event, error)
	Event(ctx context.Context, id string) (Event, error)
	Events(ctx context.Context, f EndpointFilter, p engine.Page) (Events, error)

	Deliveries(ctx context.Context, f DeliveryFilter, p engine.Page) (Deliveries, error)
	Delivery(ctx context.Context, id string) (DeliveryShown, error)
	Redrive(ctx context.Context, id string) (Delivery, error)
	RedriveAll(ctx context.Context, f DeliveryFilter, rate float64, dryRun bool) (engine.Redrive, error)
}

var _ Ops = (*Service)(nil)
