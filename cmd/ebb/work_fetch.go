package main

import (
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/work/fetch"
)

// fetchWork is fetches by order of the API, and pages about all fetches of the
// store. Each has a worker of its own: waves have their own pace.
func (a *app) fetchWork(on site) (workload, error) {
	s := fetch.NewService(fetch.ServiceConfig{
		Store: on.store, Settings: on.settings.Fetch, Policies: on.policies, Clock: on.clock, Log: on.log, Watch: on.observe,
	})
	return workload{
		name:  "fetch",
		serve: func(asks *api.Config, looks *console.Config) { asks.Fetches, looks.Fetches = s, s },
		run:   s.Run,
	}, nil
}
