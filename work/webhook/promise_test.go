package webhook

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/worker"
)

// Environment and guard are applied where the service is made.
func TestPromise(t *testing.T) {
	env := map[string]string{"WEBHOOK_TIMEOUT_SECONDS": "45", "MAX_RETRY_ATTEMPTS": "6", "RETRY_BATCH_SIZE": "50", "HTTP_POOL_SIZE": "8"}
	r := stillRig(t, func(c *Config, _ *worker.Config) {
		c.Lookup = func(name string) (string, bool) {
			v, ok := env[name]
			return v, ok
		}
	})
	p := r.Policy(PolicyName)
	if p.Timeout != 45*time.Second || p.Attempts != 7 || p.Batch != 50 || p.Concurrency != 8 {
		t.Errorf("timeout %s, attempts %d, batch %d, concurrency %d", p.Timeout, p.Attempts, p.Batch, p.Concurrency)
	}
	if transport := r.call.(*http.Transport); transport.MaxIdleConns != 8 || transport.MaxIdleConnsPerHost != 8 || !transport.ForceAttemptHTTP2 || transport.Proxy != nil {
		t.Errorf("the pool is %d, %d a host", transport.MaxIdleConns, transport.MaxIdleConnsPerHost)
	}
	for _, c := range []struct{ name, value, want string }{
		{"MAX_RETRY_ATTEMPTS", "many", `environment: MAX_RETRY_ATTEMPTS: "many" is not a whole number`},
		{"HTTP_POOL_SIZE", "0", "environment: HTTP_POOL_SIZE: 0 is out of range"},
		{"WEBHOOK_TIMEOUT_SECONDS", "30s", `environment: WEBHOOK_TIMEOUT_SECONDS: "30s" is not a whole number`},
		{"RETRY_BATCH_SIZE", "-1", "environment: RETRY_BATCH_SIZE: -1 is out of range"},
	} {
		_, err := FromEnv(func(name string) (string, bool) { return c.value, name == c.name })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want %q", c.name, c.value, err, c.want)
		}
	}
}

// What the incident did cannot be started: a base under 30 s, or a timeout
// that cuts off slow but healthy endpoints.
func TestGuard(t *testing.T) {
	hasty := policy.Base(PolicyName)
	hasty.Backoff.Base = 29 * time.Second
	cut := policy.Base(PolicyName)
	cut.Timeout = 10 * time.Second
	for name, c := range map[string]struct {
		policy policy.Policy
		want   string
	}{
		"base":    {hasty, "30s"},
		"timeout": {cut, "timeout (10s)"},
	} {
		sealed, err := policy.Seal(c.policy)
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(Config{Store: memory.New(memory.Config{}), Seal: newSealer(1), Policies: []policy.Policy{sealed}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it refused for %s", name, err, c.want)
		}
	}
}

// One policy for all endpoints, unless endpoints may have their own: then any
// of the target endpoint, which the guard has passed.
func TestEndpointPolicy(t *testing.T) {
	patient := policy.Base(PolicyName)
	patient.Name, patient.Attempts = "patient", 8
	patient, err := policy.Seal(patient)
	if err != nil {
		t.Fatal(err)
	}
	n := NewEndpoint{URL: "https://a.example/", Policy: "patient"}
	with := func(allowed bool) *rig {
		return stillRig(t, func(c *Config, _ *worker.Config) {
			c.Policies, c.EndpointPolicies = []policy.Policy{patient, policy.MustPreset("scrape")}, allowed
		})
	}
	if _, _, err := with(false).Add(t.Context(), n); !errors.Is(err, ErrInvalid) {
		t.Errorf("without the opt-in: %v", err)
	}
	r := with(true)
	e, _ := r.add(n)
	event := r.send(Message{Type: "a.b", Payload: []byte(`{}`)})
	seq, err := job.ParseID(event.Deliveries[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if j, err := r.store.Job(t.Context(), seq); err != nil || j.Policy != "patient" || e.Policy != "patient" {
		t.Errorf("the delivery's policy is %q, the endpoint's %q (%v)", j.Policy, e.Policy, err)
	}
	for _, name := range []string{"scrape", "nonesuch"} {
		if _, _, err := r.Add(t.Context(), NewEndpoint{URL: n.URL, Policy: name}); !errors.Is(err, ErrInvalid) {
			t.Errorf("policy %s: %v", name, err)
		}
	}
}
