package store

import (
	"cmp"
	"slices"
	"sync"

	"github.com/ebbhq/ebb/job"
)

// EndCount counts jobs that were failed or parked while they waited: nobody
// settled a start of theirs, so whoever watches hears of them by this alone.
type EndCount struct {
	To     job.State // Failed or Parked
	Cause  job.Cause
	Kind   string
	Queue  string
	Target string
	Policy string
	// Untried says that none of them has started since it was enqueued or
	// given fresh attempts.
	Untried bool
	Count   int
}

// EndOf is the count of one job that ended so.
func EndOf(j *job.Job, to job.State, cause job.Cause) EndCount {
	return EndCount{To: to, Cause: cause, Kind: j.Kind, Queue: j.Queue, Target: j.Target, Policy: j.Policy, Untried: !Retrying(j.History), Count: 1}
}

// SumEnds adds counts up: one for all jobs that are alike, in a fixed order.
// It changes the list that it is given.
func SumEnds(list []EndCount) []EndCount {
	slices.SortFunc(list, func(a, b EndCount) int {
		return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Target, b.Target), cmp.Compare(order(a.Untried), order(b.Untried)))
	})
	sum := list[:0]
	for _, e := range list {
		n := e.Count
		e.Count = 0
		if last := len(sum) - 1; last >= 0 {
			like := sum[last]
			if like.Count = 0; like == e {
				sum[last].Count += n
				continue
			}
		}
		e.Count = n
		sum = append(sum, e)
	}
	return sum
}

func order(b bool) int {
	if b {
		return 1
	}
	return 0
}

// EndTotal is how many jobs the counts are of.
func EndTotal(list []EndCount) int {
	n := 0
	for i := range list {
		n += list[i].Count
	}
	return n
}

// UntoldEnds keeps counts until a store tells them in the answer of a turn.
// The zero value is empty and ready for use.
type UntoldEnds struct {
	mu   sync.Mutex
	list []EndCount
}

// Add keeps further ones.
func (u *UntoldEnds) Add(list []EndCount) {
	if len(list) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = SumEnds(append(u.list, list...))
}

// Take returns what was kept, and forgets it.
func (u *UntoldEnds) Take() []EndCount {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := u.list
	u.list = nil
	return list
}
