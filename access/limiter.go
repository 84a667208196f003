package access

import (
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
)

// MaxLogins is how often one address may try to log in within a minute;
// MaxLoginsAll is how often all of them together may.
const (
	MaxLogins    = 10
	MaxLoginsAll = 100
)

// limiter counts tries by address, minute by minute.
type limiter struct {
	clock clock.Clock
	mu    sync.Mutex
	since time.Time
	all   int
	by    map[string]int
}

func newLimiter(c clock.Clock) *limiter { return &limiter{clock: c, by: map[string]int{}} }

func (l *limiter) allow(from string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.clock.Now(); now.Sub(l.since) >= time.Minute {
		l.since, l.all = now, 0
		clear(l.by)
	}
	if l.all >= MaxLoginsAll || l.by[from] >= MaxLogins {
		return false
	}
	l.all++
	l.by[from]++
	return true
}
