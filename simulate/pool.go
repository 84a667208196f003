package simulate

// none is no entry of a pool.
const none int32 = -1

const (
	chunkBits = 8
	chunkSize = 1 << chunkBits
)

// pool keeps values at stable addresses and uses them again: its memory is
// that of the most values in use at once. Each value has a link, by which it
// can be in one list at a time.
type pool[T any] struct {
	chunks []*[chunkSize]T
	links  []link
	free   []int32
	used   int
}

// link is a value's place in a list.
type link struct{ prev, next int32 }

func (p *pool[T]) at(i int32) *T { return &p.chunks[i>>chunkBits][i&(chunkSize-1)] }

// take returns an unused value, zeroed.
func (p *pool[T]) take() (int32, *T) {
	p.used++
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		v := p.at(i)
		var zero T
		*v = zero
		return i, v
	}
	i := int32(len(p.links))
	if i&(chunkSize-1) == 0 {
		p.chunks = append(p.chunks, new([chunkSize]T))
	}
	p.links = append(p.links, link{prev: none, next: none})
	return i, p.at(i)
}

func (p *pool[T]) give(i int32) {
	p.used--
	p.free = append(p.free, i)
}

// list is a doubly linked list of a pool's values.
type list struct {
	head, tail int32
	n          int
}

func newList() list { return list{head: none, tail: none} }

func (l *list) push(links []link, i int32) {
	links[i] = link{prev: l.tail, next: none}
	if l.tail == none {
		l.head = i
	} else {
		links[l.tail].next = i
	}
	l.tail = i
	l.n++
}

func (l *list) remove(links []link, i int32) {
	at := links[i]
	if at.prev == none {
		l.head = at.next
	} else {
		links[at.prev].next = at.next
	}
	if at.next == none {
		l.tail = at.prev
	} else {
		links[at.next].prev = at.prev
	}
	links[i] = link{prev: none, next: none}
	l.n--
}

// shift takes the first out; none if the list is empty.
func (l *list) shift(links []link) int32 {
	i := l.head
	if i != none {
		l.remove(links, i)
	}
	return i
}
