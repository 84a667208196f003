// Package sqlite keeps jobs in one SQLite file: the embedded default, for one
// machine and as many of its processes as you like. The driver is pure Go.
//
// How a file is used:
//
//   - journal_mode=WAL: readers never wait for the writer, nor it for them.
//   - synchronous=FULL: a commit is on the disk before it is acknowledged.
//     Options.Relaxed makes it NORMAL: a power cut, not a crash of the
//     process, may then undo the last commits, never part of one.
//   - One writer: a transaction of this process waits for the others of this
//     process in the order they came (a beat goes first), then for those of
//     other processes, all with BEGIN IMMEDIATE, so that none can fail
//     half-way for want of the lock. Nobody sees "database is locked" unless
//     somebody else holds a transaction open for longer than Options.Patience.
//   - busy_timeout covers what SQLite locks by itself (recovery, the switch to
//     WAL); cache_size is 16 MiB for the writer, temp_store is memory,
//     foreign_keys are on for your tables, wal_autocheckpoint is 4,000 pages.
//   - The file is created with mode 0600, its directory, if need be, with 0700.
//   - A new file is migrated when first opened. So is one of an older schema,
//     after SQLite's quick_check: there is nobody else to do it. A newer one
//     is refused with store.ErrSchema.
//
// Wakes cost no query: a commit that makes jobs claimable writes 16 bytes into
// a file beside the database, and a waiting process reads them 50 times a
// second. Idle cost: 0 queries a minute.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/ebbhq/ebb/store"
)

// Options are how a file is used. The zero value is right for most.
type Options struct {
	// Relaxed gives up a little durability for speed: see the package.
	Relaxed bool
	// Patience is how long a call waits for the write lock before it fails;
	// 0 = 1 minute. A call's context may end sooner.
	Patience time.Duration
	// Readers is how many reads run at a time; 0 = 4.
	Readers int
	// WakeEvery is how often the signal of other processes is looked at;
	// 0 = 20 ms.
	WakeEvery time.Duration
}

func (o Options) withDefaults() Options {
	if o.Patience <= 0 {
		o.Patience = time.Minute
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.WakeEvery <= 0 {
		o.WakeEvery = 20 * time.Millisecond
	}
	return o
}

// Store is a store.Store in one file, safe for concurrent use.
type Store struct {
	path    string
	options Options
	schema  fs.FS // of migrations

	writing  line       // the right to write, in this process
	writer   *conn      // guarded by writing, as the next four; nil = to be opened
	claimed  int        // jobs that the last claim took: how many the next one makes room for
	crowded  time.Time  // when another process was last met at the lock
	released time.Time  // when the writer last let go of it
	serves   serves     // lanes that are claimed by name
	readers  chan *conn // idle connections and, as nil, those to be opened
	takers   chan *conn // the same, for turns alone: no long list keeps them waiting
	users    *sql.DB    // the handle of DB
	signal   *signal

	gateTexts store.GateTexts
	untold    store.UntoldEnds // of the next turn

	closing   sync.Once
	closed    chan struct{}
	closedErr error
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Flow  = (*Store)(nil)
)

var errClosed = errors.New("sqlite: the store is closed")

// Open opens the file at path, creates and migrates it if need be.
func Open(ctx context.Context, path string, options Options) (*Store, error) {
	s, err := newStore(path, options)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if s.signal, err = openSignal(s.path, s.options.WakeEvery); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func newStore(path string, options Options) (*Store, error) {
	path, err := filePath(path)
	if err != nil {
		return nil, err
	}
	s := &Store{
		path: path, options: options.withDefaults(), schema: schemaFiles,
		closed: make(chan struct{}), serves: serves{},
	}
	s.readers, s.takers = unopened(s.options.Readers), unopened(takers)
	s.users = sql.OpenDB(connector{s})
	return s, nil
}

// takers is how many turns read what they took at once.
const takers = 2

// unopened returns n connections that are yet to be opened.
func unopened(n int) chan *conn {
	conns := make(chan *conn, n)
	for range n {
		conns <- nil
	}
	return conns
}

// prepare creates the file, opens the writer and migrates.
func (s *Store) prepare(ctx context.Context) error {
	if err := s.create(); err != nil {
		return err
	}
	return s.upgrade(ctx)
}

// Now returns the machine's clock, which is the database's here.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	return store.Instant(time.Now()), ctx.Err()
}

// at returns now, or the clock's time for zero.
func at(now time.Time) time.Time {
	if now.IsZero() {
		return time.Now()
	}
	return now
}

// Close ends the wakes, waits for running calls and closes the file. Later
// calls are refused.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.closed)
		var errs []error
		if s.signal != nil {
			errs = append(errs, s.signal.close())
		}
		errs = append(errs, s.users.Close())
		for _, conns := range []chan *conn{s.readers, s.takers} {
			for range cap(conns) {
				if c := <-conns; c != nil {
					errs = append(errs, c.Close())
				}
			}
		}
		<-s.writing.enter(inTurn) // never given back
		if s.writer != nil {
			errs = append(errs, s.writer.Close())
		}
		s.closedErr = errors.Join(errs...)
	})
	return s.closedErr
}
