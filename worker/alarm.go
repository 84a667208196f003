package worker

import (
	"container/heap"
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
)

// alarm is one timer that is set anew whenever its target moves.
type alarm struct {
	clock clock.Clock
	at    time.Time
	fired <-chan time.Time
	stop  func()
}

// set makes the alarm fire at the instant, which is d from now; zero = never.
// It may be a microsecond late: on a clock that runs faster than the machine's
// a shorter wait would be none, and the loop would spin until its time.
func (a *alarm) set(at time.Time, d time.Duration) {
	if at.Equal(a.at) && (at.IsZero() || a.fired != nil) {
		return
	}
	a.clear()
	if a.at = at; !at.IsZero() {
		if d > 0 {
			d = max(d, time.Microsecond)
		}
		a.fired, a.stop = a.clock.Timer(d)
	}
}

// clear forgets the timer, fired or not.
func (a *alarm) clear() {
	if a.stop != nil {
		a.stop()
	}
	a.at, a.fired, a.stop = time.Time{}, nil, nil
}

// dues are the due times of jobs that this process put back: it need not ask
// the store for those. Of more than maxDues the later ones are forgotten.
type dues []time.Time

const maxDues = 10_000

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, k int) bool { return d[i].Before(d[k]) }
func (d dues) Swap(i, k int)      { d[i], d[k] = d[k], d[i] }
func (d *dues) Push(x any)        { *d = append(*d, x.(time.Time)) }
func (d *dues) Pop() any {
	last := len(*d) - 1
	at := (*d)[last]
	*d = (*d)[:last]
	return at
}

func (d *dues) add(at time.Time) {
	heap.Push(d, at)
	if len(*d) > maxDues {
		*d = (*d)[:maxDues] // the last leaf: one of the later half
	}
}

// next returns the earliest; zero if there is none.
func (d dues) next() time.Time {
	if len(d) == 0 {
		return time.Time{}
	}
	return d[0]
}

// pass drops what is due and reports whether anything was.
func (d *dues) pass(now time.Time) bool {
	passed := false
	for len(*d) > 0 && !(*d)[0].After(now) {
		heap.Pop(d)
		passed = true
	}
	return passed
}

// mailbox is how everybody else talks to the loop. Only the loop takes out.
type mailbox struct {
	mu    sync.Mutex
	runs  []*run
	posts []func(*loop)
	woken bool
	// enough is how many finished runs are worth a wake-up; fewer wait for the
	// loop's next look.
	enough int
	bell   chan struct{}
}

func newMailbox() *mailbox { return &mailbox{enough: 1, bell: make(chan struct{}, 1)} }

// deliver hands over a run whose settle is decided. The caller holds mu.
func (m *mailbox) deliver(r *run) {
	m.runs = append(m.runs, r)
	if len(m.runs) >= m.enough {
		m.ring()
	}
}

// post runs f on the loop.
func (m *mailbox) post(f func(*loop)) {
	m.mu.Lock()
	m.posts = append(m.posts, f)
	m.mu.Unlock()
	m.ring()
}

// wake tells the loop, once however often it is called, that there is work.
func (m *mailbox) wake() {
	m.mu.Lock()
	woken := m.woken
	m.woken = true
	m.mu.Unlock()
	if !woken {
		m.post((*loop).wake)
	}
}

func (m *mailbox) ring() {
	select {
	case m.bell <- struct{}{}:
	default: // it rings already
	}
}

// take empties the box. The slices given back are reused for the next mail.
func (m *mailbox) take(runs []*run, posts []func(*loop)) ([]*run, []func(*loop)) {
	clear(runs)
	clear(posts)
	m.mu.Lock()
	defer m.mu.Unlock()
	fullRuns, fullPosts := m.runs, m.posts
	m.runs, m.posts, m.woken = runs[:0], posts[:0], false
	return fullRuns, fullPosts
}

// wait sets how many finished runs ring the bell and reports whether as many
// are there already.
func (m *mailbox) wait(enough int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.enough = max(1, enough)
	return len(m.posts) > 0 || len(m.runs) >= m.enough
}
