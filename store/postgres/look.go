package postgres

import (
	"context"
	"slices"
	"time"
)

// lookBeside looks behind where the claims of the lane have come to, on a
// connection of its own: over millions of dead entries that takes seconds, and
// a turn would keep everything that it settles waiting for them.
func (s *Store) lookBeside(c *claiming) {
	queue, kinds, l := c.Queue, slices.Clone(c.Kinds), c.scan.lane
	behind := s.scans.behind(l)
	s.wakes.beside(func(ctx context.Context) {
		found := map[int]place{}
		began := time.Now()
		w := s.turning(0, time.Time{}) // a batch of one statement, no turn
		w.query("look_behind", []any{behind.priorities, queue, kinds, behind.highAt, behind.highSeqs}, func(r *row) error {
			priority := int(r.number())
			found[priority] = place{due: r.instant(), seq: r.number()}
			return nil
		})
		err := s.send(ctx, w.batch)
		if s.scans.looked(l, found, time.Since(began), err); len(found) > 0 {
			s.wakes.local()
		}
	})
}

// behind returns the stretches that lie behind the places of the lane.
func (s *scans) behind(l *lane) (r ranges) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, at := range l.at {
		if !at.due.IsZero() {
			r.add(p, place{}, at)
		}
	}
	return r
}

// looked remembers what a look beside the turns found: where each priority has
// something left behind.
func (s *scans) looked(l *lane, found map[int]place, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil { // it may have ended early
		took = max(took, l.cost)
	}
	l.looking = false
	s.swept(l, took)
	for p, at := range found {
		l.lowered++
		if before := (place{due: at.due, seq: at.seq - 1}); before.compare(l.at[p]) < 0 {
			l.at[p] = before
		}
	}
}

// lookBehindMarks looks whether lanes have something behind their marks that a
// claim would take, if it is time for that. Where it walks, it is the first to do
// so over what was claimed there and is gone: the server notes of each entry that
// it is dead, and whoever comes next passes quickly.
func (s *Store) lookBehindMarks() {
	if looks, due := s.marks.behind(); due {
		s.wakes.beside(func(ctx context.Context) { s.lookBehind(ctx, looks) })
	}
}

func (s *Store) lookBehind(ctx context.Context, looks map[laneName]glance) {
	var names, found []laneName
	var p places
	var anyway []bool
	for name, g := range looks {
		p.add(name, g.mark)
		names, anyway = append(names, name), append(anyway, g.anyway)
	}
	began := time.Now()
	w := s.turning(0, time.Time{}) // a batch of one statement, no turn
	w.query("look_behind_marks", []any{p.queues, p.targets, p.kinds, p.priorities, p.dues, p.seqs, anyway}, func(r *row) error {
		found = append(found, names[r.number()-1])
		return nil
	})
	err := s.send(ctx, w.batch)
	s.marks.looked(looks, found, time.Since(began), err)
}
