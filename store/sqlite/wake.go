package sqlite

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"time"
)

// token is what a wake writes: never the same twice.
type token [16]byte

// signal tells this and other processes that jobs became claimable. Across
// processes it is a file beside the database whose first bytes change. A wake
// that a crash swallows is made good by the worker's own poll.
type signal struct {
	file  *os.File
	every time.Duration

	mu      sync.Mutex
	waiting map[chan struct{}]struct{}
}

// openSignal opens or creates the file PATH-wake.
func openSignal(path string, every time.Duration) (*signal, error) {
	file, err := os.OpenFile(path+"-wake", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sqlite: open: the file for wakes: %w", err)
	}
	return &signal{file: file, every: every, waiting: map[chan struct{}]struct{}{}}, nil
}

func (g *signal) close() error { return g.file.Close() }

// read returns the last token written. What cannot be read has not changed.
func (g *signal) read(last token) token {
	now := last
	if n, _ := g.file.ReadAt(now[:], 0); n < len(now) {
		return last
	}
	return now
}

// wake writes a new token and tells who waits in this process. The token goes
// first: who is told must see whatever an overwritten token stood for.
func (s *Store) wake() {
	g := s.signal
	if g == nil {
		return
	}
	var t token
	_, _ = rand.Read(t[:]) // never fails
	_, _ = g.file.WriteAt(t[:], 0)
	g.mu.Lock()
	defer g.mu.Unlock()
	for ch := range g.waiting {
		tell(ch)
	}
}

func tell(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // one wake says it all
	}
}

// Wakes receives after anything became queued, here or in another process.
func (s *Store) Wakes(ctx context.Context) (<-chan struct{}, error) {
	select {
	case <-s.closed:
		return nil, errClosed
	default:
	}
	g, ch := s.signal, make(chan struct{}, 1)
	g.mu.Lock()
	g.waiting[ch] = struct{}{}
	g.mu.Unlock()
	last := g.read(token{})
	go func() {
		defer g.forget(ch)
		ticker := time.NewTicker(g.every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.closed:
				return
			case <-ticker.C:
			}
			if now := g.read(last); now != last {
				last = now
				tell(ch)
			}
		}
	}()
	return ch, ctx.Err()
}

func (g *signal) forget(ch chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.waiting, ch)
	close(ch)
}
