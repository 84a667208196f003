package document

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/store"
)

// pace keeps a provider's tokens a minute, over all processes: a call books
// what it may use before it is made, and what is booked never exceeds the
// limit. A document whose time is far off comes back then, without spending an
// attempt.
type pace struct {
	perMinute int64 // 0 = no limit

	mu     sync.Mutex // one booking of this process at a time
	credit int64      // booked here and not used
}

// booked is the record of a provider. Tokens flow in evenly; up to a minute's
// worth may be used at once.
type booked struct {
	// FullAt is when everything that is booked has flowed in.
	FullAt time.Time `json:"full_at"`
	// Turns are the documents that wait for theirs.
	Turns map[string]time.Time `json:"turns,omitempty"`
}

const (
	// patienceOfSlot is how long a start waits for its turn rather than come
	// back.
	patienceOfSlot = 2 * time.Second
	// maxTurns bounds who has a turn of his own; others come back later and
	// ask again.
	maxTurns = 256
	// turnKept is for how long a turn that passed can still be taken.
	turnKept = time.Minute
)

// admit returns nil when the call may be made, or failure.Snooze.
func (p *pace) admit(ctx context.Context, s *Service, provider, id string, tokens int64) error {
	if p.perMinute <= 0 {
		return nil
	}
	wait, err := p.book(ctx, s, provider, id, tokens)
	if err != nil {
		return err
	}
	if wait <= 0 {
		return nil
	}
	if wait <= patienceOfSlot {
		return clock.Sleep(ctx, s.clock, wait)
	}
	return failure.Snooze(wait)
}

func (p *pace) book(ctx context.Context, s *Service, provider, id string, tokens int64) (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := min(p.credit, tokens)
	for range maxRaces {
		b, version, err := load[booked](ctx, s, paceKind, provider)
		if err != nil {
			return 0, err
		}
		wait, changed := b.book(id, s.clock.Now(), tokens-used, p.perMinute)
		if !changed {
			return wait, nil
		}
		err = s.save(ctx, store.Write{Puts: []store.Record{{Kind: paceKind, ID: provider, Version: version, Body: body(b)}}})
		switch {
		case err == nil:
			p.credit -= used
			return wait, nil
		case !errors.Is(err, store.ErrConflict):
			return 0, err
		}
	}
	return 0, failure.New(failure.Unavailable, "pace_contended", fmt.Errorf("document: provider %s: others change its pace all the time", provider))
}

// book gives the document its turn: how long until then, and whether anything
// was written down. It is pure.
func (b *booked) book(id string, now time.Time, tokens, perMinute int64) (time.Duration, bool) {
	if at, ok := b.Turns[id]; ok {
		if wait := at.Sub(now); wait > 0 {
			return wait, false
		}
		delete(b.Turns, id)
		return 0, true
	}
	for other, at := range b.Turns {
		if now.Sub(at) > turnKept {
			delete(b.Turns, other)
		}
	}
	tokens = min(tokens, perMinute) // what is larger than a minute's waits for a whole one
	if b.FullAt.Before(now) {
		b.FullAt = now
	}
	full := b.FullAt.Add(time.Duration(float64(tokens) / float64(perMinute) * float64(time.Minute)))
	wait := max(0, full.Sub(now)-time.Minute)
	if wait > patienceOfSlot {
		if len(b.Turns) >= maxTurns {
			return wait, false
		}
		if b.Turns == nil {
			b.Turns = map[string]time.Time{}
		}
		b.Turns[id] = now.Add(wait)
	}
	b.FullAt = full
	return wait, true
}

// used tells what a call used of what it booked.
func (p *pace) used(booked, used int64) {
	if p.perMinute <= 0 || used <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.credit = max(0, p.credit+booked-used)
}
