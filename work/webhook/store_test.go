package webhook

import (
	"database/sql"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/postgres"
	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/worker"
)

// databases runs the test over both, with a handle for transactions of the
// test's own.
func databases(t *testing.T, test func(t *testing.T, s store.Store, db *sql.DB)) {
	t.Run("sqlite", func(t *testing.T) {
		var c Config
		onDisk(t)(&c, nil)
		test(t, c.Store, c.Store.(*sqlite.Store).DB())
	})
	t.Run("postgres", func(t *testing.T) {
		url := pgtest.Database(t)
		s, err := postgres.Open(t.Context(), url, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(db.Close(), s.Close()); err != nil {
				t.Error(err)
			}
		})
		test(t, s, db)
	})
}

// From an endpoint to a second attempt, over real databases.
func TestDatabases(t *testing.T) {
	databases(t, func(t *testing.T, s store.Store, _ *sql.DB) {
		var failed atomic.Bool
		got := receive(t, func(w http.ResponseWriter, c call) {
			if c.Path == "/shaky" && failed.CompareAndSwap(false, true) {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		r := newRig(t, func(c *Config, _ *worker.Config) { c.Store = s })
		r.add(NewEndpoint{URL: got.URL + "/well", Types: []string{"a.*"}})
		shaky, _ := r.add(NewEndpoint{URL: got.URL + "/shaky", Types: []string{"a.*"}})
		if _, _, err := r.Rotate(t.Context(), shaky.ID, time.Hour); err != nil {
			t.Fatal(err)
		}
		m := Message{Type: "a.b", Payload: []byte("exact \x00\xff bytes"), Key: "k", Order: "o"}
		event := r.send(m)
		if again := r.send(m); len(event.Deliveries) != 2 || again.ID != event.ID || again.Deliveries[1] != event.Deliveries[1] {
			t.Fatalf("%+v, then %+v", event, again)
		}
		m.Payload = nil
		if _, err := r.Send(t.Context(), m); !errors.Is(err, ErrConflict) {
			t.Errorf("another body: %v", err)
		}
		r.await(event.Deliveries[0].ID, "succeeded")
		if d := r.settled(event.Deliveries[1].ID); d.State != "queued" || d.Log[0].Status != 500 || string(d.Payload) != "exact \x00\xff bytes" {
			t.Fatalf("%+v", d)
		}
		if _, err := r.Redrive(t.Context(), event.Deliveries[1].ID); err != nil { // due now
			t.Fatal(err)
		}
		if d := r.await(event.Deliveries[1].ID, "succeeded"); len(d.Log) != 2 || d.Log[1].Attempt == nil {
			t.Errorf("%+v", d.Log)
		}
		if e, err := r.Disable(t.Context(), shaky.ID, "enough"); err != nil || e.State != Disabled {
			t.Errorf("%+v, %v", e, err)
		}
		list, err := r.List(t.Context(), EndpointFilter{AnyOwner: true}, engine.Page{})
		if err != nil || len(list.Endpoints) != 2 || list.Endpoints[1].Reason != "enough" {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// In the caller's own transaction the event is sent if, and only if, that
// commits.
func TestSendTx(t *testing.T) {
	databases(t, func(t *testing.T, s store.Store, db *sql.DB) {
		r := stillRig(t, func(c *Config, _ *worker.Config) { c.Store = s })
		r.add(NewEndpoint{URL: "https://a.example/"})
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE invoice (id INTEGER)"); err != nil {
			t.Fatal(err)
		}
		for _, commit := range []bool{false, true} {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO invoice VALUES (17)"); err != nil {
				t.Fatal(err)
			}
			e, err := r.SendTx(t.Context(), tx, Message{Type: "invoice.paid", Payload: []byte(`{}`), Key: "17"})
			if err != nil || e.Fanout != 1 {
				t.Fatalf("%+v, %v", e, err)
			}
			end := tx.Rollback
			if commit {
				end = tx.Commit
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			_, err = r.Event(t.Context(), e.ID)
			if (err == nil) != commit || err != nil && !errors.Is(err, ErrNotFound) {
				t.Errorf("commit %t: %v", commit, err)
			}
			if _, err := r.Delivery(t.Context(), e.Deliveries[0].ID); (err == nil) != commit {
				t.Errorf("commit %t: the delivery: %v", commit, err)
			}
		}
		if _, err := r.SendTx(t.Context(), "no transaction", Message{Type: "a.b", Payload: []byte(`{}`)}); !errors.Is(err, store.ErrForeignTx) {
			t.Errorf("a foreign transaction: %v", err)
		}
	})
}
