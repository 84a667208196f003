package crashtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ebbhq/ebb/clock"
)

// Life is one worker process from its start to its end.
type Life struct {
	Number int // 1 and up within the fleet
	Events []Event
	// EndedAt is when it was killed or when it was seen to be gone; zero
	// while it lives.
	EndedAt time.Duration
	Killed  bool // by us, or by its own bomb

	path    string
	cmd     *exec.Cmd
	gone    chan struct{} // closed when the process has ended
	told    bool          // to stop
	bombs   bool          // its end by its own hand is wanted
	err     error         // of its end; valid once gone is closed
	tail    tail
	stderr  bytes.Buffer // valid once gone is closed
	counted map[What]int
}

// Count returns how many events of the kind the evidence holds so far.
func (l *Life) Count(what What) int { return l.counted[what] }

// Process returns the number under which the store knows it now; 0 = none.
func (l *Life) Process() int64 {
	for _, e := range slices.Backward(l.Events) {
		switch e.What {
		case Registered:
			return e.Process
		case Lost:
			return 0
		}
	}
	return 0
}

// killedAt is when the process cannot have lived any longer, if it was killed.
// One that killed itself wrote its last evidence before.
func (l *Life) killedAt() (time.Duration, bool) {
	if l.bombs && len(l.Events) > 0 {
		return l.Events[len(l.Events)-1].Mono, l.Killed
	}
	return l.EndedAt, l.Killed
}

// Running returns the starts of its present process that have not ended.
func (l *Life) Running() []Event {
	process := l.Process()
	open := map[int64]Event{}
	for _, e := range l.Events {
		switch {
		case e.What == Started && e.Process == process:
			open[e.Seq] = e
		case e.What == Ended:
			delete(open, e.Seq)
		}
	}
	list := make([]Event, 0, len(open))
	for _, e := range open {
		list = append(list, e)
	}
	return list
}

// Ran reports whether its handlers have ended all these jobs.
func (l *Life) Ran(seqs []int64) bool {
	ended := map[int64]bool{}
	for _, e := range l.Events {
		if e.What == Ended {
			ended[e.Seq] = true
		}
	}
	return !slices.ContainsFunc(seqs, func(seq int64) bool { return !ended[seq] })
}

// Fleet starts worker processes, ends them and reads their evidence. It is
// used by one goroutine.
type Fleet struct {
	Config Config // of each; Evidence is the fleet's to fill
	Lives  []*Life
	dir    string
}

// NewFleet returns a fleet whose evidence is kept in dir.
func NewFleet(dir string, c Config) *Fleet { return &Fleet{Config: c, dir: dir} }

// Start starts one more worker.
func (f *Fleet) Start() (*Life, error) { return f.StartWith(f.Config) }

// StartWith starts a worker of another configuration.
func (f *Fleet) StartWith(c Config) (*Life, error) {
	l := &Life{Number: len(f.Lives) + 1, gone: make(chan struct{}), counted: map[What]int{}, bombs: slices.Contains(c.Kinds, Bomb)}
	l.path = filepath.Join(f.dir, fmt.Sprintf("life-%d", l.Number))
	l.tail.path = l.path
	c.Evidence = l.path
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("crashtest: fleet: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("crashtest: fleet: %w", err)
	}
	l.cmd = exec.CommandContext(context.Background(), self)
	l.cmd.Env = append(os.Environ(), environment+"="+string(text))
	l.cmd.Stderr = &l.stderr
	// The kernel kills the worker when the driver dies, however it dies.
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go l.live(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("crashtest: fleet: %w", err)
	}
	f.Lives = append(f.Lives, l)
	return l, nil
}

// live starts the process and waits for its end on one thread: the kernel
// takes the end of that thread for the driver's death.
func (l *Life) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := l.cmd.Start()
	started <- err
	if err == nil {
		l.err = l.cmd.Wait()
	}
	close(l.gone)
}

// Alive lists the workers that have not ended.
func (f *Fleet) Alive() []*Life {
	var alive []*Life
	for _, l := range f.Lives {
		select {
		case <-l.gone:
		default:
			alive = append(alive, l)
		}
	}
	return alive
}

// Kill ends a worker with kill -9 and waits until it is gone.
func (f *Fleet) Kill(l *Life) error {
	l.Killed, l.EndedAt = true, Mono()
	if err := l.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("crashtest: kill: %w", err)
	}
	<-l.gone
	return f.Read()
}

