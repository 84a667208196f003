// Package document processes documents with language models: it reads an
// object, asks a model, checks the answer against a JSON Schema, writes the
// result object and updates the document's row. Each stage that costs leaves a
// durable checkpoint: what a model was paid for is never asked again, and a
// start after a crash goes on at the first unfinished stage.
//
// It decides nothing about retries: failures have classes and reasons, and the
// job's policy, `processing` unless another is named, says what follows.
package document

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"sync"
	"time"

	"gocloud.dev/blob"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/document/model"
)

const (
	// Kind is of the jobs that process a document.
	Kind = "document"
	// Queue is where they wait.
	Queue = "documents"
	// DefaultPolicy is their policy unless a pipeline names another.
	DefaultPolicy = "processing"
)

// Config is what a Service is made of. Store is required; Ops is for what
// people order and may be nil where only Handle is used.
type Config struct {
	Store    store.Store
	Ops      engine.Ops
	Settings Settings
	// Lookup finds environment variables: the providers' keys. Default: none
	// is set.
	Lookup func(string) (string, bool)
	// Open opens a bucket by its URL. Default: file:// and s3://.
	Open func(ctx context.Context, url string) (*blob.Bucket, error)
	// HTTP asks the providers. Default: a client of their own each.
	HTTP *http.Client
	// Clock is policy time: pacing by tokens, the days of the accounts.
	// Default: the machine's.
	Clock clock.Clock
	Log   *slog.Logger
}

// Service does the work and answers for it. Close it.
type Service struct {
	store     store.Store
	ops       engine.Ops
	settings  Settings
	clock     clock.Clock
	ownClock  bool // jobs are due by it, not by the store's
	log       *slog.Logger
	providers map[string]*provider
	redact    []*regexp.Regexp
	buckets   buckets
	scribe    scribe
	meter     *meter

	mu        sync.Mutex
	pipelines map[string]*ready // by hash

	suspects chan struct{} // a job may have been left behind its document
	mending  sync.Mutex
	mendedTo time.Time // jobs that ended before were looked at
}

// provider is one that can be asked.
type provider struct {
	name   string
	config Provider
	client *model.Client
	pace   pace
}

// New returns a service over the store.
func New(c Config) (*Service, error) {
	if c.Store == nil {
		return nil, errors.New("document: Store is required")
	}
	if c.Lookup == nil {
		c.Lookup = func(string) (string, bool) { return "", false }
	}
	if c.Open == nil {
		c.Open = OpenBucket
	}
	own := c.Clock != nil
	if !own {
		c.Clock = clock.System{}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	settings, err := c.Settings.fill()
	if err != nil {
		return nil, err
	}
	s := &Service{
		store: c.Store, ops: c.Ops, settings: settings, clock: c.Clock, ownClock: own, log: c.Log,
		providers: map[string]*provider{}, pipelines: map[string]*ready{}, meter: newMeter(), suspects: make(chan struct{}, 1),
	}
	s.buckets.open = c.Open
	s.scribe.records = c.Store
	for name, p := range settings.Providers {
		key := p.key(c.Lookup)
		client, err := model.New(model.Config{
			Protocol: p.Protocol, BaseURL: p.BaseURL, Key: key, Stream: p.Stream, Idle: time.Duration(p.Idle),
			HTTP: c.HTTP, Structured: !p.Unstructured, MaxAnswer: settings.MaxAnswer, Now: c.Clock.Now,
		})
		if err != nil {
			return nil, fmt.Errorf("document: provider %s: %w", name, err)
		}
		s.providers[name] = &provider{name: name, config: p, client: client, pace: pace{perMinute: p.TokensPerMinute}}
	}
	for _, pattern := range settings.Raw.Redact {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil, fmt.Errorf("document: raw: redact: %w", err)
		}
		s.redact = append(s.redact, re)
	}
	return s, nil
}

// Close closes the buckets.
func (s *Service) Close() error { return s.buckets.close() }

// invalid is an error of who asks: what would be right is in its words.
type invalid string

func (e invalid) Error() string { return string(e) }
func (e invalid) Unwrap() error { return engine.ErrInvalid }

func invalidf(format string, args ...any) error { return invalid(fmt.Sprintf(format, args...)) }
