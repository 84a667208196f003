package fetch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/fetch/input"
	"github.com/ebbhq/ebb/worker"
)

// Settings is the section fetch of the configuration.
type Settings struct {
	// Dir is where the server keeps what it fetches, a directory a name.
	// Empty = it fetches nothing itself.
	Dir string `yaml:"dir"`
}

// Order asks a server for a fetch.
type Order struct {
	Name   string   `json:"name" doc:"letters, digits, - and _; fetches of one name compare with each other"`
	URLs   []string `json:"urls" doc:"what to fetch"`
	Policy string   `json:"policy,omitempty" doc:"polite unless given"`
}

// Retry says what of a fetch is to be tried again.
type Retry struct {
	Classes []string `json:"classes,omitempty" doc:"outcomes, groups or classes of failures; exhausted and soft unless given"`
}

// Ops is what can be asked of fetches.
type Ops interface {
	// Fetches lists them from the newest name and number down, after an id.
	Fetches(ctx context.Context, after string, limit int) ([]Fetch, error)
	// Fetch returns one, with its account as it stands; store.ErrNotFound.
	Fetch(ctx context.Context, id string) (Fetch, error)
	// Start begins a fetch here; ErrBusy while one of the name is under way.
	Start(ctx context.Context, o Order) (Fetch, error)
	// Retry tries again what failed.
	Retry(ctx context.Context, id string, o Retry) (Fetch, error)
}

// Errors of a Service.
var (
	ErrNoDir = errors.New("this server fetches nothing itself: its configuration has no fetch.dir")
	ErrOrder = errors.New("not a fetch")
)

// ServiceConfig is what a Service is made of.
type ServiceConfig struct {
	Store    store.Store
	Settings Settings
	Policies []policy.Policy
	Clock    clock.Clock
	Log      *slog.Logger
	Watch    func(worker.Event)
}

// Service runs fetches in a server and answers for all of its store.
type Service struct {
	c ServiceConfig

	mu     sync.Mutex
	life   context.Context //nolint:containedctx // of the server, not of a call
	group  sync.WaitGroup
	active map[string]*Runner // by name
}

var _ Ops = (*Service)(nil)

// NewService returns a service; its fetches run while Run does.
func NewService(c ServiceConfig) *Service {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{c: c, active: map[string]*Runner{}}
}

// Fetches lists the store's.
func (s *Service) Fetches(ctx context.Context, after string, limit int) ([]Fetch, error) {
	return List(ctx, s.c.Store, "", after, limit)
}

// Fetch returns one with its account.
func (s *Service) Fetch(ctx context.Context, id string) (Fetch, error) {
	f, err := Find(ctx, s.c.Store, id)
	if err != nil || f.Tally != nil {
		return f, err
	}
	tally, err := Count(ctx, s.c.Store, &f)
	if f.Phase != Ended && errors.Is(err, ErrUnbalanced) { // it moves while we count
		err = nil
	}
	f.Tally = &tally
	return f, err
}

var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Start begins a fetch.
func (s *Service) Start(ctx context.Context, o Order) (Fetch, error) {
	switch {
	case s.c.Settings.Dir == "":
		return Fetch{}, ErrNoDir
	case !goodName.MatchString(o.Name):
		return Fetch{}, fmt.Errorf("name %q: letters, digits, - and _, at most 64: %w", o.Name, ErrOrder)
	case len(o.URLs) == 0:
		return Fetch{}, fmt.Errorf("no urls: %w", ErrOrder)
	}
	return s.launch(ctx, o.Name, o.Policy, func(ctx context.Context, opt Options) (*Runner, error) {
		r, err := Open(ctx, opt)
		if err != nil {
			return nil, err
		}
		err = r.Load(ctx, listed(o.URLs))
		return r, err
	})
}

func listed(urls []string) iter.Seq2[input.Item, error] {
	return func(yield func(input.Item, error) bool) {
		for _, u := range urls {
			if !yield(input.Item{URL: u}, nil) {
				return
			}
		}
	}
}

