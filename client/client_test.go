package client_test

import (
	"net/http/httptest"
	"testing"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/client"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/engine/enginetest"
	"github.com/ebbhq/ebb/store/memory"
)

// TestOps: what the engine answers, a server answers over HTTP.
func TestOps(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, local *engine.Engine) engine.Ops {
		return connect(t, local, access.NewToken{Name: enginetest.Actor, Scopes: []access.Scope{access.Admin}})
	})
}

// connect serves ops on loopback and returns a client with such a token.
func connect(t *testing.T, ops engine.Ops, n access.NewToken) *client.Client {
	t.Helper()
	records := memory.New(memory.Config{})
	t.Cleanup(func() { _ = records.Close() })
	keeper, err := access.New(records, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, secret, err := keeper.CreateToken(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	h, err := api.New(api.Config{Ops: ops, Keeper: keeper, Records: records})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, secret, client.WithHTTPClient(server.Client()))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
