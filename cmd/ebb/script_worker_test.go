package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/worker"
)

// work is a user's own program in the scripts: a worker on the same database
// that handles the kinds it is called with and ends when nothing is left that
// can start. Jobs say in their arguments how they end:
//
//	{"status": 503, "error": "text"}   as that HTTP status
//	{"park": "text"}                   parked by the handler
//	{"panic": "text"}                  with a panic
//	{"wait": true}                     when they are cancelled; prints "waiting ID"
//	anything else                      well
func work() int {
	a := &app{lookup: os.LookupEnv, now: time.Now}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := a.work(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "work:", err)
		return 1
	}
	return 0
}

func (a *app) work(ctx context.Context, kinds []string) error {
	db, err := a.database()
	if err != nil {
		return err
	}
	s, err := db.open(ctx)
	if err != nil {
		return err
	}
	policies, err := a.knownPolicies()
	if err != nil {
		return errors.Join(err, s.Close())
	}
	handlers := map[string]worker.Handler{}
	for _, k := range kinds {
		handlers[k] = handleAsTold
	}
	w, err := worker.New(s, worker.Config{Handlers: handlers, Policies: policies, Host: "scripted", Seed: 1, Lease: 2 * time.Second})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	err = w.Quiet(ctx)
	w.Stop()
	return errors.Join(err, <-ran, s.Close())
}

func handleAsTold(ctx context.Context, t *worker.Task) error {
	var told struct {
		Status int
		Error  string
		Park   string
		Panic  string
		Wait   bool
	}
	if err := json.Unmarshal(t.Args(), &told); err != nil && len(t.Args()) > 0 {
		return failure.Fatal(err)
	}
	switch {
	case told.Status != 0:
		f := failure.Of(failure.Server)
		switch {
		case told.Status == http.StatusGone:
			f = failure.Of(failure.Gone)
		case told.Status < 500:
			f = failure.Of(failure.Rejected)
		}
		f.Status, f.Err = told.Status, errors.New(told.Error)
		return &failure.Error{Failure: f}
	case told.Park != "":
		return failure.Park(errors.New(told.Park))
	case told.Panic != "":
		panic(told.Panic)
	case told.Wait:
		j := t.Job()
		fmt.Println("waiting", j.ID())
		<-ctx.Done()
		return ctx.Err()
	}
	t.SetResult([]byte(`{"done": true}`))
	return nil
}
