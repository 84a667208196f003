package input

import (
	"crypto/sha256"
	"encoding/binary"
)

// Set remembers texts by 128 bits of their SHA-256, 16 bytes each at most
// three quarters full: a million take 32 MiB. The zero value is empty.
type Set struct {
	slots [][2]uint64
	used  int
}

// Add puts the text in and reports whether it is new.
func (s *Set) Add(text string) bool {
	sum := sha256.Sum256([]byte(text))
	key := [2]uint64{binary.LittleEndian.Uint64(sum[:8]), binary.LittleEndian.Uint64(sum[8:16])}
	if key == [2]uint64{} {
		key[0] = 1 // zero marks a free slot
	}
	if s.used*4 >= len(s.slots)*3 {
		s.grow()
	}
	if !s.put(key) {
		return false
	}
	s.used++
	return true
}

// Len is how many different texts were added.
func (s *Set) Len() int { return s.used }

func (s *Set) put(key [2]uint64) bool {
	mask := uint64(len(s.slots) - 1)
	for i := key[0] & mask; ; i = (i + 1) & mask {
		switch s.slots[i] {
		case key:
			return false
		case [2]uint64{}:
			s.slots[i] = key
			return true
		}
	}
}

func (s *Set) grow() {
	old := s.slots
	s.slots = make([][2]uint64, max(2*len(old), 1024))
	for _, key := range old {
		if key != ([2]uint64{}) {
			s.put(key)
		}
	}
}
