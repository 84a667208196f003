package sqlite

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/store"
)

// recordPlans are how SQLite finds records, whatever the table holds.
var recordPlans = map[string][]string{
	"record":           {"SEARCH ebb_record USING INDEX sqlite_autoindex_ebb_record_1 (kind=? AND id=?)"},
	"record_version":   {"SEARCH ebb_record USING INDEX sqlite_autoindex_ebb_record_1 (kind=? AND id=?)"},
	"record_drop":      {"SEARCH ebb_record USING INDEX sqlite_autoindex_ebb_record_1 (kind=? AND id=?)"},
	"records_up":       {"SEARCH ebb_record USING INDEX sqlite_autoindex_ebb_record_1 (kind=? AND id>?)"},
	"records_down":     {"SEARCH ebb_record USING INDEX sqlite_autoindex_ebb_record_1 (kind=? AND id<?)"},
	"records_up_ref":   {"SEARCH ebb_record USING INDEX ebb_record_ref (kind=? AND ref=? AND id>?)"},
	"records_down_ref": {"SEARCH ebb_record USING INDEX ebb_record_ref (kind=? AND ref=? AND id<?)"},
	"records_expire":   {"SEARCH ebb_record USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH ebb_record USING COVERING INDEX ebb_record_expires (expires_at<?)"},
}

func TestRecordPlans(t *testing.T) {
	s := filled(t, 0)
	t.Run("empty", func(t *testing.T) { checkRecordPlans(t, s) })
	var w store.Write
	for i := range 2000 {
		r := store.Record{Kind: fmt.Sprint("kind ", i%2), ID: fmt.Sprint(i), Ref: fmt.Sprint(i % 3)}
		if i%5 == 0 {
			r.Ref, r.ExpiresAt = "", time.Now().Add(time.Duration(i)*time.Minute)
		}
		w.Puts = append(w.Puts, r)
	}
	if _, err := s.Write(t.Context(), time.Time{}, w); err != nil {
		t.Fatal(err)
	}
	t.Run("full", func(t *testing.T) { checkRecordPlans(t, s) })
	if _, err := s.DB().ExecContext(t.Context(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
	t.Run("analyzed", func(t *testing.T) { checkRecordPlans(t, s) })
}

func checkRecordPlans(t *testing.T, s *Store) {
	t.Helper()
	err := s.read(t.Context(), "plans", false, func(c *conn) error {
		for _, name := range slices.Sorted(maps.Keys(recordPlans)) {
			if got := planOf(t, c, name); !slices.Equal(got, recordPlans[name]) {
				t.Errorf("%s:\n got  %q\n want %q", name, got, recordPlans[name])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
