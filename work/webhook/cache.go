package webhook

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/ebbhq/ebb/store"
)

const (
	// destinationLife is how long a delivery may go by what was read of its
	// endpoint before. Machine time.
	destinationLife = time.Second
	// cacheSize bounds each map; a full one is emptied.
	cacheSize = 10_000
)

// destination is an endpoint ready to be called.
type destination struct {
	doc     *endpointDoc
	blank   *http.Request // what all its requests share
	wrong   error         // of its URL: then there is no request
	signers []signer
	headers map[string]string
	secrets []string // of the headers, longest first: what an answer may send back
	longest int      // of the secrets, in bytes
	readAt  time.Time
	remote  *remoteText
}

// owned are the endpoints of one owner as they were at a version of the
// owner's record.
type owned struct {
	version int64
	docs    []*endpointDoc
}

// cache spares sends and deliveries the reading of endpoints. A send is never
// behind: it compares the owner's version first. A delivery may be, by
// destinationLife.
type cache struct {
	service *Service

	mu           sync.Mutex
	destinations map[string]*destination
	owners       map[string]*owned
}

func newCache(s *Service) *cache {
	return &cache{service: s, destinations: map[string]*destination{}, owners: map[string]*owned{}}
}

func (c *cache) forget(id, owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.destinations, id)
	delete(c.owners, owner)
}

// destination returns the endpoint as it was a moment ago at most.
func (c *cache) destination(ctx context.Context, id string) (*destination, error) {
	s := c.service
	now := s.config.Machine.Now()
	c.mu.Lock()
	d := c.destinations[id]
	c.mu.Unlock()
	if d != nil && now.Sub(d.readAt) < destinationLife {
		return d, nil
	}
	doc, err := s.endpoint(ctx, id)
	if err != nil {
		return nil, err
	}
	next := &destination{doc: doc, readAt: now, remote: &remoteText{}}
	if d != nil && d.doc.version == doc.version {
		*next = *d
		next.doc, next.readAt = doc, now
	} else if next.signers, err = s.signers(doc); err != nil {
		return nil, &sealError{err}
	} else if next.headers, err = s.openHeaders(doc); err != nil {
		return nil, &sealError{err}
	} else {
		next.blank, next.wrong = blank(doc.URL) //nolint:contextcheck // it outlives the call
		next.learn()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.destinations) >= cacheSize {
		clear(c.destinations)
	}
	c.destinations[id] = next
	return next, nil
}

// sealError means that a secret could not be opened: the key is another one.
type sealError struct{ err error }

func (e *sealError) Error() string { return e.err.Error() }
func (e *sealError) Unwrap() error { return e.err }

// owner returns the endpoints of an owner as they are now, by id.
func (c *cache) owner(ctx context.Context, owner string) ([]*endpointDoc, error) {
	r, err := c.service.store.Record(ctx, recordOwner, ownerRef(owner))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	o := c.owners[owner]
	c.mu.Unlock()
	if o != nil && o.version == r.Version {
		return o.docs, nil
	}
	o = &owned{version: r.Version}
	filter := store.RecordFilter{Kind: recordEndpoint, Ref: ownerRef(owner), Limit: 1000}
	for {
		rows, err := c.service.store.Records(ctx, filter)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			doc, err := endpointOf(&rows[i])
			if err != nil {
				return nil, err
			}
			o.docs = append(o.docs, doc)
		}
		if len(rows) < filter.Limit {
			break
		}
		filter.After = rows[len(rows)-1].ID
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.owners) >= cacheSize {
		clear(c.owners)
	}
	c.owners[owner] = o
	return o.docs, nil
}
