package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// channel is what everybody listens to. The payload names the store that
// notified, so that it need not wake itself twice; it is empty where the
// notification is part of a user's transaction.
const channel = "ebb"

const notifyStatement = "SELECT pg_notify($1, $2)"

const (
	// notifyGap is the least time between two notifications of one process:
	// each takes a lock that all notifying commits of the cluster share.
	notifyGap = 5 * time.Millisecond
	// alongGap is for how long nothing must have been notified before an
	// enqueue's own transaction does: it holds that lock until its commit is
	// flushed, so only who enqueues now and then may. It saves the wake-up a
	// round trip.
	alongGap = 2 * notifyGap
	// laterGap is notifyGap for jobs that are not due yet: who sleeps has to
	// learn of them, but not at once.
	laterGap = 250 * time.Millisecond
	// probeWithin is how long a listener waits for its own voice before it
	// takes the line for deaf, as behind a pooler.
	probeWithin = 3 * time.Second
	// relistenAfter is when a deaf or broken line is tried again.
	relistenAfter = 30 * time.Second
)

// wakes tells workers, here and in other processes, that something may be
// claimable.
type wakes struct {
	store   *Store
	config  *pgx.ConnConfig
	me      string
	ended   context.Context
	end     context.CancelFunc
	all     sync.WaitGroup
	planned atomic.Bool // a later wake in this process

	mu        sync.Mutex
	waiting   map[chan struct{}]struct{}
	listening bool
	due       time.Time // of the next notification; zero = none
	again     time.Time // of one more after that
	toldAt    time.Time // of the last notification
	joinedAt  time.Time // of the last one in a user's transaction
	kick      chan struct{}
}

func (w *wakes) start(s *Store, config *pgx.ConnConfig) {
	w.store, w.config, w.me = s, config.Copy(), instance()
	w.waiting, w.kick = map[chan struct{}]struct{}{}, make(chan struct{}, 1)
	w.ended, w.end = context.WithCancel(context.Background())
	w.all.Go(w.notify)
}

// stop sends what is due and closes every channel.
func (w *wakes) stop() {
	w.mu.Lock()
	w.end()
	w.mu.Unlock()
	w.all.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.waiting {
		delete(w.waiting, ch)
		close(ch)
	}
}

// Wakes returns a channel that receives when something became claimable.
func (s *Store) Wakes(ctx context.Context) (<-chan struct{}, error) {
	w := &s.wakes
	w.mu.Lock()
	defer w.mu.Unlock()
	ch := make(chan struct{}, 1)
	if w.ended.Err() != nil || ctx.Err() != nil {
		close(ch)
		return ch, ctx.Err()
	}
	w.waiting[ch] = struct{}{}
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if _, open := w.waiting[ch]; open {
			delete(w.waiting, ch)
			close(ch)
		}
	})
	if !w.listening {
		w.listening = true
		w.all.Go(w.listen)
	}
	return ch, nil
}

// beside runs f on a goroutine that ends before the store is closed.
func (w *wakes) beside(f func(ctx context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended.Err() == nil {
		w.all.Go(func() { f(w.ended) })
	}
}

// local wakes who waits in this process.
func (w *wakes) local() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.waiting {
		select {
		case ch <- struct{}{}:
		default: // one wake says it all
		}
	}
}

// localAfter wakes who waits in this process a while later, once for all that
// ask meanwhile.
func (w *wakes) localAfter(d time.Duration) {
	if w.planned.CompareAndSwap(false, true) {
		time.AfterFunc(d, func() {
			w.planned.Store(false)
			w.local()
		})
	}
}

// now wakes everybody: something is claimable.
func (w *wakes) now() { w.wish(atOnce) }

// wish wakes everybody as soon as wished.
func (w *wakes) wish(how wish) {
	switch how {
	case atOnce:
		w.local()
		w.ask(time.Now())
	case later:
		w.local()
		w.ask(time.Now().Add(laterGap))
	case nobody:
	}
}

