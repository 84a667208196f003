// Package postgres keeps jobs in a PostgreSQL database, for many machines.
// store/DESIGN.md says what is kept where; the SQL is in sql/ and schema/.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/store"
)

// Options are the store's settings. The zero value is right for most.
type Options struct {
	// Name is what pg_stat_activity shows; "ebb" if empty.
	Name string
	// StatementTimeout is when the server gives a statement up; 0 = one
	// minute, negative = never.
	StatementTimeout time.Duration
	// IdleTimeout is when the server ends a transaction of the store's whose
	// process has fallen silent, frozen in the middle of it, and gives its
	// locks free; 0 = 10 seconds, negative = never.
	IdleTimeout time.Duration
	// Poll is how often Wakes wakes where LISTEN does not work; 0 = one
	// second.
	Poll time.Duration
	// NoListen leaves LISTEN out: for poolers that do not pass it on, and for
	// tests under virtual time, which a waiting connection would stop. Wakes
	// polls instead.
	NoListen bool
	// Pooler says that the URL is that of a pooler that gives each transaction
	// another connection: no session settings, no prepared statements, and no
	// LISTEN on it. ebb_pooler=transaction in the URL says the same.
	Pooler bool
	// Listen is the URL of the database itself where Pooler is set: one
	// connection of the process goes past the pooler, for LISTEN. Empty = Wakes
	// polls. ebb_listen in the URL says the same.
	Listen string
	// Sweep is how often a claim looks at what lies behind the place where the
	// last one ended; 0 = one second. Only under a long backlog does it wait
	// for this: a claim that finds less than it asked for looks at once.
	Sweep time.Duration
}

// Store is a store.Store on PostgreSQL, safe for concurrent use.
type Store struct {
	pool    *pgxpool.Pool
	options Options
	scans   scans
	marks   marks
	gathers gathers
	wakes   wakes
	locally string // the settings of a transaction behind a pooler
	flushes bool   // the log may be flushed by itself
	// How many jobs the last claim took, plainly and from lanes: the next one
	// makes room for as many.
	lastClaim, lastLanes atomic.Int64
	// noted says that notes of keys wait for the next turn.
	noted     atomic.Bool
	gateTexts store.GateTexts
	untold    store.UntoldEnds // of the next turn

	mu     sync.Mutex
	queues map[string]int32 // known to exist, with their numbers
	strict map[string]bool  // known to be strict
	keyed  map[int64]bool   // leases given out whose jobs have a key
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Flow  = (*Store)(nil)
)

// plans are session settings that keep a hot statement on its index whatever
// the statistics say: a queue is empty when it is analysed and full a second
// later, and a plan that read a whole table would stay in the cache.
var plans = map[string]string{
	"plan_cache_mode":   "force_generic_plan",
	"enable_seqscan":    "off",
	"enable_bitmapscan": "off", // it would sort what an index has in order
	"enable_hashjoin":   "off",
	"enable_mergejoin":  "off",
	"jit":               "off",
}

// idleTimeout ends a session that waits inside a transaction.
const idleTimeout = "idle_in_transaction_session_timeout"

// Open connects and checks the schema: an empty database gets it, another
// version is refused with store.ErrSchema.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	config, err := o.parse(url)
	if err != nil {
		return nil, err
	}
	o = o.filled()
	o.apply(config)
	listener, err := o.listener(config.ConnConfig)
	if err != nil {
		return nil, err
	}
	config.AfterConnect = quickArrays
	config.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) { return alive(conn.PgConn().Conn()), nil }
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if err := ensure(ctx, pool); err != nil {
		pool.Close()
		return nil, refusedByPooler(err)
	}
	s := &Store{pool: pool, options: o, locally: o.locally(), queues: map[string]int32{}, strict: map[string]bool{}, keyed: map[int64]bool{}}
	if err := pool.QueryRow(ctx, mayFlush).Scan(&s.flushes); err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s.flushes = s.flushes && !o.Pooler
	s.scans.every, s.marks.every, s.marks.turn = o.Sweep, o.Sweep, make(chan struct{}, 1)
	s.marks.patience = max(0, o.IdleTimeout/2)
	s.gathers.most = mostLooks
	s.wakes.start(s, listener)
	return s, nil
}

func (o Options) filled() Options {
	if o.Name == "" {
		o.Name = "ebb"
	}
	if o.StatementTimeout == 0 {
		o.StatementTimeout = time.Minute
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 10 * time.Second
	}
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	if o.Sweep == 0 {
		o.Sweep = time.Second
	}
	o.NoListen = o.NoListen || o.Pooler && o.Listen == ""
	return o
}

// apply sets what every connection of the pool begins with. What the URL says
// stays.
func (o Options) apply(config *pgxpool.Config) {
	c := config.ConnConfig
	set := func(name, value string) {
		if _, said := c.RuntimeParams[name]; !said {
			c.RuntimeParams[name] = value
		}
	}
	set("application_name", o.Name)
	if o.Pooler {
		c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		return
	}
	for name, value := range o.settings() {
		set(name, value)
	}
}

// Now returns the database's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	if err := s.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return now, fmt.Errorf("postgres: now: %w", err)
	}
	return store.Instant(now), nil
}

// Close sends the wake-ups that are waiting and ends all connections.
func (s *Store) Close() error {
	s.wakes.stop()
	s.pool.Close()
	return nil
}

// send runs the batch as one transaction in one round trip. Each statement's
// answer is given to the function that was queued with it.
func (s *Store) send(ctx context.Context, b *pgx.Batch) error {
	s.pooled(b)
	return s.pool.SendBatch(ctx, b).Close()
}

// opening begins a transaction that takes more than one batch.
func (s *Store) opening() *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	if s.options.Pooler {
		b.Queue(s.locally)
	}
	return b
}

// inTx runs f in a transaction of its own.
func (s *Store) inTx(ctx context.Context, f func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if s.options.Pooler {
			if _, err := tx.Exec(ctx, s.locally); err != nil {
				return err
			}
		}
		return f(tx)
	})
}

// failed says what was being done when the database failed. Errors of the
// store's own vocabulary pass as they are.
func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	for _, own := range []error{store.ErrNotFound, store.ErrState, store.ErrLostProcess, store.ErrForeignTx, store.ErrSchema, store.ErrUnique} {
		if errors.Is(err, own) {
			return err
		}
	}
	// A server that cannot be reached is to be tried again, whatever the
	// reason that the dialler gives; one that has looked at us and said no, not.
	var connect *pgconn.ConnectError
	var refusal *pgconn.PgError
	if errors.As(err, &connect) && !errors.As(err, &refusal) {
		err = failure.New(failure.Unavailable, "connect", err)
	}
	return fmt.Errorf("postgres: %s: %w", what, err)
}

// instance tells the stores of one database apart.
func instance() string { return fmt.Sprintf("%016x", rand.Uint64()) }
