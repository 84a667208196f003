package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Register adds a process and releases what was parked under another config.
func (s *Store) Register(ctx context.Context, now time.Time, p store.Process) (store.Process, error) {
	if err := s.begin(ctx); err != nil {
		return p, err
	}
	defer s.mu.Unlock()
	now = store.Instant(s.at(now))
	s.lastID++
	p.ID, p.Beat, p.BornAt, p.SeenAt = s.lastID, 0, now, now
	p.Kinds, p.Queues = slices.Clone(p.Kinds), slices.Clone(p.Queues)
	s.processes[p.ID] = &process{Process: p, leases: map[int64]*row{}}
	for _, r := range s.order {
		j := &r.job
		if !r.gone && j.State == job.Parked && j.Cause == retry.CauseConfig && j.Config != p.Config && slices.Contains(p.Kinds, j.Kind) {
			s.requeue(r, now)
		}
	}
	return p, nil
}

// Beat moves the counter and returns the waiting orders.
func (s *Store) Beat(ctx context.Context, now time.Time, process int64) ([]store.Ref, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	p := s.processes[process]
	if p == nil {
		return nil, store.ErrLostProcess
	}
	p.Beat++
	p.SeenAt = store.Instant(s.at(now))
	var orders []store.Ref
	for _, r := range p.held() {
		if r.ordered {
			orders = append(orders, store.Ref{Seq: r.job.Seq, Epoch: r.job.Epoch})
		}
	}
	return orders, nil
}

// held lists the leases by sequence.
func (p *process) held() []*row {
	rows := make([]*row, 0, len(p.leases))
	for _, r := range p.leases {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Compare(a.job.Seq, b.job.Seq) })
	return rows
}

// Leave removes a process unless it still holds a lease or a permit.
func (s *Store) Leave(ctx context.Context, process int64) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if p := s.processes[process]; p != nil && len(p.leases) == 0 && len(s.heldBy(process)) == 0 {
		delete(s.processes, process)
	}
	return nil
}

// Processes lists all registered, oldest first.
func (s *Store) Processes(ctx context.Context) ([]store.Process, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	all := make([]store.Process, 0, len(s.processes))
	for _, p := range s.processes {
		c := p.Process
		c.Kinds, c.Queues = slices.Clone(p.Kinds), slices.Clone(p.Queues)
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b store.Process) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// Reap ends a process whose counter still stands at beat. decide must not
// call the store.
func (s *Store) Reap(ctx context.Context, now time.Time, process, beat int64, decide func(job.Job) store.Settle) (int, bool, error) {
	if err := s.begin(ctx); err != nil {
		return 0, false, err
	}
	defer s.mu.Unlock()
	p := s.processes[process]
	if p == nil || p.Beat != beat && !s.faults.IgnoreBeat {
		return 0, false, nil
	}
	now = s.at(now)
	held := p.held()
	settles := make([]store.Settle, len(held))
	for i, r := range held {
		if !r.job.Begun {
			continue
		}
		settles[i] = decide(copied(&r.job))
		settles[i].Ref, settles[i].Keep = store.Ref{Seq: r.job.Seq, Epoch: r.job.Epoch}, false
		if s.faults.NoCrashCount {
			settles[i].History.Crashes = r.job.History.Crashes
		}
		if err := store.CheckSettles(settles[i : i+1]); err != nil {
			return 0, false, err
		}
	}
	for i, r := range held {
		switch {
		case r.job.Begun:
			s.settle(r, now, process, settles[i])
		case !s.faults.LoseLeases:
			s.release(r, now)
		}
	}
	s.abandon(process, now)
	if !s.faults.KeepProcess {
		delete(s.processes, process)
	}
	return len(held), true, nil
}

// NextDue returns the earliest due time or look of the kinds in the queues
// that are not paused.
func (s *Store) NextDue(ctx context.Context, queues, kinds []string) (time.Time, error) {
	if err := s.begin(ctx); err != nil {
		return time.Time{}, err
	}
	defer s.mu.Unlock()
	kinds = s.running(kinds)
	var first time.Time
	for _, name := range queues {
		q := s.queues[name]
		if q == nil || q.paused {
			continue
		}
		for _, kind := range kinds {
			if sh := q.plain[kind]; sh != nil {
				first = earliest(first, sh.dueAt())
			}
		}
		for _, l := range q.lanes {
			if look := serve(l, kinds, &store.LaneClaim{Firsts: 1, Retries: 1}).look; look.Before(store.Never) {
				first = earliest(first, look)
			}
		}
	}
	return first, nil
}
