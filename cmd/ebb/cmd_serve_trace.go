package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/telemetry/otlp"
)

// lastSpans is how long the last spans may take on their way.
const lastSpans = 5 * time.Second

// serveTraced serves with the tracer that the OTEL_* variables ask for.
func (a *app) serveTraced(ctx context.Context, on site, f serveFlags, loopback bool) error {
	provider, shutdown, err := otlp.Provider(ctx, currentVersion())
	if err != nil {
		return usage(fmt.Errorf("serve: %w", err), "OTEL_EXPORTER_OTLP_ENDPOINT=http://HOST:4318, or OTEL_TRACES_EXPORTER=none")
	}
	on.tracer = provider
	err = a.serveOn(ctx, on, f, loopback)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
	defer cancel()
	if e := shutdown(last); e != nil {
		on.log.Warn("the last spans were not sent", "error", e)
	}
	return err
}
