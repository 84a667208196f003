package robots

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// TTL is how long an answer counts; MaxRedirects how many redirects a
// robots.txt may take to be found. Both are the RFC's.
const (
	TTL          = 24 * time.Hour
	MaxRedirects = 5
)

// DeferFor is when a robots.txt that could not be had is asked for again, if
// the server named no time itself.
const DeferFor = 5 * time.Minute

// Answer is how the request for a robots.txt ended.
type Answer struct {
	Status     int           // after redirects; 0 = no answer came
	Redirects  int           // how many were followed; over MaxRedirects the file counts as not there
	RetryAfter time.Duration // what the server asked for, or 0
	Body       []byte
}

// Access is what an answer means for a host.
type Access struct {
	// Deferred says that nothing may be fetched from the host for now: its rules
	// could not be learnt. Why says so in words.
	Deferred bool
	Why      string
	File     *File // never nil
	At       time.Time
	Until    time.Time // when it is to be asked for again
}

// Judge turns an answer into access. A file that is not there (4xx) forbids
// nothing; a server that fails or cannot be reached, or asks for patience with
// 429, defers the host.
func Judge(a Answer, now time.Time) Access {
	access := Access{File: &File{}, At: now, Until: now.Add(TTL)}
	switch {
	case a.Redirects > MaxRedirects:
		access.Why = fmt.Sprintf("robots.txt lies behind more than %d redirects: all is allowed", MaxRedirects)
	case a.Status >= 200 && a.Status < 300:
		access.File = Parse(a.Body)
	case a.Status >= 300 && a.Status < 500 && a.Status != http.StatusTooManyRequests:
		access.Why = fmt.Sprintf("robots.txt answered %d: all is allowed", a.Status)
	default:
		wait := DeferFor
		if a.RetryAfter > 0 {
			wait = min(a.RetryAfter, TTL)
		}
		access.Deferred, access.Until = true, now.Add(wait)
		access.Why = fmt.Sprintf("robots.txt answered %d: the host waits", a.Status)
		if a.Status == 0 {
			access.Why = "robots.txt could not be fetched: the host waits"
		}
	}
	return access
}

// ReadBody reads as much of a robots.txt as counts.
func ReadBody(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, MaxBytes+1)) }

// Cache keeps access by origin (scheme, host and port). Its methods may be
// called from several goroutines. The zero value is empty.
type Cache struct {
	mu      sync.Mutex
	origins map[string]Access
}

// Lookup returns what is known of the origin; fresh is false when its
// robots.txt has to be asked for, for the first time or again.
func (c *Cache) Lookup(origin string, now time.Time) (access Access, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	access, found := c.origins[origin]
	return access, found && now.Before(access.Until)
}

// Keep remembers the answer and returns what holds from now on. While a
// robots.txt cannot be had, the rules learnt before stay in force, as the RFC
// allows; only a host whose rules were never known is deferred.
func (c *Cache) Keep(origin string, a Answer, now time.Time) Access {
	access := Judge(a, now)
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, found := c.origins[origin]; found && access.Deferred && !before.Deferred {
		before.Until, before.Why = access.Until, "robots.txt cannot be had now: its earlier rules hold"
		access = before
	}
	if c.origins == nil {
		c.origins = make(map[string]Access)
	}
	c.origins[origin] = access
	return access
}

// URL is where the robots.txt of a URL's origin is.
func URL(url string) (origin, robots string) {
	origin = originOf(url)
	return origin, origin + "/robots.txt"
}
