package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/work/supervise"
	"github.com/ebbhq/ebb/work/supervise/campaign"
)

// recoverEvery is how often campaigns are looked at, machine time.
const recoverEvery = 5 * time.Minute

// campaignFlags adds what `ebb serve` can be told of campaigns.
func (a *app) campaignFlags(c *cobra.Command) {
	c.Flags().BoolVar(&a.autoRecover, "auto-recover", false, "recover runs of campaigns by itself, as ebb campaign recover --apply does")
}

// campaignWork is campaigns: their runs are supervised runs, so that it has
// no handler of its own.
func (a *app) campaignWork(on site) (workload, error) {
	w := workload{name: "campaign", queues: []string{campaign.DefaultQueue}}
	runs, err := supervise.New(supervise.Config{Store: on.store, Policies: on.policies, Self: []string{"ebb"}, Clock: on.clock, Log: on.log})
	if err != nil {
		return w, err
	}
	service, err := campaign.New(campaign.Config{Store: on.store, Runs: runs, Policies: on.policies})
	if err != nil {
		return w, err
	}
	if a.autoRecover {
		w.run = func(ctx context.Context) error { return service.AutoRecover(ctx, recoverEvery, on.log) }
	}
	w.serve = func(asks *api.Config, looks *console.Config) { asks.Campaigns, looks.Campaigns = service, service }
	return w, nil
}
