package fetch

import (
	"context"
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
)

// hosts paces the calls of this process to each host: by its Crawl-delay and,
// after its gate was open, by what it could bear before.
type hosts struct {
	o     *Options
	mu    sync.Mutex
	by    map[string]*host
	turns map[int64]time.Time // of pages that wait for theirs out of their slots, by job
}

// AIMD, after a gate was open: the rate begins at half of the goodput before,
// rises by a tenth of the nominal rate for each whole window of calls that
// used it and passed, and falls by a half for a window with an overload in it.
const (
	rateWindow = 10 * time.Second
	rateRise   = 0.1
	rateFall   = 0.5
	rateUsed   = 0.8 // of the allowance: less is our own idleness, which proves nothing
	leastRate  = 0.5 // a second: the slowest that AIMD goes; pauses are the gate's
)

// host is what one process knows of one host.
type host struct {
	nextAt time.Time     // no call before
	every  time.Duration // Crawl-delay

	rate    float64 // calls a second; 0 = not limited
	nominal float64 // at which the limit is lifted
	// of the window under way
	since  time.Time
	passed int
	failed int
	good   float64 // goodput of the last whole window without an overload
}

func newHosts(o *Options) *hosts {
	return &hosts{o: o, by: map[string]*host{}, turns: map[int64]time.Time{}}
}

// maxHosts bounds what is remembered; hosts that are not limited are dropped
// first.
const maxHosts = 10_000

func (h *hosts) host(name string, now time.Time) *host {
	s := h.by[name]
	if s == nil {
		if len(h.by) >= maxHosts {
			for other, o := range h.by {
				if o.rate == 0 && o.every == 0 {
					delete(h.by, other)
				}
			}
		}
		s = &host{since: now}
		h.by[name] = s
	}
	return s
}

// crawlDelay slows a host down to what its robots.txt asks for.
func (h *hosts) crawlDelay(name string, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.host(name, h.o.clock().Now()).every = d
}

// reserve takes the host's next turn for a job and returns how long it is
// away. One that is too far to wait for in a slot stays the job's own until it
// comes back.
func (h *hosts) reserve(name string, seq int64) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.o.clock().Now()
	if at, ok := h.turns[seq]; ok {
		if wait := at.Sub(now); wait > maxInSlot {
			return wait
		}
		delete(h.turns, seq)
		return max(0, at.Sub(now))
	}
	s := h.host(name, now)
	every := s.every
	if s.rate > 0 {
		every = max(every, time.Duration(float64(time.Second)/s.rate))
	}
	if every == 0 {
		return 0
	}
	at := s.nextAt
	if at.Before(now) {
		at = now
	}
	s.nextAt = at.Add(every)
	if at.Sub(now) > maxInSlot {
		h.turns[seq] = at
	}
	return at.Sub(now)
}

// ended folds how a call ended into its host's rate.
func (h *hosts) ended(name string, err error) {
	if !h.o.Policy.Gate {
		return
	}
	bad := false
	if err != nil {
		f := failure.Classify(err)
		bad = f.Blame == failure.BlameTarget && f.Class.Group() != failure.Permanent
		if !bad {
			return // it says nothing of what the host can bear
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.o.clock().Now()
	s := h.host(name, now)
	s.roll(now)
	if bad {
		s.failed++
	} else {
		s.passed++
	}
}

// roll closes the window if it is over.
func (s *host) roll(now time.Time) {
	over := now.Sub(s.since)
	if over < rateWindow {
		return
	}
	goodput := float64(s.passed) / over.Seconds()
	switch {
	case s.failed > 0:
		if s.rate > 0 {
			s.rate = max(s.rate*rateFall, leastRate)
		}
	case s.rate == 0:
		s.good = goodput
	case goodput >= rateUsed*s.rate:
		s.good = goodput
		if s.rate += rateRise * s.nominal; s.rate >= s.nominal {
			s.rate = 0
		}
	}
	s.since, s.passed, s.failed = now, 0, 0
}

// opened notes that the host's gate opened: it resumes at half of the last
// good rate.
func (h *hosts) opened(name string) {
	if !h.o.Policy.Gate {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.o.clock().Now()
	s := h.host(name, now)
	good := s.good
	if good == 0 { // not one whole window before: what there was of it
		if over := now.Sub(s.since).Seconds(); over > 0 {
			good = float64(s.passed) / over
		}
	}
	if good == 0 {
		return // it never bore anything: the gate's own ramp is gentle enough
	}
	if s.rate == 0 {
		s.nominal = max(good, leastRate)
	}
	s.rate = max(good*rateFall, leastRate)
	s.since, s.passed, s.failed = now, 0, 0
}

func (r *Runner) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	return clock.Sleep(ctx, r.o.clock(), d)
}
