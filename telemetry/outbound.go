package telemetry

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Transport traces outbound calls: a span from the request to the headers of
// the answer, below the start whose handler makes the call (see Work), and its
// traceparent in the request. Without a tracer it is base itself; nil means
// http.DefaultTransport.
func (t *Telemetry) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	if t.spans == nil {
		return base
	}
	return &outbound{base: base, tracer: t.spans.tracer}
}

// Incoming takes the caller's trace from a request's traceparent, so that what
// is enqueued for it is seen below. Without a tracer it is next itself.
func (t *Telemetry) Incoming(next http.Handler) http.Handler {
	if t.spans == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if parent := r.Header.Get(traceparent); parent != "" {
			r = r.WithContext(withTrace(r.Context(), parent))
		}
		next.ServeHTTP(w, r)
	})
}

type outbound struct {
	base   http.RoundTripper
	tracer trace.Tracer
}

// RoundTrip is of http.RoundTripper. The query and the user of the URL stay
// out of the span: secrets stand there.
func (o *outbound) RoundTrip(req *http.Request) (*http.Response, error) {
	shown := *req.URL
	shown.User, shown.RawQuery, shown.Fragment = nil, "", ""
	ctx, span := o.tracer.Start(req.Context(), req.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", req.Method),
		attribute.String("server.address", req.URL.Hostname()),
		attribute.String("url.full", shown.String()),
	))
	defer span.End()
	req = req.Clone(ctx)
	traceContext.Inject(ctx, propagation.HeaderCarrier(req.Header))
	resp, err := o.base.RoundTrip(req)
	if err != nil {
		failedSpan(span, err)
		return resp, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
	if resp.StatusCode >= http.StatusBadRequest {
		span.SetStatus(codes.Error, resp.Status)
	}
	return resp, nil
}
