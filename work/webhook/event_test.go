package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/worker"
)

func TestIdempotencyKey(t *testing.T) {
	r := stillRig(t)
	r.add(NewEndpoint{URL: "https://a.example/"})
	r.add(NewEndpoint{URL: "https://b.example/"})
	m := Message{Type: "a.b", Payload: []byte(`{"n":1}`), Key: "order-17"}
	first := r.send(m)
	again := r.send(m)
	if again.Replayed == first.Replayed || !again.Replayed {
		t.Errorf("replayed: %t, then %t", first.Replayed, again.Replayed)
	}
	one, two := mustJSON(t, first), mustJSON(t, again)
	if !bytes.Equal(one, two) || first.Fanout != 2 {
		t.Errorf("the same message answered\n%s, then\n%s", one, two)
	}
	for name, change := range map[string]func(*Message){
		"payload": func(m *Message) { m.Payload = []byte(`{"n":2}`) },
		"type":    func(m *Message) { m.Type = "a.c" },
		"order":   func(m *Message) { m.Order = "x" },
	} {
		other := m
		change(&other)
		if _, err := r.Send(t.Context(), other); !errors.Is(err, ErrConflict) {
			t.Errorf("another %s under the key: %v, want ErrConflict", name, err)
		}
	}
	elsewhere := m
	elsewhere.Owner = "acme"
	if e := r.send(elsewhere); e.Replayed || e.ID == first.ID {
		t.Error("another owner's key is the same key")
	}
	list, err := r.Deliveries(t.Context(), DeliveryFilter{}, engine.Page{})
	if err != nil || len(list.Deliveries) != 2 {
		t.Errorf("%d deliveries (%v), want 2", len(list.Deliveries), err)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Of sends that race under one key one is done, and all answer alike.
func TestIdempotencyKeyRaced(t *testing.T) {
	r := stillRig(t)
	r.add(NewEndpoint{URL: "https://a.example/"})
	var group sync.WaitGroup
	answers := make([]string, 16)
	for i := range answers {
		group.Go(func() {
			e, err := r.Send(t.Context(), Message{Type: "a.b", Payload: []byte(`{}`), Key: "k"})
			if err != nil {
				t.Error(err)
				return
			}
			answers[i] = e.ID + e.Deliveries[0].ID
		})
	}
	group.Wait()
	if slices.Sort(answers); answers[0] != answers[15] {
		t.Errorf("different answers: %v", answers)
	}
}

// The key is forgotten with its time.
func TestIdempotencyKeyExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := stillRig(t)
		m := Message{Type: "a.b", Payload: []byte(`{}`), Key: "k"}
		first := r.send(m)
		pass(24*time.Hour - time.Second)
		if e := r.send(m); e.ID != first.ID {
			t.Error("forgotten too early")
		}
		pass(2 * time.Second)
		if e := r.send(m); e.ID == first.ID || e.Replayed {
			t.Error("still known after a day")
		}
	})
}

