package postgres_test

import (
	"net/url"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/postgres"
	"github.com/ebbhq/ebb/store/storetest"
)

// bounced is how many connections a PgBouncer has for everybody; a user's
// transaction may hold one while the store needs another.
const bounced = 4

// behind returns the URL of the database as the bouncer has it.
func behind(tb testing.TB, b *pgtest.Bouncer, direct, parameters string) string {
	tb.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		tb.Fatal(err)
	}
	return b.URL(path.Base(u.Path)) + parameters
}

const poolerSaid = "&ebb_pooler=transaction"

// TestConformanceBehindABouncer: the rules hold behind a real pooler. Those of
// users' transactions and of concurrent callers have most to lose there;
// EBB_POOLER=full has all others, and the scripts of all stores.
func TestConformanceBehindABouncer(t *testing.T) {
	bouncer := pgtest.Shared(t).Bounce(t, bounced)
	there := func(t *testing.T) store.Store {
		return open(t, behind(t, bouncer, migrated(t), poolerSaid), postgres.Options{})
	}
	joinable := func(t *testing.T) storetest.Joinable {
		at := behind(t, bouncer, migrated(t), poolerSaid)
		return joined(t, at, strings.Replace(at, poolerSaid, "&default_query_exec_mode=cache_describe", 1))
	}
	t.Run("Transactions", func(t *testing.T) { storetest.RunTx(t, joinable) })
	t.Run("Linearizable", func(t *testing.T) { storetest.Linearizable(t, there) })
	if os.Getenv("EBB_POOLER") != "full" {
		return
	}
	t.Run("FlowInTransactions", func(t *testing.T) { storetest.RunFlowTx(t, joinable) })
	t.Run("Store", func(t *testing.T) { storetest.Run(t, there) })
	t.Run("Flow", func(t *testing.T) { storetest.RunFlow(t, there) })
	t.Run("Records", func(t *testing.T) { storetest.RunRecords(t, there) })
	t.Run("Traces", func(t *testing.T) { storetest.SameTraces(t, there) })
	t.Run("FlowTraces", func(t *testing.T) { storetest.SameFlowTraces(t, there) })
}

// TestManyBehindABouncer: stores of many processes share its few connections;
// each job is claimed by one of them, plain or of a lane.
func TestManyBehindABouncer(t *testing.T) {
	bouncer := pgtest.Shared(t).Bounce(t, bounced)
	at := behind(t, bouncer, migrated(t), poolerSaid)
	const processes, jobs = 6, 900
	seqs := mail(t, open(t, at, postgres.Options{}), jobs)
	var mu sync.Mutex
	owners := map[int64]int{}
	var all sync.WaitGroup
	for range processes {
		s := open(t, at, postgres.Options{})
		p := register(t, s)
		all.Go(func() {
			for {
				answer, err := s.Turn(t.Context(), store.Turn{
					Process: p, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 10}},
				})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				for i := range answer.Claimed {
					owners[answer.Claimed[i].Seq]++
				}
				mu.Unlock()
				if len(answer.Claimed) == 0 {
					return
				}
			}
		})
	}
	all.Wait()
	for _, seq := range seqs {
		if owners[seq] != 1 {
			t.Errorf("job %d was claimed %d times, want once", seq, owners[seq])
		}
	}
}

// TestNothingStaysOnABouncersConnection: what a transaction set is not set for
// whoever has the connection next.
func TestNothingStaysOnABouncersConnection(t *testing.T) {
	bouncer := pgtest.Shared(t).Bounce(t, 1)
	direct := migrated(t)
	s := open(t, behind(t, bouncer, direct, poolerSaid), postgres.Options{})
	p := register(t, s)
	mail(t, s, 200)
	claim(t, s, p, 200)
	other := connect(t, behind(t, bouncer, direct, "&default_query_exec_mode=exec"))
	for name, want := range map[string]string{
		"enable_seqscan": "on", "plan_cache_mode": "auto", "statement_timeout": "0", "idle_in_transaction_session_timeout": "0",
	} {
		var got string
		if err := other.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q for the next one, want %q (%v)", name, got, want, err)
		}
	}
	var lanes string
	if err := other.QueryRow(t.Context(), "SELECT coalesce(current_setting('ebb.lanes', true), '')").Scan(&lanes); err != nil || lanes != "" {
		t.Errorf("ebb.lanes is %q for the next one: %v", lanes, err)
	}
}

// TestWakesPastABouncer: by LISTEN on the database itself.
func TestWakesPastABouncer(t *testing.T) {
	bouncer := pgtest.Shared(t).Bounce(t, bounced)
	direct := migrated(t)
	at := behind(t, bouncer, direct, poolerSaid)
	s := open(t, at+"&ebb_listen="+url.QueryEscape(direct), postgres.Options{Poll: time.Hour})
	wakes, err := s.Wakes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-wakes // the line stands
	for range 3 {
		mail(t, open(t, at, postgres.Options{}), 1)
		<-wakes
	}
}

// TestWakesBehindABouncer: by polling, as LISTEN would be heard by nobody.
func TestWakesBehindABouncer(t *testing.T) {
	bouncer := pgtest.Shared(t).Bounce(t, bounced)
	s := open(t, behind(t, bouncer, migrated(t), poolerSaid), postgres.Options{Poll: time.Millisecond})
	wakes, err := s.Wakes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		<-wakes
	}
}

// TestMigrateBehindABouncer: up, down and the first open of an empty database.
func TestMigrateBehindABouncer(t *testing.T) {
	bouncer := pgtest.Shared(t).Bounce(t, bounced)
	at := behind(t, bouncer, pgtest.Database(t), poolerSaid)
	applied := func(way string) (n int) {
		t.Helper()
		list, err := postgres.Migrate(t.Context(), at, way)
		if err != nil {
			t.Fatalf("migrate %s: %v", way, err)
		}
		for _, m := range list {
			if !m.AppliedAt.IsZero() {
				n++
			}
		}
		return n
	}
	all := applied(postgres.Up)
	for left := all; left > 0; left-- {
		if n := applied(postgres.Status); all == 0 || n != left {
			t.Fatalf("%d of %d versions are applied, want %d", n, all, left)
		}
		applied(postgres.Down)
	}
	mail(t, open(t, at, postgres.Options{}), 1)
}

// TestAPoolerThatWasNotAnnounced is refused in words that say what to do.
func TestAPoolerThatWasNotAnnounced(t *testing.T) {
	bouncer := pgtest.Shared(t).Bounce(t, bounced)
	direct := migrated(t)
	_, err := postgres.Open(t.Context(), behind(t, bouncer, direct, ""), postgres.Options{})
	if err == nil || !strings.Contains(err.Error(), "Try: add ebb_pooler=transaction") {
		t.Errorf("a pooler's URL: %v; want an error that names ebb_pooler=transaction", err)
	}
	for parameters, want := range map[string]string{
		"&ebb_pooler=session": "ebb_pooler=session: want transaction", "&ebb_listen=postgres%3A%2F%2F": "ebb_listen is for a pooler's URL",
	} {
		if _, err := postgres.Open(t.Context(), direct+parameters, postgres.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", parameters, err, want)
		}
	}
}