// Retry tries again what failed in the newest fetch of a name.
func (s *Service) Retry(ctx context.Context, id string, o Retry) (Fetch, error) {
	f, err := Find(ctx, s.c.Store, id)
	if err != nil {
		return f, err
	}
	if _, err := again(o.Classes); err != nil {
		return f, err
	}
	last, _, err := latest(ctx, s.c.Store, f.Name)
	if err == nil && last.ID != id {
		err = fmt.Errorf("%s is not the newest of its name, %s is: %w", id, last.ID, ErrOrder)
	}
	if err != nil {
		return f, err
	}
	return s.launch(ctx, f.Name, f.Policy, func(ctx context.Context, opt Options) (*Runner, error) {
		r, err := Resume(ctx, opt)
		if err == nil {
			_, err = r.Again(ctx, o.Classes)
		}
		return r, err
	})
}

// launch takes the name's directory and runs what begin makes.
//
//nolint:contextcheck // the run lives as long as the server, not as the order
func (s *Service) launch(ctx context.Context, name, policyName string, begin func(context.Context, Options) (*Runner, error)) (Fetch, error) {
	if s.c.Settings.Dir == "" {
		return Fetch{}, ErrNoDir
	}
	p, err := s.policy(policyName)
	if err != nil {
		return Fetch{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil || s.life.Err() != nil {
		return Fetch{}, errors.New("fetch: the server is not at work")
	}
	if s.active[name] != nil {
		return Fetch{}, fmt.Errorf("fetch: %s is under way: %w", name, ErrBusy)
	}
	dir, err := OpenDir(filepath.Join(s.c.Settings.Dir, name), DirOptions{})
	if err != nil {
		return Fetch{}, err
	}
	r, err := begin(ctx, Options{
		Store: s.c.Store, Name: name, Policy: p, Sink: dir, Shared: true, Conditional: true, Robots: true, Clock: s.c.Clock, Log: s.c.Log, Watch: s.c.Watch,
	})
	if err != nil {
		return Fetch{}, errors.Join(err, dir.Close())
	}
	s.active[name] = r
	life := s.life
	s.group.Go(func() {
		err := r.Run(life)
		f := r.Fetch()
		if err == nil {
			err = dir.Manifest(&f)
		}
		if err = errors.Join(err, dir.Close()); err != nil && life.Err() == nil {
			s.c.Log.Warn("fetch: ended early; the next start of the server goes on", "fetch", f.ID, "error", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.active, name)
	})
	return r.Fetch(), nil
}

// policy finds a policy by name.
func (s *Service) policy(name string) (policy.Policy, error) {
	if name == "" {
		name = DefaultPolicy
	}
	for _, p := range s.c.Policies {
		if p.Name == name {
			return p, nil
		}
	}
	p, err := policy.Preset(name)
	if err != nil {
		return p, fmt.Errorf("%w: %w", err, ErrOrder)
	}
	return p, nil
}

// Run goes on with the fetches that an earlier process of this machine left,
// and serves orders until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	s.mu.Lock()
	s.life = ctx
	s.mu.Unlock()
	if err := s.goOn(ctx); err != nil {
		s.c.Log.Warn("fetch: what was left unfinished", "error", err)
	}
	<-ctx.Done()
	s.group.Wait()
	return nil
}

// goOn takes up what has not ended and has its directory here.
func (s *Service) goOn(ctx context.Context) error {
	if s.c.Settings.Dir == "" {
		return nil
	}
	dirs, err := os.ReadDir(s.c.Settings.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, d := range dirs {
		last, found, e := latest(ctx, s.c.Store, d.Name())
		if e == nil && found && last.Phase != Ended && last.Phase != Loading {
			_, e = s.launch(ctx, last.Name, last.Policy, Resume)
		}
		err = errors.Join(err, e)
	}
	return err
}
