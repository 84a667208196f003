package dispatch

// heap is a binary heap whose members know their place in it, so that any of
// them can be removed in O(log n).
type heap[T any] struct {
	members []T
	less    func(a, b T) bool
	moved   func(member T, to int)
}

func (h *heap[T]) len() int { return len(h.members) }

func (h *heap[T]) push(m T) {
	h.members = append(h.members, m)
	h.moved(m, len(h.members)-1)
	h.up(len(h.members) - 1)
}

// remove takes the member at the place out.
func (h *heap[T]) remove(at int) {
	last := len(h.members) - 1
	h.swap(at, last)
	var none T
	h.members[last] = none
	if h.members = h.members[:last]; at < last {
		h.down(at)
		h.up(at)
	}
}

func (h *heap[T]) up(at int) {
	for at > 0 {
		parent := (at - 1) / 2
		if !h.less(h.members[at], h.members[parent]) {
			return
		}
		h.swap(at, parent)
		at = parent
	}
}

func (h *heap[T]) down(at int) {
	for {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(h.members); child++ {
			if h.less(h.members[child], h.members[least]) {
				least = child
			}
		}
		if least == at {
			return
		}
		h.swap(at, least)
		at = least
	}
}

func (h *heap[T]) swap(a, b int) {
	if a != b {
		h.members[a], h.members[b] = h.members[b], h.members[a]
		h.moved(h.members[a], a)
		h.moved(h.members[b], b)
	}
}
