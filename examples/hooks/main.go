// Command hooks sends signed webhooks out of an application's own process: one
// endpoint, one event, and the worker that delivers it by the contract.
//
//	go run ./hooks https://customer.example/in
package main

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"os"
	"os/signal"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/work/webhook"
	"github.com/ebbhq/ebb/worker"
)

// sender is the application's part that sends.
type sender struct {
	jobs  *ebb.Client
	hooks *webhook.Service
}

// open opens the database beside its key, which seals the endpoints' secrets.
func open(ctx context.Context, path string, allowed ...netip.Prefix) (*sender, error) {
	jobs, err := ebb.Open(ctx, "sqlite:"+path, ebb.WithQueues(webhook.Queue))
	if err != nil {
		return nil, err
	}
	keeper, err := access.New(jobs.Store(), nil, nil)
	if err != nil {
		return nil, err
	}
	if err := keeper.UseKey(ctx, path+".key"); err != nil {
		return nil, err
	}
	hooks, err := webhook.New(webhook.Config{Store: jobs.Store(), Seal: keeper, AllowNetworks: allowed})
	if err != nil {
		return nil, err
	}
	for kind, do := range hooks.Handlers() {
		jobs.HandleRaw(kind, worker.Handler(do))
	}
	return &sender{jobs, hooks}, nil
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: hooks URL")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := open(ctx, "hooks.db")
	if err != nil {
		log.Fatal(err)
	}
	_, secret, err := s.hooks.Add(ctx, webhook.NewEndpoint{URL: os.Args[1], Types: []string{"invoice.*"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the customer verifies with", secret)
	if _, err := s.hooks.Send(ctx, webhook.Message{Type: "invoice.paid", Payload: []byte(`{"id": 17}`), Key: "invoice-17"}); err != nil {
		log.Fatal(err)
	}
	if err := s.jobs.Run(ctx); err != nil { // until Ctrl-C; retries come by their due times
		log.Fatal(err)
	}
}
