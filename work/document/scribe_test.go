package document

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

// slow is a store whose writes take a while and are counted.
type slow struct {
	*memory.Store
	mu     sync.Mutex
	writes []int // how many records each had
	bad    error
}

func (s *slow) Write(ctx context.Context, now time.Time, w store.Write) ([]store.Enqueued, error) {
	s.mu.Lock()
	s.writes = append(s.writes, len(w.Puts))
	s.mu.Unlock()
	_ = clock.Sleep(context.WithoutCancel(ctx), clock.System{}, time.Millisecond)
	if s.bad != nil {
		return nil, s.bad
	}
	return s.Store.Write(ctx, now, w)
}

func put(id string, version int64) store.Write {
	return store.Write{Puts: []store.Record{{Kind: "k", ID: id, Version: version, Body: []byte("x")}}}
}

// TestTogether: writes that meet are one transaction; one that is refused does
// not refuse its neighbours; one that fails fails all of its group.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := &slow{Store: memory.New(memory.Config{})}
		defer func() { _ = records.Close() }()
		s := &scribe{records: records}
		all := func(n int, version func(i int) int64) []error {
			errs := make([]error, n)
			var group sync.WaitGroup
			for i := range n {
				group.Go(func() { errs[i] = s.write(t.Context(), put(fmt.Sprint(i), version(i))) })
			}
			group.Wait()
			return errs
		}
		for i, err := range all(100, func(int) int64 { return 0 }) {
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		if n := len(records.writes); n > 3 || slices.Max(records.writes) > maxTogether {
			t.Errorf("%d records a write", records.writes)
		}
		for i, err := range all(10, func(i int) int64 { return int64(i % 2) }) { // the even ones are there already
			if conflict := errors.Is(err, store.ErrConflict); conflict != (i%2 == 0) || err != nil && !conflict {
				t.Errorf("%d: %v", i, err)
			}
		}
		records.bad = errors.New("no")
		for i, err := range all(3, func(int) int64 { return store.AnyVersion }) {
			if !errors.Is(err, records.bad) {
				t.Errorf("%d: %v", i, err)
			}
		}
	})
}
