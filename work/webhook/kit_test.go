package webhook

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/worker"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(senderVariable); path != "" {
		fmt.Fprintln(os.Stderr, runSender(path))
		os.Exit(1)
	}
	code := pgtest.RunWith(m, pgtest.Config{NoSync: true})
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// sealer is AES-GCM, as package access has it.
type sealer struct{ aead cipher.AEAD }

func newSealer(key byte) sealer {
	block, err := aes.NewCipher([]byte{31: key})
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return sealer{aead}
}

func (s sealer) Seal(secret []byte, label string) ([]byte, error) {
	return s.aead.Seal(nil, nil, secret, []byte(label)), nil
}

func (s sealer) Open(sealed []byte, label string) ([]byte, error) {
	return s.aead.Open(nil, nil, sealed, []byte(label))
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// rig is webhook delivery with a worker, on a store in memory.
type rig struct {
	t *testing.T
	*Service
	store  store.Store
	worker *worker.Worker

	mu     sync.Mutex
	events []worker.Event
}

// newRig starts a worker and the upkeep, which end with the test.
func newRig(t *testing.T, change ...func(*Config, *worker.Config)) *rig {
	t.Helper()
	r := stillRig(t, change...)
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, f := range []func(context.Context) error{r.worker.Run, r.Run} {
		group.Go(func() {
			if err := f(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		stop()
		r.worker.Stop()
		r.worker.Stop()
		group.Wait()
		r.Close()
	})
	return r
}

// onDisk keeps the rig in SQLite.
func onDisk(t *testing.T) func(*Config, *worker.Config) {
	return func(c *Config, _ *worker.Config) {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ebb.db"), sqlite.Options{WakeEvery: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		c.Store = s
	}
}

// stillRig is a rig whose worker does not run.
func stillRig(t *testing.T, change ...func(*Config, *worker.Config)) *rig {
	t.Helper()
	r := &rig{t: t}
	c := Config{
		Store: memory.New(memory.Config{}), Seal: newSealer(1), AllowNetworks: loopback,
		Lookup: func(string) (string, bool) { return "", false },
	}
	w := worker.Config{Queues: []string{Queue}, Seed: 7, Observe: r.note}
	for _, f := range change {
		f(&c, &w)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r.Service, r.store = s, c.Store
	w.Handlers, w.Policies = s.Handlers(), s.Policies()
	if r.worker, err = worker.New(c.Store, w); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) note(e worker.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *rig) add(n NewEndpoint) (Endpoint, string) {
	r.t.Helper()
	e, secret, err := r.Add(r.t.Context(), n)
	if err != nil {
		r.t.Fatal(err)
	}
	return e, secret
}

func (r *rig) send(m Message) Event {
	r.t.Helper()
	e, err := r.Send(r.t.Context(), m)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// call is one request that a receiver got.
type call struct {
	At     time.Time
	Header http.Header
	Body   []byte
	Path   string
}

// receiver answers as its function says and remembers what it got.
type receiver struct {
	URL   string
	calls chan call
}

// receive starts a receiver on loopback.
func receive(t *testing.T, answer func(w http.ResponseWriter, c call)) *receiver {
	t.Helper()
	r := &receiver{calls: make(chan call, 10_000)}
	server := httptest.NewServer(r.handler(answer))
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

func (r *receiver) handler(answer func(w http.ResponseWriter, c call)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c := call{At: time.Now(), Header: req.Header, Body: body, Path: req.URL.Path}
		r.calls <- c
		answer(w, c)
	})
}

// await waits until the delivery stands there.
func (r *rig) await(id string, want string) DeliveryShown {
	r.t.Helper()
	for {
		d, err := r.Delivery(r.t.Context(), id)
		if err != nil {
			r.t.Fatal(err)
		}
		if string(d.State) == want {
			return d
		}
		r.pause()
	}
}

// pause is a moment between two looks; a test that looks for ever ends by
// go test's own timeout.
func (r *rig) pause() { <-time.After(2 * time.Millisecond) }
