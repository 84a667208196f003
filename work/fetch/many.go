package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/work/fetch/input"
	"github.com/ebbhq/ebb/work/fetch/scope"
)

// Result is what became of one URL of Many.
type Result struct {
	URL     string // as it was given
	Outcome Outcome
	Body    []byte // where Outcome is OK
	Kept    Kept
	// Class and Err tell of the last failure, where Outcome is not OK.
	Class failure.Class
	Err   error
}

// Many fetches the URLs into memory under a sealed policy, tries and waves
// inside, and returns one result per URL, in their order. A URL that cannot be
// had is a result, not an error: the error is the context's, or of a policy
// that may not run. It is the engine of `ebb fetch` over a store in memory;
// for a fetch that survives its process use Open.
func Many(ctx context.Context, urls []string, p policy.Policy, change ...func(*Options)) ([]Result, error) {
	s := memory.New(memory.Config{})
	defer s.Close() //nolint:errcheck // it is memory
	keep := &inMemory{pages: map[string][]byte{}}
	o := Options{Store: s, Name: "many", Policy: p, Sink: keep}
	for _, f := range change {
		f(&o)
	}
	r, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	var items iter.Seq2[input.Item, error] = func(yield func(input.Item, error) bool) {
		for _, u := range urls {
			if !yield(input.Item{URL: u}, nil) {
				return
			}
		}
	}
	if err := r.Load(ctx, items); err != nil {
		return nil, err
	}
	ran := r.Run(ctx)
	f := r.Fetch()
	ends := make(map[string]Result, len(urls))
	err = Each(context.WithoutCancel(ctx), s, &f, "", func(p Page) error {
		end := Result{Outcome: p.Outcome, Kept: p.Kept, Class: p.Job.LastClass}
		if p.Outcome == OK {
			end.Body, end.Class = keep.pages[p.Args.URL], failure.Unknown
		} else {
			end.Err = errors.New(p.Job.LastError)
			if p.Job.LastError == "" {
				end.Err = fmt.Errorf("fetch: %s", p.Outcome)
			}
		}
		ends[p.Args.URL] = end
		return nil
	})
	results := make([]Result, len(urls))
	for i, u := range urls {
		results[i] = ends[spelled(u)]
		results[i].URL = u
	}
	return results, errors.Join(ran, err)
}

// spelled is a URL as jobs name it.
func spelled(url string) string {
	url = cleaned(url)
	if normal, err := scope.Normalize(url); err == nil {
		return normal
	}
	return url
}

// inMemory keeps pages in memory.
type inMemory struct {
	discard
	mu    sync.Mutex
	pages map[string][]byte
}

func (m *inMemory) Keep(s *Saved) error {
	var b bytes.Buffer
	if err := copyOut(&b, s.Content); err != nil {
		return ours("spool", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pages[s.URL] = b.Bytes()
	return nil
}
