package fetch

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ebbhq/ebb/failure"
)

// minPart is the least beginning of a body that is worth keeping.
const minPart = 64 << 10

// part is the beginning of a page whose connection broke: the next try asks
// for the rest of it.
type part struct {
	path      string
	size      int64
	Validator string `json:"validator"`
}

// part returns the beginning of the job's page that an earlier start kept, if
// any. Archives want whole answers, so there are none for them.
func (r *Runner) part(seq int64, start int) *part {
	dir := r.o.Sink.Parts()
	if dir == "" {
		return nil
	}
	p := &part{path: filepath.Join(dir, strconv.FormatInt(seq, 10))}
	if start == 1 {
		return p
	}
	text, err := os.ReadFile(p.path + ".json")
	if err != nil || json.Unmarshal(text, p) != nil || p.Validator == "" {
		return p
	}
	if info, err := os.Stat(p.path); err == nil {
		p.size = info.Size()
	}
	return p
}

// ask asks for what is missing.
func (p *part) ask(h http.Header) {
	if p.size == 0 {
		return
	}
	h.Set("Range", fmt.Sprintf("bytes=%d-", p.size))
	h.Set("If-Range", p.Validator)
	h.Set("Accept-Encoding", "identity")
}

// resume puts the beginning before the rest that comes.
func (p *part) resume(resp *http.Response, to *spool) error {
	if !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", p.size)) {
		p.done()
		return failure.New(failure.ShortBody, "range", fmt.Errorf("asked for the bytes from %d on, got %q", p.size, resp.Header.Get("Content-Range")))
	}
	f, err := os.Open(p.path)
	if err != nil {
		return ours("part", err)
	}
	defer f.Close() //nolint:errcheck // read only
	_, err = io.Copy(to, io.LimitReader(f, p.size))
	return ours("part", err)
}

// keep keeps the beginning of a body that broke off, if the server lets us ask
// for the rest of exactly this one.
func (p *part) keep(resp *http.Response, got *spool) {
	if p == nil || got.size < minPart || resp.Header.Get("Content-Encoding") != "" {
		return
	}
	tag := resp.Header.Get("ETag")
	if strings.HasPrefix(tag, "W/") {
		tag = ""
	}
	if tag == "" {
		tag = resp.Header.Get("Last-Modified")
	}
	if tag == "" || resp.Header.Get("Accept-Ranges") != "bytes" && resp.StatusCode != http.StatusPartialContent {
		return
	}
	if err := p.write(got, tag); err != nil {
		p.done() // the whole page is asked for again: slower, not wrong
	}
}

func (p *part) write(got *spool, tag string) error {
	if err := os.MkdirAll(filepath.Dir(p.path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(p.path)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, got.reader()); err != nil {
		_ = f.Close() // the first error counts
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	text, err := json.Marshal(part{Validator: tag})
	if err != nil {
		return err
	}
	return os.WriteFile(p.path+".json", text, 0o644)
}

// done forgets the beginning.
func (p *part) done() {
	if p == nil || p.size == 0 && p.Validator == "" {
		return
	}
	_ = os.Remove(p.path + ".json") // without it the other one is nothing
	_ = os.Remove(p.path)
	p.size, p.Validator = 0, ""
}
