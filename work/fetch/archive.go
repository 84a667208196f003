package fetch

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/ebbhq/ebb/warc"
)

// warcDir is where a directory keeps its archive.
const warcDir = "warc"

// maxPayloads is how many payloads are remembered at least, to write the same
// one once; at most twice as many, whatever the size of the fetch.
const maxPayloads = 5_000

// WARC is an Archive in WARC 1.1 files: one gzip member a record, every
// request with its answer, and what attempt and wave it was.
type WARC struct {
	dir string
	w   *warc.Writer

	mu     sync.Mutex
	known  map[string]warc.Original // by payload digest: the newest
	before map[string]warc.Original // those before them
}

// OpenWARC makes the archive of a directory, and first repairs what a process
// that was killed left open.
func OpenWARC(root, agent string) (*WARC, error) {
	dir := filepath.Join(root, warcDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	if _, err := warc.Recover(dir, "ebb", nil); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	w, err := warc.Create(warc.Options{Dir: dir, Prefix: "ebb", Info: warc.Fields{
		{Name: "software", Value: "ebb fetch"}, {Name: "http-header-user-agent", Value: agent},
	}})
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	return &WARC{dir: dir, w: w, known: map[string]warc.Original{}}, nil
}

// Write keeps the exchanges of one try.
func (a *WARC) Write(s *Saved) error {
	for i := range s.Hops {
		h := &s.Hops[i]
		x := warc.Exchange{
			URL: h.URL, Date: h.At, IP: address(h.Remote), Request: warc.RequestHead(h.Request), ResponseHead: warc.ResponseHead(h.Response),
			Body: h.Body.Reader(), Attempt: s.Attempt, Wave: s.Wave, Known: a.payload,
			Metadata: warc.Fields{
				{Name: "fetch", Value: s.Fetch},
				{Name: "start", Value: fmt.Sprint(s.Start)},
				{Name: "fetchTimeMs", Value: fmt.Sprint(h.Took.Milliseconds())},
			},
		}
		if h.Truncated {
			x.Truncated = "disconnect"
		}
		last := i == len(s.Hops)-1
		if s.Original != nil && last {
			x.NotModified = s.Original
		}
		done, err := a.w.Exchange(x)
		if err != nil {
			return err
		}
		if !h.Profitless && last && done.ID != "" && done.Entry.MIME != "warc/revisit" {
			s.Original = &warc.Original{ID: done.ID, URL: h.URL, Date: h.At, Digest: "sha1:" + done.Entry.Digest}
			a.remember(done.Entry.Digest, *s.Original)
		}
	}
	return nil
}

// payload finds the record that holds the payload already.
func (a *WARC) payload(digest string) (warc.Original, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, ok := a.known[bareDigest(digest)]
	if !ok {
		o, ok = a.before[bareDigest(digest)]
	}
	return o, ok
}

func (a *WARC) remember(digest string, o warc.Original) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= maxPayloads {
		a.known, a.before = make(map[string]warc.Original, maxPayloads), a.known
	}
	a.known[bareDigest(digest)] = o
}

// bareDigest is a digest without its label.
func bareDigest(digest string) string { return digest[strings.IndexByte(digest, ':')+1:] }

// address is the IP of HOST:PORT.
func address(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return ""
	}
	return host
}

// Flush makes it durable.
func (a *WARC) Flush() error { return a.w.Sync() }

// Close gives the last file its name and writes the indexes of all files.
func (a *WARC) Close() error {
	if err := a.w.Close(); err != nil {
		return fmt.Errorf("fetch: archive: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(a.dir, "*.warc.gz"))
	if err != nil || len(files) == 0 {
		return err
	}
	for name, format := range map[string]warc.Format{"index.cdx": warc.CDX, "index.cdxj": warc.CDXJ, "wget.cdx": warc.WgetCDX} {
		if err := writeIndex(filepath.Join(a.dir, name), format, files); err != nil {
			return fmt.Errorf("fetch: archive: %s: %w", name, err)
		}
	}
	return nil
}

func writeIndex(path string, format warc.Format, files []string) error {
	w, err := warc.CreateIndex(path, format)
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, err = warc.Index(file, w.Add); err != nil {
			break
		}
	}
	return errors.Join(err, w.Close())
}
