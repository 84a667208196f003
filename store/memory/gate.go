package memory

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/store"
)

// gateOf returns the target's gate with grants of its own.
func (s *Store) gateOf(target string) store.Gate {
	g := s.gates[target]
	if g == nil {
		return store.Gate{Target: target, Room: store.NoLimit}
	}
	c := *g
	c.Grants = slices.Clone(g.Grants)
	return c
}

// swap replaces a gate unless its version has moved.
func (s *Store) swap(sw store.Swap) bool {
	version := s.gateOf(sw.Target).Version
	if version != sw.Version && !s.faults.BlindSwap {
		return false
	}
	g := sw.Gate
	g.Version, g.OpenAt = version+1, store.Instant(g.OpenAt)
	s.keep(g)
	if sw.Wake {
		s.wakeLanes(g.Target, later(g.OpenAt, s.asOf))
	}
	return true
}

// keep writes a gate down. None of its grants is of size 0.
func (s *Store) keep(g store.Gate) {
	g.Grants = slices.DeleteFunc(slices.Clone(g.Grants), func(held store.Grant) bool { return held.Size() == 0 })
	if len(g.Grants) == 0 {
		g.Grants = nil
	}
	s.gates[g.Target] = &g
}

// heldBy lists the targets of which the process holds permits.
func (s *Store) heldBy(process int64) []string {
	var targets []string
	for target, g := range s.gates {
		if g.GrantOf(process).Size() > 0 {
			targets = append(targets, target)
		}
	}
	return targets
}

// abandon gives back the permits of a process that is gone.
func (s *Store) abandon(process int64, now time.Time) {
	if s.faults.KeepGrants {
		return
	}
	for _, target := range s.heldBy(process) {
		g := store.Abandoned(*s.gates[target], process, now)
		g.Version++
		s.keep(g)
		s.wakeLanes(target, s.asOf)
	}
}

// Gates returns the gates of the targets, in their order.
func (s *Store) Gates(ctx context.Context, targets []string) ([]store.Gate, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	gates := make([]store.Gate, len(targets))
	for i, target := range targets {
		gates[i] = s.gateOf(target)
	}
	return gates, nil
}

// Targets lists the targets that have a gate or waiting work.
func (s *Store) Targets(ctx context.Context, after string, limit int) ([]store.Gate, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	names := map[string]bool{}
	for target := range s.gates {
		names[target] = true
	}
	for _, q := range s.queues {
		for target, l := range q.lanes {
			if first, retries := l.sizes(); first+retries > 0 {
				names[target] = true
			}
		}
	}
	list := make([]store.Gate, 0, min(limit, len(names)))
	for _, target := range slices.Sorted(maps.Keys(names)) {
		if target > after && len(list) < limit {
			list = append(list, s.gateOf(target))
		}
	}
	return list, nil
}

func (l *lane) sizes() (firsts, retries int) {
	for key, p := range l.parts {
		if key.retry {
			retries += p.size
		} else {
			firsts += p.size
		}
	}
	return firsts, retries
}

// Lanes lists what waits for the target, by queue.
func (s *Store) Lanes(ctx context.Context, target string, limit int) ([]store.Lane, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.lanesOf(target, limit), nil
}

// LanesOf is Lanes of several targets.
func (s *Store) LanesOf(ctx context.Context, targets []string, limit int) ([][]store.Lane, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	all := make([][]store.Lane, len(targets))
	for i, target := range targets {
		all[i] = s.lanesOf(target, limit)
	}
	return all, nil
}

func (s *Store) lanesOf(target string, limit int) []store.Lane {
	list := []store.Lane{}
	for _, q := range s.queues {
		l := q.lanes[target]
		if l == nil {
			continue
		}
		firsts, retries := l.sizes()
		if firsts+retries == 0 {
			continue
		}
		var look time.Time
		for _, p := range l.parts {
			if p.size > 0 {
				look = earliest(look, p.look)
			}
		}
		list = append(list, store.Lane{Queue: q.name, Target: target, Firsts: min(firsts, limit), Retries: min(retries, limit), LookAt: look})
	}
	slices.SortFunc(list, func(a, b store.Lane) int { return strings.Compare(a.Queue, b.Queue) })
	return list
}

// SwapGate swaps one gate by an operator's order.
func (s *Store) SwapGate(ctx context.Context, now time.Time, order store.AuditRow, sw store.Swap) (bool, error) {
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	now = s.at(now)
	if !s.swap(sw) {
		return false, nil
	}
	s.record(now, order.Actor, order.Act, order.What, order.Detail)
	return true, nil
}
