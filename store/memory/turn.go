package memory

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Turn settles, begins, releases, holds, claims and swaps, in this order.
func (s *Store) Turn(ctx context.Context, t store.Turn) (store.Turned, error) {
	if err := store.CheckSettles(t.Settles); err != nil {
		return store.Turned{}, err
	}
	if err := s.begin(ctx); err != nil {
		return store.Turned{}, err
	}
	defer s.mu.Unlock()
	p := s.processes[t.Process]
	if p == nil {
		return store.Turned{}, store.ErrLostProcess
	}
	now := s.at(t.Now)
	var answer store.Turned
	for _, st := range t.Settles {
		r := s.leased(t.Process, st.Ref)
		if r != nil {
			s.settle(r, now, t.Process, st)
		}
		answer.Settled = append(answer.Settled, r != nil)
	}
	for _, ref := range t.Begin {
		r := s.leased(t.Process, ref)
		answer.Begun = append(answer.Begun, r != nil && s.beginLease(r, store.Instant(now)))
	}
	for _, ref := range t.Release {
		r := s.leased(t.Process, ref)
		if r != nil {
			s.release(r, now)
		}
		answer.Released = append(answer.Released, r != nil)
	}
	for _, h := range t.Holds {
		s.hold(h)
	}
	for _, c := range t.Claims {
		answer.Claimed = append(answer.Claimed, s.claim(store.Instant(now), p, c)...)
	}
	s.turnFlow(&t, &answer, p, store.Instant(now))
	answer.Parked = s.untold.Take()
	return answer, nil
}

// turnFlow does what a turn asks of lanes and gates: claims, then swaps, then
// the gates as they stand after both.
func (s *Store) turnFlow(t *store.Turn, answer *store.Turned, p *process, now time.Time) {
	plain := len(answer.Claimed)
	for _, c := range t.Lanes {
		claimed, left := s.claimLane(now, p, c)
		answer.Claimed, answer.Left = append(answer.Claimed, claimed...), append(answer.Left, left...)
	}
	asked := map[string]bool{}
	for i := range answer.Claimed[plain:] {
		j := &answer.Claimed[plain+i]
		asked[s.queues[j.Queue].laneOf(j)] = true
	}
	for _, sw := range t.Swaps {
		done := s.swap(sw)
		if answer.Swapped = append(answer.Swapped, done); !done {
			asked[sw.Target] = true
		}
	}
	for _, target := range slices.Sorted(maps.Keys(asked)) {
		answer.Gates = append(answer.Gates, s.gateOf(target))
	}
	answer.Gates = store.UnknownGates(t, answer.Swapped, answer.Gates)
}

// leased returns the row if the process holds it under exactly this epoch.
func (s *Store) leased(process int64, ref store.Ref) *row {
	r := s.rows[ref.Seq]
	switch {
	case r == nil || r.job.State != job.Running:
		return nil
	case s.faults.NoHolder:
		return r
	case r.job.Process != process:
		return nil
	case r.job.Epoch != ref.Epoch && !s.faults.NoFence:
		return nil
	}
	return r
}

// beginLease marks a lease whose handler starts now, if it is due.
func (s *Store) beginLease(r *row, now time.Time) bool {
	j := &r.job
	if !j.Begun {
		if j.DueAt.After(now) && !s.faults.EarlyBegin {
			return false
		}
		j.Begun, j.LeasedAt = true, now
	}
	return true
}

// settle ends a start as told: state, history, ledger and due time together.
func (s *Store) settle(r *row, now time.Time, process int64, st store.Settle) {
	var due time.Time
	if st.To == job.Queued {
		if due = store.DueAgain(now, &st); s.faults.LateDue {
			due = store.Due(now, 0)
		}
		if r.ordered && !st.Keep {
			st.To, due = job.Cancelled, time.Time{}
		}
	}
	s.settles++
	torn := s.settles%5 == 0 // where a fault tears
	if lost := torn && s.faults.TornState; st.Attempt != nil && !lost {
		r.attempts = append(r.attempts, store.Recorded(st, process, due))
	}
	if torn && s.faults.TornLedger {
		return
	}
	if st.Keep {
		s.recall(&r.job, st)
		r.job.DueAt, r.job.Begun = due, false
		if !s.faults.KeepEpoch {
			r.job.Epoch++
		}
		return
	}
	s.end(r, func(j *job.Job) {
		s.recall(j, st)
		j.State, j.Cause = st.To, st.Cause
		switch st.To {
		case job.Queued:
			j.DueAt = due
		case job.Parked:
			j.Config = st.Config
		case job.Succeeded:
			j.Result, j.EndedAt = bytes.Clone(st.Result), store.Instant(now)
		default:
			j.EndedAt = store.Instant(now)
		}
	})
	s.headFailed(r)
	if s.faults.LoseLooks && st.To == job.Queued {
		s.hold(store.LaneHold{Queue: r.job.Queue, Target: s.queues[r.job.Queue].laneOf(&r.job), Until: store.Never})
	}
}

// release gives a lease back: the job keeps its place in the order.
func (s *Store) release(r *row, now time.Time) {
	cancelled := r.ordered
	s.end(r, func(j *job.Job) {
		if j.State = job.Queued; s.faults.LateRelease {
			j.DueAt = store.Instant(now)
		}
		if cancelled {
			j.State, j.EndedAt = job.Cancelled, store.Instant(now)
		}
	})
}

// end changes a running row into one without a lease.
func (s *Store) end(r *row, f func(j *job.Job)) {
	s.change(r, func(j *job.Job) {
		f(j)
		j.Process, j.LeasedAt, j.Begun = 0, time.Time{}, false
	})
	r.ordered = false
}

// recall writes what a start leaves behind.
func (s *Store) recall(j *job.Job, st store.Settle) {
	h := st.History
	if s.faults.FreeAttempts {
		h.Attempts = j.History.Attempts
	}
	s.remember(j, h)
	if a := st.Attempt; a != nil && !a.OK {
		j.LastClass, j.LastError, j.Version = a.Class, store.Text(a.Error), a.Version
		j.Fingerprint = store.Text(st.Fingerprint)
	}
}

// remember writes the history; the deadline is the job's own.
func (s *Store) remember(j *job.Job, h retry.History) {
	h.FirstStartAt, h.DeadlineAt = store.Instant(h.FirstStartAt), j.DeadlineAt
	j.History = h
}

// Progress stores what a handler reports.
func (s *Store) Progress(ctx context.Context, process int64, ref store.Ref, progress []byte, h retry.History) (bool, error) {
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	r := s.leased(process, ref)
	if r == nil {
		return false, nil
	}
	r.job.Progress = bytes.Clone(progress)
	s.remember(&r.job, h)
	return true, nil
}
