package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/work/webhook"
)

const listEndpoints = "ebb webhook endpoint list"

func (a *app) webhookEndpointCommand() *cobra.Command {
	c := group("endpoint", "Where webhooks go: add, list, show, update, pause, resume, disable, rotate, test, rm",
		`An endpoint is a URL that gets events, with the secret that signs them. Each is
a target of its own: a breaker, caps and budgets keep one that is down from
holding up the others (ebb target show ID).`)
	c.AddCommand(
		a.endpointAddCommand(), a.endpointListCommand(), a.endpointShowCommand(), a.endpointUpdateCommand(), a.endpointPauseCommand(),
		a.endpointResumeCommand(), a.endpointDisableCommand(), a.endpointRotateCommand(), a.endpointTestCommand(), a.endpointRemoveCommand(),
	)
	return c
}

// endpointFlags are the wishes of add and update.
type endpointFlags struct {
	description, owner, secret, policy string
	types, headers                     []string
}

func (f *endpointFlags) bind(c *cobra.Command) {
	c.Flags().StringVar(&f.description, "description", "", "for people")
	c.Flags().StringSliceVar(&f.types, "type", nil, "only events of these types: invoice.paid, or invoice.* for all that begin so (default all)")
	c.Flags().StringArrayVar(&f.headers, "header", nil, "\"Name: value\" to send with every call; kept sealed, never shown; may be repeated")
	c.Flags().StringVar(&f.policy, "policy", "", "a policy of its own, where endpoint_policies allows it")
}

// headersOf reads "Name: value" lines.
func headersOf(lines []string) (map[string]string, error) {
	if lines == nil {
		return nil, nil
	}
	out := map[string]string{}
	for _, line := range lines {
		if line == "" {
			continue // --header "" removes all
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("--header: %q: want \"Name: value\"", name) // the whole may hold a secret
		}
		out[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return out, nil
}

func (a *app) endpointAddCommand() *cobra.Command {
	var f endpointFlags
	c := &cobra.Command{
		Use:   "add URL",
		Short: "Add an endpoint; its secret is shown this once",
		Long: `Add an endpoint. The secret that signs what it gets is printed this once: give
it to whoever runs the endpoint. Secrets and headers are kept encrypted with the
key of --key-file.`,
		Example: `  ebb webhook endpoint add https://crm.example/in
  ebb webhook endpoint add https://crm.example/in --owner acme --type 'invoice.*' --description "Acme's CRM"
  ebb webhook endpoint add https://crm.example/in --header "Authorization: Bearer …" --json`,
		Args: exactly("URL"),
		RunE: func(c *cobra.Command, args []string) error {
			headers, err := headersOf(f.headers)
			if err != nil {
				return flagError(c, err)
			}
			n := webhook.NewEndpoint{URL: args[0], Description: f.description, Owner: f.owner, Types: f.types, Headers: headers, Secret: f.secret, Policy: f.policy}
			return a.askHooks(c, true, listEndpoints, func(ctx context.Context, h hooks) error {
				e, secret, err := h.Add(ctx, n)
				if err != nil {
					return err
				}
				if err := a.printSecret(&e, secret, "added"); err != nil {
					return err
				}
				return a.noteRefused(e.URL)
			})
		},
	}
	f.bind(c)
	c.Flags().StringVar(&f.owner, "owner", "", "whose it is: an event goes to the endpoints of its owner")
	c.Flags().StringVar(&f.secret, "secret", "", "a secret that is known already: whsec_… (default: one is made)")
	a.keyFlag(c)
	return c
}

// printSecret shows a secret, this once.
func (a *app) printSecret(e *webhook.Endpoint, secret, did string) error {
	if a.json {
		return a.printJSON(map[string]any{"endpoint": e, "secret": secret})
	}
	fmt.Fprintf(a.stdout, "%s %s\n", e.ID, e.URL)
	fmt.Fprintf(a.stdout, "secret %s\n", secret)
	a.remarkErr("%s; the secret is not shown again", did)
	return nil
}

// noteRefused warns of an address that this configuration will not call. What
// a server may call its own configuration says, and a name is judged by what it
// resolves to when it is called.
func (a *app) noteRefused(endpoint string) error {
	if _, remote := a.server(); remote {
		return nil
	}
	s, err := a.settings()
	if err != nil {
		return err
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	host := u.Hostname()
	if host == "localhost" {
		host = "127.0.0.1"
	}
	at, err := netip.ParseAddr(host)
	if err != nil {
		return nil //nolint:nilerr // a name
	}
	c, err := s.Webhook.config()
	if err != nil {
		return err
	}
	if c.Refuses(at) {
		a.remarkErr("note: %s is not public: every delivery will be refused until webhook.allow_networks of the sender's ebb.yaml has its network, such as %s", u.Hostname(), netip.PrefixFrom(at, at.BitLen()))
	}
	return nil
}

func (a *app) endpointListCommand() *cobra.Command {
	var page engine.Page
	var owner string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List endpoints, oldest first",
		Example: "  ebb webhook endpoint list\n  ebb webhook endpoint list --owner acme --json",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			f := webhook.EndpointFilter{Owner: owner, AnyOwner: !c.Flags().Changed("owner")}
			return a.askHooks(c, false, listEndpoints, func(ctx context.Context, h hooks) error {
				list, err := h.List(ctx, f, page)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(list)
				}
				return a.printEndpoints(c, &list)
			})
		},
	}
	c.Flags().StringVar(&owner, "owner", "", "only of this owner; empty = only of nobody (default: all)")
	bindPage(c, &page)
	return c
}

