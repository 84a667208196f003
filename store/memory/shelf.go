package memory

import (
	"time"

	"github.com/ebbhq/ebb/job"
)

// shelf holds waiting jobs that nothing but priority, due time and sequence
// tells apart: a heap for each priority.
type shelf struct {
	heaps [job.MaxPriority + 1]heap
	size  int
}

func newShelf(less func(a, b *row) bool) *shelf {
	sh := &shelf{}
	for p := range sh.heaps {
		sh.heaps[p] = heap{less: less, place: place}
	}
	return sh
}

func (sh *shelf) push(r *row) {
	sh.heaps[r.job.Priority].push(r)
	sh.size++
	r.shelf = sh
}

func (sh *shelf) remove(r *row) {
	sh.heaps[r.job.Priority].remove(r)
	sh.size--
	r.shelf = nil
}

// dueAt returns the earliest due time; zero if nothing waits.
func (sh *shelf) dueAt() time.Time {
	var first time.Time
	for p := range sh.heaps {
		if r := sh.heaps[p].min(); r != nil {
			first = earliest(first, r.job.DueAt)
		}
	}
	return first
}

// due returns the first row that may be claimed now, nil if there is none.
// Rows whose deadline has passed stand before others and are looked past.
func (sh *shelf) due(now time.Time) *row {
	for p := range sh.heaps {
		h := &sh.heaps[p]
		var found *row
		var aside []*row
		for r := h.min(); r != nil && !r.job.DueAt.After(now); r = h.min() {
			if !passed(&r.job, now) {
				found = r
				break
			}
			h.remove(r)
			aside = append(aside, r)
		}
		for _, r := range aside {
			h.push(r)
		}
		if found != nil {
			return found
		}
	}
	return nil
}

// nextAt returns the earliest due time of a row that may still be claimed;
// zero if there is none.
func (sh *shelf) nextAt(now time.Time) time.Time {
	var first time.Time
	for p := range sh.heaps {
		rows := sh.heaps[p].rows
		if len(rows) > 0 && !passed(&rows[0].job, now) {
			rows = rows[:1] // the least is due first
		}
		for _, r := range rows {
			if !passed(&r.job, now) {
				first = earliest(first, r.job.DueAt)
			}
		}
	}
	return first
}

// earliest returns the earlier of two instants; zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// later returns the later of two instants.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
