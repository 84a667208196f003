package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// listenFlags are what `ebb webhook listen` can be told.
type listenFlags struct {
	listen string
	secret string
	status int
	count  int
}

func (a *app) webhookListenCommand() *cobra.Command {
	var f listenFlags
	c := &cobra.Command{
		Use:   "listen",
		Short: "Receive webhooks on this machine and show them, for trying things out",
		Long: `Listen on loopback, answer every call and print what came: one line a message,
with its webhook-id, whether its signature holds (with --secret), and the payload.
With --status it answers something else than 200, to see what a sender makes of it.
"ebb serve" calls loopback only where ebb.yaml allows it:

  webhook: {allow_networks: [127.0.0.0/8]}`,
		Example: `  ebb webhook listen --listen 127.0.0.1:8080 --secret whsec_…
  ebb webhook listen --status 503`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return a.listen(c.Context(), f) },
	}
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8080", "address; port 0 = any free one")
	c.Flags().StringVar(&f.secret, "secret", "", "of the endpoint, to verify signatures: whsec_…")
	c.Flags().IntVar(&f.status, "status", http.StatusOK, "what to answer")
	c.Flags().IntVar(&f.count, "count", 0, "stop after so many messages (0 = never)")
	return c
}

// maxMessage bounds what a caller may send.
const maxMessage = 1 << 20

func (a *app) listen(ctx context.Context, f listenFlags) error {
	if f.status < 200 || f.status > 599 {
		return usage(fmt.Errorf("webhook listen: --status %d: want 200 to 599", f.status), "ebb webhook listen --status 503")
	}
	var verifier *standardwebhooks.Webhook
	if f.secret != "" {
		var err error
		if verifier, err = standardwebhooks.NewWebhook(f.secret); err != nil {
			return usage(fmt.Errorf("webhook listen: --secret: %w", err), "the secret that ebb webhook endpoint add printed: whsec_…")
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return refusedListen("webhook listen", err)
	}
	if !a.quiet && !a.json {
		fmt.Fprintf(a.stdout, "listening on http://%s\n", l.Addr())
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	messages := make(chan message)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := read(w, r, verifier)
		w.WriteHeader(f.status)
		select {
		case messages <- m:
		case <-ctx.Done():
		}
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	for n := 0; f.count == 0 || n < f.count; n++ {
		select {
		case m := <-messages:
			if err := a.showMessage(m); err != nil {
				return err
			}
		case err := <-ended:
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return &failed{code: exitNo, err: fmt.Errorf("webhook listen: %w", err), try: "another --listen"}
		}
	}
	last, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = server.Shutdown(last) // the last answer is on its way; who still talks was answered
	return nil
}

// message is one call as it came.
type message struct {
	ID        string `json:"id"`
	Signature string `json:"signature"` // valid, missing, or what is wrong; "not checked" without a secret
	Payload   string `json:"payload"`
}

func read(w http.ResponseWriter, r *http.Request, verifier *standardwebhooks.Webhook) message {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	m := message{ID: r.Header.Get("Webhook-Id"), Payload: string(body), Signature: "not checked"}
	switch {
	case err != nil:
		m.Signature = "unreadable: " + err.Error()
	case r.Header.Get("Webhook-Signature") == "":
		m.Signature = "missing"
	case verifier != nil:
		m.Signature = "valid"
		if err := verifier.Verify(body, r.Header); err != nil {
			m.Signature = "wrong: " + err.Error()
		}
	}
	return m
}

func (a *app) showMessage(m message) error {
	if a.json {
		return a.printJSON(m)
	}
	fmt.Fprintf(a.stdout, "%s  signature %s  %s\n", m.ID, m.Signature, m.Payload)
	return nil
}
