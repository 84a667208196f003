package webhook

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ebbhq/ebb/store"
)

// journal writes the log of failed attempts: several in one transaction while
// upkeep runs, each at once while it does not. It is for people: a crash may
// lose the last ones, the ledger never does.
type journal struct {
	service *Service

	mu      sync.Mutex
	running bool
	waiting []entry
	some    chan struct{} // something waits
}

type entry struct {
	delivery string
	attempt  *Attempt
}

func newJournal(s *Service) *journal { return &journal{service: s, some: make(chan struct{}, 1)} }

func (l *journal) add(ctx context.Context, delivery string, a *Attempt) {
	l.mu.Lock()
	l.waiting = append(l.waiting, entry{delivery, a})
	running := l.running
	l.mu.Unlock()
	if !running {
		l.flush(context.WithoutCancel(ctx)) // the attempt's time may be up
		return
	}
	select {
	case l.some <- struct{}{}:
	default:
	}
}

// flush writes what waits.
func (l *journal) flush(ctx context.Context) {
	s := l.service
	l.mu.Lock()
	batch := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	expires := s.now().Add(s.config.AttemptsKept)
	for len(batch) > 0 {
		part := batch[:min(len(batch), flushRows)]
		batch = batch[len(part):]
		var w store.Write
		seen := map[string]bool{}
		for _, e := range part {
			id := attemptID(e.delivery, e.attempt.Start)
			if seen[id] { // a start that was begun twice, by a lost lease
				continue
			}
			seen[id] = true
			w.Puts = append(w.Puts, store.Record{Kind: recordAttempt, ID: id, Ref: e.delivery, Version: store.AnyVersion, ExpiresAt: expires, Body: e.attempt.encode()})
		}
		if _, err := s.store.Write(ctx, s.storeNow(), w); err != nil {
			s.config.Log.Warn("webhook: the log of attempts could not be written", "attempts", len(part)+len(batch), "error", err)
			return
		}
	}
}

const (
	flushTimeout = 10 * time.Second
	flushRows    = 500
)

// attemptID sorts by the number of the start.
func attemptID(delivery string, start int) string { return fmt.Sprintf("%s.%06d", delivery, start) }
