package webhook

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/worker"
)

// Events for a paused or disabled endpoint are kept, can be seen, and are sent
// when it is resumed; waiting costs them nothing.
func TestPausedAndDisabledKeepEvents(t *testing.T) {
	for name, stop := range map[string]func(*rig, string) (Endpoint, error){
		"paused": func(r *rig, id string) (Endpoint, error) {
			return r.Pause(r.t.Context(), id, "moving house", time.Time{})
		},
		"disabled": func(r *rig, id string) (Endpoint, error) { return r.Disable(r.t.Context(), id, "moving house") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				r := newRig(t)
				r.pipe(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
				e, _ := r.add(NewEndpoint{URL: "http://a.example/"})
				e, err := stop(r, e.ID)
				if err != nil || string(e.State) != name || e.Reason != "moving house" {
					t.Fatalf("%+v, %v", e, err)
				}
				for range 3 {
					r.send(Message{Type: "a.b", Payload: []byte(`{}`)})
				}
				pass(3 * time.Hour) // longer than any hold
				list, err := r.Deliveries(t.Context(), DeliveryFilter{Endpoint: e.ID}, engine.Page{})
				if err != nil || len(list.Deliveries) != 3 || calls.Load() != 0 {
					t.Fatalf("%d deliveries kept, %d calls, %v", len(list.Deliveries), calls.Load(), err)
				}
				want := map[string]job.State{"paused": job.Queued, "disabled": job.Parked}[name]
				for _, d := range list.Deliveries {
					if d.State != want || d.Attempts != 0 {
						t.Errorf("%s after %d attempts, want %s", d.State, d.Attempts, want)
					}
				}
				if e, err = r.Resume(t.Context(), e.ID, false); err != nil || e.State != Enabled || e.Reason != "" {
					t.Fatalf("%+v, %v", e, err)
				}
				pass(2 * time.Minute)
				if calls.Load() != 3 {
					t.Errorf("%d calls after it was resumed, want 3", calls.Load())
				}
				r.latencies(e.ID)
			})
		})
	}
}

// Whoever watches hears of deliveries that an order to disable has parked,
// once, as of those that a worker parks.
func TestDisableTellsOfParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []worker.Event
		r := stillRig(t, func(c *Config, _ *worker.Config) { c.Observe = func(e worker.Event) { told = append(told, e) } })
		e, _ := r.add(NewEndpoint{URL: "http://a.example/"})
		for range 3 {
			r.send(Message{Type: "a.b", Payload: []byte(`{}`)})
		}
		for range 2 {
			if _, err := r.Disable(t.Context(), e.ID, ""); err != nil {
				t.Fatal(err)
			}
		}
		if len(told) != 1 {
			t.Fatalf("told of %+v, want one event", told)
		}
		got := told[0]
		if got.What != worker.Ended || got.To != job.Parked || got.Cause != job.Disabled || got.Text != worker.ByTarget || got.Count != 3 ||
			got.Target != e.ID || got.Job.Kind != Kind || got.Job.Queue != Queue || got.Job.Policy != PolicyName || got.At.IsZero() {
			t.Errorf("told of %+v", got)
		}
	})
}

// What was parked may be kept when an endpoint is enabled, and be redriven in
// part.
func TestResumeKeepsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		r := newRig(t)
		r.pipe(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
		e, _ := r.add(NewEndpoint{URL: "http://a.example/"})
		if _, err := r.Pause(t.Context(), e.ID, "", time.Time{}); err != nil {
			t.Fatal(err)
		}
		first := r.send(Message{Type: "a.b", Payload: []byte(`{}`)})
		if _, err := r.Disable(t.Context(), e.ID, ""); err != nil {
			t.Fatal(err)
		}
		if d, err := r.Delivery(t.Context(), first.Deliveries[0].ID); err != nil || d.State != job.Parked || d.Cause != job.Disabled {
			t.Fatalf("right after the order it is %s %q, %v", d.State, d.Cause, err)
		}
		second := r.send(Message{Type: "a.b", Payload: []byte(`{}`)})
		if _, err := r.Resume(t.Context(), e.ID, true); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Minute)
		if calls.Load() != 0 {
			t.Fatalf("%d calls, want none", calls.Load())
		}
		if _, err := r.Redrive(t.Context(), first.Deliveries[0].ID); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		order, err := r.RedriveAll(t.Context(), DeliveryFilter{Endpoint: e.ID, State: job.Parked}, 0, true)
		if err != nil || order.Matching != 1 || calls.Load() != 1 {
			t.Fatalf("%d calls, %d left (%v), want 1 and 1", calls.Load(), order.Matching, err)
		}
		if _, err := r.RedriveAll(t.Context(), DeliveryFilter{Event: second.ID, State: job.Parked}, 0, false); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if calls.Load() != 2 {
			t.Errorf("%d calls at last, want 2", calls.Load())
		}
	})
}

