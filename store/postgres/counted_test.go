package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// TestClaimCountsWhatItTakes: a job that another process claims and gives back
// between a claim's snapshot and its lock is locked by the claim in a version
// that it cannot see. It does not take it, and must not count it.
func TestClaimCountsWhatItTakes(t *testing.T) {
	l := newLooker(t, time.Hour)
	if _, err := l.Enqueue(t.Context(), time.Time{}, []job.New{{Kind: "mail"}}); err != nil {
		t.Fatal(err)
	}
	// The statement as it is, but that it waits for this lock when its snapshot
	// is taken and before it looks for a row.
	const gate = 4711
	door, late := l.connect(), l.connect()
	if _, err := door.Exec(t.Context(), "SELECT pg_advisory_lock($1)", gate); err != nil {
		t.Fatal(err)
	}
	held := statement("claim")
	for old, with := range map[string]string{
		"WITH picked AS":                        "WITH waited AS MATERIALIZED (SELECT pg_advisory_xact_lock(4711) IS NULL AS no), picked AS",
		"WHERE EXISTS (SELECT FROM ebb_process": "WHERE NOT (SELECT no FROM waited) AND EXISTS (SELECT FROM ebb_process",
	} {
		if strings.Count(held, old) != 1 {
			t.Fatalf("the statement has %d times %q, want one", strings.Count(held, old), old)
		}
		held = strings.Replace(held, old, with, 1)
	}
	s := everything()
	r := &s.ranges
	claimed := make(chan int, 1)
	go func() {
		rows, err := late.Query(t.Context(), held, pgx.QueryExecModeDescribeExec, l.process, job.DefaultQueue, []string{"mail"}, 10, nil,
			r.priorities, r.lowAt, r.lowSeq, r.highAt, r.highSeqs)
		n := 0
		if err == nil {
			for rows.Next() {
				n++
			}
			err = rows.Err()
		}
		if err != nil {
			t.Error(err)
		}
		claimed <- n
	}()
	for waits := false; !waits; {
		if err := door.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = $1)", gate).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	jobs := l.claim(1)
	if len(jobs) != 1 {
		t.Fatalf("claimed %d jobs", len(jobs))
	}
	ref := store.Ref{Seq: jobs[0].Seq, Epoch: jobs[0].Epoch}
	if _, err := l.Turn(t.Context(), store.Turn{Process: l.process, Release: []store.Ref{ref}}); err != nil {
		t.Fatal(err)
	}
	if _, err := door.Exec(t.Context(), "SELECT pg_advisory_unlock($1)", gate); err != nil {
		t.Fatal(err)
	}
	n := <-claimed
	l.wantCounts(int64(1-n), int64(n))
	if jobs := l.claim(1); n == 0 && len(jobs) != 1 {
		t.Errorf("the job that was given back is not claimed: %v", jobs)
	}
}
