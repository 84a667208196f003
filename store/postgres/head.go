package postgres

import (
	"encoding/binary"
	"slices"
	"time"
)

// heads is where the first queued jobs of each queue stood, by priority, when
// the queues were last listed, which every worker does now and then. Where it
// costs much to walk there from the start, over what an old snapshot keeps from
// being removed, a list begins there instead, or where claims of this process
// have come to since, if they had left nothing behind. A walk from the start
// gets one part in headShare of the time, until a look of a claim is no longer
// dear (scan.go): it grows with all that dies meanwhile. What others put before that place
// meanwhile (a late commit, a kind that nobody here claims) is not told as the
// queue's earliest until then; claims find it by ways of their own.
type heads struct {
	of       map[string]*head
	walkedAt time.Time     // when the last walk from the start began
	cost     time.Duration // of that walk
}

// head is of one queue, by priority.
type head struct {
	at   instants     // nothing was queued before it
	left [levels]bool // claims had gone on and left it there
}

const headShare = 1000

// listing is the way of one list.
type listing struct {
	queues  []string
	from    instants // where to begin, a priority after another, a queue after another
	whole   bool     // from the start
	reached map[string]instants
}

// list plans a list of queues. It walks from the start where that is cheap, or
// due again.
func (s *scans) list() *listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &listing{queues: []string{}, from: instants{}, reached: map[string]instants{}}
	for _, lane := range s.lanes {
		if l.reached[lane.queue] == nil {
			l.reached[lane.queue] = slices.Repeat(instants{always}, levels)
		}
		lane.lowest(l.reached[lane.queue], false)
	}
	h := &s.heads
	if l.whole = h.cost <= dear || time.Since(h.walkedAt) >= headShare*h.cost; l.whole {
		h.walkedAt = time.Now() // who lists meanwhile need not do the same
		return l
	}
	for queue, head := range h.of {
		l.queues = append(l.queues, queue)
		reached := l.reached[queue]
		for p, at := range head.at {
			if reached != nil && !head.left[p] {
				at = max(at, reached[p])
			}
			l.from = append(l.from, at)
		}
	}
	return l
}

// listed remembers the heads that a list found within the time it took.
func (s *scans) listed(l *listing, found map[string]instants, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heads.of = make(map[string]*head, len(found))
	for queue, at := range found {
		h := &head{at: at}
		for p, reached := range l.reached[queue] {
			h.left[p] = at[p] < reached
		}
		s.heads.of[queue] = h
	}
	if l.whole {
		s.heads.cost = took
	}
}

// lower moves the head back to before the instant.
func (h *head) lower(to time.Time) {
	for p := range h.at {
		h.at[p] = min(h.at[p], micros(to))
	}
}

// headsOf reads the heads of a queue: an instant for each priority.
func headsOf(wire []byte) instants {
	at := slices.Repeat(instants{never}, levels)
	for p := range min(levels, len(wire)/8) {
		at[p] = int64(binary.BigEndian.Uint64(wire[8*p:]))
	}
	return at
}
