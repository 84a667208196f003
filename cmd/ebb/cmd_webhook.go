package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/client"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/webhook"
)

func (a *app) webhookCommand() *cobra.Command {
	c := group("webhook", "Webhooks: endpoints, send, deliveries, redrive, listen",
		`Send events to the endpoints of customers: signed by the Standard Webhooks
specification, and again by the policy "webhook" until they arrive: 60, 120, 240,
480 and 960 s after a failure, each ±20 %. "ebb serve" sends them; with EBB_URL
these commands ask a running server, else the database of --db.`)
	c.AddCommand(a.webhookEndpointCommand(), a.webhookSendCommand(), a.webhookDeliveriesCommand(), a.webhookRedriveCommand(), a.webhookListenCommand())
	return c
}

// hooks is whom the commands ask.
type hooks struct {
	webhook.Ops
	jobs engine.Ops
}

// askHooks asks a server or the database about webhooks. list is the command
// that shows what there is.
func (a *app) askHooks(c *cobra.Command, create bool, list string, do func(ctx context.Context, h hooks) error) error {
	told := func(ctx context.Context, h hooks) error { return hookError(c, list, do(ctx, h)) }
	if at, ok := a.server(); ok {
		return a.askServer(c, at, func(ctx context.Context, ops engine.Ops) error {
			remote, ok := ops.(*client.Client)
			if !ok {
				return fmt.Errorf("webhook: %T is no client of a server", ops)
			}
			return told(ctx, hooks{remote.Webhooks(), ops})
		})
	}
	on := site{}
	var err error
	if on.policies, err = a.knownPolicies(); err != nil {
		return err
	}
	if on.settings, err = a.settings(); err != nil {
		return err
	}
	err = a.askStore(c, create, func(ctx context.Context, s store.Store, db *database) error {
		if on.keeper, err = a.keeper(ctx, s, db); err != nil {
			return err
		}
		on.store = s
		sender, err := a.webhooks(&on)
		if err != nil {
			return usage(err, "ebb policy check, and the key webhook of the configuration")
		}
		return told(ctx, hooks{sender, engine.New(s, on.policies, engine.Config{Actor: a.actor()})})
	})
	var f *failed
	if errors.Is(err, errAbsent) && errors.As(err, &f) {
		f.try = "ebb webhook endpoint add URL, with the same --db"
	}
	return err
}

// hookError gives an error about webhooks its hint.
func hookError(c *cobra.Command, list string, err error) error {
	text := func() error {
		return fmt.Errorf("%s: %s", c.CommandPath(), strings.TrimPrefix(strings.TrimPrefix(err.Error(), "webhook: "), c.Parent().Name()+": "))
	}
	var f *failed
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.Is(err, webhook.ErrConflict):
		return &failed{code: exitNo, err: text(), try: "another --key for another event"}
	case errors.Is(err, access.ErrNoKey):
		return &failed{code: exitNo, err: text(), try: c.CommandPath() + " --key-file FILE"}
	case errors.Is(err, webhook.ErrNotFound):
		return &failed{code: exitNo, err: text(), try: list}
	case errors.Is(err, webhook.ErrInvalid):
		return usage(text(), c.CommandPath()+" --help")
	}
	return err
}

func (a *app) webhookSendCommand() *cobra.Command {
	var m webhook.Message
	var payload, path string
	c := &cobra.Command{
		Use:   "send",
		Short: "Send an event to all endpoints that want its type",
		Long: `Commit an event and one delivery for each endpoint of its owner that wants its
type, in one transaction; then the deliveries are sent by "ebb serve". The payload
goes out byte by byte as it is given. With --key the same event is sent once, however
often this is called; another event under the same key is refused (exit 1).`,
		Example: `  ebb webhook send --type invoice.paid --payload '{"id": 17}'
  ebb webhook send --type invoice.paid --file event.json --key invoice-17-paid --owner acme
  generate | ebb webhook send --type report.ready --file - --content-type text/csv
  ebb webhook send --type stock.changed --payload '{"sku": 9}' --order sku-9`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if m.Payload, err = a.payload(c, payload, path); err != nil {
				return err
			}
			if m.Type == "" {
				return flagError(c, errors.New("--type is missing: of which type is the event?"))
			}
			return a.askHooks(c, false, "ebb webhook endpoint list", func(ctx context.Context, h hooks) error {
				e, err := h.Send(ctx, m)
				if err != nil {
					return err
				}
				return a.printSent(&e)
			})
		},
	}
	flags := c.Flags()
	flags.StringVar(&m.Type, "type", "", "type of the event, such as invoice.paid")
	flags.StringVar(&payload, "payload", "", "what is sent")
	flags.StringVar(&path, "file", "", "send this file; - is standard input")
	flags.StringVar(&m.ContentType, "content-type", "", "of the payload (default application/json)")
	flags.StringVar(&m.Owner, "owner", "", "whose endpoints get it")
	flags.StringVar(&m.Key, "key", "", "idempotency key")
	flags.StringVar(&m.Order, "order", "", "ordering key: an endpoint gets events of one order one after the other")
	flags.BoolVar(&m.Blocks, "blocks", false, "with --order: a dead letter holds up those behind it")
	return c
}

// payload reads what is sent.
func (a *app) payload(c *cobra.Command, text, path string) ([]byte, error) {
	given := c.Flags().Changed("payload")
	switch {
	case given && path != "":
		return nil, flagError(c, errors.New("--payload and --file: give one"))
	case given:
		return []byte(text), nil
	case path == "":
		return nil, flagError(c, errors.New("no payload: want --payload TEXT or --file PATH"))
	}
	in := a.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, usage(fmt.Errorf("%s: --file: %w", c.CommandPath(), err), "a file that this user can read")
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	const most = 64 << 20 // the sender says what is too much
	body, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, usage(fmt.Errorf("%s: --file: %w", c.CommandPath(), err), "a file that this user can read")
	}
	if len(body) == 0 {
		where := path
		if path == "-" {
			where = "standard input"
		}
		return nil, usage(fmt.Errorf("%s: --file: %s is empty", c.CommandPath(), where), `a payload; --payload "" sends none`)
	}
	if len(body) > most {
		return nil, usage(fmt.Errorf("%s: --file: more than %d bytes", c.CommandPath(), most), "a payload that names where the rest can be fetched")
	}
	return body, nil
}

func (a *app) printSent(e *webhook.Event) error {
	if a.json {
		return a.printJSON(e)
	}
	to := count(e.Fanout, "endpoint")
	if e.Fanout == 0 {
		to += ": none wants this type"
	}
	fmt.Fprintf(a.stdout, "%s %s to %s\n", e.ID, e.Type, to)
	for _, d := range e.Deliveries {
		fmt.Fprintf(a.stdout, "  delivery %s to %s\n", d.ID, d.Endpoint)
	}
	a.remarkProbe(e.Probe)
	if e.Fanout == 0 {
		a.remarkErr("note: ebb webhook endpoint list tells which types each endpoint wants; ebb webhook endpoint add URL adds one")
	}
	return nil
}
