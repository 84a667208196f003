package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/work/webhook"
)

// deliveryFlags select deliveries.
type deliveryFlags struct {
	endpoint, event, state, since, until string
}

func (f *deliveryFlags) bind(c *cobra.Command) {
	c.Flags().StringVar(&f.endpoint, "endpoint", "", "only to this endpoint")
	c.Flags().StringVar(&f.event, "event", "", "only of this event")
	c.Flags().StringVar(&f.since, "since", "", "created (living) or ended (others) at or after: RFC 3339, or so long ago (2h)")
	c.Flags().StringVar(&f.until, "until", "", "… and before")
}

func (f *deliveryFlags) filter(now time.Time) (webhook.DeliveryFilter, error) {
	out := webhook.DeliveryFilter{Endpoint: f.endpoint, Event: f.event, State: job.State(f.state)}
	var err error
	if out.Since, err = past(now, f.since); err != nil {
		return out, fmt.Errorf("--since: %w", err)
	}
	if out.Until, err = past(now, f.until); err != nil {
		return out, fmt.Errorf("--until: %w", err)
	}
	return out, nil
}

const listDeliveries = "ebb webhook deliveries"

func (a *app) webhookDeliveriesCommand() *cobra.Command {
	var f deliveryFlags
	var page engine.Page
	c := &cobra.Command{
		Use:   "deliveries [ID]",
		Short: "List deliveries, newest first, or show one with its attempts",
		Long: `List deliveries, newest first: an event on its way to one endpoint. With an ID
show one: why it is where it is, and each attempt with what was seen of the call.`,
		Example: `  ebb webhook deliveries
  ebb webhook deliveries --endpoint ep_06gxx… --state failed --since 24h
  ebb webhook deliveries 06gxxsd9x6ztf`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			filter, err := f.filter(a.now())
			if err != nil {
				return flagError(c, err)
			}
			return a.askHooks(c, false, listDeliveries, func(ctx context.Context, h hooks) error {
				if len(args) == 1 {
					return a.deliveryShow(ctx, h, args[0])
				}
				list, err := h.Deliveries(ctx, filter, page)
				if err == nil && len(list.Deliveries) == 0 && filter.Endpoint != "" {
					_, err = h.Show(ctx, filter.Endpoint) // is there such an endpoint at all?
					err = hookError(c, listEndpoints, err)
				}
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(list)
				}
				return a.printDeliveries(c, &list)
			})
		},
	}
	f.bind(c)
	c.Flags().StringVar(&f.state, "state", "", "only in this state: queued, running, succeeded, failed, parked, cancelled")
	bindPage(c, &page)
	return c
}

func (a *app) printDeliveries(c *cobra.Command, list *webhook.Deliveries) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DELIVERY\tSTATE\tTYPE\tENDPOINT\tATTEMPTS\tWHEN\tLAST FAILURE")
	for i := range list.Deliveries {
		d := &list.Deliveries[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", d.ID, deliveryState(d), cell(d.Type), d.Endpoint, d.Attempts, deliveryWhen(d), lastFailure(d))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.more(c, list.Next)
	return nil
}

func deliveryState(d *webhook.Delivery) string {
	if d.Cause != "" {
		return fmt.Sprintf("%s (%s)", d.State, d.Cause)
	}
	return string(d.State)
}

func deliveryWhen(d *webhook.Delivery) string {
	switch {
	case !d.DueAt.IsZero():
		return "due " + stamp(d.DueAt)
	case !d.EndedAt.IsZero():
		return "ended " + stamp(d.EndedAt)
	}
	return "since " + stamp(d.CreatedAt)
}

func lastFailure(d *webhook.Delivery) string {
	if d.LastClass == "" {
		return "-"
	}
	return cell(clip(withClass(d.LastClass, d.LastError), 60))
}

func (a *app) deliveryShow(ctx context.Context, h hooks, id string) error {
	d, err := h.Delivery(ctx, id)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(d)
	}
	why, err := h.jobs.Why(ctx, id)
	if err != nil {
		return err
	}
	return a.printDelivery(&d, &why)
}

// printDelivery tells all about one delivery.
func (a *app) printDelivery(d *webhook.DeliveryShown, why *engine.Why) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, value)
		}
	}
	row("delivery", d.ID)
	row("event", d.Event+" "+cell(d.Type))
	row("endpoint", d.Endpoint+" "+d.URL)
	row("state", deliveryState(&d.Delivery))
	row("created", stamp(d.CreatedAt))
	if !d.EndedAt.IsZero() {
		row("ended", fmt.Sprintf("%s, %s later", stamp(d.EndedAt), waitCell(d.EndedAt.Sub(d.CreatedAt))))
	}
	row("payload", payloadCell(d))
	if err := w.Flush(); err != nil {
		return err
	}
	if why != nil && len(why.Reasons) > 0 {
		fmt.Fprintln(a.stdout)
		for _, r := range why.Reasons {
			fmt.Fprintf(a.stdout, "- %s\n", r.Text)
		}
	}
	for i := range d.Log {
		a.printStart(&d.Log[i])
	}
	return nil
}

func payloadCell(d *webhook.DeliveryShown) string {
	text := fmt.Sprintf("%d bytes, %s", len(d.Payload), cell(d.ContentType))
	if len(d.Payload) > 0 && utf8.Valid(d.Payload) {
		text += ": " + cell(clip(string(d.Payload), 200))
	}
	return text
}