// ask asks for a notification at the instant.
func (w *wakes) ask(at time.Time) {
	w.mu.Lock()
	if w.due.IsZero() || at.Before(w.due) {
		w.due = at
	}
	w.mu.Unlock()
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// within notifies when the user's transaction commits. Of many transactions
// in a row not each does, or their commits would queue up: those are told of a
// moment later, by which time they have committed or will be found by a poll.
func (w *wakes) within(ctx context.Context, r runner) error {
	w.mu.Lock()
	soon := time.Since(w.joinedAt) < notifyGap
	if soon {
		w.again = time.Now().Add(20 * notifyGap)
	} else {
		w.joinedAt = time.Now()
	}
	w.mu.Unlock()
	if soon {
		w.ask(time.Now().Add(2 * notifyGap))
		return nil
	}
	return r.exec(ctx, "SELECT pg_notify($1, '')", channel)
}

// along reports whether the enqueue's own transaction shall notify. It shall
// not where another notification went out just now: then the caller asks for
// one more after its commit.
func (w *wakes) along() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.toldAt) < alongGap {
		return false
	}
	w.toldAt = time.Now()
	return true
}

// notify sends what is asked for, never two in notifyGap, until the end.
func (w *wakes) notify() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Stop()
		if due := w.next(); !due.IsZero() {
			timer.Reset(max(0, time.Until(due)))
		}
		select {
		case <-w.ended.Done():
			if !w.next().IsZero() {
				w.tell()
			}
			return
		case <-w.kick:
			continue
		case <-timer.C:
		}
		w.mu.Lock()
		w.due, w.again, w.toldAt = w.again, time.Time{}, time.Now()
		w.mu.Unlock()
		w.tell()
		timer.Reset(notifyGap)
		select {
		case <-w.ended.Done():
		case <-timer.C:
		}
	}
}

// next returns when the next notification is due; zero = never.
func (w *wakes) next() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.due
}

// tell sends one notification, also while the store closes. If it fails,
// others find the jobs by polling.
func (w *wakes) tell() {
	w.local()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ended), probeWithin)
	defer cancel()
	b := &pgx.Batch{}
	b.Queue("SELECT set_config('synchronous_commit', 'off', true)") // a wake-up need not be durable
	b.Queue(notifyStatement, channel, w.me)
	_ = w.store.pool.SendBatch(ctx, b).Close()
}

// listen wakes on notifications for as long as the line works, and by polling
// while it does not.
func (w *wakes) listen() {
	tick := time.NewTicker(w.store.options.Poll)
	defer tick.Stop()
	for w.ended.Err() == nil {
		if !w.store.options.NoListen {
			w.hear()
		}
		w.poll(tick)
	}
}

// poll wakes at every tick until a line is worth trying again.
func (w *wakes) poll(tick *time.Ticker) {
	again := time.NewTimer(relistenAfter)
	defer again.Stop()
	for {
		select {
		case <-w.ended.Done():
			return
		case <-tick.C:
			w.local()
		case <-again.C:
			return
		}
	}
}

// hear listens on a connection of its own until it breaks. A broken line that
// worked is tried again at once, a few times.
func (w *wakes) hear() {
	for heard := true; heard && w.ended.Err() == nil; {
		heard = w.hearOnce()
		w.local() // something may have been said meanwhile
		for tries := 0; !heard && tries < 10 && w.ended.Err() == nil; tries++ {
			pause := time.NewTimer(w.store.options.Poll)
			select {
			case <-w.ended.Done():
			case <-pause.C:
				w.local()
				heard = w.hearOnce()
			}
			pause.Stop()
		}
	}
}

// hearOnce reports whether the line ever worked.
func (w *wakes) hearOnce() (worked bool) {
	conn, err := pgx.ConnectConfig(w.ended, w.config)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(context.WithoutCancel(w.ended)) }() // gone either way
	if _, err := conn.Exec(w.ended, "LISTEN "+channel); err != nil {
		return false
	}
	probe := "probe " + w.me
	if _, err := w.store.pool.Exec(w.ended, notifyStatement, channel, probe); err != nil {
		return false
	}
	deaf, cancel := context.WithTimeout(w.ended, probeWithin)
	defer cancel()
	for ctx := deaf; ; {
		n, err := conn.WaitForNotification(ctx)
		switch {
		case err != nil:
			return worked
		case n.Payload == probe:
			worked, ctx = true, w.ended
			w.local() // what came before the line stood
		case n.Payload != w.me:
			w.local()
		}
	}
}
