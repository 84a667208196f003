package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/client"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/document"
)

func (a *app) documentCommand() *cobra.Command {
	c := group("document", "Documents and language models: submit, status, results, requeue, usage",
		`Read documents from files or an object store, ask a language model about each,
check its answer against a JSON Schema and write the result, by the policy
"processing": 4 attempts, 30, 120 and 480 s apart, each ±20 %. What a model has
answered is kept: no retry pays for it again. "ebb serve" does the work, or submit
--run; with EBB_URL these commands ask a running server, else the database of --db.`)
	c.AddCommand(a.documentSubmitCommand(), a.documentStatusCommand(), a.documentResultsCommand(), a.documentRequeueCommand(), a.documentUsageCommand())
	return c
}

// paperwork is what a command needs that works on the database itself.
type paperwork struct {
	site
	service *document.Service
}

// askDocuments asks a server or the database about documents. here is what the
// database has; nil where a server is asked.
func (a *app) askDocuments(c *cobra.Command, create bool, do func(ctx context.Context, ops document.Ops, here *paperwork) error) error {
	told := func(ctx context.Context, ops document.Ops, here *paperwork) error {
		return documentError(c, do(ctx, ops, here))
	}
	if at, ok := a.server(); ok {
		return a.askServer(c, at, func(ctx context.Context, ops engine.Ops) error {
			remote, ok := ops.(*client.Client)
			if !ok {
				return fmt.Errorf("document: %T is no client of a server", ops)
			}
			return told(ctx, remote.Documents(), nil)
		})
	}
	here := &paperwork{site: site{clock: a.clock, log: slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}}
	var err error
	if here.policies, err = a.knownPolicies(); err != nil {
		return err
	}
	if here.settings, err = a.settings(); err != nil {
		return err
	}
	return a.askStore(c, create, func(ctx context.Context, s store.Store, _ *database) error {
		here.store = s
		here.ops = engine.New(s, here.policies, engine.Config{Actor: a.actor(), Clock: a.clock})
		var err error
		if here.service, err = a.documents(&here.site); err != nil {
			return usage(err, "the key document of the configuration")
		}
		err = told(ctx, here.service, here)
		return errors.Join(err, here.service.Close())
	})
}

// documentError gives an error about documents its hint.
func documentError(c *cobra.Command, err error) error {
	text := func() error {
		return fmt.Errorf("%s: %s", c.CommandPath(), strings.TrimPrefix(err.Error(), "document: "))
	}
	var f *failed
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.Is(err, engine.ErrNotFound):
		return &failed{code: exitNo, err: text(), try: "ebb document status"}
	case errors.Is(err, engine.ErrState):
		return &failed{code: exitNo, err: text(), try: "ebb document status DOCUMENT"}
	case errors.Is(err, document.ErrDenied):
		return &failed{code: exitNo, err: text(), try: "add the bucket to document.buckets of the server's configuration"}
	case errors.Is(err, engine.ErrInvalid):
		return usage(text(), c.CommandPath()+" --help")
	}
	return err
}

// isDocument tells the id of a document from that of a batch.
func isDocument(id string) bool { return strings.Count(id, "-") >= 2 }