func TestWants(t *testing.T) {
	for _, c := range []struct {
		types string
		yes   string
		no    string
	}{
		{"", "a a.b invoice.paid", "webhook.endpoint.disabled webhook.test"},
		{"invoice.paid", "invoice.paid", "invoice invoice.paid.late invoice.failed webhook.endpoint.disabled"},
		{"invoice.*", "invoice.paid invoice.paid.late", "invoice invoices.paid"},
		{"*", "a invoice.paid", "webhook.endpoint.disabled"},
		{"a webhook.*", "a webhook.endpoint.disabled", "b"},
		{"webhook.endpoint.disabled", "webhook.endpoint.disabled", "webhook.test a"},
	} {
		d := &endpointDoc{Types: strings.Fields(c.types)}
		for _, kind := range strings.Fields(c.yes) {
			if !d.wants(kind) {
				t.Errorf("%q does not want %s", c.types, kind)
			}
		}
		for _, kind := range strings.Fields(c.no) {
			if d.wants(kind) {
				t.Errorf("%q wants %s", c.types, kind)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	r := stillRig(t, func(c *Config, _ *worker.Config) { c.MaxPayload, c.HTTPSOnly = 10, true })
	for _, n := range []NewEndpoint{
		{},
		{URL: "ftp://a.example"},
		{URL: "http://a.example"},
		{URL: "https://"},
		{URL: "https://user:pw@a.example"},
		{URL: "https://a.example/#x"},
		{URL: "https://2130706433/"},
		{URL: "https://0x7f000001/"},
		{URL: "https://0177.0.0.1/"},
		{URL: "https://127.1/"},
		{URL: "https://127.0.0.1./"},
		{URL: "https://a.0x1f/"},
		{URL: "https://127。0。0。1/"},
		{URL: "https://①②⑦.0.0.1/"},
		{URL: "https://a.example", Description: strings.Repeat("d", 3000)},
		{URL: "https://a.example", Description: "\xff"},
		{URL: "https://a.example", Headers: map[string]string{"X-A": "1", "x-a": "2"}},
		{URL: "https://a.example", Headers: map[string]string{"X-A": strings.Repeat("a", 17<<10)}},
		{URL: "https://a.example:0/"},
		{URL: "https://a.example:70000/"},
		{URL: "https://a.example/" + strings.Repeat("x", 3000)},
		{URL: "https://a.example", Types: []string{"a b"}},
		{URL: "https://a.example", Types: []string{"a*"}},
		{URL: "https://a.example", Types: []string{"*.a"}},
		{URL: "https://a.example", Headers: map[string]string{"Host": "b"}},
		{URL: "https://a.example", Headers: map[string]string{"webhook-id": "b"}},
		{URL: "https://a.example", Headers: map[string]string{"a b": "c"}},
		{URL: "https://a.example", Headers: map[string]string{"a": "c\r\nd: e"}},
		{URL: "https://a.example", Secret: "whsec_c2hvcnQ="},
		{URL: "https://a.example", Secret: "hello"},
		{URL: "https://a.example", Owner: "a\x00b"},
		{URL: "https://a.example", Policy: "nonesuch"},
	} {
		if _, _, err := r.Add(t.Context(), n); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v, want it refused", n, err)
		}
	}
	for _, m := range []Message{
		{},
		{Type: "webhook.test"},
		{Type: "a..b"},
		{Type: "a", Payload: make([]byte, 11)},
		{Type: "a", Key: strings.Repeat("k", 257)},
		{Type: "a", ContentType: "a\nb"},
		{Type: "a", Order: "\xff"},
	} {
		if _, err := r.Send(t.Context(), m); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v, want it refused", m, err)
		}
	}
	for name, err := range map[string]error{
		"endpoint": second(r.Show(t.Context(), "ep_none")),
		"event":    second(r.Event(t.Context(), "evt_none")),
		"delivery": second(r.Delivery(t.Context(), "0000000000009")),
		"redrive":  second(r.Redrive(t.Context(), "nonsense")),
		"remove":   r.Remove(t.Context(), "ep_none"),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// An event goes to the endpoints that its owner has at that moment.
func TestOwners(t *testing.T) {
	r := stillRig(t)
	for i := range 3 {
		r.add(NewEndpoint{URL: fmt.Sprintf("https://acme-%d.example/", i), Owner: "acme"})
		if e := r.send(Message{Type: "a.b", Payload: []byte(`{}`), Owner: "acme"}); e.Fanout != i+1 {
			t.Errorf("to %d endpoints, want %d", e.Fanout, i+1)
		}
	}
	if e := r.send(Message{Type: "a.b", Payload: []byte(`{}`)}); e.Fanout != 0 {
		t.Errorf("an event of nobody went to %d endpoints of acme", e.Fanout)
	}
	list, err := r.List(t.Context(), EndpointFilter{Owner: "acme"}, engine.Page{Limit: 2})
	if err != nil || len(list.Endpoints) != 2 || list.Next != list.Endpoints[1].ID {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := r.Remove(t.Context(), list.Endpoints[0].ID); err != nil {
		t.Fatal(err)
	}
	if e := r.send(Message{Type: "a.b", Payload: []byte(`{}`), Owner: "acme"}); e.Fanout != 2 {
		t.Errorf("to %d endpoints after a removal, want 2", e.Fanout)
	}
	events, err := r.Events(t.Context(), EndpointFilter{Owner: "acme"}, engine.Page{})
	if err != nil || len(events.Events) != 4 || events.Events[0].Fanout != 2 {
		t.Errorf("%+v, %v", events, err)
	}
}

// Another process sees an endpoint as soon as it was added.
func TestOtherProcessIsNotBehind(t *testing.T) {
	a := stillRig(t)
	b := stillRig(t, func(c *Config, _ *worker.Config) { c.Store = a.store })
	for i := range 3 {
		a.add(NewEndpoint{URL: "https://a.example/"})
		if e := b.send(Message{Type: "a.b", Payload: []byte(`{}`)}); e.Fanout != i+1 {
			t.Errorf("to %d endpoints, want %d", e.Fanout, i+1)
		}
	}
}

// Events of one order arrive one at a time as they were sent, though one must
// be tried again; a dead letter lets the next go, or with Blocks does not.
func TestOrder(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		t.Run(fmt.Sprintf("blocks=%t", blocks), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var got []string
				tries := map[string]int{}
				r := newRig(t)
				in := &receiver{calls: make(chan call, 100)}
				r.pipe(in.handler(func(w http.ResponseWriter, c call) {
					mu.Lock()
					defer mu.Unlock()
					body := string(c.Body)
					tries[body]++
					if body == "3" || body == "1" && tries[body] == 1 {
						w.WriteHeader(http.StatusInternalServerError)
						return
					}
					got = append(got, body)
				}))
				r.add(NewEndpoint{URL: "http://a.example/"})
				for i := range 6 {
					r.send(Message{Type: "a.b", Payload: fmt.Append(nil, i), Order: "account-1", Blocks: blocks})
				}
				pass(2 * time.Minute)
				mu.Lock()
				if want := []string{"0", "1", "2"}; !slices.Equal(got, want) {
					t.Errorf("after two minutes %v, want %v", got, want)
				}
				mu.Unlock()
				pass(2 * time.Hour)
				mu.Lock()
				defer mu.Unlock()
				want := []string{"0", "1", "2", "4", "5"}
				if blocks {
					want = want[:3]
				}
				if !slices.Equal(got, want) || tries["3"] != 6 {
					t.Errorf("at last %v, the third tried %d times, want %v", got, tries["3"], want)
				}
			})
		})
	}
}