// A delivery that succeeded can be sent anew: another delivery, the same
// webhook-id.
func TestResend(t *testing.T) {
	got := receive(t, status(http.StatusOK))
	r := newRig(t)
	r.add(NewEndpoint{URL: got.URL})
	event := r.send(Message{Type: "a.b", Payload: []byte(`{}`), Key: "k"})
	r.await(event.Deliveries[0].ID, "succeeded")
	again, err := r.Redrive(t.Context(), event.Deliveries[0].ID)
	if err != nil || again.ID == event.Deliveries[0].ID {
		t.Fatalf("%+v, %v", again, err)
	}
	r.await(again.ID, "succeeded")
	one, two := <-got.calls, <-got.calls
	if a, b := one.Header.Get("webhook-id"), two.Header.Get("webhook-id"); a != event.ID || b != event.ID {
		t.Errorf("webhook-ids %s and %s, want %s", a, b, event.ID)
	}
	if e := r.send(Message{Type: "a.b", Payload: []byte(`{}`), Key: "k"}); len(e.Deliveries) != 1 || e.Deliveries[0] != event.Deliveries[0] {
		t.Errorf("the key answers %+v, want %+v", e.Deliveries, event.Deliveries)
	}
}

// During a rotation both secrets verify, afterwards the new one alone.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := &receiver{calls: make(chan call, 10)}
		r := newRig(t)
		r.pipe(got.handler(status(http.StatusOK)))
		e, first := r.add(NewEndpoint{URL: "http://a.example/"})
		verify := func(signatures int, good, bad []string) {
			t.Helper()
			pass(2 * time.Second)
			r.send(Message{Type: "a.b", Payload: []byte(`{"a":1}`)})
			c := <-got.calls
			if n := len(strings.Fields(c.Header.Get("webhook-signature"))); n != signatures {
				t.Errorf("%d signatures, want %d", n, signatures)
			}
			for _, secret := range append(good, bad...) {
				hook, err := standardwebhooks.NewWebhook(secret)
				if err != nil {
					t.Fatal(err)
				}
				if err := hook.Verify(c.Body, c.Header); (err == nil) != (len(good) > 0) {
					t.Errorf("%v", err)
				}
				if len(good) > 0 {
					good = good[1:]
				}
			}
		}
		verify(1, []string{first}, nil)
		_, second, err := r.Rotate(t.Context(), e.ID, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		verify(2, []string{second, first}, nil)
		_, third, err := r.Rotate(t.Context(), e.ID, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		verify(3, []string{third, second, first}, nil)
		pass(time.Hour)
		verify(1, []string{third}, []string{second, first})
		_, fourth, err := r.Rotate(t.Context(), e.ID, -1)
		if err != nil {
			t.Fatal(err)
		}
		verify(1, []string{fourth}, []string{third})
	})
}

