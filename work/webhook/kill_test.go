package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/worker"
)

// senderVariable makes the test's own program a sender over the database that
// it names, until it is killed.
const senderVariable = "EBB_WEBHOOK_SENDER"

func runSender(path string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	service, err := New(Config{Store: s, Seal: newSealer(1), AllowNetworks: loopback, Lookup: func(string) (string, bool) { return "", false }})
	if err != nil {
		return err
	}
	w, err := worker.New(s, worker.Config{
		Queues: []string{Queue}, Handlers: service.Handlers(), Policies: service.Policies(),
		Lease: time.Second, Beat: 200 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	go func() { _ = service.Run(ctx) }()
	return w.Run(ctx)
}

// counter is a receiver that counts what it gets, by event.
type counter struct {
	mu    sync.Mutex
	got   map[string]int
	total int
	more  chan struct{}
}

func (c *counter) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got[r.Header.Get("Webhook-Id")]++
	c.total++
	select {
	case c.more <- struct{}{}:
	default:
	}
}

func (c *counter) reach(t *testing.T, n int) {
	t.Helper()
	for {
		c.mu.Lock()
		total := c.total
		c.mu.Unlock()
		if total >= n {
			return
		}
		select {
		case <-c.more:
		case <-time.After(5 * time.Minute):
			t.Fatalf("%d deliveries after five minutes without one, want %d", total, n)
		}
	}
}

// sender starts a sender process.
func sender(t *testing.T, path string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), senderVariable+"="+path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Errorf("the sender had ended by itself: %v: %s", err, stderr.String())
		}
		_ = cmd.Wait() // it was killed
	})
}

// inFlight lists the events whose deliveries have begun and not ended, as the
// store has it.
func inFlight(t *testing.T, s store.Store) map[string]bool {
	t.Helper()
	jobs, err := s.List(t.Context(), store.Filter{Kind: Kind, State: job.Running}, store.Page{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	events := map[string]bool{}
	for i := range jobs {
		if jobs[i].Begun { // others are claimed only
			events[jobs[i].Batch] = true
		}
	}
	return events
}

// The sender is killed again and again under load: every event arrives, and
// twice only those that were under way at a kill.
func TestKill(t *testing.T) {
	kills, each := scale(50, 10), 40
	path := filepath.Join(t.TempDir(), "ebb.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	r := stillRig(t, func(c *Config, _ *worker.Config) { c.Store, c.Seal = s, newSealer(1) })
	in := &counter{got: map[string]int{}, more: make(chan struct{}, 1)}
	server := httptest.NewServer(in)
	defer server.Close()
	for i := range 10 {
		r.add(NewEndpoint{URL: server.URL, Types: []string{fmt.Sprintf("to.%d", i)}})
	}
	events := map[string]bool{}
	enqueue := func(n int) {
		for range n {
			events[r.send(Message{Type: fmt.Sprintf("to.%d", len(events)%10), Payload: []byte(`{}`)}).ID] = true
		}
	}
	random := rand.New(rand.NewPCG(7, 11)) //nolint:gosec // moments of kills
	allowed := map[string]int{}
	flights := 0
	for range kills {
		enqueue(each)
		kill := sender(t, path)
		// Killed in the middle of what it has to do.
		in.mu.Lock()
		base := in.total
		in.mu.Unlock()
		in.reach(t, base+1+random.IntN(each/2))
		kill()
		for id := range inFlight(t, s) {
			allowed[id]++
			flights++
		}
	}
	enqueue(each)
	kill := sender(t, path)
	defer kill()
	r.drained(s, len(events))
	kill()
	in.mu.Lock()
	defer in.mu.Unlock()
	twice := 0
	for id := range events {
		switch n := in.got[id]; {
		case n == 0:
			t.Errorf("%s was never received", id)
		case n-1 > allowed[id]:
			t.Errorf("%s was received %d times and was under way at %d kills", id, n, allowed[id])
		default:
			twice += n - 1
		}
	}
	t.Logf("%d kills, %d events, %d requests: %d duplicates among %d that were under way at a kill", kills, len(events), in.total, twice, flights)
}

// drained waits until so many deliveries have ended: in one read, since a dead
// process's deliveries go from running to queued at any moment.
func (r *rig) drained(s store.Store, deliveries int) {
	r.t.Helper()
	for {
		queues, err := s.Queues(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		var ended int64
		for _, q := range queues {
			if q.Name == Queue {
				ended = q.Counts[job.Succeeded] + q.Counts[job.Failed] + q.Counts[job.Parked] + q.Counts[job.Cancelled]
			}
		}
		if ended >= int64(deliveries) {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}
