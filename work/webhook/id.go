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

// newID returns an id that sorts by its time: the prefix, 48 bits of
// milliseconds, 72 random ones.
func (s *Service) newID(prefix string, at time.Time) (string, error) {
	var b [15]byte
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
	copy(b[:6], ms[2:])
	if _, err := io.ReadFull(s.config.Rand, b[6:]); err != nil {
		return "", fmt.Errorf("webhook: id: %w", err)
	}
	text := make([]byte, 0, len(prefix)+24)
	text = append(text, prefix...)
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
