package memory

// heap orders rows. Each row knows its place, so that it can be taken out of
// the middle.
type heap struct {
	rows  []*row
	less  func(a, b *row) bool
	place func(*row) *int
}

// absent is the place of a row that is in no heap.
const absent = -1

func (h *heap) min() *row {
	if len(h.rows) == 0 {
		return nil
	}
	return h.rows[0]
}

func (h *heap) push(r *row) {
	h.rows = append(h.rows, r)
	*h.place(r) = len(h.rows) - 1
	h.up(len(h.rows) - 1)
}

func (h *heap) remove(r *row) {
	i := *h.place(r)
	if i == absent {
		return
	}
	last := len(h.rows) - 1
	h.swap(i, last)
	h.rows[last] = nil
	h.rows = h.rows[:last]
	*h.place(r) = absent
	if i < last {
		h.down(i)
		h.up(i)
	}
}

func (h *heap) swap(i, k int) {
	h.rows[i], h.rows[k] = h.rows[k], h.rows[i]
	*h.place(h.rows[i]), *h.place(h.rows[k]) = i, k
}

func (h *heap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(h.rows[i], h.rows[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *heap) down(i int) {
	for {
		least := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(h.rows) && h.less(h.rows[child], h.rows[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}
