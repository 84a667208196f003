package sqlite

import (
	"database/sql/driver"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/storetest"
)

// plans are how SQLite runs the hot statements, whatever the tables hold.
var plans = map[string][]string{
	// claim
	"queue_facts": {"SEARCH ebb_queue USING PRIMARY KEY (name=?)", "SEARCH ebb_tally USING PRIMARY KEY (queue=? AND state=?)", "SCAN ebb_paused_kind"},
	"lanes": {
		"SCAN p VIRTUAL TABLE", "SCAN k VIRTUAL TABLE",
		"SEARCH ebb_ready EXISTS USING PRIMARY KEY (queue=? AND kind=? AND priority=? AND due_at<?)",
	},
	"lane": {
		"SEARCH r USING PRIMARY KEY (queue=? AND kind=? AND priority=? AND due_at<?)",
		"SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
	},
	"unready_to": {"SEARCH ebb_ready USING PRIMARY KEY (queue=? AND kind=? AND priority=? AND (due_at,seq)<(?,?))"},
	"unready":    {"SEARCH ebb_ready USING PRIMARY KEY (queue=? AND kind=? AND priority=? AND due_at=? AND seq=?)"},
	"lease@run":  {"SEARCH ebb_job USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"lease@list": {"SEARCH ebb_job USING INTEGER PRIMARY KEY (rowid=?)", "SCAN json_each VIRTUAL TABLE"},
	"lease_run":  {"SEARCH ebb_job USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"lease_list": {"SCAN json_each VIRTUAL TABLE"},
	"past@list":  {"SCAN r VIRTUAL TABLE", "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"},
	// settle
	"held@run":           {"SEARCH ebb_lease USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"held@list":          {"SEARCH ebb_lease USING INTEGER PRIMARY KEY (rowid=?)", "SCAN json_each VIRTUAL TABLE"},
	"held_alike@run":     {"SEARCH ebb_lease USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"held_alike@list":    {"SEARCH ebb_lease USING INTEGER PRIMARY KEY (rowid=?)", "SCAN json_each VIRTUAL TABLE"},
	"done_alike@run":     {"SEARCH j USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"done_alike@list":    {"SCAN r VIRTUAL TABLE", "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"},
	"held_alike@map":     {"SEARCH ebb_lease USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"done_alike@map":     {"SEARCH j USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"job_end@map":        {"SEARCH ebb_job USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"lease_end@map":      {"SEARCH ebb_lease USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"lease_unread@map":   {"SEARCH ebb_job USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"held_alike@noted":   {"SEARCH ebb_lease USING INTEGER PRIMARY KEY (rowid=?)"},
	"done_alike@noted":   {"SCAN noted", "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"},
	"job_end@noted":      {"SEARCH ebb_job USING INTEGER PRIMARY KEY (rowid=?)"},
	"lease_end@noted":    {"SEARCH ebb_lease USING INTEGER PRIMARY KEY (rowid=?)"},
	"again_alike@run":    {"SEARCH j USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"attempt_alike@run":  {"SEARCH j USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"attempt_alike@list": {"SCAN r VIRTUAL TABLE", "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"},
	"job_end@run":        {"SEARCH ebb_job USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"lease_end@run":      {"SEARCH ebb_lease USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"remember_failure":   {"SEARCH ebb_job USING INTEGER PRIMARY KEY (rowid=?)"},
	"dead_one":           {"SEARCH ebb_job USING INTEGER PRIMARY KEY (rowid=?)"},
	"next_due": {
		"SEARCH q VIRTUAL TABLE", "SEARCH k VIRTUAL TABLE", "SEARCH p VIRTUAL TABLE",
		"SEARCH ebb_ready USING PRIMARY KEY (queue=? AND kind=? AND priority=?)",
	},
	"orders":           {"SEARCH ebb_lease USING INDEX ebb_lease_ordered (process=?)"},
	"unique_holder":    {"SEARCH ebb_job USING COVERING INDEX ebb_job_unique (unique_key=?)", "SEARCH ebb_parked USING COVERING INDEX ebb_parked_unique (unique_key=?)"},
	"expired":          {"SEARCH j USING INDEX ebb_job_deadline (deadline_at<?)", "SEARCH ebb_lease USING INTEGER PRIMARY KEY (rowid=?)"},
	"done_old":         {"SEARCH ebb_done USING INDEX ebb_done_ended (ended_at<?)"},
	"dead_old":         {"SEARCH ebb_dead USING INDEX ebb_dead_ended (ended_at<?)"},
	"attempts":         {"SEARCH ebb_attempt USING PRIMARY KEY (seq=?)"},
	"parked_elsewhere": {"SEARCH ebb_parked USING INDEX ebb_parked_cause (cause=? AND kind=?)", "SCAN json_each VIRTUAL TABLE", "USE TEMP B-TREE FOR ORDER BY"},
	// lanes
	"found": {
		"SEARCH l USING COVERING INDEX ebb_lane_look (queue=? AND look_at<?)", "SCAN json_each VIRTUAL TABLE",
		"SEARCH g USING INDEX sqlite_autoindex_ebb_gate_1 (target=?) LEFT-JOIN",
	},
	"parts":      {"SCAN t VIRTUAL TABLE", "SEARCH l USING INDEX ebb_lane_name (target=? AND queue=?)"},
	"part":       {"SCAN p VIRTUAL TABLE", "SEARCH w USING PRIMARY KEY (lane=? AND priority=? AND due_at<?)"},
	"taken@run":  {"SEARCH j USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"taken@list": {"SCAN r VIRTUAL TABLE", "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"},
	"taken@map":  {"SEARCH j USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	"unwait": {
		"SEARCH ebb_wait USING PRIMARY KEY (lane=? AND priority=? AND due_at=? AND seq=?)",
		"SEARCH ebb_lane USING COVERING INDEX ebb_lane_name (target=? AND queue=? AND kind=? AND retry=?)",
	},
	"unwait_to": {"SEARCH ebb_wait USING PRIMARY KEY (lane=? AND priority=? AND (due_at,seq)<(?,?))"},
	"wait@run": {
		"SEARCH j USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
		"SEARCH l USING COVERING INDEX ebb_lane_name (target=? AND queue=? AND kind=? AND retry=?)",
	},
	"look_after": {"SEARCH ebb_lane USING INTEGER PRIMARY KEY (rowid=?)"},
	"look_next": {
		"SEARCH l USING INTEGER PRIMARY KEY (rowid=?)",
		"SEARCH p VIRTUAL TABLE", "SEARCH w USING PRIMARY KEY (lane=? AND priority=?)",
	},
	"lane_fold": {"SEARCH ebb_lane USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH ebb_wait USING PRIMARY KEY (lane=?)"},
	"lane_shut": {"SEARCH ebb_lane USING INDEX ebb_lane_name (target=? AND queue=? AND kind=?)", "SCAN json_each VIRTUAL TABLE"},
	"lane_hold": {"SEARCH ebb_lane USING INDEX ebb_lane_name (target=? AND queue=?)"},
	"lane_wake": {
		"SEARCH l USING INDEX ebb_lane_name (target=?)", "SEARCH p VIRTUAL TABLE",
		"SEARCH w USING PRIMARY KEY (lane=? AND priority=?)",
	},
	"next_look": {
		"SEARCH q VIRTUAL TABLE", "SEARCH l USING COVERING INDEX ebb_lane_look (queue=? AND look_at<?)", "SCAN json_each VIRTUAL TABLE",
		"SEARCH w EXISTS USING PRIMARY KEY (lane=?)",
	},
	"begin_leases@run": {"SEARCH ebb_lease USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"},
	// gates and keys
	"gates":     {"SCAN t VIRTUAL TABLE", "SEARCH g USING INDEX sqlite_autoindex_ebb_gate_1 (target=?)"},
	"gate_swap": {"SEARCH ebb_gate USING INDEX sqlite_autoindex_ebb_gate_1 (target=?)"},
	"key_head":  {"SEARCH ebb_key USING PRIMARY KEY (queue=? AND key=? AND seq=?)"},
	"key_behind": {
		"SEARCH k USING PRIMARY KEY (queue=? AND key=? AND seq>?)", "SEARCH l USING INTEGER PRIMARY KEY (rowid=?)",
		"SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
	},
	"key_state": {
		"SCAN CONSTANT ROW", "SCAN (subquery-3)", "SEARCH h USING COVERING INDEX ebb_key_head (queue=? AND key=?) LEFT-JOIN",
		"SEARCH ebb_key USING PRIMARY KEY (queue=? AND key=?)", "SEARCH l USING INTEGER PRIMARY KEY (rowid=?)",
	},
	"unique_kept": {"SEARCH ebb_unique USING INDEX sqlite_autoindex_ebb_unique_1 (unique_key=?)"},
	"groups":      {"SCAN ebb_dead USING INDEX ebb_dead_group", "SCAN json_each VIRTUAL TABLE"},
	"group_error": {"SEARCH ebb_dead USING INDEX ebb_dead_group (fingerprint=? AND kind=? AND queue=? AND last_class=? AND cause=? AND ended_at=?)", "SCAN json_each VIRTUAL TABLE"},
}

// backlog adds so many plain jobs.
func backlog(t *testing.T, s *Store, n int) {
	t.Helper()
	for ; n > 0; n -= 50_000 {
		if _, err := s.Enqueue(t.Context(), time.Now(), slices.Repeat([]job.New{{Kind: "a"}}, min(n, 50_000))); err != nil {
			t.Fatal(err)
		}
	}
}

// filled returns a store with jobs in every place.
func filled(t *testing.T, n int) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "ebb.db"), Options{Relaxed: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	now := time.Now()
	p, err := s.Register(t.Context(), now, store.Process{Kinds: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	jobs := slices.Repeat([]job.New{{Kind: "a"}}, n)
	for i := range n / 20 {
		jobs[i] = job.New{
			Kind: string(rune('a' + i%3)), Priority: i % 2, DueAt: now.Add(time.Duration(i-n/40) * time.Second),
			Batch: fmt.Sprint(i % 50), Unique: fmt.Sprint(i), DeadlineAt: now.Add(time.Duration(i) * time.Minute),
		}
	}
	for i := range n / 10 {
		jobs = append(jobs, job.New{Kind: "a", Target: fmt.Sprint("host", i%20), Priority: i % 3, Key: fmt.Sprint(i % 100)})
	}
	if _, err := s.Enqueue(t.Context(), now, jobs); err != nil {
		t.Fatal(err)
	}
	claims := []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"a"}, Limit: n / 20}}
	answer, err := s.Turn(t.Context(), store.Turn{Process: p.ID, Now: now, Claims: claims})
	if err != nil {
		t.Fatal(err)
	}
	var settles []store.Settle
	for i, j := range answer.Claimed {
		st := store.Settle{Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Succeeded}
		if i%2 == 0 {
			st.To, st.Cause, st.Fingerprint = job.Failed, "fatal", fmt.Sprint(i%7)
		}
		settles = append(settles, st)
	}
	if _, err := s.Turn(t.Context(), store.Turn{Process: p.ID, Now: now, Settles: settles, Claims: claims}); err != nil {
		t.Fatal(err)
	}
	return s
}

var counters = regexp.MustCompile(` (INDEX \d+:|SUBQUERY \d+)`)

// planOf returns the steps that touch a table or sort.
func planOf(t *testing.T, c *conn, name string) []string {
	t.Helper()
	rows, err := c.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statements[name], c.named(make([]any, 30)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var steps []string
	for plan := (&cursor{rows: rows, values: make([]driver.Value, 4)}); ; {
		r, err := plan.next()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r == nil {
			break
		}
		step := counters.ReplaceAllString(r.text(3), "")
		if strings.HasPrefix(step, "SEARCH") || strings.HasPrefix(step, "SCAN") || strings.Contains(step, "TEMP B-TREE") {
			steps = append(steps, strings.TrimSuffix(step, ":"))
		}
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	return steps
}

// TestPlans pins the plans on an empty file, on a full one, and after its
// owner ran ANALYZE.
func TestPlans(t *testing.T) {
	t.Run("empty", func(t *testing.T) { checkPlans(t, filled(t, 0)) })
	s := filled(t, 10_000)
	backlog(t, s, storetest.PlanRows(t)-10_000)
	t.Run("full", func(t *testing.T) { checkPlans(t, s) })
	if _, err := s.DB().ExecContext(t.Context(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
	t.Run("analyzed", func(t *testing.T) { checkPlans(t, s) })
}

var arguments = regexp.MustCompile(`VIRTUAL TABLE.*`)

func checkPlans(t *testing.T, s *Store) {
	t.Helper()
	err := s.write(t.Context(), "plans", time.Time{}, func(w *tx) error {
		if _, err := w.run("note_table"); err != nil {
			return err
		}
		c := w.conn
		for _, name := range slices.Sorted(maps.Keys(plans)) {
			got := planOf(t, c, name)
			for i, step := range got {
				got[i] = arguments.ReplaceAllString(step, "VIRTUAL TABLE")
			}
			if !slices.Equal(got, plans[name]) {
				t.Errorf("%s:\n got  %q\n want %q", name, got, plans[name])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Statements that may walk a table of jobs: lists by a rare filter, and what
// is said of few rows.
var mayWalk = regexp.MustCompile(`^(list|above)@|^groups$`)

// TestNoStatementWalksTheJobs covers the statements that TestPlans does not.
func TestNoStatementWalksTheJobs(t *testing.T) {
	s := filled(t, 1000)
	big := regexp.MustCompile(`^SCAN (ebb_(job|ready|wait|lane|key|done|dead|parked|attempt)|j|r|w|k)\b`)
	err := s.write(t.Context(), "plans", time.Time{}, func(w *tx) error {
		if _, err := w.run("note_table"); err != nil {
			return err
		}
		c := w.conn
		for name := range statements {
			for _, step := range planOf(t, c, name) {
				if big.MatchString(step) && !strings.Contains(step, "VIRTUAL") && !mayWalk.MatchString(name) {
					t.Errorf("%s: %s", name, step)
				}
			}
		}
		// Even those that walk never sort: they stop when the page is full.
		for _, name := range []string{"list@" + everywhere, "list@" + live, "list@" + done, "above@" + dead, "list_batch@" + everywhere, "job"} {
			for _, step := range planOf(t, c, name) {
				if strings.Contains(step, "TEMP B-TREE") {
					t.Errorf("%s sorts: %s", name, step)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