// printStart tells of one attempt: what was seen, and what was decided.
func (a *app) printStart(r *webhook.LogRow) {
	how := "succeeded"
	if !r.OK {
		how = "failed: " + r.Class
	}
	if r.Status != 0 {
		how += fmt.Sprintf(", http status %d", r.Status)
	}
	fmt.Fprintf(a.stdout, "\nstart %d at %s, %s: %s\n", r.Start, stamp(r.StartedAt), waitCell(r.EndedAt.Sub(r.StartedAt)), how)
	if r.Held > 0 {
		fmt.Fprintf(a.stdout, "  held before by %s for %s\n", r.HeldBy, policy.FormatDuration(time.Duration(r.Held*float64(time.Second)).Round(time.Millisecond)))
	}
	if r.Error != "" {
		fmt.Fprintf(a.stdout, "  %s\n", cell(clip(r.Error, 300)))
	}
	if s := r.Attempt; s != nil {
		fmt.Fprintf(a.stdout, "  %s\n", seenCell(s))
		if s.Excerpt != "" {
			fmt.Fprintf(a.stdout, "  answer: %s\n", cell(clip(s.Excerpt, 200)))
		}
	}
	if r.Action != "" {
		next := ""
		if !r.DueAt.IsZero() {
			next = fmt.Sprintf(" after %s, due %s", waitCell(time.Duration(r.Delay*float64(time.Second))), stamp(r.DueAt))
		}
		fmt.Fprintf(a.stdout, "  decided: %s%s, by rule %s\n", r.Action, next, r.Rule)
	}
}

// seenCell is what was seen of a call, on one line.
func seenCell(s *webhook.Attempt) string {
	text := "POST " + s.URL
	if s.RemoteAddr != "" {
		text += " at " + s.RemoteAddr
		if s.Reused {
			text += " (kept connection)"
		}
	}
	for _, part := range []struct {
		name string
		ms   float64
	}{{"dns", s.DNS}, {"connect", s.Connect}, {"tls", s.TLS}, {"first byte", s.FirstByte}, {"total", s.Total}} {
		if part.ms > 0 {
			text += fmt.Sprintf(", %s %.1f ms", part.name, part.ms)
		}
	}
	return text
}

func (a *app) webhookRedriveCommand() *cobra.Command {
	var f deliveryFlags
	var rate float64
	var parked, all, dryRun bool
	c := &cobra.Command{
		Use:   "redrive [ID…]",
		Short: "Send deliveries again, with the same webhook-id",
		Long: `Send deliveries again, with fresh attempts and the webhook-id they had: those
named, or all dead letters that the flags select (--parked: what was parked). A
delivery that succeeded is sent anew as another delivery of its event. Without an
id or a filter, --all says that you mean it; --dry-run only counts.

An endpoint that is named, by itself or by an id, is called now, as the probe,
though its breaker is open or it asked for a pause.`,
		Example: `  ebb webhook redrive 06gxxsd9x6ztf
  ebb webhook redrive --endpoint ep_06gxx… --since 24h --rate 5
  ebb webhook redrive --endpoint ep_06gxx… --parked
  ebb webhook redrive --all --dry-run`,
		RunE: func(c *cobra.Command, args []string) error {
			filter, err := f.filter(a.now())
			if err != nil {
				return flagError(c, err)
			}
			empty := filter == webhook.DeliveryFilter{}
			if parked {
				filter.State = job.Parked
			}
			switch {
			case len(args) > 0 && (!empty || all || parked || dryRun || rate != 0):
				return flagError(c, errors.New("ids or flags: give one of them"))
			case len(args) > 0:
				return a.redriveNamed(c, args)
			case empty && !all && !dryRun:
				return usage(fmt.Errorf("%s: no filter: all dead letters of webhooks would be sent again", c.CommandPath()), "a filter, --dry-run to count, or --all")
			}
			return a.redriveHooks(c, filter, rate, dryRun)
		},
	}
	f.bind(c)
	flags := c.Flags()
	flags.BoolVar(&parked, "parked", false, "what was parked instead of dead letters")
	flags.BoolVar(&all, "all", false, "all there are")
	flags.BoolVar(&dryRun, "dry-run", false, "only count")
	flags.Float64Var(&rate, "rate", 0, "most deliveries a second; 0 = all at once")
	return c
}

func (a *app) redriveNamed(c *cobra.Command, ids []string) error {
	return a.askHooks(c, false, listDeliveries, func(ctx context.Context, h hooks) error {
		list := []webhook.Delivery{}
		for _, id := range ids {
			d, err := h.Redrive(ctx, id)
			if err != nil {
				return err
			}
			list = append(list, d)
			if !a.json {
				text := fmt.Sprintf("delivery %s is queued again", id)
				if d.ID != id {
					text = fmt.Sprintf("delivery %s is sent anew as %s", id, d.ID)
				}
				a.remarkOut("%s", text)
				a.remarkProbe(d.Probe)
			}
		}
		if a.json {
			return a.printJSON(webhook.Deliveries{Deliveries: list})
		}
		return nil
	})
}

func (a *app) redriveHooks(c *cobra.Command, f webhook.DeliveryFilter, rate float64, dryRun bool) error {
	return a.askHooks(c, false, listDeliveries, func(ctx context.Context, h hooks) error {
		r, err := h.RedriveAll(ctx, f, rate, dryRun)
		if err != nil {
			return err
		}
		if !dryRun {
			if r, err = a.finish(ctx, h.jobs, r); err != nil {
				return err
			}
		}
		switch {
		case a.json:
			return a.printJSON(r)
		case dryRun:
			fmt.Fprintf(a.stdout, "would send %s again; nothing was changed\n", count(r.Matching, "delivery"))
		default:
			a.remarkOut("redrive %s: %s queued again", r.ID, count(int(r.Moved), "delivery"))
			a.remarkProbes(r.Probes)
		}
		return nil
	})
}