func (a *app) printEndpoints(c *cobra.Command, list *webhook.Endpoints) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ENDPOINT\tSTATE\tOWNER\tTYPES\tFAILING\tURL")
	for i := range list.Endpoints {
		e := &list.Endpoints[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.ID, e.State, cell(e.Owner), typesCell(e), failingCell(e), cell(e.URL))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.more(c, list.Next)
	return nil
}

func typesCell(e *webhook.Endpoint) string {
	if len(e.Types) == 0 {
		return "all"
	}
	return cell(clip(strings.Join(e.Types, ","), 40))
}

func failingCell(e *webhook.Endpoint) string {
	if e.FailingSince.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%s since %s", count(e.Failures, "attempt"), stamp(e.FailingSince))
}

func (a *app) endpointShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show an endpoint: state, health, what holds its deliveries",
		Example: "  ebb webhook endpoint show ep_06gxx…",
		Args:    exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.askHooks(c, false, listEndpoints, func(ctx context.Context, h hooks) error {
				e, err := h.Show(ctx, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(e)
				}
				t, err := h.jobs.Target(ctx, e.ID)
				if err != nil && !errors.Is(err, engine.ErrNotFound) {
					return err
				}
				return a.printEndpoint(&e, &t.Target)
			})
		},
	}
}

func (a *app) printEndpoint(e *webhook.Endpoint, t *engine.Target) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, value)
		}
	}
	state := string(e.State)
	if !e.PausedUntil.IsZero() {
		state += " until " + until(e.PausedUntil)
	}
	if e.Reason != "" {
		state += ": " + cell(e.Reason)
	}
	row("endpoint", e.ID)
	row("url", cell(e.URL))
	row("state", state)
	if !e.FailingSince.IsZero() {
		row("failing", failingCell(e))
	}
	if t.Name != "" {
		held := heldCell(t)
		if end := untilOf(t); !end.IsZero() {
			held += " until " + until(end)
		}
		row("gate", held)
		more := ""
		if t.More {
			more = "+"
		}
		row("waiting", fmt.Sprintf("%d%s first attempts, %d%s retries, %d in flight", t.Firsts, more, t.Retries, more, t.InFlight))
	}
	row("types", typesCell(e))
	row("owner", e.Owner)
	row("description", e.Description)
	row("headers", strings.Join(e.Headers, ", "))
	row("policy", e.Policy)
	for _, s := range e.Secrets {
		text := "made " + stamp(s.CreatedAt)
		if !s.ExpiresAt.IsZero() {
			text += ", signs until " + stamp(s.ExpiresAt)
		}
		row("secret", text)
	}
	row("added", stamp(e.CreatedAt))
	if e.UpdatedAt.Sub(e.CreatedAt) >= time.Second {
		row("changed", stamp(e.UpdatedAt))
	}
	return w.Flush()
}

func (a *app) endpointUpdateCommand() *cobra.Command {
	var f endpointFlags
	var url string
	c := &cobra.Command{
		Use:   "update ID",
		Short: "Change what is named of an endpoint; the rest stays",
		Long: `Change what is named of an endpoint; the rest stays. What waits for it goes where
it points then. --header replaces all headers, --header "" removes them.`,
		Example: `  ebb webhook endpoint update ep_06gxx… --url https://crm.example/v2
  ebb webhook endpoint update ep_06gxx… --type invoice.paid,invoice.sent`,
		Args: exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			headers, err := headersOf(f.headers)
			if err != nil {
				return flagError(c, err)
			}
			change := webhook.Change{Headers: headers}
			for name, to := range map[string]struct {
				value *string
				field **string
			}{"url": {&url, &change.URL}, "description": {&f.description, &change.Description}, "policy": {&f.policy, &change.Policy}} {
				if c.Flags().Changed(name) {
					*to.field = to.value
				}
			}
			if c.Flags().Changed("type") {
				change.Types = &f.types
			}
			return a.onEndpoint(c, func(ctx context.Context, h hooks) (webhook.Endpoint, error) { return h.Update(ctx, args[0], change) }, "changed")
		},
	}
	f.bind(c)
	c.Flags().StringVar(&url, "url", "", "where it is now")
	a.keyFlag(c)
	return c
}

func (a *app) endpointRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "rm ID",
		Short:   "Forget an endpoint and cancel what waits for it",
		Long:    "Forget an endpoint. What waits for it is cancelled; deliveries that were made stay listed. To keep what waits, disable it instead.",
		Example: "  ebb webhook endpoint rm ep_06gxx…",
		Args:    exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.askHooks(c, false, listEndpoints, func(ctx context.Context, h hooks) error {
				if err := h.Remove(ctx, args[0]); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]any{"id": args[0], "removed": true})
				}
				a.remarkOut("endpoint %s is removed", args[0])
				return nil
			})
		},
	}
}
