package dispatch_test

import (
	"testing"
	"time"

	"github.com/ebbhq/ebb/dispatch"
)

// late adds retries that were overdue by so much at birth.
func (f *floor) late(target string, by time.Duration, ids ...int64) {
	for _, id := range ids {
		f.Add(dispatch.Item{ID: id, Target: target, Policy: "p", Retry: true, DueAt: born.Add(-by)})
	}
}

func TestCatchUp(t *testing.T) {
	f := newFloor(t, 99)
	f.SetPolicy("p", dispatch.Limits{Batch: 2})
	f.late("a", time.Minute, 1, 2, 3, 4, 5)
	f.late("b", time.Hour, 21, 22, 23)
	f.starts(always, 1, 21, 2, 22)
	f.nextAt(30 * time.Second)
	// First attempts and later retries are not held.
	f.at(10 * time.Second)
	f.first("a", 11)
	f.again("a", 12)
	f.starts(always, 11, 12)
	f.at(30*time.Second - 1).starts(always)
	f.at(30*time.Second).starts(always, 23, 3, 4) // a had turns since
	f.at(60*time.Second).starts(always, 5)
}

// The allowance is not a tick: it comes back as each start grows old, also
// when the target's lane was empty in between.
func TestCatchUpSlides(t *testing.T) {
	f := newFloor(t, 99)
	f.SetPolicy("p", dispatch.Limits{Batch: 2})
	f.late("a", time.Minute, 1)
	f.starts(always, 1)
	f.at(20 * time.Second)
	f.late("a", time.Minute, 2, 3, 4)
	f.starts(always, 2)
	f.nextAt(30 * time.Second)
	f.at(30*time.Second).starts(always, 3)
	f.nextAt(50 * time.Second)
	f.at(50*time.Second).starts(always, 4)
}

func TestNothingToCatchUpWith(t *testing.T) {
	f := newFloor(t, 99)
	f.SetPolicy("p", dispatch.Limits{Batch: 1})
	f.late("a", 30*time.Second, 1, 2, 3) // not over 30 s
	f.late("", time.Hour, 11, 12)        // nobody's
	f.starts(always, 11, 1, 12, 2, 3)
	f.SetPolicy("p", dispatch.Limits{}) // no batch
	f.late("b", time.Hour, 21, 22)
	f.starts(always, 21, 22)
}

// What started before it was known that the target catches up counts too.
func TestCatchUpCountsEarlierStarts(t *testing.T) {
	f := newFloor(t, 99)
	f.SetPolicy("p", dispatch.Limits{Batch: 2})
	f.late("a", 10*time.Second, 1, 2, 3)
	f.starts(always, 1, 2, 3)
	f.at(time.Second)
	f.late("a", time.Minute, 4)
	f.starts(always)
	f.nextAt(30 * time.Second)
}
