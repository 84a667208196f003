// Package otlp sends spans to an OpenTelemetry collector, as the standard
// OTEL_* variables say. It is apart from telemetry so that who only wants
// metrics compiles no exporter.
package otlp

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Provider makes a tracer provider from the environment. It is nil, and no
// error, where tracing is off: unless OTEL_TRACES_EXPORTER is otlp or an OTLP
// endpoint is named, and where OTEL_SDK_DISABLED is true. Shutdown, never nil,
// sends what is left.
//
// Endpoint, headers, timeout and certificates (OTEL_EXPORTER_OTLP_*), batches
// (OTEL_BSP_*), sampling (OTEL_TRACES_SAMPLER) and the resource
// (OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME) are the SDK's own variables.
func Provider(ctx context.Context, version string) (p trace.TracerProvider, shutdown func(context.Context) error, err error) {
	off := func(context.Context) error { return nil }
	on, err := wanted()
	if err != nil || !on {
		return nil, off, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, off, fmt.Errorf("otlp: exporter: %w", err)
	}
	// What the environment says comes last and wins.
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "ebb"), attribute.String("service.version", cmp.Or(version, "unknown"))),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, off, fmt.Errorf("otlp: resource: %w", err)
	}
	made := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	return made, made.Shutdown, nil
}

// wanted reports whether the environment asks for traces, and refuses what
// this program does not speak.
func wanted() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	endpoint := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return false, nil
	case "":
		if endpoint == "" {
			return false, nil
		}
	case "otlp":
	default:
		return false, fmt.Errorf("otlp: OTEL_TRACES_EXPORTER %q: must be otlp or none", exporter)
	}
	protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"))
	if protocol != "" && protocol != "http/protobuf" {
		return false, fmt.Errorf("otlp: OTEL_EXPORTER_OTLP_PROTOCOL %q: must be http/protobuf", protocol)
	}
	return true, nil
}
