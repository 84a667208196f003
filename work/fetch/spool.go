package fetch

import (
	"bytes"
	"io"
	"os"
)

// spoolMemory is how much of a page is held in memory before it goes to a
// temporary file.
const spoolMemory = 1 << 20

// spool takes a body of any size in.
type spool struct {
	temp func() (*os.File, error)
	mem  bytes.Buffer
	file *os.File
	size int64
}

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && s.mem.Len()+len(p) <= spoolMemory {
		n, err := s.mem.Write(p)
		s.size += int64(n)
		return n, err
	}
	if s.file == nil {
		f, err := s.temp()
		if err != nil {
			return 0, err
		}
		s.file = f
		if _, err := f.Write(s.mem.Bytes()); err != nil {
			return 0, err
		}
		s.mem = bytes.Buffer{}
	}
	n, err := s.file.Write(p)
	s.size += int64(n)
	return n, err
}

// reader reads the body from its beginning.
func (s *spool) reader() io.ReadSeeker {
	if s.file == nil {
		return bytes.NewReader(s.mem.Bytes())
	}
	return io.NewSectionReader(s.file, 0, s.size)
}

// head returns the beginning of the body.
func (s *spool) head(most int64) ([]byte, error) {
	if s.file == nil {
		b := s.mem.Bytes()
		return b[:min(int64(len(b)), most)], nil
	}
	b := make([]byte, min(s.size, most))
	_, err := s.file.ReadAt(b, 0)
	return b, err
}

// drop removes the temporary file, unless somebody took it.
func (s *spool) drop() {
	if s.file == nil {
		return
	}
	name := s.file.Name()
	_ = s.file.Close()  // nothing of it is kept
	_ = os.Remove(name) // what is left is removed at the next start
	s.file = nil
}