// Payloads come out of a job's arguments as they went in.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payload := rapid.SliceOf(rapid.Byte()).Draw(t, "payload")
		in := envelope{Event: "evt_1", Type: rapid.String().Draw(t, "type"), SentAt: time.Unix(1, 0).UTC()}
		args, err := pack(in, payload)
		if err != nil {
			t.Fatal(err)
		}
		out, got, err := unpack(args)
		if err != nil || !bytes.Equal(got, payload) || out.Event != in.Event {
			t.Fatalf("%+v %q, %v", out, got, err)
		}
	})
	for _, args := range []string{"", "{}", "{}\n", "nonsense\n{}", `{"event":""}` + "\n"} {
		if _, _, err := unpack([]byte(args)); !errors.Is(err, errArgs) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// A job of our kind that somebody else enqueued fails at once and says why.
func TestForeignArgs(t *testing.T) {
	r := newRig(t)
	done, err := r.store.Enqueue(t.Context(), time.Time{}, []job.New{{Kind: Kind, Queue: Queue, Target: "ep_1", Policy: PolicyName, Args: []byte("{}")}})
	if err != nil {
		t.Fatal(err)
	}
	d := r.await(job.FormatID(done[0].Seq), "failed")
	if d.LastClass != "invalid_input" || !strings.Contains(d.LastError, "want one line of JSON") {
		t.Errorf("%s: %s", d.LastClass, d.LastError)
	}
}
