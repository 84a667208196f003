// Package webhook sends events to the endpoints of customers: signed, in
// order where asked, and again by the policy of seed 002 until they arrive or
// the promise is spent.
//
// An endpoint is a record and a target: its gate isolates it from the others,
// and whether it is paused or disabled is what its gate says. A delivery is a
// job. What is sent is committed with its fan-out in one transaction before
// Send returns.
package webhook

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/internal/oneshot"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/worker"
)

const (
	// Kind is the kind of the jobs that deliver.
	Kind = "webhook.deliver"
	// Queue is the queue in which they wait.
	Queue = "webhook"
	// PolicyName is the policy of every endpoint that has none of its own.
	PolicyName = "webhook"
)

// Kinds of the records kept beside the jobs.
const (
	recordEndpoint = "webhook.endpoint"
	recordOwner    = "webhook.owner" // counts the changes of an owner's endpoints
	recordEvent    = "webhook.event"
	recordKey      = "webhook.key"     // idempotency keys
	recordAttempt  = "webhook.attempt" // the log of failed attempts, Ref = delivery
	recordHealth   = "webhook.health"  // of endpoints that fail, or were disabled
)

var (
	// ErrConflict is returned for an idempotency key that was used for another
	// message.
	ErrConflict = errors.New("the idempotency key was used for another message")
	// ErrInvalid is engine's, as are the next two: callers match one set.
	ErrInvalid = engine.ErrInvalid
	// ErrNotFound is returned for what does not exist.
	ErrNotFound = engine.ErrNotFound
	// ErrState is returned where the delivery's state forbids the order.
	ErrState = engine.ErrState
)

// Sealer encrypts secrets for the store. label says what a secret is of: what
// was sealed opens under its label alone. *access.Keeper is one.
type Sealer interface {
	Seal(secret []byte, label string) ([]byte, error)
	Open(sealed []byte, label string) ([]byte, error)
}

// Config says how webhooks are sent. Store and Seal are required; New fills
// the rest with the defaults named here.
type Config struct {
	Store store.Store
	Seal  Sealer
	// Policies are those that the worker has, sealed; of them "webhook" judges
	// deliveries. Without it the preset does, with what the environment
	// overrides: WEBHOOK_TIMEOUT_SECONDS, MAX_RETRY_ATTEMPTS (n retries = n + 1
	// attempts), RETRY_BATCH_SIZE, HTTP_POOL_SIZE. New refuses a policy of
	// endpoints that policy.Enforce refuses.
	Policies []policy.Policy
	// Lookup reads the environment. Default os.LookupEnv.
	Lookup func(string) (string, bool)
	// EndpointPolicies lets endpoints name a policy of their own out of
	// Policies. Default: one policy for all, as seed 002 says.
	EndpointPolicies bool

	// Clock is policy time; nil = the store's own. It must be the worker's.
	Clock clock.Clock
	// Machine is the time that signatures carry and that caches live by.
	// Default: the machine's clock.
	Machine clock.Clock
	// Rand is where ids and secrets come from. Default crypto/rand.
	Rand io.Reader
	// Actor is who the audit names where the context does not. Default
	// "webhook".
	Actor string
	// Log hears what upkeep could not do. Default: nobody does.
	Log *slog.Logger
	// Observe hears of deliveries that were parked because their endpoint was
	// disabled, as worker.Config.Observe hears of those that a worker parks.
	// Default: nobody does.
	Observe func(worker.Event)

	// AllowNetworks are ranges of addresses that may be called although they
	// are not public: loopback, private, link-local, CGNAT and the like are
	// refused when they are dialled, class policy_denied. Default none.
	AllowNetworks []netip.Prefix
	// Ports that may be called. Default any.
	Ports []uint16
	// HTTPSOnly refuses endpoints whose URL is not https.
	HTTPSOnly bool
	// Proxy is what calls go through; the environment's proxy variables are
	// never read. The guard then judges the proxy's address, and only those
	// endpoints that are named by a literal address. Default none.
	Proxy *url.URL

	// Wrap puts something around every call, such as a trace. Default nothing.
	Wrap func(http.RoundTripper) http.RoundTripper

	// TLS is how endpoints are called over https, such as by authorities of
	// one's own. Default: Go's, by the machine's authorities.
	TLS *tls.Config

	// MaxPayload is the largest payload, in bytes. Default 256 KiB.
	MaxPayload int
	// MaxResponse is how much of an answer is read, after decompression. What
	// follows is not waited for, and its connection is closed. Default 64 KiB.
	MaxResponse int64
	// Excerpt is how much of an answer is kept with the attempt, in bytes.
	// Default 1 KiB; negative = nothing.
	Excerpt int

	// EventsKept is how long an event can be looked up; deliveries are kept as
	// the worker keeps jobs. Default 72 h.
	EventsKept time.Duration
	// KeysKept is how long an idempotency key answers as it did first.
	// Default 24 h.
	KeysKept time.Duration
	// AttemptsKept is how long the log of failed attempts is kept.
	// Default 7 days.
	AttemptsKept time.Duration

	// Health says when an endpoint is given up.
	Health Health
}

// Health is when an endpoint of which every delivery fails is disabled. Both
// the time and the count must be reached.
type Health struct {
	// After is how far apart the first failure and the last must be, with no
	// success between them. Default 5 days; negative = no endpoint is ever
	// disabled for failing.
	After time.Duration
	// Failures is how many attempts must have failed meanwhile. Default 50.
	Failures int
	// Grace is how long an endpoint that was enabled again is left alone.
	// Default 24 h.
	Grace time.Duration
	// Every is the time between two looks. Default 10 s. Policy time, as are
	// the others.
	Every time.Duration
}

