package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/engine/enginetest"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/postgres"
	"github.com/ebbhq/ebb/store/sqlite"
)

func TestMain(m *testing.M) { os.Exit(pgtest.RunWith(m, pgtest.Config{NoSync: true})) }

func TestFlowOnSQLite(t *testing.T) {
	enginetest.RunFlow(t, func(t *testing.T, _ clock.Clock) store.Store {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ebb.db"), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestFlowOnPostgreSQL(t *testing.T) {
	enginetest.RunFlow(t, func(t *testing.T, _ clock.Clock) store.Store {
		s, err := postgres.Open(t.Context(), pgtest.Database(t), postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
