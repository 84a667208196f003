package supervise

import "github.com/ebbhq/ebb/warc"

// CountWARC counts the whole records of a WARC file and tells what is wrong
// with what follows them: a torn tail.
func CountWARC(path string) (int64, error) {
	s, err := warc.Check(path)
	return int64(s.Records), err
}
