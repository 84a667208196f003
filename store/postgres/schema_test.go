package postgres_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/postgres"
)

func TestTwoProcessesOpenAnEmptyDatabaseAtOnce(t *testing.T) {
	url := pgtest.Database(t)
	const openers = 6
	errs := make([]error, openers)
	var all sync.WaitGroup
	for i := range openers {
		all.Go(func() {
			s, err := postgres.Open(t.Context(), url, postgres.Options{})
			if err == nil {
				err = s.Close()
			}
			errs[i] = err
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	list, err := postgres.Migrate(t.Context(), url, postgres.Status)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if m.AppliedAt.IsZero() {
			t.Errorf("version %d was not applied", m.Version)
		}
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	url := migrated(t)
	if _, err := connect(t, url).Exec(t.Context(), "INSERT INTO ebb_schema (version, name) VALUES (99, 'future')"); err != nil {
		t.Fatal(err)
	}
	_, err := postgres.Open(t.Context(), url, postgres.Options{})
	if !errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), "install a newer one") {
		t.Errorf("open: %v, want %v and what to do", err, store.ErrSchema)
	}
}

func TestMigrateUpAndDown(t *testing.T) {
	url := pgtest.Database(t)
	tables := func() (n int) {
		row := connect(t, url).QueryRow(t.Context(), "SELECT count(*) FROM pg_class WHERE relname LIKE 'ebb%'")
		if err := row.Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	applied := func(direction string) (n int) {
		list, err := postgres.Migrate(t.Context(), url, direction)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			if !m.AppliedAt.IsZero() {
				n++
			}
		}
		return n
	}
	if n := applied(postgres.Status); n != 0 || tables() != 0 {
		t.Fatalf("status of an empty database: %d applied, %d relations", n, tables())
	}
	all := applied(postgres.Up)
	if again := applied(postgres.Up); all == 0 || again != all {
		t.Fatalf("up applied %d, again %d", all, again)
	}
	full := tables()
	for left := all - 1; left >= 0; left-- {
		if n := applied(postgres.Down); n != left {
			t.Fatalf("after a step down %d are applied, want %d", n, left)
		}
	}
	if n := tables(); n != 0 {
		t.Errorf("down left %d of %d relations", n, full)
	}
	if n := applied(postgres.Down); n != 0 {
		t.Errorf("down of nothing: %d applied", n)
	}
	if _, err := postgres.Migrate(t.Context(), url, "sideways"); err == nil || !strings.Contains(err.Error(), "want up, down or status") {
		t.Errorf("an unknown direction: %v", err)
	}
}

func TestSchemaAppliedByHandIsTheSame(t *testing.T) {
	url := pgtest.Database(t)
	if _, err := connect(t, url).Exec(t.Context(), postgres.SQL(), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	open(t, url, postgres.Options{}) // finds its version
	const columns = `SELECT string_agg(format('%s.%s %s', table_name, column_name, data_type), E'\n' ORDER BY table_name, ordinal_position)
		FROM information_schema.columns WHERE table_name LIKE 'ebb%'`
	var byHand, byMigrate string
	if err := connect(t, url).QueryRow(t.Context(), columns).Scan(&byHand); err != nil {
		t.Fatal(err)
	}
	if err := connect(t, migrated(t)).QueryRow(t.Context(), columns).Scan(&byMigrate); err != nil {
		t.Fatal(err)
	}
	if byHand != byMigrate {
		t.Errorf("by hand:\n%s\nby migrate:\n%s", byHand, byMigrate)
	}
}
