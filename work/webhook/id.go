package webhook

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// alphabet sorts as its values do, and has no letters that are mistaken for
// digits.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// newID returns an id that sorts by its time, and those of one process as they
// were made: the prefix, 56 bits of microseconds, 64 random ones.
func (s *Service) newID(prefix string, at time.Time) (string, error) {
	var b [15]byte
	var micros [8]byte
	binary.BigEndian.PutUint64(micros[:], uint64(s.tick(at.UnixMicro())))
	copy(b[:7], micros[1:])
	if _, err := io.ReadFull(s.config.Rand, b[7:]); err != nil {
		return "", fmt.Errorf("webhook: id: %w", err)
	}
	text := append(make([]byte, 0, len(prefix)+24), prefix...)
	var acc uint64
	bits := 0
	for _, x := range b {
		acc, bits = acc<<8|uint64(x), bits+8
		for bits >= 5 {
			bits -= 5
			text = append(text, alphabet[acc>>bits&31])
		}
	}
	return string(text), nil
}

// tick returns an instant that no id of this process has had.
func (s *Service) tick(micros int64) int64 {
	for {
		last := s.lastID.Load()
		next := max(micros, last+1)
		if s.lastID.CompareAndSwap(last, next) {
			return next
		}
	}
}
