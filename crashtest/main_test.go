package crashtest_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/crashtest"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/sqlite"
)

func TestMain(m *testing.M) {
	if crashtest.IsWorker() {
		os.Exit(crashtest.Work())
	}
	// These tests wait for other processes more than they compute.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(pgtest.Run(m))
}

// figures are how much is done: a part with every `go test`, all of it with
// EBB_CRASH=full (make test-crash).
type figures struct {
	kills, jobs int
	stops       int // SIGSTOP cycles
	restarts    int // of PostgreSQL
	// lives of workers that are killed one after the other, and how long each
	// is left alone once it works.
	lives int
	alone func(*rand.Rand) time.Duration
	// rounds of chaos over targets, each with a kill or a stop; keys with
	// perKey jobs each.
	rounds, calls, keys, perKey int
}

func size() figures {
	if os.Getenv("EBB_CRASH") == "full" {
		return figures{kills: 100, jobs: 20_000, stops: 100, restarts: 10, lives: 20, alone: between(4*time.Second, 8*time.Second), rounds: 60, calls: 12_000, keys: 200, perKey: 20}
	}
	return figures{kills: 8, jobs: 2_000, stops: 3, restarts: 2, lives: 3, alone: between(0, time.Second), rounds: 4, calls: 600, keys: 60, perKey: 10}
}

// between draws a time from low to high.
func between(low, high time.Duration) func(*rand.Rand) time.Duration {
	return func(rng *rand.Rand) time.Duration { return low + time.Duration(rng.Int64N(int64(high-low))) }
}

// seed of orders, victims and moments: EBB_CRASH_SEED, or 1. The machine's
// own timing is in no seed.
func seed(t *testing.T) uint64 {
	text := os.Getenv("EBB_CRASH_SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("EBB_CRASH_SEED: %v; want a number", err)
	}
	return n
}

// Leases of this suite, so that a death is noticed within seconds.
var short = crashtest.Config{Lease: 2 * time.Second, Beat: 500 * time.Millisecond, Concurrency: 50, Drain: time.Minute, Grace: 5 * time.Second}

// stage is one database with its fleet and all that was asked of it.
type stage struct {
	*testing.T
	ctx   context.Context
	url   string
	store store.Store
	fleet *crashtest.Fleet
	acked map[int64]crashtest.Order
	maybe map[string]crashtest.Order
	rng   *rand.Rand
	named int

	account crashtest.Account // as it was judged
}

// onBoth runs the test on both databases at the same time.
func onBoth(t *testing.T, c crashtest.Config, test func(s *stage)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(newStage(t, "sqlite:"+filepath.Join(t.TempDir(), "ebb.db"), c))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(newStage(t, pgtest.Database(t), c))
	})
}

