package api_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

// bench is a real server on loopback.
type bench struct {
	*testing.T
	store   store.Store
	keeper  *access.Keeper
	leases  *api.Leases
	clock   *clock.Fake // of access and idempotency keys
	handler http.Handler
	url     string
}

// newBench is one over a store in memory.
func newBench(t *testing.T, change ...func(*api.Config, *api.LeasesConfig)) *bench {
	t.Helper()
	return newBenchOn(t, memory.New(memory.Config{}), change...)
}

func newBenchOn(t *testing.T, s store.Store, change ...func(*api.Config, *api.LeasesConfig)) *bench {
	t.Helper()
	b := &bench{T: t, store: s, clock: clock.NewFake(time.Now())}
	t.Cleanup(func() { _ = b.store.Close() })
	var err error
	if b.keeper, err = access.New(b.store, b.clock, nil); err != nil {
		t.Fatal(err)
	}
	c := api.Config{Ops: engine.New(b.store, nil, engine.Config{}), Keeper: b.keeper, Records: b.store, Clock: b.clock}
	l := api.LeasesConfig{}
	for _, f := range change {
		f(&c, &l)
	}
	b.leases = api.NewLeases(b.store, l)
	t.Cleanup(b.leases.Stop)
	c.Leases = b.leases
	h, err := api.New(c)
	if err != nil {
		t.Fatal(err)
	}
	b.handler, b.url = h, serve(t, h)
	return b
}

// serve listens on loopback with the limits of a real server.
func serve(t testing.TB, h http.Handler) string {
	server := httptest.NewUnstartedServer(h)
	server.Config = api.Server(h)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// token makes one and returns its secret.
func (b *bench) token(name string, scope access.Scope, queues ...string) string {
	b.Helper()
	_, secret, err := b.keeper.CreateToken(b.Context(), access.NewToken{Name: name, Scopes: []access.Scope{scope}, Queues: queues})
	if err != nil {
		b.Fatal(err)
	}
	return secret
}

// got is an answer.
type got struct {
	status int
	header http.Header
	body   []byte
}

// problem reads the answer as one.
func (g got) problem() (p api.Problem) {
	_ = json.Unmarshal(g.body, &p)
	return p
}

// do makes a request; headers come in pairs.
func (b *bench) do(token, method, path, body string, headers ...string) got {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		b.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	return got{response.StatusCode, response.Header, text}
}

// want fails the test unless the answer has the status, and reads it.
func want[T any](b *bench, g got, status int) (v T) {
	b.Helper()
	if g.status != status {
		b.Fatalf("got status %d, want %d: %s", g.status, status, g.body)
	}
	if err := json.Unmarshal(g.body, &v); err != nil {
		b.Fatalf("%v: %s", err, g.body)
	}
	return v
}

// refused fails the test unless the answer is this problem.
func (b *bench) refused(g got, status int, code string) api.Problem {
	b.Helper()
	p := g.problem()
	if g.status != status || p.Code != code || p.Status != status || p.Detail == "" || p.Try == "" {
		b.Fatalf("got status %d %s, want %d %s", g.status, g.body, status, code)
	}
	if kind := g.header.Get("Content-Type"); kind != "application/problem+json" {
		b.Fatalf("got content type %q", kind)
	}
	return p
}
