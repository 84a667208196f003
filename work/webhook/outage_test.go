package webhook

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
	"github.com/ebbhq/ebb/worker"
)

// pr247 is the policy of seed 002's incident, with every guard waived.
const pr247 = `version: 1
policies:
  webhook:
    attempts: 9            # the first send and 8 retries
    backoff: {base: 5s, factor: 1, jitter: none}
    timeout: 10s
    concurrency: 50
    batch: 500
`

// waived returns the incident's policy as an engine would take it.
func waived(t *testing.T) policy.Policy {
	t.Helper()
	f, err := file.Parse("pr-247.yaml", []byte(pr247))
	if err != nil {
		t.Fatal(err)
	}
	p := f.Entries[0].Policy
	today := time.Now()
	if policy.Enforce(p, today) == nil {
		t.Fatal("the incident's policy was let through without a waiver")
	}
	p.Gate = false // it had none, which would have saved it
	for _, finding := range policy.Lint(p, today) {
		p.Waivers = append(p.Waivers, policy.Waiver{Rule: finding.ID, Reason: "to see what it does", Expires: today.AddDate(0, 0, 7)})
	}
	if p, err = policy.Seal(p); err != nil {
		t.Fatal(err)
	}
	return p
}

// outage sends an event every two seconds to five endpoints for 20 minutes, of which
// they are down from the 5th to the 15th, and returns how many deliveries
// there were and how many became dead letters.
func outage(t *testing.T, policies ...policy.Policy) (all, dead int) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config, _ *worker.Config) { c.Policies = policies })
		begin := time.Now()
		r.pipe(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if at := time.Since(begin); at >= 5*time.Minute && at < 15*time.Minute {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		const endpoints = 5
		for i := range endpoints {
			r.add(NewEndpoint{URL: fmt.Sprintf("http://host-%d.example/", i), Types: []string{fmt.Sprintf("to.%d", i)}})
		}
		for i := range 20 * 30 {
			r.send(Message{Type: fmt.Sprintf("to.%d", i%endpoints), Payload: []byte(`{}`)})
			pass(2 * time.Second)
		}
		pass(2 * time.Hour)
		for _, state := range job.States() {
			for cursor := ""; ; {
				part, err := r.Deliveries(t.Context(), DeliveryFilter{State: state}, engine.Page{Limit: 1000, Cursor: cursor})
				if err != nil {
					t.Fatal(err)
				}
				all += len(part.Deliveries)
				switch state {
				case job.Succeeded:
				case job.Failed:
					dead += len(part.Deliveries)
				default:
					if len(part.Deliveries) > 0 {
						t.Errorf("%d deliveries are still %s", len(part.Deliveries), state)
					}
				}
				if cursor = part.Next; cursor == "" {
					break
				}
			}
		}
	})
	return all, dead
}

// An outage of ten minutes: with the preset nothing is lost, with the policy
// of the incident more than the alarm's 5 % is.
func TestOutage(t *testing.T) {
	all, dead := outage(t)
	t.Logf("preset: %d of %d became dead letters", dead, all)
	if all != 600 || dead != 0 {
		t.Errorf("with the preset %d of %d became dead letters, want 0 of 600", dead, all)
	}
	all, dead = outage(t, waived(t))
	t.Logf("PR #247: %d of %d became dead letters, %.1f %%", dead, all, 100*float64(dead)/float64(all))
	if all != 600 || dead*20 <= all {
		t.Errorf("with the incident's policy %d of %d became dead letters, want more than 5 %%", dead, all)
	}
}

// An endpoint that takes 25 s is well: its deliveries succeed at the first try.
func TestSlowAnswersSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pipe(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { pass(25 * time.Second) }))
		e, _ := r.add(NewEndpoint{URL: "http://slow.example/"})
		for range 40 {
			r.send(Message{Type: "slow", Payload: []byte(`{}`)})
		}
		pass(10 * time.Minute)
		for _, took := range r.latencies(e.ID) { // fails where there was a second try
			if took < 25*time.Second {
				t.Errorf("a delivery took %s", took)
			}
		}
		if n := len(r.latencies(e.ID)); n != 40 {
			t.Errorf("%d deliveries, want 40", n)
		}
	})
}
