package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/store"
)

// A process that writes all the time still beats in time: the beat waits for
// the transaction under way, not for those behind it.
func TestBeatOvertakesWaitingWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.Context(), filepath.Join(t.TempDir(), "ebb.db"), Options{Relaxed: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		p, err := s.Register(t.Context(), time.Time{}, store.Process{Host: "h"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.lock(t.Context(), inTurn); err != nil {
			t.Fatal(err)
		}
		type seen struct {
			writer int
			beat   int64
		}
		var order []seen // written under the lock
		for writer := range 3 {
			go func() {
				err := s.write(t.Context(), "test", time.Time{}, func(tx *tx) error {
					r, err := tx.one(tx.ctx, "beat_of", p.ID)
					order = append(order, seen{writer, r.int(0)})
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait() // it stands in the line
		}
		go func() {
			if _, err := s.Beat(t.Context(), time.Time{}, p.ID); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		s.unlock()
		if err := s.lock(t.Context(), inTurn); err != nil { // behind them all
			t.Fatal(err)
		}
		defer s.unlock()
		if want := []seen{{0, 1}, {1, 1}, {2, 1}}; !slices.Equal(order, want) {
			t.Errorf("writers and the beats they saw: got %v, want %v", order, want)
		}
	})
}

// Who gives up leaves the line; who gives up too late passes its turn on.
func TestLineIsNotHeldByThoseWhoGaveUp(t *testing.T) {
	var l line
	<-l.enter(inTurn)
	gone, next, last, beat := l.enter(inTurn), l.enter(inTurn), l.enter(inTurn), l.enter(goesFirst)
	l.giveUp(gone)
	l.giveUp(beat)
	l.leave()
	if !called(next) || called(last) || called(gone) || called(beat) {
		t.Fatalf("called: next %t, last %t, gone %t, beat %t; want only the next", called(next), called(last), called(gone), called(beat))
	}
	l.giveUp(next) // its turn has come already
	if !called(last) {
		t.Fatal("a turn that nobody took was not passed on")
	}
	l.leave()
	if !called(l.enter(inTurn)) {
		t.Error("the line is empty and lets nobody in")
	}
}

func called(turn chan struct{}) bool {
	select {
	case <-turn:
		return true
	default:
		return false
	}
}

// A caller whose context ends while it waits is let go, and the lock is free
// for the next.
func TestWaitingWriterEndsWithItsContext(t *testing.T) {
	s, err := newStore(filepath.Join(t.TempDir(), "ebb.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.lock(t.Context(), inTurn); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, r := range []rank{inTurn, goesFirst} {
		if err := s.lock(ctx, r); !errors.Is(err, context.Canceled) {
			t.Errorf("rank %d: got %v, want the context's error", r, err)
		}
	}
	s.unlock()
	if err := s.lock(t.Context(), inTurn); err != nil {
		t.Error(err)
	}
	s.unlock()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
