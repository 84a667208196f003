package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store"
)

// tokens is what a database's keeper and a server both do.
type tokens interface {
	CreateToken(ctx context.Context, n access.NewToken) (access.Token, string, error)
	Tokens(ctx context.Context) ([]access.Token, error)
	RevokeToken(ctx context.Context, id string) error
}

func (a *app) tokenCommand() *cobra.Command {
	c := group("token", "Who may ask the server what: create, list, revoke",
		`Tokens open the server's API, its worker protocol and its console. Each has a
name, which the audit shows, one or more scopes, and queues if it is not for all:

  read      ask
  produce   ask and enqueue
  work      ask and take leases: for workers
  operate   ask, enqueue, retry, cancel, pause, redrive
  admin     everything, tokens too

With --db, or without EBB_URL, they are made in the database itself, so that the
first one needs no server; with EBB_URL the server makes them for a token with
the scope admin.`)
	c.AddCommand(a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
	return c
}

// askTokens opens the database's tokens, or those of the server that EBB_URL
// names.
func (a *app) askTokens(c *cobra.Command, create bool, do func(ctx context.Context, t tokens) error) error {
	if at, ok := a.server(); ok {
		return a.askServer(c, at, func(ctx context.Context, ops engine.Ops) error {
			t, ok := ops.(tokens)
			if !ok {
				return errors.New("token: this server has none")
			}
			return do(ctx, t)
		})
	}
	return a.askStore(c, create, func(ctx context.Context, s store.Store, _ *database) error {
		k, err := access.New(s, nil, nil)
		if err != nil {
			return err
		}
		return do(engine.WithActor(ctx, a.actor()), k)
	})
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var scopes, queues []string
	var expires string
	c := &cobra.Command{
		Use:   "create NAME --scope SCOPE",
		Short: "Make a token and print its secret, this once",
		Long: `Make a token and print its secret on standard output, this once: the database
keeps a sum of it. Give each program its own, with the least that it needs.`,
		Example: `  ebb token create maya --scope admin
  ebb token create shop --scope produce --queue mail --expires 90d
  EBB_TOKEN=$(ebb token create worker-1 --scope work --quiet) ./worker.py`,
		Args: exactly("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			n := access.NewToken{Name: args[0], Queues: queues}
			for _, s := range scopes {
				n.Scopes = append(n.Scopes, access.Scope(s))
			}
			var err error
			if n.ExpiresAt, err = expiry(a.now(), expires); err != nil {
				return flagError(c, fmt.Errorf("--expires: %w", err))
			}
			return a.askTokens(c, true, func(ctx context.Context, t tokens) error {
				token, secret, err := t.CreateToken(ctx, n)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(struct {
						access.Token
						Secret string `json:"secret"`
					}{token, secret})
				}
				fmt.Fprintln(a.stdout, secret)
				a.remarkErr("token %s of %s: %s; expires %s. The secret is not shown again.", token.ID, token.Name, reachCell(&token), expiryCell(&token))
				return nil
			})
		},
	}
	c.Flags().StringSliceVar(&scopes, "scope", nil, "what it may do: read, produce, work, operate, admin (required; several with commas)")
	c.Flags().StringSliceVar(&queues, "queue", nil, "only this queue; may be given again (default all)")
	c.Flags().StringVar(&expires, "expires", "", "when it ends: 90d, 12h, or an instant such as 2027-01-01T00:00:00Z (default never)")
	return c
}

// expiry reads when a token ends: after so many days, after a duration, or at
// an instant.
func expiry(now time.Time, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	length := strings.TrimPrefix(text, "+")
	if days, ok := strings.CutSuffix(length, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 36500 {
			return now.AddDate(0, 0, n), nil
		}
	}
	if d, err := time.ParseDuration(length); err == nil && d > 0 {
		return now.Add(d), nil
	}
	return time.Time{}, fmt.Errorf("%q: want 90d, 12h, or an instant such as 2027-01-01T00:00:00Z", text)
}

func (a *app) tokenListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List tokens that have not expired, without their secrets",
		Example: "  ebb token list\n  ebb token list --json",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.askTokens(c, false, func(ctx context.Context, t tokens) error {
				list, err := t.Tokens(ctx)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]any{"tokens": list})
				}
				w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "ID\tNAME\tMAY\tCREATED\tEXPIRES")
				for i := range list {
					t := &list[i]
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.ID, cell(t.Name), cell(reachCell(t)), stamp(t.CreatedAt), expiryCell(t))
				}
				return w.Flush()
			})
		},
	}
}

// reachCell says what a token may do and where.
func reachCell(t *access.Token) string {
	text := strings.Join(texts(t.Scopes), ", ")
	if len(t.Queues) > 0 {
		text += " on " + strings.Join(t.Queues, ", ")
	}
	return text
}

func expiryCell(t *access.Token) string {
	if t.ExpiresAt.IsZero() {
		return "never"
	}
	return stamp(t.ExpiresAt)
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "End a token and the console sessions that it began",
		Long: `End a token and the console sessions that it began. Servers that have just seen
it may believe it for up to 5 seconds more.`,
		Example: "  ebb token list\n  ebb token revoke 5b1c6a0f8d2e4c77",
		Args:    exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.askTokens(c, false, func(ctx context.Context, t tokens) error {
				if err := t.RevokeToken(ctx, args[0]); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]string{"revoked": args[0]})
				}
				a.remarkOut("token %s is revoked", args[0])
				return nil
			})
		},
	}
}
