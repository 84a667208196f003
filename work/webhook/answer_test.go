package webhook

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
)

// What an answer means: the seed's table, by the preset's rules.
func TestAnswers(t *testing.T) {
	type want struct {
		state job.State
		class string
	}
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   want
	}{
		{"200", code(200), want{job.Succeeded, ""}},
		{"202", code(202), want{job.Succeeded, ""}},
		{"204", code(204), want{job.Succeeded, ""}},
		{"garbled", garble, want{job.Succeeded, ""}},
		{"101", code(101), want{job.Queued, "rejected"}},
		{"301", moved(301), want{job.Queued, "redirect"}},
		{"307", moved(307), want{job.Queued, "redirect"}},
		{"308", moved(308), want{job.Queued, "redirect"}},
		{"400", code(400), want{job.Queued, "rejected"}},
		{"401", code(401), want{job.Queued, "rejected"}},
		{"404", code(404), want{job.Queued, "rejected"}},
		{"408", code(408), want{job.Queued, "request_timeout"}},
		{"410", code(410), want{job.Failed, "gone"}},
		{"425", code(425), want{job.Queued, "too_early"}},
		{"429", code(429), want{job.Queued, "throttled"}},
		{"500", code(500), want{job.Queued, "server"}},
		{"503", code(503), want{job.Queued, "server"}},
		{"hung up", hangUp, want{job.Queued, "reset"}},
		{"hung up in the body", halfBody, want{job.Queued, "short_body"}},
		{"over the limit", endless, want{job.Succeeded, ""}},
		{"bomb", bomb, want{job.Succeeded, ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var followed atomic.Bool
			mux := http.NewServeMux()
			mux.HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { followed.Store(true) })
			mux.Handle("/", c.answer)
			server := httptest.NewServer(mux)
			defer server.Close()
			r := newRig(t)
			e, _ := r.add(NewEndpoint{URL: server.URL})
			sent := time.Now()
			id := r.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID
			d := r.settled(id)
			if d.State != c.want.state || d.LastClass != c.want.class || len(d.Log) != 1 {
				t.Fatalf("%s %q (%s) after %d starts, want %s %q", d.State, d.LastClass, d.LastError, len(d.Log), c.want.state, c.want.class)
			}
			if followed.Load() {
				t.Error("the redirect was followed")
			}
			a := d.Log[0].Attempt
			if a == nil || a.Class != c.want.class {
				t.Fatalf("the log has %+v", a)
			}
			if a.Size > 64<<10 || len(a.Excerpt) > 1<<10 {
				t.Errorf("%d bytes were read and %d kept", a.Size, len(a.Excerpt))
			}
			if wait := d.DueAt.Sub(sent); d.State == job.Queued && (wait < 48*time.Second || wait > 73*time.Second) {
				t.Errorf("the first retry comes after %s, want 48 to 72 s", wait)
			}
			if e, err := r.Show(t.Context(), e.ID); err != nil || (e.State == Disabled) != (c.want.class == "gone") {
				t.Errorf("the endpoint is %s (%v)", e.State, err)
			}
		})
	}
}

// settled waits until the delivery's first start has ended, and with a 410
// until the endpoint is disabled.
func (r *rig) settled(id string) DeliveryShown {
	r.t.Helper()
	for {
		d, err := r.Delivery(r.t.Context(), id)
		if err != nil {
			r.t.Fatal(err)
		}
		e, err := r.Show(r.t.Context(), d.Endpoint)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(d.Log) > 0 && d.Log[0].Attempt != nil && (d.LastClass != "gone" || e.State == Disabled) {
			return d
		}
		r.pause()
	}
}

func code(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(n) }
}

func moved(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", n) }
}

func hijack(w http.ResponseWriter) net.Conn {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	return c
}

func hangUp(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_ = hijack(w).Close()
}

func halfBody(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	c := hijack(w)
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
	_ = c.Close()
}

// garble says that its answer is packed, which it is not.
func garble(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	_, _ = io.WriteString(w, "this is no gzip at all")
}

// endless answers for as long as it is heard.
func endless(w http.ResponseWriter, _ *http.Request) {
	for {
		if _, err := w.Write(make([]byte, 32<<10)); err != nil {
			return
		}
	}
}

// bomb is small on the wire and 64 MiB when it is unpacked.
func bomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	for range 64 {
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			return
		}
	}
	_ = z.Close()
}

// One deadline of 30 s holds for headers and body, and the log tells which of
// them it was.
func TestTimeouts(t *testing.T) {
	for _, c := range []struct {
		name, class string
		answer      http.HandlerFunc
	}{
		{"no answer", "header_timeout", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}},
		{"half an answer", "body_timeout", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			pass(20 * time.Second)
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}},
		{"drop by drop", "body_timeout", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, ".")
				w.(http.Flusher).Flush()
				pass(time.Second)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.pipe(c.answer)
				r.add(NewEndpoint{URL: "http://slow.example/"})
				id := r.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID
				pass(40 * time.Second)
				d, err := r.Delivery(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				if len(d.Log) != 1 || d.LastClass != c.class {
					t.Fatalf("%d starts, the last %q, want one %q", len(d.Log), d.LastClass, c.class)
				}
				if took := d.Log[0].EndedAt.Sub(d.Log[0].StartedAt); took != 30*time.Second {
					t.Errorf("it took %s, want 30 s", took)
				}
			})
		})
	}
}

