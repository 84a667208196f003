// Package campaign answers "which runs, in which order?": a file of sources
// becomes one supervised run each, on a strict queue with one slot. Crawls are
// bounded by scope rules and never by caps: a cap ends a crawl early and looks
// like success.
package campaign

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/supervise"
)

// DefaultQueue is where runs of campaigns wait that name no queue.
const DefaultQueue = "campaign"

// Campaign is the file. What it says of runs (policy, command, progress, …)
// holds for every source that does not say otherwise.
type Campaign struct {
	supervise.Spec `yaml:",inline"`
	// Queue is strict: one lane, one slot. Default DefaultQueue.
	Queue string `yaml:"queue"`
	// Stagger is the time between the queued_at of two sources. Default 1s.
	Stagger supervise.Duration `yaml:"stagger"`
	Scope   Scope              `yaml:"scope"` // of every source, beside its own
	Recover Limits             `yaml:"recover"`
	Sources []Source           `yaml:"sources"` // in the order in which they are crawled

	file string // for messages
}

// Source is one site of a campaign.
type Source struct {
	supervise.Spec `yaml:",inline"`
	// Seeds are the URLs that the crawl begins with: {seeds} of the command,
	// or added in the way of a known crawler.
	Seeds []string `yaml:"seeds"`
	Scope Scope    `yaml:"scope"`
}

// Scope bounds a crawl. Known crawlers get it as their own flags; other
// commands place {include} and {exclude}, each one expression.
type Scope struct {
	Include []string `json:"include,omitempty" yaml:"include"` // regular expressions over URLs; empty = as the crawler does
	Exclude []string `json:"exclude,omitempty" yaml:"exclude"` // stronger than include
}

// Limits bound what recover does by itself.
type Limits struct {
	// PerDay is how many runs of the campaign are recovered in 24 hours.
	// Default 3.
	PerDay int `json:"per_day" yaml:"per_day"`
	// Breaker is after how many recoveries without progress a run is left to
	// a person. Default 2.
	Breaker int `json:"breaker" yaml:"breaker"`
}

const (
	defaultStagger = time.Second
	maxStagger     = time.Hour
	defaultPerDay  = 3
	defaultBreaker = 2
)

// ErrBusy is returned where somebody else changes the campaign at this moment.
var ErrBusy = errors.New("somebody else is changing it; ask again")

// ErrPolicy is returned where a campaign cannot be crawled under the policy
// that it names.
var ErrPolicy = errors.New("policy")

// missingError says that something is not there; it is a store.ErrNotFound.
type missingError string

func (e missingError) Error() string        { return string(e) }
func (e missingError) Is(target error) bool { return target == store.ErrNotFound }

// Config is what a Service needs; Store and Runs are required.
type Config struct {
	Store store.Store
	Runs  *supervise.Service
	// Policies beside the presets; one with a preset's name replaces it.
	Policies []policy.Policy
}

// Service keeps campaigns.
type Service struct {
	store    store.Store
	runs     *supervise.Service
	own      []policy.Policy // beside the presets
	policies map[string]*policy.Policy
	batch    int // how many runs a transaction writes
}

// Ops is what can be asked of campaigns. *Service answers. Orders are plans
// unless apply is set.
type Ops interface {
	List(ctx context.Context) ([]Status, error)
	Show(ctx context.Context, name string) (Status, error)
	Report(ctx context.Context, now time.Time, name string) (Report, error)
	Recover(ctx context.Context, now time.Time, actor, name string, apply bool) (Recovered, error)
	Lock(ctx context.Context, now time.Time, actor, name, reason string, length time.Duration) error
	Unlock(ctx context.Context, now time.Time, actor, name string) error
}

var _ Ops = (*Service)(nil)

// New makes a service.
func New(c Config) (*Service, error) {
	if c.Store == nil || c.Runs == nil {
		return nil, errors.New("campaign: Store and Runs are required")
	}
	s := &Service{store: c.Store, runs: c.Runs, own: c.Policies, policies: map[string]*policy.Policy{}, batch: batchSize}
	for _, name := range policy.PresetNames() {
		p := policy.MustPreset(name)
		s.policies[name] = &p
	}
	for _, p := range c.Policies {
		sealed, err := policy.Seal(p)
		if err != nil {
			return nil, fmt.Errorf("campaign: %w", err)
		}
		s.policies[p.Name] = &sealed
	}
	return s, nil
}
