// Package main_test is the Go of the pages, with what their readers have
// around it: it compiles. TestGoInDocs holds that nothing is missing; what it
// does is shown by the examples of the packages.
package main_test

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"

	"go.opentelemetry.io/otel/trace"

	"github.com/ebbhq/ebb"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/telemetry"
	"github.com/ebbhq/ebb/wave"
	"github.com/ebbhq/ebb/work/fetch"
	"github.com/ebbhq/ebb/work/webhook"
	"github.com/ebbhq/ebb/worker"
)

var _ = []any{readmeJobs, readmeWaves, readmeRetry, jobsStart, flowTarget, flowEvery, fetchMany, monitoringObserver, webhooksSend}

type (
	Welcome struct{ To string }
	page    struct{}
)

func readmeJobs(ctx context.Context, tx *sql.Tx, mail func(ctx context.Context, to string) error) (err error) {
	c, err := ebb.Open(ctx, "sqlite:app.db")
	ebb.Handle(c, "welcome", func(ctx context.Context, t *ebb.Task, w Welcome) error {
		return mail(ctx, w.To)
	})
	c.EnqueueTx(ctx, tx, ebb.Job{Kind: "welcome", Args: Welcome{To: "ada"}, Target: "mail"})
	c.Run(ctx)
	return err
}

func readmeWaves(ctx context.Context, urls []string, fetch func(ctx context.Context, url string) (page, error)) (report *wave.Report[page], err error) {
	p := policy.MustPreset("scrape")
	report, err = wave.Run(ctx, urls, fetch, &p)
	return report, err
}

func readmeRetry(ctx context.Context, send func(ctx context.Context) error) (err error) {
	p := policy.MustPreset("webhook")
	g := gate.NewLocal(gate.Of(&p))
	err = retry.Run(ctx, &p, send, retry.WithGate(g))
	return err
}

func jobsStart(ctx context.Context) (err error) {
	c, err := ebb.Open(ctx, "sqlite:app.db")
	ebb.Handle(c, "welcome", func(ctx context.Context, t *ebb.Task, w Welcome) error { return err })
	c.Enqueue(ctx, ebb.Job{Kind: "welcome", Args: Welcome{To: "ada"}})
	err = c.Run(ctx)
	return err
}

func flowTarget(ctx context.Context, c *ebb.Client, order any) {
	c.Enqueue(ctx, ebb.Job{Kind: "hook", Args: order, Target: "https://crm.example/in", Policy: "webhook"})
}

func flowEvery(c *ebb.Client) {
	c.Every(ebb.Periodic{Name: "nightly-report", Cron: "0 2 * * *", Zone: "Europe/Berlin", Job: ebb.Job{Kind: "report"}})
}

func fetchMany(ctx context.Context, urls []string) (results []fetch.Result, err error) {
	results, err = fetch.Many(ctx, urls, policy.MustPreset("scrape"))
	return results, err
}

func monitoringObserver(s store.Store, policies []policy.Policy, provider trace.TracerProvider, deliver worker.Handler, mux *http.ServeMux) worker.Config {
	t := telemetry.New(telemetry.Config{Store: s, Policies: policies, Log: slog.Default().Handler(), Tracer: provider})
	config := worker.Config{Observe: t.Observe, Handlers: map[string]worker.Handler{"deliver": t.Work(deliver)}}
	mux.Handle("/metrics", t.Handler())
	return config
}

func webhooksSend(ctx context.Context, store store.Store, keeper webhook.Sealer, policies []policy.Policy, body []byte) (e webhook.Event, err error) {
	s, err := webhook.New(webhook.Config{Store: store, Seal: keeper, Policies: policies})
	if err != nil {
		return e, err
	}
	e, err = s.Send(ctx, webhook.Message{Type: "invoice.paid", Owner: "acme", Payload: body, Key: "invoice-17-paid"})
	return e, err
}
