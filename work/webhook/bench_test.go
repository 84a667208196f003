package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/worker"
)

const benchEndpoints = 20

// sink counts what arrives and tells when it was enough.
func sink(b *testing.B, n int) (url string, done chan struct{}) {
	b.Helper()
	done = make(chan struct{})
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		if n--; n == 0 {
			close(done)
		}
	}))
	b.Cleanup(server.Close)
	return server.URL, done
}

var benchPayload = bytes.Repeat([]byte("x"), 500)

// BenchmarkBareClient is what there is to gain: a client with as many
// connections and nothing else.
func BenchmarkBareClient(b *testing.B) {
	url, done := sink(b, b.N)
	transport := &http.Transport{MaxIdleConns: 20, MaxIdleConnsPerHost: 20}
	defer transport.CloseIdleConnections()
	work := make(chan struct{}, b.N)
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	b.ResetTimer()
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			for range work {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(benchPayload))
				if err != nil {
					b.Error(err)
					return
				}
				resp, err := transport.RoundTrip(req)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	<-done
	group.Wait()
}

// BenchmarkDeliver drains a backlog over SQLite.
func BenchmarkDeliver(b *testing.B) {
	ctx, stop := context.WithCancel(context.Background())
	s, err := sqlite.Open(ctx, filepath.Join(b.TempDir(), "ebb.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	service, err := New(Config{Store: s, Seal: newSealer(1), AllowNetworks: loopback})
	if err != nil {
		b.Fatal(err)
	}
	url, done := sink(b, b.N)
	for i := range benchEndpoints {
		if _, _, err := service.Add(ctx, NewEndpoint{URL: url, Types: []string{fmt.Sprintf("to.%d", i)}}); err != nil {
			b.Fatal(err)
		}
	}
	var senders sync.WaitGroup
	for k := range 16 {
		senders.Go(func() {
			for i := k; i < b.N; i += 16 {
				if _, err := service.Send(ctx, Message{Type: fmt.Sprintf("to.%d", i%benchEndpoints), Payload: benchPayload}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	began := time.Now()
	senders.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "sends/s")
	w, err := worker.New(s, worker.Config{Queues: []string{Queue}, Handlers: service.Handlers(), Policies: service.Policies()})
	if err != nil {
		b.Fatal(err)
	}
	var group sync.WaitGroup
	b.ResetTimer()
	group.Go(func() { _ = w.Run(ctx) })
	group.Go(func() { _ = service.Run(ctx) })
	<-done
	b.StopTimer()
	stop()
	group.Wait()
	if err := s.Close(); err != nil {
		b.Error(err)
	}
}
