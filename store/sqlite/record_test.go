package sqlite_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/store/storetest"
)

func TestRecords(t *testing.T) { storetest.RunRecords(t, openStore) }

func TestRecordsJoined(t *testing.T) { storetest.RunRecordsTx(t, joinable) }

func TestAWriteRefusesAForeignTransaction(t *testing.T) {
	s := open(t)
	plain, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "own.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() })
	for name, db := range map[string]*sql.DB{"begin it with": plain, "the transaction is of": open(t).DB()} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.WriteTx(t.Context(), tx, t0, store.Write{Puts: []store.Record{{Kind: "token", ID: "1"}}})
		if !errors.Is(err, store.ErrForeignTx) || !strings.HasPrefix(err.Error(), "sqlite: write: ") || !strings.Contains(err.Error(), name) {
			t.Errorf("write: %v, want %v with %q", err, store.ErrForeignTx, name)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecordsSurviveTheirProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ebb.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), t0, store.Write{Puts: []store.Record{{Kind: "token", ID: "1", Ref: "r", Body: []byte("b")}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := openAt(t, path, sqlite.Options{}).Record(t.Context(), "token", "1")
	if err != nil || got.Version != 1 || got.Ref != "r" || string(got.Body) != "b" {
		t.Errorf("record %+v, %v", got, err)
	}
}
