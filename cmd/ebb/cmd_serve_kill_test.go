package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ebbhq/ebb/store/pgtest"
)

// keyedProducer enqueues with idempotency keys at a server that is killed.
type keyedProducer struct {
	t     *testing.T
	token string

	mu   sync.Mutex
	base string
	ids  map[string]string // by key: the first answer's job; empty = none yet
}

// ask enqueues with a key, and fails the test if a second answer names another
// job than the first.
func (p *keyedProducer) ask(key string) bool {
	p.mu.Lock()
	base := p.base
	p.mu.Unlock()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, base+"/v1/jobs", strings.NewReader(`{"kind":"k","batch":"`+key+`"}`))
	if err != nil {
		p.t.Error(err)
		return false
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return false // the server is dead
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return false
	}
	var made struct{ ID string }
	if response.StatusCode == http.StatusServiceUnavailable {
		return false
	}
	if err := json.Unmarshal(text, &made); err != nil || response.StatusCode != http.StatusCreated {
		p.t.Errorf("key %s: %d %s", key, response.StatusCode, text)
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.ids[key]; before != "" && before != made.ID {
		p.t.Errorf("key %s: job %s, then %s", key, before, made.ID)
	}
	p.ids[key] = made.ID
	return true
}

// produce asks with keys of its own until the server is dead, and returns
// those.
func (p *keyedProducer) produce(name string, answered chan<- struct{}) (keys []string) {
	for i := 0; ; i++ {
		keys = append(keys, fmt.Sprintf("%s-%d", name, i))
		if !p.ask(keys[i]) {
			return keys
		}
		answered <- struct{}{}
	}
}

// TestServeKilledWhileEnqueuing: whatever a killed server has done of a request
// with a key, asking again ends with one job of that key.
func TestServeKilledWhileEnqueuing(t *testing.T) {
	for name, db := range map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "ebb.db"), "postgres": pgtest.Database(t)} {
		t.Run(name, func(t *testing.T) { killWhileEnqueuing(t, db) })
	}
}

func killWhileEnqueuing(t *testing.T, db string) {
	config := filepath.Join(t.TempDir(), "ebb.yaml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var token, stderr bytes.Buffer
	if code := run(t.Context(), []string{"token", "create", "shop", "--scope", "produce", "--db", db}, nil, &token, &stderr, noEnv); code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	p := &keyedProducer{t: t, token: strings.TrimSpace(token.String()), ids: map[string]string{}}
	const kills, producers = 3, 4
	for round := range kills {
		s := startServer(t, db, config)
		p.base = s.base
		keys := make([][]string, producers)
		answered := make(chan struct{}, 100_000)
		var group sync.WaitGroup
		for i := range producers {
			group.Go(func() { keys[i] = p.produce(fmt.Sprintf("%d-%d", round, i), answered) })
		}
		for range 40 {
			<-answered
		}
		if err := s.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = s.cmd.Wait() // killed
		group.Wait()
		s = startServer(t, db, config)
		p.base = s.base
		for _, list := range keys {
			for _, key := range list[max(0, len(list)-3):] { // the one whose answer was lost, and some before
				if !p.ask(key) {
					t.Fatalf("key %s is not answered", key)
				}
			}
		}
		s.stop(t)
	}
	var out bytes.Buffer
	if code := run(t.Context(), []string{"queue", "list", "--json", "--db", db}, nil, &out, &stderr, noEnv); code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	var list struct {
		Queues []struct{ Counts map[string]int }
	}
	if err := json.Unmarshal(out.Bytes(), &list); err != nil || len(list.Queues) != 1 {
		t.Fatalf("%v: %s", err, out.String())
	}
	if got := list.Queues[0].Counts["queued"]; got != len(p.ids) {
		t.Errorf("%d jobs of %d keys", got, len(p.ids))
	}
}
