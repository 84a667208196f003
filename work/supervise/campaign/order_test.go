package campaign

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/postgres"
	"github.com/ebbhq/ebb/store/sqlite"
)

func TestMain(m *testing.M) { os.Exit(pgtest.RunWith(m, pgtest.Config{NoSync: true})) }

// databases runs a test over both; again opens the same database once more.
func databases(t *testing.T, test func(t *testing.T, again func() store.Store)) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "ebb.db")
		test(t, func() store.Store {
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{Relaxed: true})
			if err != nil {
				t.Fatal(err)
			}
			return s
		})
	})
	t.Run("postgres", func(t *testing.T) {
		url := pgtest.Database(t)
		test(t, func() store.Store {
			s, err := postgres.Open(t.Context(), url, postgres.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		})
	})
}

// drained takes the jobs of a queue one by one and lists them as they came. A
// third of the way the process goes, and the database is opened anew.
func drained(t *testing.T, queue string, n int, again func() store.Store) []string {
	t.Helper()
	var list []string
	var last []store.Settle
	s := again()
	defer func() { _ = s.Close() }()
	register := func() int64 {
		p, err := s.Register(t.Context(), t0, store.Process{Host: "desk", Kinds: []string{"crawl"}, Queues: []string{queue}})
		if err != nil {
			t.Fatal(err)
		}
		return p.ID
	}
	for more := true; more; { // what a server's upkeep does: counters of earlier runs are folded
		done, err := s.Maintain(t.Context(), store.Maintenance{Now: t0, Limit: 10000})
		if err != nil {
			t.Fatal(err)
		}
		more = done.More
	}
	process := register()
	for len(list) < n {
		restart := len(list) == n/3 && last != nil
		turn := store.Turn{Process: process, Now: t0.Add(time.Minute), Settles: last}
		if !restart {
			turn.Claims = []store.Claim{{Queue: queue, Kinds: []string{"crawl"}, Limit: 10}}
		}
		got, err := s.Turn(t.Context(), turn)
		if err != nil {
			t.Fatal(err)
		}
		last = nil
		if restart {
			if err := s.Leave(t.Context(), process); err != nil {
				t.Fatal(err)
			}
			_ = s.Close() // as a process that ends
			s = again()
			process = register()
			continue
		}
		if len(got.Claimed) != 1 {
			t.Fatalf("%d jobs at once after %d", len(got.Claimed), len(list))
		}
		j := &got.Claimed[0]
		list = append(list, string(j.Args))
		h := j.History.Started(t0)
		h.Attempts++
		last = []store.Settle{{
			Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Succeeded, History: h,
			Attempt: &job.Attempt{Seq: j.Seq, Start: h.Starts, Epoch: j.Epoch, Process: process, StartedAt: t0, EndedAt: t0, OK: true, Counted: "attempt"},
		}}
	}
	return list
}

// Jobs with one timestamp on a strict queue come in the same order in every
// run and after restarts, one at a time, on both databases.
// EBB_CAMPAIGN=full: 1,000 jobs, 50 runs.
func TestOneTimestampOneOrder(t *testing.T) {
	runs, n := 3, 100
	if os.Getenv("EBB_CAMPAIGN") == "full" {
		runs, n = 50, 1000
	}
	databases(t, func(t *testing.T, again func() store.Store) {
		var first []string
		for run := range runs {
			queue := fmt.Sprintf("line-%d", run)
			jobs := make([]job.New, n)
			for i := range jobs {
				// Names that sort otherwise than they were enqueued.
				jobs[i] = job.New{Kind: "crawl", Queue: queue, DueAt: t0, Args: fmt.Appendf(nil, `"%04d"`, i*7919%10007)}
			}
			s := again()
			if err := s.StrictQueue(t.Context(), queue, true); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Enqueue(t.Context(), t0, jobs); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			got := drained(t, queue, n, again)
			if first == nil {
				first = got
				for i := range jobs {
					if string(jobs[i].Args) != got[i] {
						t.Fatalf("place %d has %s, want %s", i, got[i], jobs[i].Args)
					}
				}
			}
			if !slices.Equal(got, first) {
				t.Fatalf("run %d came in another order", run)
			}
		}
		t.Logf("%d runs of %d jobs with one timestamp: one order", runs, n)
	})
}

// A campaign over real databases: scheduled once by many, crawled in its order.
func TestCampaignOnDatabases(t *testing.T) {
	c, err := Parse("annual.yaml", []byte(annual), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	databases(t, func(t *testing.T, again func() store.Store) {
		s := again()
		defer func() { _ = s.Close() }()
		d := deskOver(t, &c, clock.NewFake(t0), s)
		if p := d.schedule(true); p.Changes() != 3 {
			t.Fatal(states(&p))
		}
		if p := d.schedule(true); p.Changes() != 0 {
			t.Fatal(states(&p))
		}
		got := []string{d.fail(timeouts), d.fail(timeouts), d.fail(timeouts)}
		if strings.Join(got, " ") != "hc-2026 phac-2026 cihr-2026" {
			t.Error(got)
		}
		if r := d.recovers(true); !r.Applied || r.Acts().Run != "hc-2026" {
			t.Errorf("%+v", r)
		}
		if r := d.run("hc-2026"); r.State != job.Queued || r.RestartsLeft != 20 {
			t.Errorf("%+v", r)
		}
		list, err := d.service.List(t.Context())
		if err != nil || len(list) != 1 || list[0].State != "waiting" || len(list[0].Recoveries) != 1 {
			t.Errorf("%+v %v", list, err)
		}
	})
}
