package dispatch

import (
	"slices"
	"time"
)

// ProbeReach is how far into a line a probe is looked for.
const ProbeReach = 64

// SetProbing tells how to know the targets whose next start is a probe: it
// decides whether all others may go. Of what waits for such a target, work
// that has not failed yet goes, and not the first in line but the last of the
// first ProbeReach: what fails often stands side by side, and a run of bad
// neighbours must not keep a target shut that is well.
func (f *Floor) SetProbing(probing func(target string) bool) { f.probing = probing }

// choice is the item of the lane that goes next.
func (f *Floor) choice(l *lane, now time.Time) *entry {
	if l != f.plain && f.probing != nil && f.probing(l.target) {
		if e := l.probe(f.slots, now); e != nil {
			return e
		}
	}
	return l.best(f.slots, now)
}

// probe is the item of the lane that makes the best probe; nil if all that may
// go has failed before.
func (l *lane) probe(slots int, now time.Time) *entry {
	var fresh []*entry
	for _, s := range l.shelves {
		if s.kind == first && s.state == queued && s.account.open(s.kind, slots, now) {
			fresh = append(fresh, s.items.members...)
		}
	}
	fresh = slices.DeleteFunc(fresh, func(e *entry) bool { return e.item.Repeat })
	if len(fresh) == 0 {
		return nil
	}
	slices.SortFunc(fresh, func(a, b *entry) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	return fresh[min(len(fresh), ProbeReach)-1]
}
