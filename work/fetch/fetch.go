// Package fetch gets every page of a list, or of a site, and proves it. A URL
// is a job of kind fetch.page, its host the target, the fetch a batch in a
// queue of its own, a wave a redrive of what failed. Nothing here retries,
// waits or judges by itself: the worker, the policy and the gate do.
//
// A fetch is a record beside its jobs. Whoever opens the same store goes on
// where an earlier process ended, however it ended.
package fetch

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/internal/oneshot"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/fetch/scope"
	"github.com/ebbhq/ebb/work/fetch/soft"
	"github.com/ebbhq/ebb/worker"
)

// Kind is the kind of the jobs: one page each.
const Kind = "fetch.page"

// DefaultPolicy is the preset of fetches that name none.
const DefaultPolicy = "polite"

// DefaultAgent is sent as User-Agent unless Options say otherwise.
const DefaultAgent = "ebb-fetch/1 (+https://github.com/ebbhq/ebb)"

// Options says how pages are fetched. Store, Name and Policy are required.
type Options struct {
	Store store.Store
	// Name tells this fetch's runs from others of the same store.
	Name string
	// Policy is a sealed policy for target host.
	Policy policy.Policy
	// Sink keeps what was fetched.
	Sink Sink
	// Exclusive says that no other process can be at work on the store: what
	// a process that was killed had under way is taken over at once, and as
	// an interruption, which costs nothing.
	Exclusive bool
	// Shared says that other machines may call the same hosts by the same
	// store: what the policy lets one process do to a host, spacing and
	// concurrency, is then what all of them may do together.
	Shared bool

	// Agent is the User-Agent header. Default DefaultAgent.
	Agent string
	// Header is added to every request.
	Header http.Header
	// MaxBody bounds a page after decompression. Default 1 GiB.
	MaxBody int64
	// Conditional sends the validators of the fetch before: ETag and
	// Last-Modified.
	Conditional bool
	// Robots obeys robots.txt, and its Crawl-delay.
	Robots bool
	// Waiver is the reason why the floors of politeness do not hold; recorded.
	Waiver string
	// Soft finds error pages that say 200, and pages without content; nil =
	// only pages without a byte are found. Probe asks each place of a host for
	// a page that cannot be, to learn how its errors look.
	Soft  *soft.Judge
	Probe bool
	// KeepEmpty takes pages without a byte for pages.
	KeepEmpty bool
	// Settings are kept with the record of a new fetch, for whoever goes on.
	Settings json.RawMessage
	// Follow follows the links of pages to all that is in scope; nil = none.
	Follow *scope.Scope

	// Transport makes the calls. Default: one with a connection a slot. It
	// sends each request once, whatever net/http would send again.
	Transport http.RoundTripper
	// Clock is policy time; nil = the machine's, and the store's for due times.
	Clock clock.Clock
	// Seed of the draws. Default: drawn for this process.
	Seed uint64
	// LocalPatience is how long our own machine's faults (a full disk) may
	// keep every page from being saved before Run gives up. Default 10 min.
	LocalPatience time.Duration
	// Drain is how long requests under way may take after an order to stop.
	// Default 10 s.
	Drain time.Duration
	// Observe is told what happens. It must return quickly.
	Observe func(Event)
	// Watch is told all that the worker does, for telemetry.
	Watch func(worker.Event)
	Log   *slog.Logger
}

const (
	defaultMaxBody  = 1 << 30
	defaultPatience = 10 * time.Minute
	defaultDrain    = 10 * time.Second
)

func (o *Options) fill() error {
	switch {
	case o.Store == nil:
		return errors.New("fetch: no store")
	case o.Name == "":
		return errors.New("fetch: no name; runs of a fetch share one")
	case o.Policy.Name == "":
		return errors.New("fetch: no policy; policy.Preset(fetch.DefaultPolicy) is the default")
	case o.Policy.Target != policy.Host:
		return fmt.Errorf("fetch: policy %s is for target %s; a fetch calls hosts", o.Policy.Name, o.Policy.Target)
	}
	if err := CheckFloors(&o.Policy, o.Waiver); err != nil {
		return err
	}
	if o.Sink == nil {
		o.Sink = discard{}
	}
	if o.Agent == "" {
		o.Agent = DefaultAgent
	}
	if o.MaxBody <= 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.LocalPatience <= 0 {
		o.LocalPatience = defaultPatience
	}
	if o.Drain <= 0 {
		o.Drain = defaultDrain
	}
	if o.Transport == nil {
		o.Transport = transport(o.Policy.Concurrency)
	}
	o.Transport = oneshot.New(o.Transport)
	if o.Observe == nil {
		o.Observe = func(Event) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// clock returns policy time, for waiting.
func (o *Options) clock() clock.Clock {
	if o.Clock == nil {
		return clock.System{}
	}
	return o.Clock
}

// now is what store calls are given: zero lets the store use its own clock.
func (o *Options) now() time.Time {
	if o.Clock == nil {
		return time.Time{}
	}
	return o.Clock.Now()
}
