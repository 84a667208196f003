package webhook

import (
	"net/http"
	"testing"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/internal/oneshot/oneshottest"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/worker"
)

// Whatever an endpoint does, it gets one request for each row of the ledger.
func TestOneAttemptIsOneRequest(t *testing.T) {
	class := map[oneshottest.Fault]string{oneshottest.Misdirected: "rejected", oneshottest.MisdirectedHTTP2: "rejected"}
	for _, fault := range oneshottest.Faults() {
		for name, payload := range map[string]string{"payload": `{"n":1}`, "no payload": ""} {
			t.Run(string(fault)+"/"+name, func(t *testing.T) {
				s := oneshottest.Start(t, fault, nil)
				r := newRig(t, func(c *Config, _ *worker.Config) { c.TLS = s.TLS })
				// The transport may send it again if a header says that this is safe.
				r.add(NewEndpoint{URL: s.URL, Headers: map[string]string{"Idempotency-Key": "1"}})
				rows, failed := 0, 0
				for range 2 { // the second goes over the connection of the first, where that is open
					d := r.tried(r.send(Message{Type: "a.b", Payload: []byte(payload)}).Deliveries[0].ID)
					rows += len(d.Log)
					if d.State == job.Succeeded {
						continue
					}
					failed++
					want := class[fault]
					if want == "" {
						want = "reset"
					}
					if d.LastClass != want || want == "reset" && d.State != job.Queued {
						t.Errorf("%s %q (%s), want %q", d.State, d.LastClass, d.LastError, want)
					}
				}
				if n := s.Requests(); n != rows || failed != s.Faults() || failed == 0 {
					t.Errorf("%d requests, %d rows of the ledger; %d failed, the endpoint broke %d off", n, rows, failed, s.Faults())
				}
			})
		}
	}
}

// A redirect is an answer: nobody sends the payload on.
func TestRedirectIsOneRequest(t *testing.T) {
	for _, code := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		got := receive(t, func(w http.ResponseWriter, _ call) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
		})
		r := newRig(t)
		r.add(NewEndpoint{URL: got.URL})
		d := r.tried(r.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID)
		if n := len(got.calls); n != 1 || len(d.Log) != 1 || d.LastClass != "redirect" {
			t.Errorf("%d: %d requests, %d rows of the ledger, %q", code, n, len(d.Log), d.LastClass)
		}
	}
}

// All attempts of a delivery to an endpoint that goes away each time, and all
// of its redrive: as many requests as the ledger has rows.
func TestGoAwayUntilDead(t *testing.T) {
	fake := clock.NewFake(time.Now())
	s := oneshottest.Start(t, oneshottest.GoAway, nil)
	r := newRig(t, onDisk(t), func(c *Config, w *worker.Config) {
		c.TLS, c.Clock, w.Clock = s.TLS, fake, fake
	})
	r.add(NewEndpoint{URL: s.URL})
	id := r.send(Message{Type: "a.b", Payload: []byte(`{"n":1}`)}).Deliveries[0].ID
	dead := r.dead(id, fake)
	if n := s.Requests(); len(dead.Log) != 6 || n != 6 {
		t.Fatalf("%d requests, %d rows of the ledger, want 6", n, len(dead.Log))
	}
	if _, err := r.Redrive(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	dead = r.dead(id, fake)
	if n := s.Requests(); len(dead.Log) != 12 || n != 12 {
		t.Fatalf("after a redrive %d requests, %d rows of the ledger, want 12", n, len(dead.Log))
	}
	for _, row := range dead.Log {
		if row.Class != "reset" || row.Reason != "http2_refused" || row.Rule != "builtin/reset" {
			t.Errorf("start %d: %s %s by %s", row.Start, row.Class, row.Reason, row.Rule)
		}
	}
}

// tried waits until the ledger has a row of the delivery.
func (r *rig) tried(id string) DeliveryShown {
	r.t.Helper()
	for {
		d, err := r.Delivery(r.t.Context(), id)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(d.Log) > 0 {
			return d
		}
		r.pause()
	}
}

// dead moves the clock on until the delivery is a dead letter.
func (r *rig) dead(id string, fake *clock.Fake) DeliveryShown {
	r.t.Helper()
	for {
		d, err := r.Delivery(r.t.Context(), id)
		switch {
		case err != nil:
			r.t.Fatal(err)
		case d.State == job.Failed:
			return d
		case d.State == job.Queued: // a gate may hold it beyond its time
			fake.Advance(max(d.DueAt.Sub(fake.Now()), time.Second))
		}
		r.pause()
	}
}
