package warc

import (
	"errors"
	"io"
	"os"
)

// Summary is what a walk over a file found.
type Summary struct {
	Records int
	ByType  map[Type]int
	// End is where the last whole record ends: the file's size when it is sound.
	End int64
}

// Walk reads a WARC from its beginning and calls visit, which may be nil, for
// each record before it is finished. The error is visit's own, or the first
// *FaultError; the summary tells of what stood before it.
func Walk(file io.Reader, visit func(*Record) error) (Summary, error) {
	s := Summary{ByType: make(map[Type]int)}
	r := NewReader(file)
	for {
		rec, err := r.Next()
		if err == nil && visit != nil {
			err = visit(rec)
		}
		if err == nil {
			err = rec.Finish()
		}
		if err != nil {
			s.End = r.Offset()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return s, err
		}
		s.Records++
		s.ByType[rec.Type]++
	}
}

// Check walks over the file of that name and returns its first *FaultError.
func Check(name string) (Summary, error) {
	f, err := os.Open(name)
	if err != nil {
		return Summary{}, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return Walk(f, nil)
}
