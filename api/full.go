package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/store"
)

// Unready is why a server is not ready, in words that anybody may read:
// /readyz tells it.
type Unready string //nolint:errname // it is said as a state: "unready: draining"

func (u Unready) Error() string { return string(u) }

// full is what is told while the database's disk has no room: reads are
// answered, and what would have to be written is refused before anything is
// acknowledged.
const full = Unready("the disk of the database is full: reads are answered, nothing new is taken")

// isFull reports whether the database had no room for a write.
func isFull(err error) bool { return failure.Classify(err).Class == failure.DiskFull }

// noRoom answers a write that the disk had no room for, and remembers it for
// /readyz.
func (s *server) noRoom() *Problem {
	s.full.Store(true)
	return problem(http.StatusInsufficientStorage, "full", "free space on that disk, then the same again; nothing was changed", "%s", full)
}

const (
	kindRoom = "room"
	// roomProbe is how much a write must find room for before the server is
	// ready again: more than a small job, less than SQLite reserves at once.
	roomProbe = 64 << 10
)

// room reports whether the disk has room: it had, or it has again.
func (s *server) room(ctx context.Context) error {
	if !s.full.Load() {
		return nil
	}
	now := s.Clock.Now()
	row := store.Record{Kind: kindRoom, ID: "probe", Version: store.AnyVersion, Body: make([]byte, roomProbe)}
	_, err := s.Records.Write(ctx, now, store.Write{Puts: []store.Record{row}})
	if err == nil {
		row.Body = nil
		_, err = s.Records.Write(ctx, now, store.Write{Drops: []store.Record{row}})
	}
	switch {
	case err == nil:
		s.full.Store(false)
		return nil
	case isFull(err):
		return full
	}
	return err
}

// why is what /readyz tells of an error; the rest is in the log.
func why(err error) string {
	var told Unready
	switch {
	case errors.As(err, &told):
		return string(told)
	case isFull(err):
		return string(full)
	}
	return ""
}
