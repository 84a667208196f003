package telemetry

import (
	"sync"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/worker"
)

const (
	// sampleFirst of records that are alike are written each sampleEvery.
	sampleFirst = 10
	sampleEvery = time.Minute
	// maxAlike is how many sorts of records are told apart; further ones are
	// sampled together.
	maxAlike = 1000
)

// alike is what records have in common that say the same of different jobs.
type alike struct {
	what   worker.EventKind
	to     job.State
	kind   string
	class  failure.Class
	target string
	call   string // of a store's error
}

func alikeOf(e *worker.Event) alike {
	a := alike{what: e.What, to: e.To, kind: e.Job.Kind, class: e.Failure.Class, target: e.Target}
	if e.What == worker.Erred {
		a.call = e.Text
	}
	return a
}

type repeats struct {
	since  time.Time
	said   int
	unsaid int
}

type sampler struct {
	mu   sync.Mutex
	seen map[alike]*repeats
}

// admit reports whether a record is written, and how many alike were not
// since the last that was.
func (s *sampler) admit(a alike, at time.Time) (unsaid int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.seen[a]
	if r == nil && len(s.seen) >= maxAlike {
		s.forget(at)
		if len(s.seen) >= maxAlike {
			a = alike{}
			r = s.seen[a]
		}
	}
	if r == nil {
		r = &repeats{since: at}
		s.seen[a] = r
	}
	if d := at.Sub(r.since); d >= sampleEvery || d < 0 {
		r.since, r.said = at, 0
	}
	if r.said >= sampleFirst {
		r.unsaid++
		return 0, false
	}
	r.said++
	unsaid, r.unsaid = r.unsaid, 0
	return unsaid, true
}

// forget drops what was quiet for its time and has nothing left to say.
func (s *sampler) forget(now time.Time) {
	for a, r := range s.seen {
		if now.Sub(r.since) >= sampleEvery && r.unsaid == 0 {
			delete(s.seen, a)
		}
	}
}
