package otlp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// unset clears what the machine may have set.
func unset(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
	} {
		t.Setenv(name, "")
	}
}

func TestWanted(t *testing.T) {
	const endpoint, exporter, protocol = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL"
	for name, c := range map[string]struct {
		env  map[string]string
		want bool
		err  string
	}{
		"off by default":         {},
		"an endpoint":            {env: map[string]string{endpoint: "http://127.0.0.1:4318"}, want: true},
		"an endpoint for traces": {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/x"}, want: true},
		"asked for":              {env: map[string]string{exporter: "otlp"}, want: true},
		"none":                   {env: map[string]string{exporter: "none", endpoint: "http://127.0.0.1:4318"}},
		"disabled":               {env: map[string]string{"OTEL_SDK_DISABLED": "TRUE", endpoint: "http://127.0.0.1:4318"}},
		"another exporter":       {env: map[string]string{exporter: "zipkin"}, err: `otlp: OTEL_TRACES_EXPORTER "zipkin": must be otlp or none`},
		"another protocol":       {env: map[string]string{exporter: "otlp", protocol: "grpc"}, err: `otlp: OTEL_EXPORTER_OTLP_PROTOCOL "grpc": must be http/protobuf`},
		"its protocol":           {env: map[string]string{exporter: "otlp", protocol: "http/protobuf"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			unset(t)
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			got, err := wanted()
			if text := errText(err); got != c.want || text != c.err {
				t.Errorf("wanted %v, %q; want %v, %q", got, text, c.want, c.err)
			}
			if c.want {
				return
			}
			p, shutdown, err := Provider(t.Context(), "")
			if p != nil || errText(err) != c.err {
				t.Errorf("a provider %v, %v", p, err)
			}
			if err := shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestExport: a collector gets the spans, where and as the variables say.
func TestExport(t *testing.T) {
	unset(t)
	type request struct {
		path, kind, header string
		body               []byte
	}
	got := make(chan request, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- request{r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("X-Team"), body}
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=ours")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=attic")
	p, shutdown, err := Provider(t.Context(), "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	_, span := p.Tracer("test").Start(t.Context(), "start deliver")
	span.End()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	r := <-got
	if r.path != "/v1/traces" || r.kind != "application/x-protobuf" || r.header != "ours" {
		t.Errorf("sent to %s as %s, x-team %q", r.path, r.kind, r.header)
	}
	for _, want := range []string{"start deliver", "service.name", "ebb", "v1.2.3", "deployment.environment", "attic"} {
		if !bytes.Contains(r.body, []byte(want)) {
			t.Errorf("the request does not say %q", want)
		}
	}
}

// TestServiceName: the standard variable wins over the program's own name.
func TestServiceName(t *testing.T) {
	unset(t)
	bodies := make(chan []byte, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies <- body
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_SERVICE_NAME", "billing-mail")
	p, shutdown, err := Provider(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	_, span := p.Tracer("test").Start(t.Context(), "x")
	span.End()
	if err := shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if body := <-bodies; !bytes.Contains(body, []byte("billing-mail")) {
		t.Error("the service name of the environment was not sent")
	}
}
