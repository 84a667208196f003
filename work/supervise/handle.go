package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/worker"
)

// args are a run's job's.
type args struct {
	Run string `json:"run"`
}

// life is one start of a run's job.
type life struct {
	*Service
	task   *worker.Task
	name   string
	spec   Spec
	policy policy.Policy
	status Status
	at     *attempt
	meter  *Meter
	watch  *Watch

	followed   time.Time // machine time since which the attempt is watched here
	reported   time.Time // … of the last status written
	progressed time.Time // … of the last progress told to the store
	unsaved    bool      // the counter rose since
	before     *Status   // what the supervisor before us knew of the attempt; nil = it is our own
}

// Handle does one start of a run: it takes over a living process, judges one
// that ended while nobody watched, or starts the next.
func (s *Service) Handle(ctx context.Context, t *worker.Task) error {
	return ofMachine(s.handle(ctx, t))
}

func (s *Service) handle(ctx context.Context, t *worker.Task) error {
	l, err := s.begin(ctx, t)
	if err != nil {
		return err
	}
	if err := l.find(ctx); err != nil {
		return err
	}
	if l.at == nil {
		if err := l.launch(ctx); err != nil {
			return err
		}
	}
	return l.follow(ctx)
}

// begin reads what is known of the run.
func (s *Service) begin(ctx context.Context, t *worker.Task) (*life, error) {
	var a args
	if err := json.Unmarshal(t.Args(), &a); err != nil || a.Run == "" {
		return nil, failure.New(failure.InvalidInput, "args", fmt.Errorf("supervise: the job's arguments %.100q name no run: %w", t.Args(), err))
	}
	l := &life{Service: s, task: t, name: a.Run}
	var err error
	if l.spec, err = s.spec(ctx, a.Run); errors.Is(err, store.ErrNotFound) {
		return nil, failure.New(failure.Config, "no_spec", fmt.Errorf("supervise: run %s: its record is gone; submit it again", a.Run))
	} else if err != nil {
		return nil, err
	}
	if l.spec, err = Seal(l.spec); err != nil {
		return nil, failure.New(failure.Config, ReasonConfig, fmt.Errorf("supervise: run %s: %w", a.Run, err))
	}
	p := s.policies[l.spec.Policy]
	if p == nil {
		return nil, failure.New(failure.Config, "unknown_policy", fmt.Errorf("supervise: run %s: no policy %q", a.Run, l.spec.Policy))
	}
	if l.policy, err = l.spec.Apply(*p); err != nil {
		return nil, failure.New(failure.Config, ReasonConfig, fmt.Errorf("supervise: run %s: %w", a.Run, err))
	}
	if l.status, err = s.status(ctx, a.Run); err != nil {
		return nil, err
	}
	if seq, err := s.pointed(ctx, a.Run); err != nil {
		return nil, err
	} else if j := t.Job(); seq != j.Seq {
		if err := s.point(ctx, map[string]int64{a.Run: j.Seq}); err != nil {
			return nil, err
		}
	}
	if l.status.Workers == 0 {
		l.status.Workers, l.status.InitialWorkers = l.spec.Workers.Initial, l.spec.Workers.Initial
	}
	return l, os.MkdirAll(l.spec.Dir, 0o755)
}

// ofMachine makes an error of our own files, which cannot be read or written as
// they are needed, a fault of this machine: waited for, and no restart.
func ofMachine(err error) error {
	var judged *failure.Error
	var path *fs.PathError
	if errors.As(err, &judged) || !errors.As(err, &path) || failure.Classify(err).Class == failure.DiskFull {
		return err
	}
	return failure.New(failure.LocalIO, "files", err)
}

// find looks for an attempt that is not settled yet: one that lives, or one
// that ended and whose verdict no ledger row holds.
func (l *life) find(ctx context.Context) error {
	n := l.status.Attempt
	if n > 0 {
		if err := l.elsewhere(); err != nil {
			return err
		}
	}
	live, err := l.living(ctx)
	if err != nil {
		return err
	}
	if live != nil { // whoever it is, there must not be two
		return l.adopt(ctx, live)
	}
	if n == 0 {
		return nil
	}
	if done, err := l.settled(ctx); err != nil || done {
		return err
	}
	at, ok, err := openAttempt(l.spec.Dir, n)
	if err != nil || !ok {
		return err
	}
	return l.adopt(ctx, at)
}

