package main

import (
	"context"
	"time"

	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/worker"
)

// noRoom is a write of the upkeep that the disk had no room for.
type noRoom struct {
	at  time.Time
	err error
}

// note remembers what keeps the server from its work.
func (v *service) note(e worker.Event) {
	if e.What == worker.Erred && failure.Classify(e.Err).Class == failure.DiskFull {
		v.full.Store(&noRoom{time.Now(), e.Err})
	}
}

// trouble is a full disk that the upkeep has met lately: it writes every few
// seconds.
func (v *service) trouble() error {
	if n := v.full.Load(); n != nil && time.Since(n.at) < 10*time.Second {
		return n.err
	}
	return nil
}

// ready says whether the server can do its work.
func (v *service) ready(s store.Store) func(context.Context) error {
	return func(ctx context.Context) error {
		if v.draining.Load() {
			return api.Unready("draining")
		}
		if err := v.trouble(); err != nil {
			return err
		}
		_, err := s.Now(ctx)
		return err
	}
}