func (c *Config) fill() {
	if c.Lookup == nil {
		c.Lookup = os.LookupEnv
	}
	if c.Machine == nil {
		c.Machine = clock.System{}
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Actor = cmp.Or(c.Actor, "webhook")
	c.MaxPayload = cmp.Or(c.MaxPayload, 256<<10)
	c.MaxResponse = cmp.Or(c.MaxResponse, 64<<10)
	c.Excerpt = max(0, cmp.Or(c.Excerpt, 1<<10))
	c.EventsKept = cmp.Or(c.EventsKept, 72*time.Hour)
	c.KeysKept = cmp.Or(c.KeysKept, 24*time.Hour)
	c.AttemptsKept = cmp.Or(c.AttemptsKept, 7*24*time.Hour)
	c.Health.After = cmp.Or(c.Health.After, 5*24*time.Hour)
	c.Health.Failures = cmp.Or(c.Health.Failures, 50)
	c.Health.Grace = cmp.Or(c.Health.Grace, 24*time.Hour)
	c.Health.Every = cmp.Or(c.Health.Every, 10*time.Second)
}

func (c *Config) validate() error {
	switch {
	case c.Store == nil:
		return errors.New("webhook: config: store: is required")
	case c.Seal == nil:
		return errors.New("webhook: config: seal: is required, such as an access.Keeper with a key: secrets are not kept in the clear")
	case c.Proxy != nil && c.Proxy.Scheme != "http" && c.Proxy.Scheme != "https" && c.Proxy.Scheme != "socks5":
		return fmt.Errorf("webhook: config: proxy %q: want http://, https:// or socks5://HOST:PORT", c.Proxy.Redacted())
	}
	for _, d := range []struct {
		name string
		n    int64
	}{
		{"max_payload", int64(c.MaxPayload)},
		{"max_response", c.MaxResponse},
		{"events_kept", int64(c.EventsKept)},
		{"keys_kept", int64(c.KeysKept)},
		{"attempts_kept", int64(c.AttemptsKept)},
		{"health.failures", int64(c.Health.Failures)},
		{"health.grace", int64(c.Health.Grace)},
		{"health.every", int64(c.Health.Every)},
	} {
		if d.n < 0 {
			return fmt.Errorf("webhook: config: %s %d: must be more than 0", d.name, d.n)
		}
	}
	return nil
}

// Service is webhook delivery over a store. It is safe for concurrent use.
type Service struct {
	config   Config
	store    store.Store
	ops      *engine.Engine
	policies []policy.Policy
	byName   map[string]*policy.Policy
	call     http.RoundTripper
	idle     func() // closes idle connections
	cache    *cache
	health   *watch
	log      *journal
	lastID   atomic.Int64 // the instant of the newest id, in microseconds
}

// New returns webhook delivery over the store. It refuses a config that
// cannot work and a policy that must not.
func New(c Config) (*Service, error) {
	c.fill()
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Service{config: c, store: c.Store}
	var err error
	if s.policies, s.byName, err = c.promise(); err != nil {
		return nil, err
	}
	s.ops = engine.New(c.Store, s.policies, engine.Config{Clock: c.Clock, Actor: c.Actor})
	transport := c.transport(s.byName)
	s.call, s.idle = oneshot.New(transport), transport.CloseIdleConnections
	if c.Wrap != nil {
		s.call = c.Wrap(s.call)
	}
	s.cache = newCache(s)
	s.health = newWatch()
	s.log = newJournal(s)
	return s, nil
}

// Handlers are what a worker needs to deliver, by kind. Its queues must hold
// Queue, and its policies be Policies.
func (s *Service) Handlers() map[string]worker.Handler {
	return map[string]worker.Handler{Kind: s.deliver}
}

// Policies are those that were given and, if it was not among them, "webhook"
// as the preset and the environment have it: what the worker must be given.
func (s *Service) Policies() []policy.Policy { return s.policies }

// Policy returns the policy of that name as deliveries are judged by it; nil
// if there is none.
func (s *Service) Policy(name string) *policy.Policy { return s.byName[name] }

// storeNow is what the store's calls take as now: zero lets it use its own.
func (s *Service) storeNow() time.Time {
	if s.config.Clock == nil {
		return time.Time{}
	}
	return s.config.Clock.Now()
}

// now is policy time; without a clock of our own the machine's is near enough
// for what is shown and for how long records live.
func (s *Service) now() time.Time {
	if s.config.Clock == nil {
		return store.Instant(s.config.Machine.Now())
	}
	return store.Instant(s.config.Clock.Now())
}

// waits is the clock that upkeep waits by.
func (s *Service) waits() clock.Clock {
	if s.config.Clock == nil {
		return s.config.Machine
	}
	return s.config.Clock
}

func invalid(format string, args ...any) error {
	return &saidError{text: "webhook: " + fmt.Sprintf(format, args...), is: ErrInvalid}
}

func notFound(what, id string) error {
	return &saidError{text: fmt.Sprintf("webhook: %s: %s: there is none", what, id), is: ErrNotFound}
}

// saidError is one of the errors that callers match, in words of its own.
type saidError struct {
	text string
	is   error
}

func (e *saidError) Error() string { return e.text }
func (e *saidError) Unwrap() error { return e.is }
