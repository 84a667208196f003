package worker

import (
	"iter"
	"math/bits"
)

// leases are the runs of all jobs that this process holds, by the jobs' sequence.
// Those of a backlog have neighbouring numbers, and so neighbouring slots: a map
// would scatter them over as much memory as it has.
type leases struct {
	slots []*run         // by sequence, modulo their number, which is a power of two
	rest  map[int64]*run // whose slot was taken
	count int
}

// slotsEach is how many slots there are for each that may run: several times as
// many jobs are in hand where starts end faster than turns. There are mostSlots,
// half a megabyte of them, at most: with more that may run the rest is a map.
const (
	slotsEach = 8
	mostSlots = 1 << 16
)

func newLeases(concurrency int) leases {
	slots := min(slotsEach*min(concurrency, mostSlots), mostSlots-1)
	return leases{slots: make([]*run, 1<<bits.Len(uint(slots))), rest: make(map[int64]*run)}
}

func (s *leases) slot(seq int64) **run { return &s.slots[seq&int64(len(s.slots)-1)] }

// of returns the run that holds the lease; nil if none does.
func (s *leases) of(seq int64) *run {
	if r := *s.slot(seq); r != nil && r.job.Seq == seq {
		return r
	}
	return s.rest[seq]
}

// put notes who holds a lease, in place of who did.
func (s *leases) put(r *run) {
	seq := r.job.Seq
	s.drop(seq)
	s.count++
	if slot := s.slot(seq); *slot == nil {
		*slot = r
	} else {
		s.rest[seq] = r
	}
}

// drop forgets a lease, if there is one.
func (s *leases) drop(seq int64) {
	slot := s.slot(seq)
	switch r := *slot; {
	case r != nil && r.job.Seq == seq:
		*slot = nil
		s.count--
	case s.rest[seq] != nil:
		delete(s.rest, seq)
		s.count--
	}
}

// all gives the runs, in any order. Those it has not come to may be dropped.
func (s *leases) all() iter.Seq[*run] {
	return func(yield func(*run) bool) {
		for _, r := range s.slots {
			if r != nil && !yield(r) {
				return
			}
		}
		for _, r := range s.rest {
			if !yield(r) {
				return
			}
		}
	}
}

// clear forgets all.
func (s *leases) clear() {
	clear(s.slots)
	clear(s.rest)
	s.count = 0
}
