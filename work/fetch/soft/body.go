package soft

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
)

const (
	sketchRows = 4
	sketchBits = 20 // 4 MiB in all, enough for millions of bodies
)

// Bodies counts on how many URLs each body stands, in memory that does not
// grow with the number of bodies: a sketch, which may count too high, picks
// those that are followed exactly once it has seen them half as often as the
// limit. So a body counts as over at the limit's number of URLs at the
// earliest, and at one and a half times that at the latest. Limits under 4 are
// counted exactly, in memory that does grow.
type Bodies struct {
	limit int
	mu    sync.Mutex
	seed  maphash.Seed
	rows  [sketchRows][]uint8
	exact map[string]map[uint64]struct{} // URLs of a digest, up to the limit
	count map[string]int                 // of those over
}

// NewBodies counts up to a limit of 2 URLs or more.
func NewBodies(limit int) *Bodies {
	b := &Bodies{limit: limit, seed: maphash.MakeSeed(), exact: make(map[string]map[uint64]struct{}), count: make(map[string]int)}
	for i := range b.rows {
		b.rows[i] = make([]uint8, 1<<sketchBits)
	}
	return b
}

// Add counts a body on a URL and returns on how many it is known to stand.
// The same URL again counts once.
func (b *Bodies) Add(digest, url string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.count[digest]; n > 0 {
		b.count[digest]++
		return n + 1
	}
	urls := b.exact[digest]
	if urls == nil {
		seen := b.sketch(digest)
		if seen < max(b.limit/2, 1) && seen < 255 {
			return seen
		}
		urls = make(map[uint64]struct{})
		b.exact[digest] = urls
	}
	urls[maphash.String(b.seed, url)] = struct{}{}
	if len(urls) >= b.limit {
		b.count[digest] = len(urls)
		delete(b.exact, digest)
	}
	return len(urls)
}

// sketch adds one to the digest's counters and returns the least of them.
func (b *Bodies) sketch(digest string) int {
	h := maphash.String(b.seed, digest)
	least := uint8(255)
	for i := range b.rows {
		slot := &b.rows[i][h&(1<<sketchBits-1)]
		h = h>>16 ^ h*0x9e3779b97f4a7c15
		if *slot < 255 {
			*slot++
		}
		least = min(least, *slot)
	}
	return int(least)
}

// known takes the digests for over.
func (b *Bodies) known(digests []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range digests {
		b.count[d] = max(b.count[d], b.limit)
		delete(b.exact, d)
	}
}

// Over returns the digests that reached the limit, sorted.
func (b *Bodies) Over() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.count))
}