// An endpoint of which everything fails for the time and the count is
// disabled, its owner is told by a signed event, and after it is enabled it
// has its grace.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := &receiver{calls: make(chan call, 1000)}
		r := newRig(t, func(c *Config, _ *worker.Config) {
			c.Health = Health{After: time.Hour, Failures: 8, Grace: 2 * time.Hour, Every: time.Minute}
		})
		var well atomic.Bool
		r.pipe(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			switch {
			case strings.HasPrefix(req.Host, "ops"):
				got.handler(status(http.StatusOK)).ServeHTTP(w, req)
			case !well.Load():
				w.WriteHeader(http.StatusInternalServerError)
			}
		}))
		sick, _ := r.add(NewEndpoint{URL: "http://sick.example/", Owner: "acme", Types: []string{"a.*"}})
		_, secret := r.add(NewEndpoint{URL: "http://ops.example/", Owner: "acme", Types: []string{TypeDisabled}})
		r.add(NewEndpoint{URL: "http://ops.example/operator", Types: []string{"webhook.*"}})
		r.add(NewEndpoint{URL: "http://ops.example/stranger", Owner: "other", Types: []string{"webhook.*"}})
		// every says how the endpoint stands after events for so long.
		every := func(d time.Duration) Endpoint {
			t.Helper()
			for end := time.Now().Add(d); time.Now().Before(end); pass(5 * time.Minute) {
				r.send(Message{Type: "a.b", Payload: []byte(`{}`), Owner: "acme"})
			}
			e, err := r.Show(t.Context(), sick.ID)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		if e := every(50 * time.Minute); e.State != Enabled || e.Failures < 8 || e.FailingSince.IsZero() {
			t.Fatalf("after 50 minutes: %+v", e)
		}
		well.Store(true)
		if e := every(30 * time.Minute); e.State != Enabled || e.Failures != 0 || !e.FailingSince.IsZero() {
			t.Fatalf("after a success: %+v", e)
		}
		well.Store(false)
		if e := every(50 * time.Minute); e.State != Enabled {
			t.Fatalf("50 minutes after the success: %+v", e)
		}
		e := every(30 * time.Minute)
		if e.State != Disabled || !strings.HasPrefix(e.Reason, "all ") {
			t.Fatalf("after an hour of failures: %+v", e)
		}
		told := map[string]bool{}
		for range 2 {
			c := <-got.calls
			if told[c.Path] = true; c.Path != "/" {
				continue
			}
			hook, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			if err := hook.VerifyIgnoringTimestamp(c.Body, c.Header); err != nil {
				t.Error(err)
			}
			var news struct {
				Type string
				Data disabledNews
			}
			if err := json.Unmarshal(c.Body, &news); err != nil || news.Type != TypeDisabled || news.Data.Endpoint != sick.ID || news.Data.Reason != e.Reason {
				t.Errorf("the news: %s (%v)", c.Body, err)
			}
		}
		if !told["/"] || !told["/operator"] {
			t.Errorf("told %v, want the owner and the operator", told)
		}
		if _, err := r.Resume(t.Context(), sick.ID, true); err != nil {
			t.Fatal(err)
		}
		if e := every(110 * time.Minute); e.State != Enabled {
			t.Fatalf("in its grace: %+v", e)
		}
		if e := every(30 * time.Minute); e.State != Disabled {
			t.Fatalf("after its grace: %+v", e)
		}
		if n := len(got.calls); n != 2 {
			t.Errorf("%d more were told, want 2: the stranger none", n)
		}
	})
}

// A 410 disables the endpoint, and its owner is told of that too; what waits
// is parked.
func TestGoneIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := &receiver{calls: make(chan call, 10)}
		r := newRig(t)
		r.pipe(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if strings.HasPrefix(req.Host, "ops") {
				got.handler(status(http.StatusOK)).ServeHTTP(w, req)
				return
			}
			w.WriteHeader(http.StatusGone)
		}))
		e, _ := r.add(NewEndpoint{URL: "http://gone.example/", Types: []string{"a.*"}})
		r.add(NewEndpoint{URL: "http://ops.example/", Types: []string{TypeDisabled}})
		r.send(Message{Type: "a.b", Payload: []byte(`{}`)})
		pass(time.Minute)
		second := r.send(Message{Type: "a.b", Payload: []byte(`{}`)})
		pass(2 * time.Minute)
		if e, err := r.Show(t.Context(), e.ID); err != nil || e.State != Disabled || !strings.HasPrefix(e.Reason, "410") {
			t.Errorf("%+v, %v", e, err)
		}
		if d, err := r.Delivery(t.Context(), second.Deliveries[0].ID); err != nil || d.State != job.Parked || d.Cause != job.Disabled {
			t.Errorf("the next delivery is %s %s (%v), want parked", d.State, d.Cause, err)
		}
		pass(20 * time.Minute)
		if n := len(got.calls); n != 1 {
			t.Errorf("told %d times, want once", n)
		}
		// Enabled as a target, not as an endpoint: the next 410 is told again.
		if _, err := r.ops.ResumeTarget(t.Context(), e.ID, true); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Minute)
		r.send(Message{Type: "a.b", Payload: []byte(`{}`)})
		pass(10 * time.Minute)
		if n := len(got.calls); n != 2 {
			t.Errorf("told %d times, want twice", n)
		}
	})
}

