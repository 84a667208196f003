package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/store/storetest"
)

// open returns an empty store in a new directory. Where durability is not the
// subject it is relaxed, which changes nothing that a living machine can see.
func open(t testing.TB) *sqlite.Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "ebb.db"), sqlite.Options{Relaxed: true})
}

func openAt(t testing.TB, path string, options sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// t0 is where tests begin.
var t0 = time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)

func openStore(t *testing.T) store.Store { return open(t) }

func TestStore(t *testing.T) { storetest.Run(t, openStore) }

func TestTraces(t *testing.T) { storetest.SameTraces(t, openStore) }

func TestLinearizable(t *testing.T) { storetest.Linearizable(t, openStore) }

func TestFlow(t *testing.T) { storetest.RunFlow(t, openStore) }

func TestFlowTraces(t *testing.T) { storetest.SameFlowTraces(t, openStore) }

func joinable(t *testing.T) storetest.Joinable {
	s := open(t)
	return storetest.Joinable{Store: s, Begin: func() storetest.Tx {
		tx, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return storetest.Tx{Join: tx, Commit: tx.Commit, Rollback: tx.Rollback}
	}}
}

func TestJoined(t *testing.T) { storetest.RunTx(t, joinable) }

func TestFlowJoined(t *testing.T) { storetest.RunFlowTx(t, joinable) }
