package webhook

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/worker"
)

// byState lists all deliveries of a state.
func (r *rig) byState(state job.State) (all []Delivery) {
	r.t.Helper()
	for cursor := ""; ; {
		part, err := r.Deliveries(r.t.Context(), DeliveryFilter{State: state}, engine.Page{Limit: 1000, Cursor: cursor})
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, part.Deliveries...)
		if cursor = part.Next; cursor == "" {
			return all
		}
	}
}

// An outage longer than the schedule and than max_hold: nothing is lost, and it
// is noticed within 90 s that the endpoints are well.
func TestLongOutageLosesNothing(t *testing.T) {
	for _, lasts := range []time.Duration{35 * time.Minute, 2 * time.Hour} {
		t.Run(lasts.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				begin := time.Now()
				const from = 5 * time.Minute
				var into atomic.Int32
				var noticed atomic.Int64
				r.pipe(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					switch at := time.Since(begin); {
					case at >= from && at < from+lasts:
						into.Add(1)
						w.WriteHeader(http.StatusServiceUnavailable)
					case at >= from+lasts:
						noticed.CompareAndSwap(0, int64(at-from-lasts))
					}
				}))
				const endpoints = 3
				for i := range endpoints {
					r.add(NewEndpoint{URL: fmt.Sprintf("http://host-%d.example/", i), Types: []string{fmt.Sprintf("to.%d", i)}})
				}
				sent := int((from + lasts + 15*time.Minute) / (2 * time.Second))
				for i := range sent {
					r.send(Message{Type: fmt.Sprintf("to.%d", i%endpoints), Payload: []byte(`{}`)})
					pass(2 * time.Second)
				}
				pass(time.Hour)
				if n := len(r.byState(job.Succeeded)); n != sent {
					t.Errorf("%d of %d delivered; %d failed, %d parked, %d queued", n, sent, len(r.byState(job.Failed)), len(r.byState(job.Parked)), len(r.byState(job.Queued)))
				}
				if at := time.Duration(noticed.Load()); at > 90*time.Second {
					t.Errorf("noticed %s after the outage's end", at)
				}
				if most := endpoints * (25 + int(lasts/(25*time.Second))); int(into.Load()) > most {
					t.Errorf("%d calls into the outage, want %d at most", into.Load(), most)
				}
				t.Logf("%d events, %d calls into the outage, noticed after %s", sent, into.Load(), time.Duration(noticed.Load()))
			})
		})
	}
}

// The same over real sockets and on SQLite, 150 times faster.
func TestOutageForReal(t *testing.T) {
	at := clock.Scaled{Start: time.Now(), Factor: 150}
	const from, lasts = time.Minute, 35 * time.Minute
	server := receive(t, func(w http.ResponseWriter, _ call) {
		if since := at.Now().Sub(at.Start); since >= from && since < from+lasts {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	var ended atomic.Int32
	all := make(chan struct{})
	const sent = 3 * 400 // one event in 6 s to each endpoint
	r := newRig(t, onDisk(t), func(c *Config, w *worker.Config) {
		c.Clock, w.Clock = at, at
		w.Observe = func(e worker.Event) {
			if e.What == worker.Settled && e.To == job.Succeeded && ended.Add(1) == sent {
				close(all)
			}
		}
	})
	for i := range 3 {
		r.add(NewEndpoint{URL: fmt.Sprintf("%s/%d", server.URL, i), Types: []string{fmt.Sprintf("to.%d", i)}})
	}
	tick := time.NewTicker(2 * time.Second / 150)
	defer tick.Stop()
	for i := range sent {
		r.send(Message{Type: fmt.Sprintf("to.%d", i%3), Payload: []byte(`{}`)})
		<-tick.C
	}
	select {
	case <-all:
	case <-time.After(time.Minute):
		t.Errorf("%d of %d delivered; %d failed, %d parked", ended.Load(), sent, len(r.byState(job.Failed)), len(r.byState(job.Parked)))
	}
}

// An endpoint that always fails: each event has all of its sends before it is
// given up, or waits, parked, with its attempts unspent.
func TestEachEventHasItsSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pipe(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
		r.add(NewEndpoint{URL: "http://bad.example/"})
		for range 30 {
			r.send(Message{Type: "a.b", Payload: []byte(`{}`)})
		}
		pass(24 * time.Hour)
		dead, parked, queued := r.byState(job.Failed), r.byState(job.Parked), r.byState(job.Queued)
		if len(dead)+len(parked)+len(queued) != 30 {
			t.Errorf("%d dead, %d parked, %d queued, want 30 in all", len(dead), len(parked), len(queued))
		}
		for _, d := range dead {
			if d.Cause != retry.CauseExhausted || d.Attempts != 6 {
				t.Errorf("%s failed (%s) after %d sends, want exhausted after 6", d.ID, d.Cause, d.Attempts)
			}
		}
		for _, d := range parked {
			if d.Cause != retry.CauseTargetDown || d.Attempts >= 6 {
				t.Errorf("%s is parked (%s) after %d sends", d.ID, d.Cause, d.Attempts)
			}
		}
	})
}