// A connection that nobody answers costs the attempt's time and no more.
func TestConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.transport().DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		r.add(NewEndpoint{URL: "http://silent.example/"})
		id := r.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID
		pass(40 * time.Second)
		d, err := r.Delivery(t.Context(), id)
		if err != nil || len(d.Log) != 1 || d.LastClass != "connect_timeout" {
			t.Fatalf("%d starts, the last %q (%v), want one connect_timeout", len(d.Log), d.LastClass, err)
		}
	})
}

// Retry-After on 429 and 503 is a floor, never shortens, and the whole
// endpoint waits: deliveries that had nothing to do with it too.
func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		name        string
		status      int
		after       string
		first       time.Duration // least wait of the delivery itself
		most        time.Duration
		pausesOther time.Duration
	}{
		{"longer than the schedule", 503, "300", 5 * time.Minute, 5*time.Minute + time.Second, 5 * time.Minute},
		{"shorter", 429, "10", 48 * time.Second, 73 * time.Second, 10 * time.Second},
		{"beyond what is honoured", 429, "86400", 15 * time.Minute, 15*time.Minute + time.Second, 15 * time.Minute},
		{"negative", 429, "-5", 48 * time.Second, 73 * time.Second, 0},
		{"no number", 429, "soon", 48 * time.Second, 73 * time.Second, 0},
		{"more seconds than there are", 503, "99999999999999999999", 48 * time.Second, 73 * time.Second, 0},
		{"the year 9999", 503, "Fri, 31 Dec 9999 23:59:59 GMT", 48 * time.Second, 73 * time.Second, 0},
		{"a date in the past", 503, "Sun, 06 Nov 1994 08:49:37 GMT", 48 * time.Second, 73 * time.Second, 0},
		{"not of these two", 500, "300", 48 * time.Second, 73 * time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				begin := time.Now()
				var calls atomic.Int32
				r.pipe(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if calls.Add(1) == 1 {
						w.Header().Set("Retry-After", c.after)
						w.WriteHeader(c.status)
					}
				}))
				r.add(NewEndpoint{URL: "http://busy.example/"})
				id := r.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID
				pass(time.Second)
				other := r.send(Message{Type: "a.b", Payload: []byte(`{}`)}).Deliveries[0].ID
				pass(20 * time.Minute)
				first, err := r.Delivery(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				second, err := r.Delivery(t.Context(), other)
				if err != nil {
					t.Fatal(err)
				}
				if first.State != job.Succeeded || second.State != job.Succeeded || len(first.Log) != 2 || len(second.Log) != 1 {
					t.Fatalf("%s after %d, %s after %d", first.State, len(first.Log), second.State, len(second.Log))
				}
				if wait := first.Log[1].StartedAt.Sub(first.Log[0].EndedAt); wait < c.first || wait > c.most {
					t.Errorf("tried again after %s, want %s to %s", wait, c.first, c.most)
				}
				// Sent after a second; a lane that was just looked at may rest for another.
				if at := second.Log[0].StartedAt.Sub(begin); at < c.pausesOther || at > c.pausesOther+3*time.Second {
					t.Errorf("the other delivery started after %s, want %s", at, c.pausesOther)
				}
			})
		})
	}
}

// The seed's schedule, all of it: six sends, five waits in their bands, then a
// dead letter; a redrive begins anew under the same webhook-id with a fresh
// timestamp.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := &receiver{calls: make(chan call, 100)}
		r := newRig(t)
		r.pipe(got.handler(status(http.StatusBadGateway)))
		r.add(NewEndpoint{URL: "http://down.example/"})
		event := r.send(Message{Type: "a.b", Payload: []byte(`{"n":1}`)})
		pass(45 * time.Minute)
		d, err := r.Delivery(t.Context(), event.Deliveries[0].ID)
		if err != nil || d.State != job.Failed || d.Attempts != 6 || len(d.Log) != 6 {
			t.Fatalf("%s after %d attempts (%v), want failed after 6", d.State, d.Attempts, err)
		}
		for i, nominal := range []time.Duration{60, 120, 240, 480, 960} {
			nominal *= time.Second
			wait := d.Log[i+1].StartedAt.Sub(d.Log[i].EndedAt)
			if wait < nominal*8/10 || wait > nominal*12/10 {
				t.Errorf("wait %d is %s, want %s ± 20 %%", i+1, wait, nominal)
			}
		}
		if _, err := r.Redrive(t.Context(), d.ID); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		stamps := map[string]bool{}
		if n := len(got.calls); n != 7 {
			t.Fatalf("%d sends, want 7", n)
		}
		for range 7 {
			c := <-got.calls
			if id := c.Header.Get("webhook-id"); id != event.ID {
				t.Errorf("webhook-id %s, want %s", id, event.ID)
			}
			stamps[c.Header.Get("webhook-timestamp")] = true
		}
		if len(stamps) != 7 {
			t.Errorf("%d timestamps of 7 sends", len(stamps))
		}
	})
}
