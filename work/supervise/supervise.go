// Package supervise answers "which work?" for long, noisy processes that must
// finish, or say exactly why not: crawls above all. A run is a record of the
// store and a job of kind supervise.run; one start of the job is one life of
// the process. DESIGN.md tells how it survives its own death.
package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

// Kind is the kind of a run's job.
const Kind = "supervise.run"

// DefaultQueue is where runs wait that name no queue.
const DefaultQueue = "runs"

// Config is what a Service needs. Store and Self are required.
type Config struct {
	Store store.Store
	// Policies beside the presets; one with a preset's name replaces it.
	Policies []policy.Policy
	// Self is the command line that calls Child with the attempt's directory
	// as its last argument: this very program, with a hidden command.
	Self []string
	// Clock is policy time: clocks of progress, ages. Default: the machine's.
	Clock clock.Clock
	// Poll is the time between two looks at a running command, machine time.
	// Default 250 ms.
	Poll time.Duration
	// Report is the time between two writes of a run's status, machine time.
	// Default 5 s.
	Report time.Duration
	// StopRuns: the end of Run stops the commands, instead of leaving them
	// running for the next supervisor.
	StopRuns bool
	// CountWARC counts the records of a WARC file and says what is wrong with
	// it. Default: CountWARC.
	CountWARC func(path string) (int64, error)
	// Observe is told what happens to runs. It must return quickly.
	Observe func(Event)
	// Log has what no caller is told. Default: slog.Default().
	Log *slog.Logger
}

// Service runs what the store's runs say. Its Handle is the worker's handler
// of Kind.
type Service struct {
	config   Config
	policies map[string]*policy.Policy
	stopping chan struct{} // closed by Stop: attempts are left or stopped
	stopOnce sync.Once
	killing  chan struct{} // closed by Kill: nobody waits for a grace any more
	killOnce sync.Once
	patience time.Duration // wrapperPatience, but in tests
}

// New makes a service.
func New(c Config) (*Service, error) {
	if c.Store == nil || len(c.Self) == 0 {
		return nil, errors.New("supervise: Store and Self are required")
	}
	if c.Clock == nil {
		c.Clock = clock.System{}
	}
	if c.Poll <= 0 {
		c.Poll = 250 * time.Millisecond
	}
	if c.Report <= 0 {
		c.Report = 5 * time.Second
	}
	if c.CountWARC == nil {
		c.CountWARC = CountWARC
	}
	if c.Observe == nil {
		c.Observe = func(Event) {}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	s := &Service{config: c, policies: map[string]*policy.Policy{}, stopping: make(chan struct{}), killing: make(chan struct{}), patience: wrapperPatience}
	for _, name := range policy.PresetNames() {
		p := policy.MustPreset(name)
		s.policies[name] = &p
	}
	for _, p := range c.Policies {
		sealed, err := policy.Seal(p)
		if err != nil {
			return nil, err
		}
		s.policies[p.Name] = &sealed
	}
	return s, nil
}

// Run waits for the end of ctx, then tells the running attempts: they are
// left to the next supervisor, or stopped where Config says so. Meanwhile it
// writes the text files of runs that name a directory, and takes runs back that
// others parked because this host was away.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(s.config.Report)
	defer tick.Stop()
	returned := time.Time{}
	for {
		select {
		case <-ctx.Done():
			s.Stop()
			return nil
		case <-tick.C:
			if err := s.Export(ctx); err != nil && ctx.Err() == nil {
				s.config.Log.Warn("supervise: text files", "error", err)
			}
			if time.Since(returned) >= returnEvery {
				returned = time.Now()
				if err := s.Return(ctx); err != nil && ctx.Err() == nil {
					s.config.Log.Warn("supervise: runs of a host that is back", "error", err)
				}
			}
		}
	}
}

// returnEvery is the time between two looks for such runs, machine time: hosts
// that share a queue take them from each other no faster.
const returnEvery = time.Minute

// ReturnActor is named in the audit for what Return does.
const ReturnActor = "host-returned"

// Return queues the runs again that are parked for the loss of this very host:
// here it can be known whether their processes live.
func (s *Service) Return(ctx context.Context) error {
	list, err := s.config.Store.List(ctx, store.Filter{State: job.Parked, Cause: job.HostLost, Kind: Kind}, store.Page{Limit: listPage})
	if err != nil {
		return err
	}
	for i := range list {
		var a args
		if json.Unmarshal(list[i].Args, &a) != nil {
			continue
		}
		st, err := s.status(ctx, a.Run)
		if err != nil {
			return err
		}
		if st.Child.Host != hostID() {
			continue
		}
		if err := s.config.Store.Retry(ctx, s.config.Clock.Now(), ReturnActor, list[i].Seq); err != nil && !errors.Is(err, store.ErrState) {
			return fmt.Errorf("supervise: run %s: %w", a.Run, err)
		}
	}
	return nil
}

// Stop ends what Handle does, as Run does when its context ends.
func (s *Service) Stop() { s.stopOnce.Do(func() { close(s.stopping) }) }

// Kill cuts the graces of a stop short.
func (s *Service) Kill() { s.killOnce.Do(func() { close(s.killing) }) }

// EventKind names what happened to a run.
type EventKind string

const (
	Launched EventKind = "launched" // a process is started
	Named    EventKind = "named"    // … and its identity is known
	Adopted  EventKind = "adopted"  // a living process was taken over
	Judged   EventKind = "judged"   // a process that ended while nobody watched is judged now
	Advanced EventKind = "progress" // the counter rose; no more than one a Report
	Stopping EventKind = "stopping" // it is told to end: see Text
	Ended    EventKind = "ended"    // it ended: see Verdict
	HeldBack EventKind = "held"     // preconditions do not hold: see Text
	Left     EventKind = "left"     // it goes on without us
)

// Event is something that happened to a run.
type Event struct {
	What    EventKind   `json:"event"`
	At      time.Time   `json:"at"`
	Run     string      `json:"run"`
	Attempt int         `json:"attempt,omitempty"`
	PID     int         `json:"pid,omitempty"`
	Units   int64       `json:"units,omitempty"`
	Rate    float64     `json:"units_per_second,omitempty"`
	Workers int         `json:"workers,omitempty"`
	Errors  ErrorCounts `json:"errors,omitzero"`
	Verdict *Verdict    `json:"verdict,omitempty"`
	Text    string      `json:"text,omitempty"`
}

// Lock takes a file's lock, which ends with the process; nil if another
// process has it.
func Lock(path string) (*os.File, error) { return tryLock(path) }
