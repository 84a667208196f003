package postgres

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/store"
)

// addRecords adds records of two kinds, most with a ref, some that expire.
func addRecords(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	execute(t, conn, `INSERT INTO ebb_record (kind, id, ref, version, expires_at, body)
		SELECT 'kind ' || i % 2, i::text, CASE WHEN i % 5 > 0 THEN (i % 3)::text END, 1,
		       CASE WHEN i % 5 = 0 THEN now() + i * interval '1 minute' END, ''
		  FROM generate_series(1, 5000) AS i`)
}

// indexesOf returns the indexes of a plan that neither sorts nor reads the
// table from end to end.
func indexesOf(t *testing.T, n node) (used []string) {
	t.Helper()
	n.walk(func(n node) {
		if n.Index != "" {
			used = append(used, n.Index)
		}
		if n.Type == "Sort" || n.Type == "Incremental Sort" {
			t.Errorf("sorts")
		}
		if n.Type == "Seq Scan" {
			t.Errorf("reads all of %s", n.Relation)
		}
	})
	return used
}

func TestRecordPlans(t *testing.T) {
	conn := planned(t, 1)
	addRecords(t, conn)
	for _, when := range []string{"never analysed", "analysed", "analysed while empty"} {
		switch when {
		case "analysed":
			execute(t, conn, "VACUUM ANALYZE ebb_record")
		case "analysed while empty":
			execute(t, conn, "TRUNCATE ebb_record")
			execute(t, conn, "VACUUM ANALYZE ebb_record")
			addRecords(t, conn)
		}
		for _, f := range []store.RecordFilter{{}, {After: "5"}, {Down: true}, {After: "5", Down: true}} {
			for ref, want := range map[string]string{"": "ebb_record_pkey", "1": "ebb_record_ref"} {
				f.Kind, f.Ref, f.Limit = "kind 1", ref, 10
				t.Run(fmt.Sprintf("%s/%+v", when, f), func(t *testing.T) {
					sql, args := recordList(f)
					execute(t, conn, "BEGIN")
					defer execute(t, conn, "ROLLBACK")
					execute(t, conn, orderly)
					execute(t, conn, "PREPARE planned AS "+sql, pgx.QueryExecModeSimpleProtocol)
					defer execute(t, conn, "DEALLOCATE planned")
					given := fmt.Sprint(args[0])
					for _, a := range args[1:] {
						given += fmt.Sprintf(", '%s'", a)
					}
					if used := indexesOf(t, plan(t, conn, "EXPLAIN (FORMAT JSON) EXECUTE planned("+given+")")); !slices.Equal(used, []string{want}) {
						t.Errorf("uses %v, want %s", used, want)
					}
				})
			}
		}
		for name, want := range map[string][]string{
			"record_one": {"ebb_record_pkey"}, "record_version": {"ebb_record_pkey"}, "record_replace": {"ebb_record_pkey"},
			"record_drop": {"ebb_record_pkey"}, "records_expire": {"ebb_record_expires", "ebb_record_pkey"},
		} {
			t.Run(when+"/"+name, func(t *testing.T) {
				if used := indexesOf(t, explain(t, conn, name)); !slices.Equal(slices.Sorted(slices.Values(used)), want) {
					t.Errorf("uses %v, want %v", used, want)
				}
			})
		}
	}
}
