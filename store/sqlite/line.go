package sqlite

import (
	"slices"
	"sync"
)

// line is who may write in this process: one at a time, in the order they
// came, but for those who may go first.
type line struct {
	mu      sync.Mutex
	busy    bool
	first   []chan struct{} // each is closed when its turn has come
	waiting []chan struct{}
}

// rank is where in the line somebody stands.
type rank int

const (
	inTurn rank = iota
	// goesFirst is for what is rare, short and must not be late: a process
	// whose beat stands still is taken for dead, however busy it is.
	goesFirst
)

// enter returns a channel that is closed when the caller may write.
func (l *line) enter(r rank) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	turn := make(chan struct{})
	switch {
	case !l.busy:
		l.busy = true
		close(turn)
	case r == goesFirst:
		l.first = append(l.first, turn)
	default:
		l.waiting = append(l.waiting, turn)
	}
	return turn
}

// leave lets the next one write.
func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next()
}

// next calls whoever stands first. The caller holds mu.
func (l *line) next() {
	from := &l.first
	if len(*from) == 0 {
		from = &l.waiting
	}
	if len(*from) == 0 {
		l.busy = false
		return
	}
	close((*from)[0])
	*from = (*from)[1:]
}

// giveUp takes one who does not want to wait longer out of the line. If its
// turn has come meanwhile, it is the next one's.
func (l *line) giveUp(turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, list := range []*[]chan struct{}{&l.first, &l.waiting} {
		if i := slices.Index(*list, turn); i >= 0 {
			*list = slices.Delete(*list, i, i+1)
			return
		}
	}
	l.next()
}
