package client

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/ebbhq/ebb/engine"
)

// Queues lists all queues by name.
func (c *Client) Queues(ctx context.Context) ([]engine.Queue, error) {
	var out struct{ Queues []engine.Queue }
	err := c.ask(ctx, get, "/v1/queues", nil, nil, &out)
	return out.Queues, err
}

// named asks about something that has a name; the empty one would be another
// path.
func (c *Client) named(ctx context.Context, method, noun, name, what string, in, out any) error {
	if name == "" {
		return invalid(noun + ": the name is empty")
	}
	path := under(noun+"s", name)
	if what != "" {
		path += "/" + what
	}
	return c.ask(ctx, method, path, nil, in, out)
}

// PauseQueue starts nothing of a queue.
func (c *Client) PauseQueue(ctx context.Context, name string) (out engine.Queue, err error) {
	err = c.named(ctx, post, "queue", name, "pause", nil, &out)
	return out, err
}

// ResumeQueue lets a paused queue go.
func (c *Client) ResumeQueue(ctx context.Context, name string) (out engine.Queue, err error) {
	err = c.named(ctx, post, "queue", name, "resume", nil, &out)
	return out, err
}

// ExplainQueue tells what is in a queue, who serves it, and why nothing moves.
func (c *Client) ExplainQueue(ctx context.Context, name string) (out engine.QueueExplained, err error) {
	err = c.named(ctx, get, "queue", name, "", nil, &out)
	return out, err
}

// LimitQueue bounds a queue over all processes.
func (c *Client) LimitQueue(ctx context.Context, name string, l engine.QueueLimit) (out engine.Queue, err error) {
	if math.IsNaN(l.Rate) || math.IsInf(l.Rate, 0) {
		return out, invalid("queue: " + name + ": rate: must be 0 (no limit) or more starts a second")
	}
	err = c.named(ctx, put, "queue", name, "limit", l, &out)
	return out, err
}

// Kinds lists the kinds that are paused or handled.
func (c *Client) Kinds(ctx context.Context) ([]engine.Kind, error) {
	var out struct{ Kinds []engine.Kind }
	err := c.ask(ctx, get, "/v1/kinds", nil, nil, &out)
	return out.Kinds, err
}

// PauseKind starts nothing of a kind.
func (c *Client) PauseKind(ctx context.Context, kind string) (out engine.Kind, err error) {
	err = c.named(ctx, post, "kind", kind, "pause", nil, &out)
	return out, err
}

// ResumeKind lets a paused kind go.
func (c *Client) ResumeKind(ctx context.Context, kind string) (out engine.Kind, err error) {
	err = c.named(ctx, post, "kind", kind, "resume", nil, &out)
	return out, err
}

// Targets lists by name.
func (c *Client) Targets(ctx context.Context, p engine.Page) (out engine.Targets, err error) {
	err = c.ask(ctx, get, "/v1/targets", bounded(url.Values{}, p), nil, &out)
	return out, err
}

// Target tells all about one.
func (c *Client) Target(ctx context.Context, name string) (out engine.TargetExplained, err error) {
	err = c.named(ctx, get, "target", name, "", nil, &out)
	return out, err
}

// PauseTarget starts nothing that calls the target before until.
func (c *Client) PauseTarget(ctx context.Context, name string, until time.Time) (out engine.TargetExplained, err error) {
	in := struct {
		Until time.Time `json:"until,omitzero"`
	}{until}
	err = c.named(ctx, post, "target", name, "pause", in, &out)
	return out, err
}

// ResumeTarget ends a pause and a target's being disabled.
func (c *Client) ResumeTarget(ctx context.Context, name string, keepParked bool) (out engine.Resumed, err error) {
	in := struct {
		KeepParked bool `json:"keep_parked,omitempty"`
	}{keepParked}
	err = c.named(ctx, post, "target", name, "resume", in, &out)
	return out, err
}

// ProbeTarget lets the next call to a held target go out now, as the probe.
func (c *Client) ProbeTarget(ctx context.Context, name string) (out engine.Probed, err error) {
	err = c.named(ctx, post, "target", name, "probe", nil, &out)
	return out, err
}

// CloseTarget closes a target's breaker by hand and ends a Retry-After.
func (c *Client) CloseTarget(ctx context.Context, name string) (out engine.Resumed, err error) {
	err = c.named(ctx, post, "target", name, "close", nil, &out)
	return out, err
}

// Periodics lists the schedules by name.
func (c *Client) Periodics(ctx context.Context) ([]engine.Periodic, error) {
	var out struct{ Periodics []engine.Periodic }
	err := c.ask(ctx, get, "/v1/periodics", nil, nil, &out)
	return out.Periodics, err
}

// PutPeriodic adds a schedule or replaces the one of its name.
func (c *Client) PutPeriodic(ctx context.Context, p engine.Periodic) (out engine.Periodic, err error) {
	err = c.named(ctx, put, "periodic", p.Name, "", p, &out)
	return out, err
}

// DropPeriodic forgets a schedule.
func (c *Client) DropPeriodic(ctx context.Context, name string) error {
	return c.named(ctx, http.MethodDelete, "periodic", name, "", nil, nil)
}
