package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/work/fetch/robots"
	"github.com/ebbhq/ebb/work/fetch/scope"
)

// rulebook knows the robots.txt of the hosts that were called.
type rulebook struct {
	r     *Runner
	cache robots.Cache

	mu     sync.Mutex
	asking map[string]chan struct{} // by origin: closed when its answer is known
}

func newRulebook(r *Runner) *rulebook { return &rulebook{r: r, asking: map[string]chan struct{}{}} }

// allows answers whether the URL may be fetched, and the Crawl-delay of its
// host. A host whose rules cannot be learnt is deferred as one that is
// overloaded: its gate pauses it.
func (b *rulebook) allows(ctx context.Context, url string) (time.Duration, error) {
	if !b.r.o.Robots {
		return 0, nil
	}
	origin, at := robots.URL(url)
	access, err := b.access(ctx, origin, at)
	if err != nil {
		return 0, err
	}
	now := b.r.o.clock().Now()
	if access.Deferred {
		f := failure.Of(failure.Server)
		f.Reason, f.Err = "robots_unavailable", fmt.Errorf("robots.txt of %s: %s", origin, access.Why)
		if b.r.o.Policy.Gate { // without one, every page would wait for itself
			f.RetryAfter = max(0, access.Until.Sub(now))
		}
		return 0, &failure.Error{Failure: f}
	}
	if v := access.File.Ask(b.r.o.Agent, url); !v.Allowed {
		return 0, failure.Fatal(failure.New(failure.PolicyDenied, "robots", errors.New("robots.txt: "+v.String())))
	}
	return access.File.Delay(b.r.o.Agent), nil
}

// access looks the origin up, and asks for its robots.txt where that must be;
// once, however many pages wait for it.
func (b *rulebook) access(ctx context.Context, origin, at string) (robots.Access, error) {
	for {
		access, fresh := b.cache.Lookup(origin, b.r.o.clock().Now())
		if fresh {
			return access, nil
		}
		b.mu.Lock()
		waiting, others := b.asking[origin]
		if !others {
			waiting = make(chan struct{})
			b.asking[origin] = waiting
		}
		b.mu.Unlock()
		if others {
			select {
			case <-waiting:
				continue
			case <-ctx.Done():
				return access, context.Cause(ctx)
			}
		}
		answer, err := b.ask(ctx, at)
		if err != nil && !access.At.IsZero() && !access.Deferred {
			answer, err = robots.Answer{}, nil // its earlier rules hold
		}
		if err == nil {
			access = b.cache.Keep(origin, answer, b.r.o.clock().Now())
		}
		b.mu.Lock()
		delete(b.asking, origin)
		close(waiting)
		b.mu.Unlock()
		return access, err
	}
}

// ask fetches a robots.txt. A host that cannot be reached at all is an error,
// of the class that its pages would have: nothing is asked of it without its
// rules, and it is tried again as the page is. One that fails while it answers
// is an answer.
func (b *rulebook) ask(ctx context.Context, url string) (robots.Answer, error) {
	var a robots.Answer
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return a, nil //nolint:nilerr // an address that cannot be asked has no rules
		}
		req.Header.Set("User-Agent", b.r.o.Agent)
		resp, _, err := b.r.send(req)
		if err != nil {
			return a, fmt.Errorf("robots.txt: %w", err)
		}
		a.Status = resp.StatusCode
		a.RetryAfter, _ = failure.RetryAfter(resp.Header, b.r.o.clock().Now())
		body, err := robots.ReadBody(resp.Body)
		_ = resp.Body.Close() // what counts was read
		if err != nil {
			a.Status = 0
			return a, nil //nolint:nilerr // half of the rules are no rules: as if no answer had come
		}
		a.Body = body
		next, err := scope.Resolve(url, resp.Header.Get("Location"))
		if a.Status < 300 || a.Status >= 400 || resp.Header.Get("Location") == "" || err != nil {
			return a, nil //nolint:nilerr // a redirect to nowhere leads to no rules
		}
		if a.Redirects++; a.Redirects > robots.MaxRedirects {
			return a, nil
		}
		url = next
	}
}
