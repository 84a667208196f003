package worker

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ebbhq/ebb/job"
)

// TestLeases compares with a map: sequences that share slots, leases that are put
// anew, and drops of what is not there.
func TestLeases(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s, want := newLeases(1), map[int64]*run{}
	for step := range 20_000 {
		seq := random.Int64N(6 * int64(len(s.slots)))
		switch random.IntN(5) {
		case 0, 1:
			r := &run{job: job.Job{Seq: seq}}
			s.put(r)
			want[seq] = r
		case 2, 3:
			s.drop(seq)
			delete(want, seq)
		}
		if s.of(seq) != want[seq] || s.count != len(want) {
			t.Fatalf("step %d: %d is %p of %d, want %p of %d", step, seq, s.of(seq), s.count, want[seq], len(want))
		}
	}
	var got []int64
	for r := range s.all() {
		got = append(got, r.job.Seq)
	}
	slices.Sort(got)
	if all := slices.Sorted(maps.Keys(want)); len(all) == 0 || len(s.rest) == 0 || !slices.Equal(got, all) {
		t.Errorf("holds %v, %d of them beside their slots; want %v", got, len(s.rest), all)
	}
	for concurrency, slots := range map[int]int{1: 16, 4000: 1 << 15, 1 << 40: mostSlots} {
		if n := len(newLeases(concurrency).slots); n != slots {
			t.Errorf("%d slots for %d that may run, want %d", n, concurrency, slots)
		}
	}
	if s.clear(); s.count != 0 || s.of(got[0]) != nil {
		t.Error("cleared leases are there")
	}
}
