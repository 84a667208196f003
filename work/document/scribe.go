package document

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ebbhq/ebb/store"
)

// scribe writes what several starts want written at the same time in one
// transaction: each waits for one flush of the disk, and not for those of the
// others too.
type scribe struct {
	records store.Records

	mu      sync.Mutex
	waiting []*pending
	busy    bool
}

// pending is a write that waits for its turn.
type pending struct {
	write store.Write
	done  chan error
}

// maxTogether bounds the writes of one transaction.
const maxTogether = 64

// write does one write, perhaps together with others. It does not end with the
// context: whoever writes has paid for what it says.
func (s *scribe) write(ctx context.Context, w store.Write) error {
	p := &pending{write: w, done: make(chan error, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, p)
	lead := !s.busy
	s.busy = true
	s.mu.Unlock()
	if lead {
		go s.lead(context.WithoutCancel(ctx)) // who came first does not wait for all who follow
	}
	return <-p.done
}

// lead writes until nobody waits.
func (s *scribe) lead(ctx context.Context) {
	for {
		s.mu.Lock()
		n := min(len(s.waiting), maxTogether)
		if n == 0 {
			s.busy = false
			s.mu.Unlock()
			return
		}
		group := s.waiting[:n:n]
		s.waiting = s.waiting[n:]
		s.mu.Unlock()
		s.together(ctx, group)
	}
}

// together writes a group. Where somebody else was faster with a record of one
// of them, each is written alone: only that one is refused.
func (s *scribe) together(ctx context.Context, group []*pending) {
	var all store.Write
	for _, p := range group {
		all.Puts = append(all.Puts, p.write.Puts...)
		all.Drops = append(all.Drops, p.write.Drops...)
	}
	err := s.one(ctx, all)
	alone := len(group) == 1
	for _, p := range group {
		if !alone && errors.Is(err, store.ErrConflict) {
			p.done <- s.one(ctx, p.write)
			continue
		}
		p.done <- err
	}
}

func (s *scribe) one(ctx context.Context, w store.Write) error {
	ctx, cancel := context.WithTimeout(ctx, captureTime)
	defer cancel()
	_, err := s.records.Write(ctx, time.Time{}, w)
	return err
}
