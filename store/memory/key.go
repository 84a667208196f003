package memory

import (
	"cmp"
	"slices"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// keyName names a key: queues do not share them.
type keyName struct{ queue, key string }

// keyLine is the jobs of one key that stand in each other's way.
type keyLine struct {
	members []*row // by sequence: live ones, dead letters that block, and pending ones
	head    *row   // the only one that is not blocked
	running *row   // leased: the head, whoever is less
}

func keyOf(r *row) keyName { return keyName{r.job.Queue, r.job.Key} }

// inLine reports whether the row keeps those behind it from running.
func (r *row) inLine() bool {
	j := &r.job
	return r.pending || j.State.Live() || j.State == job.Failed && j.KeyRule == job.KeyBlock
}

func (k *keyLine) search(seq int64) (int, bool) {
	return slices.BinarySearchFunc(k.members, seq, func(r *row, seq int64) int { return cmp.Compare(r.job.Seq, seq) })
}

// lineUp brings a row to its place in its key.
func (s *Store) lineUp(r *row) {
	if r.job.Key == "" || !r.inLine() {
		return
	}
	k := s.keys[keyOf(r)]
	if k == nil {
		k = &keyLine{}
		s.keys[keyOf(r)] = k
	}
	if i, found := k.search(r.job.Seq); !found {
		k.members = slices.Insert(k.members, i, r)
	}
	if r.job.State == job.Running {
		k.running = r
	}
}

// stepOut takes a row out of its key.
func (s *Store) stepOut(r *row) {
	k := s.keys[keyOf(r)]
	if r.job.Key == "" || k == nil {
		return
	}
	if i, found := k.search(r.job.Seq); found {
		k.members = slices.Delete(k.members, i, i+1)
	}
	if k.running == r {
		k.running = nil
	}
	if k.head == r {
		k.head = nil
	}
}

// promote finds the head of a key anew: it alone can be claimed.
func (s *Store) promote(name keyName) {
	k := s.keys[name]
	if name.key == "" || k == nil {
		return
	}
	if len(k.members) == 0 {
		delete(s.keys, name)
		return
	}
	head := k.members[0]
	if s.faults.PromoteNewest {
		head = k.members[len(k.members)-1]
	}
	if k.running != nil {
		head = k.running
	}
	if old := k.head; old != nil && old != head && old.shelf != nil && !s.faults.BlockedClaimable {
		s.unshelve(old)
		old.job.Blocked = true
	}
	k.head = head
	if j := &head.job; j.Blocked {
		j.Blocked = false
		s.shelve(head)
	}
}

// headFailed parks what is queued behind a row that failed, if its rule says
// so.
func (s *Store) headFailed(r *row) {
	k := s.keys[keyOf(r)]
	if r.job.State != job.Failed || r.job.Key == "" || r.job.KeyRule != job.KeyPark || k == nil {
		return
	}
	for _, next := range slices.Clone(k.members) {
		if next.job.Seq > r.job.Seq && next.job.State == job.Queued && !next.pending {
			s.change(next, func(j *job.Job) { j.State, j.Cause = job.Parked, job.HeadFailed })
			s.untold.Add([]store.EndCount{store.EndOf(&next.job, job.Parked, job.HeadFailed)})
		}
	}
}