// The log of attempts is dropped with its time; the ledger stays.
func TestAttemptsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config, _ *worker.Config) { c.AttemptsKept = 2 * time.Hour })
		r.pipe(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }))
		r.add(NewEndpoint{URL: "http://a.example/"})
		id := r.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID
		pass(time.Hour)
		for _, kept := range []bool{true, false} {
			d, err := r.Delivery(t.Context(), id)
			if err != nil || len(d.Log) != 6 {
				t.Fatalf("%d rows: %v", len(d.Log), err)
			}
			for _, row := range d.Log {
				if (row.Attempt != nil) != kept || row.Status != 500 || kept && row.Attempt.Excerpt != "no\n" {
					t.Errorf("kept %t: %+v", kept, row)
				}
			}
			pass(2 * time.Hour)
		}
	})
}

// An endpoint that is removed gets nothing more; what waited is cancelled.
func TestRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pipe(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
		e, _ := r.add(NewEndpoint{URL: "http://a.example/"})
		event := r.send(Message{Type: "a.b", Payload: []byte(`{}`)})
		pass(time.Second)
		if err := r.Remove(t.Context(), e.ID); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		d, err := r.Delivery(t.Context(), event.Deliveries[0].ID)
		if err != nil || d.State != job.Cancelled || len(d.Log) != 1 {
			t.Errorf("%s after %d starts (%v), want cancelled after 1", d.State, len(d.Log), err)
		}
	})
}

// Orders that race over one endpoint are all carried out.
func TestEditsRace(t *testing.T) {
	r := stillRig(t)
	e, _ := r.add(NewEndpoint{URL: "https://a.example/"})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, _, err := r.Rotate(t.Context(), e.ID, time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	e, err := r.Show(t.Context(), e.ID)
	if err != nil || len(e.Secrets) != 9 {
		t.Errorf("%d secrets after 8 rotations (%v), want 9", len(e.Secrets), err)
	}
	if _, _, err := r.Rotate(t.Context(), e.ID, time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Rotate(t.Context(), e.ID, time.Hour); !errors.Is(err, ErrState) {
		t.Errorf("the eleventh secret: %v, want ErrState", err)
	}
	if e, _, err := r.Rotate(t.Context(), e.ID, -1); err != nil || len(e.Secrets) != 1 {
		t.Errorf("a rotation that stops the others: %d secrets, %v", len(e.Secrets), err)
	}
}

// Failures of long ago prove nothing about today: an endpoint that was paused
// since, or that nothing was sent to, is not disabled by the clock alone.
func TestHealthNeedsFailuresOverTheWholeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config, _ *worker.Config) {
			c.Health = Health{After: 45 * time.Minute, Failures: 6, Every: time.Minute}
		})
		r.pipe(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
		quiet, _ := r.add(NewEndpoint{URL: "http://quiet.example/", Types: []string{"quiet"}})
		paused, _ := r.add(NewEndpoint{URL: "http://paused.example/", Types: []string{"paused"}})
		r.send(Message{Type: "quiet", Payload: []byte(`{}`)})
		r.send(Message{Type: "paused", Payload: []byte(`{}`)})
		pass(40 * time.Minute) // both have failed 6 times
		if _, err := r.Pause(t.Context(), paused.ID, "", time.Time{}); err != nil {
			t.Fatal(err)
		}
		r.send(Message{Type: "paused", Payload: []byte(`{}`)})
		pass(50 * time.Minute)
		for id, want := range map[string]State{quiet.ID: Enabled, paused.ID: Paused} {
			if e, err := r.Show(t.Context(), id); err != nil || e.State != want || e.Failures != 6 {
				t.Errorf("%s is %s after %d failures (%v), want %s after 6", e.URL, e.State, e.Failures, err, want)
			}
		}
		r.send(Message{Type: "quiet", Payload: []byte(`{}`)})
		pass(2 * time.Minute)
		if e, err := r.Show(t.Context(), quiet.ID); err != nil || e.State != Disabled {
			t.Errorf("it failed again after an hour and a half and is %s (%v), want disabled", e.State, err)
		}
	})
}
