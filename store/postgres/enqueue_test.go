package postgres_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/postgres"
)

// TestABigBatchKeepsEveryJob: of many jobs, alike for a while and then not,
// each comes back as it was given.
func TestABigBatchKeepsEveryJob(t *testing.T) {
	s := open(t, migrated(t), postgres.Options{})
	due := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	jobs := make([]job.New, 700)
	for i := range jobs {
		n := job.New{Kind: "mail", Args: fmt.Appendf(nil, `{"n":%d}`, i)}
		if i%7 == 3 {
			n.Args = nil
		}
		switch i / 100 {
		case 1:
			n.Queue, n.Priority = "other", 3
		case 2: // no two alike
			n.DueAt = due.Add(time.Duration(i) * time.Second)
		case 3:
			n.Target, n.Batch = fmt.Sprint("host", i%3), "b"
		case 4:
			n.Policy, n.Trace, n.DeadlineAt = "webhook", "00-1-2-01", due.AddDate(1, 0, 0)
		case 5: // by turns
			n.Kind = []string{"mail", "post"}[i%2]
		}
		jobs[i] = n
	}
	answers, err := s.Enqueue(t.Context(), time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if i > 0 && a.Seq <= answers[i-1].Seq {
			t.Fatalf("job %d has number %d, the one before %d", i, a.Seq, answers[i-1].Seq)
		}
		j, err := s.Job(t.Context(), a.Seq)
		if err != nil {
			t.Fatal(err)
		}
		want := jobs[i]
		if want.Queue == "" {
			want.Queue = job.DefaultQueue
		}
		if want.Policy == "" {
			want.Policy = policy.DefaultName
		}
		if want.DueAt.IsZero() {
			want.DueAt = j.EnqueuedAt
		}
		if fmt.Sprint(j.New) != fmt.Sprint(want) {
			t.Errorf("job %d is %v, want %v", i, j.New, want)
		}
	}
}

// TestABigBatchWithAnInvalidJob is refused as a small one is, though it begins
// before its jobs are checked: by the same error, with nothing left behind, and
// on the same connection as before and after it.
func TestABigBatchWithAnInvalidJob(t *testing.T) {
	url := migrated(t)
	s := open(t, url+"&pool_max_conns=1", postgres.Options{Name: "refused"})
	pool := connect(t, url)
	session := func() (now string) {
		t.Helper()
		const ask = `SELECT string_agg(pid || CASE WHEN state ~ 'transaction' THEN ' in a transaction' ELSE '' END, ', ')
			FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'refused'`
		if err := pool.QueryRow(t.Context(), ask).Scan(&now); err != nil {
			t.Fatal(err)
		}
		return now
	}
	good := make([]job.New, 200)
	for i := range good {
		good[i].Kind = "mail"
	}
	if _, err := s.Enqueue(t.Context(), time.Time{}, good); err != nil {
		t.Fatal(err)
	}
	before := session()
	for name, wrong := range map[string]job.New{
		"no kind": {}, "priority": {Kind: "mail", Priority: 10}, "trace": {Kind: "mail", Trace: "\x00"}, "new queue": {Kind: "mail", Queue: "\xff"},
		"other queue": {Queue: "other"}, "target": {Kind: "mail", Target: "\x00"}, "unique": {Kind: "mail", UniqueFor: time.Second},
	} {
		jobs := slices.Clone(good)
		jobs[150] = wrong
		_, want := store.Prepare(time.Now(), wrong)
		if _, err := s.Enqueue(t.Context(), time.Time{}, jobs); want == nil || err == nil || err.Error() != want.Error() {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if after := session(); after != before {
			t.Errorf("%s: the connection was %s, and is %s", name, before, after)
		}
	}
	queues, err := s.Queues(t.Context())
	if err != nil || len(queues) != 1 || queues[0].Counts[job.Queued] != 200 {
		t.Errorf("the queues are %+v, want default with 200 jobs: %v", queues, err)
	}
	list, err := s.List(t.Context(), store.Filter{State: job.Queued}, store.Page{Limit: 1000})
	if err != nil || len(list) != 200 {
		t.Errorf("%d jobs are queued, want 200: %v", len(list), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	good[150].Kind = ""
	_, want := store.Prepare(time.Now(), good[150])
	if _, err := s.Enqueue(t.Context(), time.Time{}, good); err == nil || err.Error() != want.Error() {
		t.Errorf("without a database: %v, want %v", err, want)
	}
}

// TestAnAcknowledgedEnqueueOutlivesACrash: also one that wakes others, which
// is seen before it is flushed.
func TestAnAcknowledgedEnqueueOutlivesACrash(t *testing.T) {
	server := pgtest.Start(t, pgtest.Config{Settings: []string{"wal_writer_delay=10s"}})
	url := server.Database(t, "template0")
	for round := range 3 {
		s, err := postgres.Open(t.Context(), url, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		seq := mail(t, s, 1)[0]
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
		_ = s.Close() // what it wants to say is heard by nobody
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		if j, err := open(t, url, postgres.Options{}).Job(t.Context(), seq); err != nil || j.State != job.Queued {
			t.Errorf("round %d: the job after the crash: %v, %v", round, j.State, err)
		}
	}
}

// TestAnEnqueueWithoutTheRightToFlush is flushed by its own commit.
func TestAnEnqueueWithoutTheRightToFlush(t *testing.T) {
	url := migrated(t)
	pool := connect(t, url)
	for _, sql := range []string{
		`DO $$ BEGIN
			EXECUTE 'REVOKE EXECUTE ON FUNCTION ' || (SELECT string_agg(oid::regprocedure::text, ', ') FROM pg_proc WHERE proname = 'pg_logical_emit_message') || ' FROM PUBLIC';
			CREATE ROLE narrow LOGIN;
		EXCEPTION WHEN duplicate_object THEN NULL; -- the test ran before
		END $$`,
		"GRANT ALL ON ALL TABLES IN SCHEMA public TO narrow", "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO narrow",
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, url+"&user=narrow", postgres.Options{})
	if _, err := s.Enqueue(t.Context(), time.Time{}, []job.New{{Kind: "mail"}}); err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(t.Context(), store.Filter{State: job.Queued}, store.Page{Limit: 2}); err != nil || len(list) != 1 {
		t.Errorf("%d jobs are queued, want 1: %v", len(list), err)
	}
}
