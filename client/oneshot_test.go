package client_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/ebbhq/ebb/client"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/internal/oneshot/oneshottest"
	"github.com/ebbhq/ebb/policy"
)

// TestPolicyAloneRetries: a start of the policy is one request, although the
// idempotency key lets net/http send it again.
func TestPolicyAloneRetries(t *testing.T) {
	for _, fault := range oneshottest.Faults() {
		t.Run(string(fault), func(t *testing.T) {
			s := oneshottest.Start(t, fault, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, `{"jobs":[{"id":"0000000000001"}]}`)
			}))
			transport := &http.Transport{TLSClientConfig: s.TLS, ForceAttemptHTTP2: true}
			defer transport.CloseIdleConnections()
			never := policy.Policy{Attempts: 1, Backoff: soon.Backoff}
			c, err := client.New(s.URL, "ebb_x", client.WithPolicy(never), client.WithHTTPClient(&http.Client{Transport: transport}))
			if err != nil {
				t.Fatal(err)
			}
			const calls = 4
			failed := 0
			for range calls {
				if _, err := c.Enqueue(t.Context(), engine.NewJob{Kind: "k"}); err != nil {
					failed++
				}
			}
			if n := s.Requests(); n != calls || failed != s.Faults() || failed == 0 {
				t.Errorf("%d requests of %d calls; %d failed, the server broke %d off", n, calls, failed, s.Faults())
			}
		})
	}
}
