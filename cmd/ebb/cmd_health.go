package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) healthCommand() *cobra.Command {
	var live bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "health [ADDRESS]",
		Short: "Ask a server whether it can do its work",
		Long: `Ask the server at ADDRESS, or EBB_URL, or http://127.0.0.1:7070, whether it can do
its work (/readyz); no token is needed. It is the health check of containers,
which have no curl. A server that drains or whose disk is full is not ready, and
says why; --live asks only whether it runs (/healthz).

Exit codes: 0 yes; 1 no, or nobody answers; 2 wrong usage.`,
		Example: `  ebb health
  ebb health https://jobs.example.com --timeout 5s
  ebb health --live --quiet`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			at, ok := a.lookup("EBB_URL")
			if !ok || at == "" {
				at = "http://127.0.0.1:7070"
			}
			if len(args) == 1 {
				at = args[0]
			}
			ctx, cancel := context.WithTimeout(c.Context(), timeout)
			defer cancel()
			path := "/readyz"
			if live {
				path = "/healthz"
			}
			return a.health(ctx, at, path)
		},
	}
	c.Flags().BoolVar(&live, "live", false, "ask only whether it runs")
	c.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long it may take")
	return c
}

// health asks one page of the server and tells what it said.
func (a *app) health(ctx context.Context, at, path string) error {
	base, err := url.Parse(at)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return usage(fmt.Errorf("health: %q: want http://HOST:PORT or https://…", at), "ebb health http://127.0.0.1:7070")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(at, "/")+path, http.NoBody)
	if err != nil {
		return usage(fmt.Errorf("health: %w", err), "ebb health http://127.0.0.1:7070")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return &failed{code: exitNo, err: fmt.Errorf("health: %w", err), try: "is the server running, and the address right? It is " + at}
	}
	defer response.Body.Close() //nolint:errcheck // read as far as it is wanted
	var said struct {
		Status string `json:"status"`
		Reason string `json:"reason,omitempty"`
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err = errors.Join(err, json.Unmarshal(text, &said)); err != nil {
		return &failed{code: exitNo, err: fmt.Errorf("health: %s%s answered %s, which is not how ebb answers", at, path, response.Status), try: "the address of an ebb server"}
	}
	switch {
	case a.json:
		err = a.printJSON(said)
	case response.StatusCode == http.StatusOK && !a.quiet:
		_, err = fmt.Fprintln(a.stdout, said.Status)
	}
	if err == nil && response.StatusCode != http.StatusOK {
		err = &failed{code: exitNo, err: fmt.Errorf("health: %s: %s", at, said.Reason), quiet: a.json}
	}
	return err
}