func newStage(t *testing.T, url string, c crashtest.Config) *stage {
	t.Helper()
	opened, err := crashtest.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	c.URL, c.Targets = url, t.TempDir()
	s := &stage{
		T: t, ctx: t.Context(), url: url, store: opened, fleet: crashtest.NewFleet(t.TempDir(), c),
		acked: map[int64]crashtest.Order{}, maybe: map[string]crashtest.Order{}, rng: rand.New(rand.NewPCG(seed(t), 0)),
	}
	t.Cleanup(func() {
		s.must(s.fleet.Close())
		s.must(opened.Close())
	})
	return s
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// workers starts n of them and waits until the store knows them.
func (s *stage) workers(n int) []*crashtest.Life {
	s.Helper()
	lives := make([]*crashtest.Life, n)
	for i := range lives {
		var err error
		lives[i], err = s.fleet.Start()
		s.must(err)
	}
	s.until("the workers are registered", func() bool {
		for _, l := range lives {
			if l.Process() == 0 {
				return false
			}
		}
		return true
	})
	return lives
}

func (s *stage) until(what string, done func() bool) {
	s.Helper()
	s.must(s.fleet.Until(s.ctx, what, func() (bool, error) { return done(), nil }))
}

// moment lets d pass.
func (s *stage) moment(d time.Duration) { s.must(clock.Sleep(s.ctx, clock.System{}, d)) }

// orders returns n of one kind.
func (s *stage) orders(n int, o crashtest.Order) []crashtest.Order {
	list := make([]crashtest.Order, n)
	for i := range list {
		s.named++
		list[i] = o
		list[i].Name = fmt.Sprintf("%s-%d", o.Kind, s.named)
	}
	return list
}

// mixed returns n orders of all kinds.
func (s *stage) mixed(n int) []crashtest.Order {
	s.named++
	now, err := s.store.Now(s.ctx)
	s.must(err)
	return crashtest.Mixed(s.rng, fmt.Sprintf("mixed-%d", s.named), n, now)
}

// enqueue asks for the orders and remembers what was acknowledged.
func (s *stage) enqueue(orders []crashtest.Order) []int64 {
	s.Helper()
	seqs, err := s.tryEnqueue(orders)
	s.must(err)
	return seqs
}

// tryEnqueue remembers orders whose answer is an error as perhaps done.
func (s *stage) tryEnqueue(orders []crashtest.Order) ([]int64, error) {
	jobs := make([]job.New, len(orders))
	for i, o := range orders {
		jobs[i] = o.New()
	}
	var now time.Time // the store's
	if s.fleet.Config.Factor != 0 {
		now = s.fleet.Config.Clock().Now()
	}
	answers, err := s.store.Enqueue(s.ctx, now, jobs)
	if err != nil {
		for _, o := range orders {
			s.maybe[o.Name] = o
		}
		return nil, err
	}
	seqs := make([]int64, len(answers))
	for i, a := range answers {
		seqs[i] = a.Seq
		s.acked[a.Seq] = orders[i]
	}
	return seqs, nil
}

// finish drains, stops the workers and judges. The database itself must be
// sound, too.
func (s *stage) finish() crashtest.Report {
	s.Helper()
	s.must(s.fleet.Drained(s.ctx, s.store))
	s.must(s.fleet.Stop(s.ctx))
	return s.judge()
}

func (s *stage) judge() crashtest.Report {
	s.Helper()
	account, err := crashtest.ReadAccount(s.ctx, s.store)
	s.must(err)
	s.account = account
	report, broken := crashtest.Judge(s.evidence())
	s.blame(broken)
	if lite, ok := s.store.(*sqlite.Store); ok {
		var verdict string
		s.must(lite.DB().QueryRowContext(s.ctx, "PRAGMA integrity_check").Scan(&verdict))
		if verdict != "ok" {
			s.Errorf("integrity_check: %s", verdict)
		}
	}
	s.Logf("seed %d: %s", seed(s.T), report)
	return report
}

func (s *stage) evidence() crashtest.Case {
	return crashtest.Case{Acked: s.acked, Maybe: s.maybe, Lives: s.fleet.Lives, Lease: s.fleet.Config.Lease, Account: s.account}
}

func (s *stage) blame(broken []string) {
	s.Helper()
	const most = 30
	for i, b := range broken {
		if i == most {
			s.Errorf("… and %d more", len(broken)-most)
			break
		}
		s.Error(b)
	}
}

// slow is the error of a heartbeat that a busy machine delayed for longer than
// the lease. It costs the process its leases; what follows is judged.
const slow = "deadline exceeded"

// noErrors fails on any call of the store that failed in a worker: above all
// on "database is locked".
func (s *stage) noErrors(excused ...string) {
	s.Helper()
	if list := crashtest.Errors(s.fleet.Lives, excused...); len(list) > 0 {
		s.Errorf("%d calls of the store failed:\n%s", len(list), strings.Join(list[:min(len(list), 10)], "\n"))
	}
}

// job reads one job.
func (s *stage) job(seq int64) job.Job {
	s.Helper()
	j, err := s.store.Job(s.ctx, seq)
	s.must(err)
	return j
}
