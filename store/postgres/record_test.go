package postgres_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/postgres"
	"github.com/ebbhq/ebb/store/storetest"
)

func TestRecords(t *testing.T) {
	storetest.RunRecords(t, func(t *testing.T) store.Store { return open(t, migrated(t), postgres.Options{}) })
}

func TestRecordsBehindAPooler(t *testing.T) {
	storetest.RunRecords(t, func(t *testing.T) store.Store {
		return open(t, migrated(t), postgres.Options{Pooler: true, Poll: time.Millisecond})
	})
}

func TestRecordsInTransactions(t *testing.T) { storetest.RunRecordsTx(t, joinable) }

func TestRecordsInTransactionsOfDatabaseSQL(t *testing.T) {
	storetest.RunRecordsTx(t, func(t *testing.T) storetest.Joinable {
		url := migrated(t)
		return storetest.Joinable{Store: open(t, url, postgres.Options{}), Concurrent: true, Begin: func() storetest.Tx {
			tx := begin(t, "pgx", url)
			return storetest.Tx{Join: tx, Commit: tx.Commit, Rollback: tx.Rollback}
		}}
	})
}

func TestAWriteRefusesATransactionOfAnotherDatabase(t *testing.T) {
	s := open(t, migrated(t), postgres.Options{})
	for _, tx := range []any{begin(t, "sqlite", ":memory:"), begin(t, "pgx", pgtest.Database(t))} {
		_, err := s.WriteTx(t.Context(), tx, time.Time{}, store.Write{Puts: []store.Record{{Kind: "token", ID: "1"}}})
		if !errors.Is(err, store.ErrForeignTx) {
			t.Errorf("write: %v, want %v", err, store.ErrForeignTx)
		}
	}
}

// A write that asked for a second connection while it held one would wait for
// ever here.
func TestWritesToNewQueuesNeedOneConnectionEach(t *testing.T) {
	s := open(t, migrated(t)+"&pool_max_conns=2", postgres.Options{})
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			id := string(rune('a' + i))
			_, errs[i] = s.Write(t.Context(), time.Time{}, store.Write{
				Puts: []store.Record{{Kind: "token", ID: id}}, Jobs: []job.New{{Kind: "mail", Queue: id}},
			})
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
