package memory

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever is pushed and taken out of the middle, the least is at the top and
// every row knows its place.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := heap{less: func(a, b *row) bool { return a.job.Seq < b.job.Seq }, place: place}
		var in []*row
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(in) == 0 || rapid.IntRange(0, 2).Draw(t, "push") > 0 {
				r := &row{place: absent}
				r.job.Seq = rapid.Int64Range(0, 50).Draw(t, "seq")
				h.push(r)
				in = append(in, r)
			} else {
				i := rapid.IntRange(0, len(in)-1).Draw(t, "out")
				h.remove(in[i])
				h.remove(in[i]) // twice does no harm
				in = slices.Delete(in, i, i+1)
			}
			if len(in) != len(h.rows) {
				t.Fatalf("%d rows, want %d", len(h.rows), len(in))
			}
			for i, r := range h.rows {
				if r.place != i || h.less(r, h.min()) {
					t.Fatalf("row %d at %d believes to be at %d; the least is %d", r.job.Seq, i, r.place, h.min().job.Seq)
				}
			}
		}
	})
}
