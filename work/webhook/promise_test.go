package webhook

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
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
	if transport := r.transport(); transport.MaxIdleConns != 8 || transport.MaxIdleConnsPerHost != 8 || !transport.ForceAttemptHTTP2 || transport.Proxy != nil {
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
	wide := policy.Base(PolicyName)
	wide.Backoff.Jitter.Ratio = 1
	full := policy.Base(PolicyName)
	full.Backoff.Base, full.Backoff.Jitter = 30*time.Second, policy.Jitter{Kind: policy.JitterFull}
	for name, c := range map[string]struct {
		policy policy.Policy
		want   string
	}{
		"base":    {hasty, "30s"},
		"jitter":  {wide, "backoff.jitter.ratio (a least delay of 1s)"},
		"kind":    {full, "backoff.jitter.kind (a least delay of 1s)"},
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

// A job that was enqueued past the service, under the policy of another
// target, makes no call: its retries would come sooner than the guard of
// endpoints allows.
func TestDeliveryUnderAnotherTargetsPolicy(t *testing.T) {
	var calls atomic.Int32
	r := newRig(t)
	server := receive(t, func(w http.ResponseWriter, _ call) {
		calls.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	e, _ := r.add(NewEndpoint{URL: server.URL})
	args, err := pack(envelope{Event: "evt_1", Type: "a.b", SentAt: time.Unix(1, 0).UTC()}, []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"scrape", "annual-crawl", ""} {
		done, err := r.store.Enqueue(t.Context(), time.Time{}, []job.New{{Kind: Kind, Queue: Queue, Target: e.ID, Policy: name, Args: args}})
		if err != nil {
			t.Fatal(err)
		}
		for {
			j, err := r.store.Job(t.Context(), done[0].Seq)
			if err != nil {
				t.Fatal(err)
			}
			if j.State == job.Parked {
				break
			}
			if j.State != job.Queued && j.State != job.Running || j.History.Starts > 1 {
				t.Fatalf("policy %q: %s after %d starts, want it parked", name, j.State, j.History.Starts)
			}
			r.pause()
		}
	}
	if calls.Load() != 0 {
		t.Errorf("%d calls, want none", calls.Load())
	}
}

// The environment can uncover a step that the file's attempts never reached.
func TestEnvironmentPassesTheGuard(t *testing.T) {
	f, err := file.Parse("policies.yaml", []byte("version: 1\npolicies:\n  webhook: {attempts: 4, backoff: {steps: [1m, 4m, 10m, 5s]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{"3": "", "4": "backoff.steps[3] (5s)"} {
		e, err := file.ApplyEnv(f.Entries[0], func(name string) (string, bool) { return value, name == "MAX_RETRY_ATTEMPTS" })
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(Config{Store: memory.New(memory.Config{}), Seal: newSealer(1), Policies: []policy.Policy{e.Policy}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("MAX_RETRY_ATTEMPTS=%s: %v, want it refused for %q", value, err, want)
		}
	}
}
