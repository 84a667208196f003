package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// tx is one transaction of the writer, or one of the user's that was joined.
// Its statements are not interrupted: a batch is short, and what has begun is
// better finished than thrown away.
type tx struct {
	*conn
	ctx    context.Context // without the caller's cancel
	now    time.Time
	deltas map[place]int64
	queues map[string]*queueFacts
	queued bool      // something became claimable
	behind []waiting // parked because the job ahead in their key failed
	noted  []int64   // the numbers in ebb_noted, rising; nil = none of this transaction
	// timeless is set where the caller's now is not the commit's: a look at a
	// job that is due comes then at its due time.
	timeless bool
}

// place is what is counted: the jobs of a queue in a state.
type place struct {
	queue string
	state job.State
}

func (c *conn) transaction(ctx context.Context, now time.Time) *tx {
	return &tx{conn: c, ctx: context.WithoutCancel(ctx), now: at(now), deltas: map[place]int64{}}
}

// instant is now as it is stored.
func (t *tx) instant() time.Time { return store.Instant(t.now) }

// run executes a statement.
func (t *tx) run(name string, args ...any) (int64, error) { return t.exec(t.ctx, name, args...) }

// add counts n jobs into a place, or out of it.
func (t *tx) add(queue string, state job.State, n int64) {
	t.deltas[place{queue, state}] += n
	if state == job.Queued && n > 0 {
		t.queued = true
	}
}

// move counts one job from a state to another.
func (t *tx) move(queue string, from, to job.State) {
	t.add(queue, from, -1)
	t.add(queue, to, 1)
}

// flush writes the counts.
func (t *tx) flush() error {
	for p, n := range t.deltas {
		if n == 0 {
			continue
		}
		if _, err := t.run("tally", p.queue, string(p.state), n); err != nil {
			return err
		}
	}
	clear(t.deltas)
	return nil
}

// lock waits for the right to write in this process.
func (s *Store) lock(ctx context.Context, r rank) error {
	select { // a closed store refuses even if the lock is free
	case <-s.closed:
		return errClosed
	default:
	}
	turn := s.writing.enter(r)
	timer := time.NewTimer(s.options.Patience)
	defer timer.Stop()
	var err error
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.closed:
		err = errClosed
	case <-timer.C:
		err = &Error{What: "write", Path: s.path, code: codeBusy, Err: errors.New("the transaction belongs to this process")}
	}
	s.writing.giveUp(turn)
	return err
}

func (s *Store) unlock() { s.writing.leave() }

// write runs f in one transaction of the writer: all of it is durable when
// write returns nil, none of it otherwise.
func (s *Store) write(ctx context.Context, what string, now time.Time, f func(t *tx) error) error {
	return s.writeAs(ctx, inTurn, what, now, f)
}

// writeAs is write for whoever has another place in the line.
func (s *Store) writeAs(ctx context.Context, r rank, what string, now time.Time, f func(t *tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.lock(ctx, r); err != nil {
		return err
	}
	defer s.unlock()
	if err := s.acquire(ctx); err != nil {
		return s.explain(what, err)
	}
	defer func() { s.released = time.Now() }()
	t := s.writer.transaction(ctx, now)
	err := f(t)
	if err == nil {
		err = t.flush()
	}
	if err == nil {
		_, err = t.run("commit")
	}
	if err != nil {
		return s.explain(what, errors.Join(err, s.giveUp(t, err)))
	}
	if t.queued {
		s.wake()
	}
	s.untold.Add(countEnds(t.behind, job.Parked, job.HeadFailed))
	return nil
}

// acquire begins a transaction of the writer.
func (s *Store) acquire(ctx context.Context) error {
	if s.writer == nil {
		c, err := s.connect(ctx, roleWriter)
		if err != nil {
			return err
		}
		s.writer = c
	}
	if err := s.yield(ctx); err != nil {
		return err
	}
	return s.patiently(ctx, func() error {
		_, err := s.writer.exec(context.WithoutCancel(ctx), "begin")
		if isBusy(err) {
			s.crowded = time.Now()
		}
		return err
	})
}

// yield lets other processes have the file's lock, which goes to whoever asks
// first after it is free: the one that just had it would win every time.
func (s *Store) yield(ctx context.Context) error {
	if time.Since(s.crowded) > time.Second || time.Since(s.released) > maxWait {
		return nil
	}
	return pause(ctx, maxWait)
}

// giveUp rolls back. A connection that met a broken file, or cannot roll
// back, is replaced by the next call.
func (s *Store) giveUp(t *tx, cause error) error {
	_, err := t.run("rollback")
	code := codeOf(cause)
	rolledBack := err == nil || code == codeFull || code == codeIO // which SQLite rolls back by itself
	if rolledBack && code != codeIO && code != codeCorrupt && code != codeNotADB {
		return nil
	}
	err = s.writer.Close()
	s.writer = nil
	return err
}

// read runs f on a connection for reading; snapshot makes all its statements
// see one state.
func (s *Store) read(ctx context.Context, what string, snapshot bool, f func(c *conn) error) error {
	return s.readOn(ctx, s.readers, what, snapshot, f)
}

// readOn is read on one of those connections.
func (s *Store) readOn(ctx context.Context, conns chan *conn, what string, snapshot bool, f func(c *conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var c *conn
	select {
	case <-s.closed:
		return errClosed
	default:
	}
	select {
	case c = <-conns:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
		return errClosed
	}
	defer func() { conns <- c }()
	err := s.patiently(ctx, func() (err error) {
		if c == nil {
			if c, err = s.connect(ctx, roleReader); err != nil {
				return err
			}
		}
		return c.reading(ctx, snapshot, f)
	})
	if err != nil && c != nil && !c.IsValid() || codeOf(err) == codeIO {
		err = errors.Join(err, c.Close())
		c = nil
	}
	return s.explain(what, err)
}

// reading runs f, within a transaction for a snapshot.
func (c *conn) reading(ctx context.Context, snapshot bool, f func(c *conn) error) error {
	if !snapshot {
		return f(c)
	}
	free := context.WithoutCancel(ctx)
	if _, err := c.exec(free, "begin_read"); err != nil {
		return err
	}
	err := f(c)
	_, end := c.exec(free, "commit")
	return errors.Join(err, end)
}
