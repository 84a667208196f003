package worker

import (
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// keepPlace gives a job of a strict queue its place back if its process died
// or was stopped and it may start again at once. The jobs behind it are due
// already: with a new due time it would come after all of them.
//
// The place is the due time that the job was enqueued with. After a retry that
// is not known any more; the job was enqueued no later.
func keepPlace(s *store.Settle, j *job.Job) {
	if s.To != job.Queued || s.Delay != 0 || s.Keep || s.Attempt == nil {
		return
	}
	if c := s.Attempt.Class; c != failure.Crash && c != failure.Interrupted {
		return
	}
	s.DueAt = j.DueAt
	if j.EnqueuedAt.Before(s.DueAt) {
		s.DueAt = j.EnqueuedAt
	}
}

// inPlace is decide with the places of strict queues kept.
func inPlace(decide func(job.Job) store.Settle, laws map[string]law) func(job.Job) store.Settle {
	return func(j job.Job) store.Settle {
		s := decide(j)
		if laws[j.Queue].strict {
			keepPlace(&s, &j)
		}
		return s
	}
}

// returnInPlace gives a job that this process stops its place back, where its
// queue is strict.
func (l *loop) returnInPlace(r *run) {
	if l.phase != working && r.settle != nil && l.lanes != nil && l.lanes.laws[r.job.Queue].strict {
		keepPlace(r.settle, &r.job)
	}
}