// living returns the attempt that holds the run's lock; nil if nobody does.
// One that has recorded its end is waited for: its wrapper is about to let go,
// and it was judged already.
func (l *life) living(ctx context.Context) (*attempt, error) {
	path := filepath.Join(l.spec.Dir, lockFile)
	for until := time.Now().Add(lockPatience); ; {
		free, err := tryLock(path)
		if err != nil {
			return nil, err
		}
		if free != nil {
			return nil, free.Close()
		}
		at, locked := l.holding()
		if at != nil {
			return at, nil
		}
		if time.Now().After(until) {
			return nil, failure.New(failure.LocalIO, "locked", locked)
		}
		if err := clock.Sleep(ctx, clock.System{}, l.config.Poll); err != nil {
			return nil, err
		}
	}
}

// holding returns the attempt that holds the lock and has not ended; else why
// the lock is held all the same.
func (l *life) holding() (*attempt, error) {
	n, err := holder(l.spec.Dir)
	if err != nil {
		return nil, err
	}
	at, ok, err := openAttempt(l.spec.Dir, n)
	if err != nil {
		return nil, err
	}
	_, over, err := at.exit()
	if err == nil && ok && !over {
		return at, nil
	}
	return nil, errors.Join(err, fmt.Errorf("run %s: attempt %d has ended, but something that it started still holds the lock%s", l.name, n, who(at.lock)))
}

// who names those that hold a lock, for whoever must end them.
func who(lock string) string {
	var text strings.Builder
	for i, pid := range holders(lock) {
		if i == 3 {
			text.WriteString(", and others")
			break
		}
		fmt.Fprintf(&text, ", pid %d (%.60s)", pid, commandLine(pid))
	}
	return text.String()
}

// settled reports whether the ledger has the outcome of the last attempt. A
// start that ended because its supervisor did says nothing of the process.
func (l *life) settled(ctx context.Context) (bool, error) {
	j := l.task.Job()
	if l.status.Job != j.Seq {
		return true, nil // of an earlier job, which has ended
	}
	rows, err := l.config.Store.Attempts(ctx, j.Seq)
	if err != nil {
		return false, err
	}
	for _, r := range rows {
		if r.Start == l.status.Start {
			return r.Class != failure.Crash && r.Reason != ReasonDied && r.Reason != ReasonLeft, nil
		}
	}
	return false, nil
}

// Reasons of starts that ended because the supervisor did.
const (
	ReasonDied     = "supervisor_died"
	ReasonLeft     = "left_running"
	ReasonHostLost = failure.ReasonHostLost
)

// elsewhere parks a run whose process was started on a machine that is not
// this one: nobody here can tell whether it lives.
func (l *life) elsewhere() error {
	c := l.status.Child
	if c.Host == "" || c.Host == hostID() || !l.status.EndedAt.IsZero() || l.status.Released {
		return nil
	}
	return failure.Park(failure.New(failure.Config, ReasonHostLost, fmt.Errorf(
		"run %s: attempt %d was started on host %s and nobody saw it end; start a server there, or, if that host is gone for good: ebb supervise release %s",
		l.name, l.status.Attempt, l.status.HostName, l.name)))
}

// adopt takes over an attempt of a supervisor that is gone. What it printed
// so far is read again.
func (l *life) adopt(ctx context.Context, at *attempt) error {
	e, over, err := at.exit()
	if err != nil {
		return err
	}
	if over && e.Never { // it never began: the next one takes its place
		return nil
	}
	l.at = at
	if l.status.Attempt == at.launch.Attempt {
		before := l.status
		l.before = &before
	}
	l.attach()
	if err := l.own(ctx); err != nil { // reads who the process is: the store may not know it yet
		return err
	}
	event := Event{What: Adopted, PID: l.status.Child.PID}
	if over {
		event.What = Judged
	}
	if !over && l.task.Job().History.Crashes > 0 {
		// The process outlived its supervisor: it was not what killed it.
		if err := l.task.Checkpoint(ctx); err != nil {
			return err
		}
	}
	l.tell(event)
	return nil
}

// own writes down that this start answers for the attempt.
func (l *life) own(ctx context.Context) error {
	j := l.task.Job()
	l.status.Job, l.status.Start = j.Seq, l.task.Start()
	if id, ok, err := l.at.child(); err != nil {
		return err
	} else if ok {
		l.status.Child = id
	}
	l.status.HostName, _ = os.Hostname() // for people
	return l.report(ctx)
}

// attach makes what watches the attempt.
func (l *life) attach() {
	started := l.at.launch.At
	l.meter, l.watch = NewMeter(&l.spec), NewWatch(&l.spec, l.policy.Thresholds, started)
	l.status.Attempt, l.status.StartedAt, l.status.EndedAt = l.at.launch.Attempt, started, time.Time{}
	l.status.Argv, l.status.Hold, l.status.HoldText = l.at.launch.Argv, nil, ""
}

