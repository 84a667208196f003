package dispatch

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type weight struct{ n, at int }

// Whatever is removed from wherever, the least stays in front and everybody
// knows the own place.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := heap[*weight]{
			less:  func(a, b *weight) bool { return a.n < b.n },
			moved: func(w *weight, to int) { w.at = to },
		}
		var all []*weight
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			if len(all) > 0 && rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				h.remove(all[i].at)
				all = slices.Delete(all, i, i+1)
			} else {
				w := &weight{n: rapid.IntRange(0, 100).Draw(t, "weight")}
				h.push(w)
				all = append(all, w)
			}
			if h.len() != len(all) {
				t.Fatalf("%d members, want %d", h.len(), len(all))
			}
			for i, w := range h.members {
				if w.at != i || i > 0 && w.n < h.members[(i-1)/2].n {
					t.Fatalf("%d at %d, which says %d, below %d", w.n, i, w.at, h.members[max(0, i-1)/2].n)
				}
			}
		}
	})
}
