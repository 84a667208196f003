package fetch

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/warc"
)

// PageKind is the kind of the records of what is known of a page: how to ask
// whether it has changed.
const PageKind = "fetch.page"

// known is what the last fetch of a page left behind.
type known struct {
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
	Path         string `json:"path,omitempty"`
	Type         string `json:"type,omitempty"`
	Size         int64  `json:"size"`
	SHA256       string `json:"sha256"`
	// Original is the archive's record of the page.
	Original *warc.Original `json:"original,omitempty"`
}

// conditional asks whether the page has changed.
func (k *known) conditional(h http.Header) http.Header {
	h = h.Clone()
	if h == nil {
		h = http.Header{}
	}
	if k.ETag != "" {
		h.Set("If-None-Match", k.ETag)
	}
	if k.LastModified != "" {
		h.Set("If-Modified-Since", k.LastModified)
	}
	return h
}

// validators returns what is known of a page, if it is still here.
func (r *Runner) validators(ctx context.Context, url string) (known, bool) {
	if !r.o.Conditional || !r.before() {
		return known{}, false
	}
	rec, err := r.o.Store.Record(ctx, PageKind, r.o.Name+"/"+nameOf(url))
	if err != nil {
		return known{}, false // then it is fetched whole
	}
	var k known
	if json.Unmarshal(rec.Body, &k) != nil || !r.o.Sink.Has(k.Path, k.Size) {
		return known{}, false
	}
	return k, true
}

// before reports whether there was a fetch of the name before this one.
func (r *Runner) before() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fetch.Previous != ""
}

// remember notes how to ask for the page the next time. It need not be durable
// at once: without it the page is fetched whole.
func (r *Runner) remember(s *Saved, h http.Header) {
	k := known{
		ETag: h.Get("ETag"), LastModified: h.Get("Last-Modified"),
		Path: s.Kept.Path, Type: s.Kept.Type, Size: s.Kept.Size, SHA256: s.Kept.SHA256, Original: s.Original,
	}
	if k.ETag == "" && k.LastModified == "" || k.Path == "" && k.Original == nil {
		return
	}
	body, err := json.Marshal(k)
	if err != nil {
		return
	}
	r.notes.add(store.Record{Kind: PageKind, ID: r.o.Name + "/" + nameOf(s.URL), Ref: r.o.Name, Version: store.AnyVersion, Body: body})
}

// notesMost is how many notes are written together.
const notesMost = 500

// notes gathers records that may be written late.
type notes struct {
	mu   sync.Mutex
	puts map[string]store.Record // by id: a write names each once
	full chan struct{}
}

func newNotes() *notes {
	return &notes{puts: map[string]store.Record{}, full: make(chan struct{}, 1)}
}

func (n *notes) add(rec store.Record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.puts[rec.ID] = rec
	if len(n.puts) >= notesMost {
		select {
		case n.full <- struct{}{}:
		default:
		}
	}
}

func (n *notes) take() []store.Record {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []store.Record
	for _, rec := range n.puts {
		all = append(all, rec)
	}
	clear(n.puts)
	return all
}

// writeNotes writes them until the context ends.
func (r *Runner) writeNotes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.notes.full:
			r.writeNote(ctx)
		}
	}
}

func (r *Runner) writeNote(ctx context.Context) {
	puts := r.notes.take()
	if len(puts) == 0 {
		return
	}
	if _, err := r.o.Store.Write(ctx, r.o.now(), store.Write{Puts: puts}); err != nil {
		r.o.Log.Warn("fetch: notes of pages", "error", err)
	}
}
