package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/work/webhook"
)

// onEndpoint carries out an order and tells how the endpoint is then.
func (a *app) onEndpoint(c *cobra.Command, order func(ctx context.Context, h hooks) (webhook.Endpoint, error), did string) error {
	return a.askHooks(c, false, listEndpoints, func(ctx context.Context, h hooks) error {
		e, err := order(ctx, h)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(e)
		}
		text := fmt.Sprintf("endpoint %s is %s", e.ID, did)
		if !e.PausedUntil.IsZero() {
			text += " until " + until(e.PausedUntil)
		}
		if e.Reason != "" {
			text += ": " + e.Reason
		}
		a.remarkOut("%s", text)
		a.remarkProbe(e.Probe)
		return nil
	})
}

func (a *app) endpointPauseCommand() *cobra.Command {
	var length time.Duration
	var at, reason string
	c := &cobra.Command{
		Use:   "pause ID",
		Short: "Let an endpoint's deliveries wait, for a time or until it is resumed",
		Long: `Let an endpoint's deliveries wait. Events for it are kept and go out, in their
order, when it is resumed. Waiting so costs neither attempts nor the time that a
delivery may be held.`,
		Example: `  ebb webhook endpoint pause ep_06gxx… --for 2h --reason "they migrate"
  ebb webhook endpoint pause ep_06gxx…`,
		Args: exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			end, err := pauseEnd(a.now(), length, at)
			if err != nil {
				return flagError(c, err)
			}
			return a.onEndpoint(c, func(ctx context.Context, h hooks) (webhook.Endpoint, error) {
				return h.Pause(ctx, args[0], reason, end)
			}, "paused")
		},
	}
	c.Flags().DurationVar(&length, "for", 0, "end after so long, such as 2h")
	c.Flags().StringVar(&at, "until", "", "end at this time: RFC 3339, or from now such as +2h")
	c.Flags().StringVar(&reason, "reason", "", "why, for people")
	return c
}

func (a *app) endpointResumeCommand() *cobra.Command {
	var keep bool
	c := &cobra.Command{
		Use:   "resume ID",
		Short: "Enable an endpoint that was paused or disabled",
		Long: `Enable an endpoint that was paused or disabled. What was parked for it comes
back in its order; --keep-parked leaves that for "ebb webhook redrive --parked".
If its breaker is open, or it asked for a pause, it is called now, as the probe:
also one that is enabled.`,
		Example: "  ebb webhook endpoint resume ep_06gxx…",
		Args:    exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.onEndpoint(c, func(ctx context.Context, h hooks) (webhook.Endpoint, error) { return h.Resume(ctx, args[0], keep) }, "enabled")
		},
	}
	c.Flags().BoolVar(&keep, "keep-parked", false, "leave parked what was parked for it")
	return c
}

func (a *app) endpointDisableCommand() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "disable ID",
		Short: "Stop an endpoint; its deliveries are parked",
		Long: `Stop an endpoint. Its deliveries are parked: kept, listed, and sent when it is
resumed or they are redriven. Its owner's other endpoints that ask for the type
webhook.endpoint.disabled are told.`,
		Example: "  ebb webhook endpoint disable ep_06gxx… --reason \"answers for somebody else\"",
		Args:    exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.onEndpoint(c, func(ctx context.Context, h hooks) (webhook.Endpoint, error) { return h.Disable(ctx, args[0], reason) }, "disabled")
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for people")
	return c
}

func (a *app) endpointRotateCommand() *cobra.Command {
	var overlap time.Duration
	c := &cobra.Command{
		Use:   "rotate ID",
		Short: "Give an endpoint a new secret, shown this once",
		Long: `Give an endpoint a new secret, printed this once. For --overlap the one before
signs too, so that the endpoint can change over without losing anything.`,
		Example: `  ebb webhook endpoint rotate ep_06gxx…
  ebb webhook endpoint rotate ep_06gxx… --overlap 0s`,
		Args: exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			if overlap < 0 {
				return flagError(c, fmt.Errorf("--overlap: %s: must be 0s (the old one stops at once) or more", overlap))
			}
			after := overlap
			if after == 0 {
				after = -1
			}
			return a.askHooks(c, false, listEndpoints, func(ctx context.Context, h hooks) error {
				e, secret, err := h.Rotate(ctx, args[0], after)
				if err != nil {
					return err
				}
				did := "rotated, the secret before signs no more"
				if overlap > 0 {
					did = "rotated, the secret before signs for " + span(overlap) + " more"
				}
				return a.printSecret(&e, secret, did)
			})
		},
	}
	c.Flags().DurationVar(&overlap, "overlap", webhook.DefaultOverlap, "how long the secret before signs too; 0s = it stops at once")
	a.keyFlag(c)
	return c
}

func (a *app) endpointTestCommand() *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use:   "test ID",
		Short: "Send a signed test event to an endpoint alone",
		Long: `Send a signed event of type webhook.test to an endpoint alone, whatever types it
wants. If its breaker is open, or it asked for a pause, it is called now, as the
probe. With --wait see what becomes of the event's first attempt: exit 1 if it
fails, or if nothing has started by then (is "ebb serve" running?).`,
		Example: "  ebb webhook endpoint test ep_06gxx… --wait 30s",
		Args:    exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.askHooks(c, false, listEndpoints, func(ctx context.Context, h hooks) error {
				e, err := h.Test(ctx, args[0])
				if err != nil {
					return err
				}
				if wait <= 0 {
					return a.printSent(&e)
				}
				if !a.json {
					a.remarkProbe(e.Probe)
				}
				return a.awaitTest(ctx, h, e.Deliveries[0].ID, wait)
			})
		},
	}
	c.Flags().DurationVar(&wait, "wait", 0, "wait so long for the first attempt, and tell how it went")
	return c
}

// lookEvery is how often a wait looks again.
const lookEvery = 200 * time.Millisecond

// awaitTest waits for the first attempt of a delivery.
func (a *app) awaitTest(ctx context.Context, h hooks, id string, wait time.Duration) error {
	end := time.After(wait)
	for {
		d, err := h.Delivery(ctx, id)
		if err != nil {
			return err
		}
		if tried(&d) {
			return a.printTest(&d)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end:
			return &failed{code: exitNo, err: fmt.Errorf("webhook: delivery %s: nothing has started within %s", id, span(wait)), try: "ebb job why " + id}
		case <-time.After(lookEvery):
		}
	}
}

// tried reports whether a delivery has ended, or waits after an attempt that
// failed. Its log is read after its state and may know more: then another
// look tells both.
func tried(d *webhook.DeliveryShown) bool {
	switch d.State {
	case job.Running:
		return false
	case job.Queued:
		return len(d.Log) > 0 && !d.Log[len(d.Log)-1].OK
	}
	return true
}

func (a *app) printTest(d *webhook.DeliveryShown) error {
	if a.json {
		if err := a.printJSON(d); err != nil {
			return err
		}
	} else if err := a.printDelivery(d, nil); err != nil {
		return err
	}
	if d.State != job.Succeeded {
		return no(fmt.Errorf("webhook: delivery %s: %s", d.ID, d.State))
	}
	return nil
}