// Signal sends a signal to a worker that lives.
func (f *Fleet) Signal(l *Life, s syscall.Signal) error {
	if s == syscall.SIGTERM {
		l.told = true
	}
	if err := l.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("crashtest: signal %v: %w", s, err)
	}
	return nil
}

// Freeze stops a worker, for d, as a hypervisor or a debugger would.
func (f *Fleet) Freeze(ctx context.Context, l *Life, d time.Duration) error {
	if err := f.Signal(l, syscall.SIGSTOP); err != nil {
		return err
	}
	err := clock.Sleep(ctx, clock.System{}, d)
	return errors.Join(err, f.Signal(l, syscall.SIGCONT))
}

// Stop tells all workers to stop and waits until they have.
func (f *Fleet) Stop(ctx context.Context) error {
	alive := f.Alive()
	for _, l := range alive {
		if err := f.Signal(l, syscall.SIGTERM); err != nil {
			return err
		}
	}
	return f.Until(ctx, "all workers stop", func() (bool, error) { return len(f.Alive()) == 0, nil })
}

// Close ends what still lives, for whatever reason.
func (f *Fleet) Close() error {
	var errs []error
	for _, l := range f.Alive() {
		if err := l.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
		<-l.gone
	}
	return errors.Join(errs...)
}

// Read takes in what the workers have written. A worker that ended although
// nobody told it to is an error.
func (f *Fleet) Read() error {
	for _, l := range f.Lives {
		ended := false
		select {
		case <-l.gone:
			ended = true // so that what is read now is all
		default:
		}
		events, err := l.tail.read()
		if err != nil {
			return err
		}
		for _, e := range events {
			l.counted[e.What]++
		}
		l.Events = append(l.Events, events...)
		if ended && l.EndedAt == 0 {
			l.EndedAt = Mono()
			if err := l.judgeEnd(); err != nil {
				return err
			}
		}
	}
	return nil
}

// judgeEnd says what is wrong with the end of a worker that we did not kill.
func (l *Life) judgeEnd() error {
	var exit *exec.ExitError
	if l.bombs && errors.As(l.err, &exit) && exit.ExitCode() == -1 {
		l.Killed = true
		return nil
	}
	if l.told && l.err == nil {
		return nil
	}
	return fmt.Errorf("crashtest: worker %d ended (told to: %v): %w\n%s", l.Number, l.told, l.err, l.stderr.String())
}

// acts counts the evidence but for heartbeats and failed calls: it grows while
// anything is done.
func (f *Fleet) acts() int {
	n := 0
	for _, l := range f.Lives {
		n += len(l.Events) - l.counted[Beat] - l.counted[Erred]
	}
	return n
}

// lastWords are the latest events of the living, for whoever looks into a
// standstill.
func (f *Fleet) lastWords() string {
	var b strings.Builder
	for _, l := range f.Alive() {
		fmt.Fprintf(&b, "worker %d, pid %d, %d handlers running:\n", l.Number, l.cmd.Process.Pid, len(l.Running()))
		for _, e := range l.Events[max(0, len(l.Events)-5):] {
			fmt.Fprintf(&b, "\t%s ago: %s %+v start %d %q\n", (Mono() - e.Mono).Round(time.Millisecond), e.What, e.Ref, e.Start, e.Text)
		}
	}
	return b.String()
}

const (
	// look is the time between two looks at the evidence.
	look = 5 * time.Millisecond
	// standstill is how long nothing at all may happen while we wait: twice
	// the time in which a dead process must have been reaped.
	standstill = 60 * time.Second
)

// Until waits until done, for as long as the evidence grows.
func (f *Fleet) Until(ctx context.Context, what string, done func() (bool, error)) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	acts, moved := -1, Mono()
	for {
		if err := f.Read(); err != nil {
			return fmt.Errorf("crashtest: waiting until %s: %w", what, err)
		}
		ok, err := done()
		if err != nil {
			return fmt.Errorf("crashtest: waiting until %s: %w", what, err)
		}
		if ok {
			return nil
		}
		if now := f.acts(); now != acts {
			acts, moved = now, Mono()
		}
		if Mono()-moved > standstill {
			return fmt.Errorf("crashtest: waiting until %s: nothing has happened for %s\n%s", what, standstill, f.lastWords())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("crashtest: waiting until %s: %w", what, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
