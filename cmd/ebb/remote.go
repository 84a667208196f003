package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/client"
	"github.com/ebbhq/ebb/engine"
)

// server returns the address that EBB_URL names; false where a database is
// asked. A --db on the command line is the stronger.
func (a *app) server() (string, bool) {
	at, ok := a.lookup("EBB_URL")
	return at, ok && at != "" && a.db == ""
}

// askServer puts a question or an order to a running server.
func (a *app) askServer(c *cobra.Command, at string, do func(ctx context.Context, ops engine.Ops) error) error {
	token, _ := a.lookup("EBB_TOKEN")
	if token == "" {
		return usage(fmt.Errorf("EBB_URL is %s, but EBB_TOKEN is not set", at), "ebb token create NAME --scope operate on the server, then EBB_TOKEN=ebb_…")
	}
	ops, err := client.New(at, token)
	if err != nil {
		return usage(fmt.Errorf("EBB_URL: %w", err), "EBB_URL=http://127.0.0.1:7070")
	}
	ctx := c.Context()
	return interrupted(ctx, answerFrom(c, at, do(ctx, ops)))
}

// answerFrom gives an error of a server its exit code and its hint.
func answerFrom(c *cobra.Command, at string, err error) error {
	var p *client.Problem
	var f *failed
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.As(err, &p) && p.Code == "unauthorized":
		return &failed{code: exitNo, err: fmt.Errorf("%s: %w", at, err), try: "EBB_TOKEN with a token of that server; ebb token create NAME --scope operate makes one there"}
	case errors.Is(err, client.ErrDenied) && errors.As(err, &p):
		return &failed{code: exitNo, err: fmt.Errorf("%s: %w", at, err), try: p.Hint()}
	case errors.As(err, &p) && p.Code == "": // a proxy's page, or another server's
		return &failed{code: exitNo, err: fmt.Errorf("%s: %w", at, err), try: "is that the address of an Ebb server, without a path? EBB_URL=http://127.0.0.1:7070"}
	case !errors.As(err, &p):
		return &failed{code: exitNo, err: err, try: "is the server running, and EBB_URL right? It is " + at}
	case p.Unwrap() == nil:
		return &failed{code: exitNo, err: err, try: p.Hint()}
	}
	return answer(c, err)
}
