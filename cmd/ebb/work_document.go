package main

import (
	"context"

	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/worker"
)

// documents makes the processing of a site.
func (a *app) documents(on *site) (*document.Service, error) {
	return document.New(document.Config{
		Store: on.store, Ops: on.ops, Settings: on.settings.Document, Lookup: a.lookup, Clock: on.clock, Log: on.log,
	})
}

// documentWork is the processing of documents with language models.
func (a *app) documentWork(on site) (workload, error) {
	w := workload{name: "document"}
	s, err := a.documents(&on)
	if err != nil {
		return w, err
	}
	w.handlers = map[string]worker.Handler{document.Kind: s.Handle}
	w.queues = []string{document.Queue}
	w.settings = on.settings.Document.Fingerprint(a.lookup)
	w.collectors = s.Collectors()
	w.observe = s.Observe
	w.serve = func(asks *api.Config, looks *console.Config) {
		asks.Documents, looks.Documents = s.Guarded(), s
	}
	w.run = func(ctx context.Context) error {
		err := s.Run(ctx)
		if e := s.Close(); err == nil {
			err = e
		}
		return err
	}
	return w, nil
}
