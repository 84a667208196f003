package model_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/internal/oneshot/oneshottest"
	"github.com/ebbhq/ebb/work/document/model"
	"github.com/ebbhq/ebb/work/document/providertest"
)

// TestOneCallIsOneRequest: whatever a provider does, a call that it may charge
// for reaches it once.
func TestOneCallIsOneRequest(t *testing.T) {
	for _, fault := range oneshottest.Faults() {
		t.Run(string(fault), func(t *testing.T) {
			provider := providertest.New(func(providertest.Call) providertest.Act { return providertest.Act{Text: "7"} })
			defer provider.Close()
			s := oneshottest.Start(t, fault, provider)
			config := model.Config{Protocol: model.Chat, BaseURL: s.URL + "/v1"}
			if s.TLS != nil {
				transport := &http.Transport{TLSClientConfig: s.TLS, ForceAttemptHTTP2: true}
				defer transport.CloseIdleConnections()
				config.HTTP = &http.Client{Transport: transport}
			}
			client, err := model.New(config)
			if err != nil {
				t.Fatal(err)
			}
			const calls = 4
			failed := 0
			for range calls {
				_, err := client.Ask(t.Context(), model.Request{Model: "m", Prompt: "p"})
				if err == nil {
					continue
				}
				failed++
				if f := failure.Classify(err); f.Class != failure.Reset && f.Status != http.StatusMisdirectedRequest {
					t.Errorf("%v is of class %s, want reset", err, f.Class)
				}
			}
			if n := s.Requests(); n != calls || failed != s.Faults() || failed == 0 {
				t.Errorf("%d requests of %d calls; %d failed, the provider broke %d off", n, calls, failed, s.Faults())
			}
		})
	}
}

// TestRedirectIsNotFollowed: also not by a client that would follow it. The
// key and the prompt go to one address.
func TestRedirectIsNotFollowed(t *testing.T) {
	for _, code := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		var requests atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			http.Redirect(w, r, "/elsewhere", code)
		}))
		t.Cleanup(server.Close)
		client, err := model.New(model.Config{Protocol: model.Chat, BaseURL: server.URL, HTTP: server.Client()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Ask(t.Context(), model.Request{Model: "m", Prompt: "p"})
		if f := failure.Classify(err); f.Class != failure.Redirect || requests.Load() != 1 {
			t.Errorf("%d: %d requests, %v", code, requests.Load(), err)
		}
	}
}
