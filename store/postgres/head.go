package postgres

import "time"

// heads is where the first queued job of each queue stood when the queues were
// last listed, which every worker does now and then. Where it costs much to
// walk there from the start, over what an old snapshot keeps from being
// removed, a list begins there instead, and a walk from the start gets one part
// in headShare of the time. What is put before a head meanwhile by others, as a
// late commit is, is not told as the queue's earliest until then; claims find
// it by ways of their own.
type heads struct {
	at       map[string]time.Time // nothing was queued before it
	walkedAt time.Time            // when the last walk from the start began
	cost     time.Duration        // of that walk
}

const headShare = 100

// list plans a list of queues: where to begin. It walks from the start where
// that is cheap, or due again.
func (s *scans) list() (queues []string, from instants, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.heads
	if h.cost <= dear || time.Since(h.walkedAt) >= headShare*h.cost {
		h.walkedAt = time.Now() // who lists meanwhile need not do the same
		return []string{}, instants{}, true
	}
	for queue, at := range h.at {
		queues, from = append(queues, queue), append(from, micros(at))
	}
	return queues, from, false
}

// listed remembers the heads that a list found within the time it took.
func (s *scans) listed(found map[string]time.Time, whole bool, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heads.at = found
	if whole {
		s.heads.cost = took
	}
}

// lower moves the queue's head back to before the instant.
func (h *heads) lower(queue string, to time.Time) {
	if at, known := h.at[queue]; known && to.Before(at) {
		h.at[queue] = to
	}
}
