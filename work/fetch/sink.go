package fetch

import (
	"io"
	"os"
)

// Sink keeps what was fetched. Its methods may be called at the same time.
type Sink interface {
	// Keep keeps a page and fills in Kept.Path. When it returns, the page
	// survives the end of this process.
	Keep(s *Saved) error
	// Unchanged notes that what is kept of the page still holds.
	Unchanged(s *Saved) error
	// Kept returns what an earlier start of the job kept, if the process died
	// before the ledger knew of it.
	Kept(seq int64) (Kept, bool)
	// Quarantine keeps a page that is not what it says, apart from the pages.
	Quarantine(s *Saved, why error) error
	// Recall puts a page that was kept into quarantine, if what stands there
	// has still that digest; false if not.
	Recall(path, sha256 string) (bool, error)
	// Failed keeps the exchanges of a try that brought no page.
	Failed(s *Saved) error
	// Has reports whether a page that was kept is still there.
	Has(path string, size int64) bool
	// Temp makes a temporary file for a large body.
	Temp() (*os.File, error)
	// Parts is the directory for beginnings of pages; empty = none are kept.
	Parts() string
	// Flush makes all that was kept durable.
	Flush() error
}

// discard keeps nothing.
type discard struct{}

func (discard) Keep(*Saved) error                   { return nil }
func (discard) Unchanged(*Saved) error              { return nil }
func (discard) Kept(int64) (Kept, bool)             { return Kept{}, false }
func (discard) Quarantine(*Saved, error) error      { return nil }
func (discard) Recall(string, string) (bool, error) { return true, nil }
func (discard) Failed(*Saved) error                 { return nil }
func (discard) Has(string, int64) bool              { return false }
func (discard) Temp() (*os.File, error)             { return os.CreateTemp("", "ebb-fetch-") }
func (discard) Parts() string                       { return "" }
func (discard) Flush() error                        { return nil }

// copyOut writes a page's content.
func copyOut(w io.Writer, c *Content) error {
	_, err := io.Copy(w, c.Reader())
	return err
}
