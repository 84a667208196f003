package fetch

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/work/fetch/scope"
	"github.com/ebbhq/ebb/work/fetch/soft"
)

// judge holds a page against the rules for error pages that say 200. What is
// one may be a page tomorrow, so it is tried again as any overload is; a page
// without content is an answer.
func (r *Runner) judge(ctx context.Context, b *Body) error {
	if b.Size == 0 && !r.o.KeepEmpty {
		return failure.Fatal(failure.New(failure.Empty, "", fmt.Errorf("http status %d and not one byte", b.Status)))
	}
	if r.o.Soft == nil {
		return nil
	}
	if r.o.Probe {
		if err := r.probes.once(ctx, r, b.Final); err != nil {
			return err
		}
	}
	switch v := r.o.Soft.Ask(b.answer()); v.Kind {
	case soft.Error:
		return failure.New(failure.SoftError, v.Rule, errors.New(v.Reason))
	case soft.Empty:
		return failure.Fatal(failure.New(failure.Empty, v.Rule, errors.New(v.Reason)))
	}
	return nil
}

func (b *Body) answer() soft.Answer {
	return soft.Answer{
		URL: b.Final, ContentType: b.Type, Size: b.Size, Body: b.Head[:min(len(b.Head), soft.MaxBody)],
		Title: b.document().Title, Digest: b.SHA256,
	}
}

// document reads the page's title and links, once.
func (b *Body) document() *scope.Document {
	if b.read == nil {
		doc, err := scope.Read(b.Final, b.Type, strings.NewReader(string(b.Head)))
		if err != nil {
			doc = scope.Document{} // what cannot be read has no links
		}
		b.read = &doc
	}
	return b.read
}

// links are the URLs to follow.
func (r *Runner) links(b *Body) []string {
	doc := b.document()
	if doc.NoFollow {
		return nil
	}
	var list []string
	for _, l := range doc.Links {
		if r.o.Follow.Ask(l.URL).In {
			list = append(list, l.URL)
		}
	}
	return list
}

// probes are the places of hosts that were asked for a page that cannot be.
type probes struct {
	mu   sync.Mutex
	done map[string]chan struct{}
}

// once asks a place for a page that cannot exist, the first time a page of it
// comes. What it says then, with status 200, it says of pages that are gone.
func (p *probes) once(ctx context.Context, r *Runner, url string) error {
	place := soft.Place(url)
	p.mu.Lock()
	done, known := p.done[place]
	if !known {
		if len(p.done) > maxHosts {
			clear(p.done)
		}
		done = make(chan struct{})
		p.done[place] = done
	}
	p.mu.Unlock()
	if known {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer close(done)
	sum, err := hex.DecodeString(nameOf(place))
	if err != nil {
		return err
	}
	at := soft.ProbeURL(url, binary.BigEndian.Uint64(sum))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil // a place that cannot be asked tells nothing
	}
	req.Header.Set("User-Agent", r.o.Agent)
	resp, err := r.o.Transport.RoundTrip(req)
	if err != nil {
		return nil // no answer tells nothing of pages that are gone
	}
	defer resp.Body.Close() //nolint:errcheck // what counts was read
	head, err := io.ReadAll(io.LimitReader(resp.Body, soft.MaxBody))
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil // likewise
	}
	s := &spool{}
	s.mem.Write(head)
	s.size = int64(len(head))
	sha, err := digest(s)
	if err != nil {
		return err
	}
	b := &Body{URL: at, Final: at, Status: resp.StatusCode, Type: resp.Header.Get("Content-Type"), Size: s.size, SHA256: sha, Head: head}
	r.o.Soft.Probed(b.answer())
	return nil
}
