package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/work/fetch/scope"
	"github.com/ebbhq/ebb/worker"
)

// Kept is what is remembered of a page that was fetched: the job's result.
type Kept struct {
	Status    int    `json:"status,omitempty"`
	Final     string `json:"final,omitempty"` // where redirects led to, if any
	Type      string `json:"type,omitempty"`
	Size      int64  `json:"size,omitempty"` // after decompression
	SHA256    string `json:"sha256,omitempty"`
	Path      string `json:"path,omitempty"` // of the file, within the directory
	Unchanged bool   `json:"unchanged,omitempty"`
	Wave      int    `json:"wave,omitempty"`
	Links     int    `json:"links,omitempty"` // new pages found in it
}

// Body is a page as it arrived.
type Body struct {
	URL    string // asked for
	Final  string // answered
	Status int
	Type   string // Content-Type
	Size   int64
	SHA256 string
	// Head is the beginning of the body, after decompression: all of it where
	// it is not longer than HeadSize.
	Head []byte

	read *scope.Document
}

// HeadSize is how much of a page rules and links are read from.
const HeadSize = 4 << 20

// page is the handler: one try of one page.
func (r *Runner) page(ctx context.Context, t *worker.Task) error {
	var a pageArgs
	if err := json.Unmarshal(t.Args(), &a); err != nil {
		return failure.Fatal(failure.New(failure.InvalidInput, "args", err))
	}
	j := t.Job()
	seq, host := j.Seq, j.Target
	flying := flying{url: a.URL, wave: r.Wave()}
	r.flight.put(seq, flying)
	if host == "" { // it was no URL when it came
		_, err := scope.Normalize(a.URL)
		return failure.Fatal(failure.New(failure.InvalidInput, "url", err))
	}
	if t.Start() > 1 { // it may have been kept, and the word of it lost
		if kept, ok := r.o.Sink.Kept(seq); ok {
			flying.unchanged = kept.Unchanged
			r.flight.put(seq, flying)
			return r.done(t, kept)
		}
	}
	delay, err := r.rules.allows(ctx, a.URL)
	if err == nil {
		err = r.slow(ctx, host, delay)
	}
	if err != nil {
		return err
	}
	kept, err := r.get(ctx, t, &a)
	if err != nil {
		return err
	}
	flying.unchanged = kept.Unchanged
	r.flight.put(seq, flying)
	return r.done(t, kept)
}

// Wave returns the number of the pass under way; 0 = the first.
func (r *Runner) Wave() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.fetch.Waves)
}

func (r *Runner) done(t *worker.Task, kept Kept) error {
	result, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	t.SetResult(result)
	return nil
}

// follow enqueues the pages that a page links to. It is done before the page
// is: a crash in between finds the same links again, and no page twice.
func (r *Runner) follow(ctx context.Context, a *pageArgs, b *Body) (int, error) {
	if r.o.Follow == nil {
		return 0, nil
	}
	links := r.links(b)
	fresh := 0
	for len(links) > 0 {
		n := min(len(links), loadBatch)
		batch := make([]job.New, 0, n)
		for _, link := range links[:n] {
			j, err := r.pageJob(pageArgs{URL: link, Depth: a.Depth + 1, From: a.URL})
			if err != nil {
				return fresh, err
			}
			batch = append(batch, j)
		}
		links = links[n:]
		added, err := r.enqueue(ctx, batch)
		if err != nil {
			return fresh, failure.New(failure.LocalIO, "ledger", err)
		}
		fresh += added
	}
	r.meter.found(fresh)
	return fresh, nil
}

// resolver puts a resolver that does not answer among our own machine's
// faults: the page and its host have nothing to do with it.
func resolver(err error) (failure.Failure, bool) {
	var dns *net.DNSError
	if !errors.As(err, &dns) || dns.IsNotFound {
		return failure.Failure{}, false
	}
	f := failure.Of(failure.LocalIO)
	f.Reason, f.Err = "resolver", fmt.Errorf("the resolver does not answer: %w", err)
	return f, true
}