// launch starts the next attempt, if everything is ready for it.
func (l *life) launch(ctx context.Context) error {
	if err := l.ready(ctx); err != nil {
		return err
	}
	last, err := lastAttempt(l.spec.Dir)
	if err != nil {
		return err
	}
	n := max(last, l.status.Attempt) + 1
	v := Vars{
		Attempt: n, Workers: l.status.Workers, Dir: l.spec.Dir, Name: l.name,
		Out: filepath.Join(attemptDir(l.spec.Dir, n), "out"), Remaining: l.remaining(),
	}
	var sum string
	v.Resume, sum = l.resume()
	argv := l.spec.Argv(v)
	if path, err := exec.LookPath(argv[0]); err == nil && l.spec.Container == nil {
		argv[0] = path
	}
	var env []string
	for _, key := range slices.Sorted(maps.Keys(l.spec.Env)) {
		text, _ := v.expand(l.spec.Env[key])
		env = append(env, key+"="+text)
	}
	at, err := prepare(l.spec.Dir, launch{Attempt: n, Argv: argv, Env: env, Cwd: l.spec.Cwd, Vars: v, Resume: sum, High: l.status.High, At: l.config.Clock.Now().UTC()})
	if err == nil {
		err = errors.Join(os.Mkdir(v.Out, 0o755), l.contain(at))
	}
	if err != nil {
		return err
	}
	if j := l.task.Job(); l.status.Job != j.Seq { // the run is done anew
		l.status.High, l.status.Base, l.status.Reductions, l.status.Resumed = 0, 0, 0, nil
		l.status.Workers, l.status.InitialWorkers = l.spec.Workers.Initial, l.spec.Workers.Initial
	}
	if l.spec.Progress.Counts == "new" {
		l.status.Base = l.status.High
	}
	l.at = at
	l.status.Child = Identity{Host: hostID()}
	l.status.Units, l.status.Errors, l.status.ProgressAt, l.status.SignalAt = 0, ErrorCounts{}, at.launch.At, at.launch.At
	l.status.Released = false
	l.attach()
	if err := l.own(ctx); err != nil { // before the start: who comes after us must know of it
		return err
	}
	if err := at.start(l.config.Self); err != nil {
		return failure.New(failure.LocalIO, "wrapper", err)
	}
	l.tell(Event{What: Launched, Text: strings.Join(argv, " ")})
	return nil
}

// remaining is the list of what failed in the last attempt, if it left one.
func (l *life) remaining() string {
	if l.status.Attempt == 0 {
		return ""
	}
	path := filepath.Join(attemptDir(l.spec.Dir, l.status.Attempt), remainingFile)
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		return path
	}
	return ""
}

const remainingFile = "remaining.txt"

// resume chooses the file to go on from: the newest, unless lives that began
// with it got nowhere.
func (l *life) resume() (path, sum string) {
	if l.spec.Resume.File == "" || l.status.Attempt == 0 {
		return "", ""
	}
	glob, _ := Vars{Dir: l.spec.Dir, Name: l.name}.expand(l.spec.Resume.File)
	path = newest(l.spec.Cwd, glob)
	sum, err := sumOf(path)
	if err != nil || sum == "" {
		return "", ""
	}
	if l.status.Resumed.poisoned(sum, l.spec.Resume.Poison) {
		return "", ""
	}
	return path, sum
}

// report writes the status, and the files that are made from it.
func (l *life) report(ctx context.Context) error {
	now := l.config.Clock.Now()
	st := &l.status
	if w := l.watch; w != nil {
		st.Units, st.ProgressAt, st.SignalAt = w.Units, w.ProgressAt.UTC(), w.SignalAt.UTC()
		st.Rate, st.Errors = w.Rate(now), w.Errors
	}
	l.reported = time.Now()
	if err := l.keep(ctx, l.name, st); err != nil {
		return err
	}
	if err := l.stateFile(); err != nil { // no record of truth
		l.config.Log.Warn("supervise: state file", "run", l.name, "error", err)
	}
	return nil
}

func (l *life) tell(e Event) {
	e.At, e.Run, e.Attempt = l.config.Clock.Now().UTC(), l.name, l.status.Attempt
	e.Workers = l.status.Workers
	if l.watch != nil {
		e.Units, e.Errors, e.Rate = l.watch.Units, l.watch.Errors, l.watch.Rate(e.At)
	}
	l.config.Observe(e)
}
