package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/worker"
)

// follow watches the attempt until it ends, and judges it.
func (l *life) follow(ctx context.Context) error {
	r := l.reader()
	stop := &stopper{life: l, grace: time.Duration(l.spec.Stop.Grace)}
	var err error
	if stop.reason, err = l.at.stopped(); err != nil {
		return err
	}
	if r.read(ctx, false); l.before != nil {
		l.watch.restore(l.before.Units, l.before.ProgressAt, l.config.Clock.Now())
	}
	launched, done := false, ctx.Done()
	tick := time.NewTicker(l.config.Poll)
	defer tick.Stop()
	for {
		e, over, err := l.at.exit()
		if err != nil {
			return err
		}
		r.read(ctx, over)
		if over {
			return l.end(ctx, e)
		}
		if err := l.present(&launched); err != nil {
			return err
		}
		if err := stop.step(); err != nil {
			return err
		}
		if err := l.save(ctx); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-done:
			if err := l.leave(ctx, stop); err != nil {
				return err
			}
			done = nil // it ends in its own time
		case <-l.stopped(stop):
			if !l.config.StopRuns {
				return l.left(ctx)
			}
			stop.want(&StopReason{Reason: "interrupted", Class: failure.Interrupted, Text: "the supervisor was told to stop", At: l.config.Clock.Now()})
		}
	}
}

// stopped is the service's order to stop, until it is being obeyed.
func (l *life) stopped(s *stopper) <-chan struct{} {
	if s.reason != nil {
		return nil
	}
	return l.stopping
}

// present notices the process when it appears, and closes an attempt that
// nobody runs and nobody saw end.
func (l *life) present(launched *bool) error {
	if !*launched {
		id, ok, err := l.at.child()
		if err != nil {
			return err
		}
		if ok {
			*launched = true
			if l.status.Child != id {
				l.status.Child = id
				l.reported = time.Time{} // at once
				l.tell(Event{What: Named, PID: id.PID})
			}
		} else if l.config.Clock.Now().Sub(l.at.launch.At) < 10*time.Second || time.Since(l.reported) < 2*lockPatience {
			return nil
		}
	}
	if *launched && l.status.Child.Alive() {
		return nil
	}
	if busy, err := l.at.busy(); err != nil || busy {
		return err
	}
	_, err := l.at.settle()
	return err
}

// save writes the status at its times, and tells progress to the store.
func (l *life) save(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if l.unsaved && time.Since(l.progressed) >= l.config.Report/2 {
		if err := l.progress(ctx); err != nil {
			return err
		}
		l.tell(Event{What: Advanced})
	}
	if time.Since(l.reported) >= l.config.Report {
		if err := l.report(ctx); err != nil { // the process goes on, and is reported again
			l.config.Log.Warn("supervise: status", "run", l.name, "error", err)
		}
	}
	return nil
}

// progress tells the store that the run got further than ever.
func (l *life) progress(ctx context.Context) error {
	l.unsaved, l.progressed = false, time.Now()
	high := l.status.Base + l.watch.Units
	if high <= l.status.High {
		return nil
	}
	text, err := json.Marshal(map[string]any{"units": high, "attempt": l.status.Attempt, "at": l.watch.ProgressAt.UTC()})
	if err != nil {
		return err
	}
	err = l.task.Progress(ctx, text)
	if errors.Is(err, worker.ErrLeaseLost) {
		return err
	}
	if err != nil {
		l.unsaved = true // told again
		l.config.Log.Warn("supervise: progress", "run", l.name, "error", err)
		return nil
	}
	l.status.High = high
	return nil
}

// leave is what the end of the context does: a cancelled or overdue command
// is stopped, that of a process taken for dead is somebody else's now.
func (l *life) leave(ctx context.Context, s *stopper) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, worker.ErrLeaseLost):
		l.tell(Event{What: Left, Text: "another supervisor has taken over"})
		return cause
	case errors.Is(cause, worker.ErrCancelled):
		s.want(&StopReason{Reason: "cancelled", Class: failure.Interrupted, Text: "the job was cancelled"})
	case errors.Is(cause, worker.ErrTimeout):
		s.want(&StopReason{Reason: "timeout", Class: failure.Timeout, Text: "the policy's timeout passed"})
	case l.config.StopRuns:
		s.want(&StopReason{Reason: "interrupted", Class: failure.Interrupted, Text: "the supervisor was told to stop"})
	default:
		return l.left(context.WithoutCancel(ctx))
	}
	return nil
}

// left leaves the process running for the next supervisor.
func (l *life) left(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	l.unsaved = l.watch.Units > 0
	err := errors.Join(l.progress(ctx), l.report(ctx))
	l.tell(Event{What: Left, PID: l.status.Child.PID, Text: "the process goes on; the next supervisor takes it over"})
	return errors.Join(failure.New(failure.Interrupted, ReasonLeft, fmt.Errorf("run %s: attempt %d goes on without its supervisor", l.name, l.status.Attempt)), err)
}

// reader is the one that feeds decisions and metrics.
type reader struct {
	life   *life
	tails  []tail
	polled time.Time // machine time of the last look at files
	probed map[int]time.Time
	sizes  map[string]int64
}

// pollFiles is how often growing files are measured, machine time.
const pollFiles = time.Second

func (l *life) reader() *reader {
	r := &reader{life: l, tails: l.at.logs(), probed: map[int]time.Time{}, sizes: map[string]int64{}}
	p, _ := presetOf(l.spec.Crawler)
	if path := valueOf(l.at.launch.Argv, p.logs); path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(l.spec.Cwd, path)
		}
		r.tails = append(r.tails, tail{name: "log", path: path})
	}
	_, sources := l.spec.sources()
	for _, o := range sources {
		if o.From != "" && o.From != "stdout" && o.From != "stderr" {
			path, _ := l.at.launch.Vars.expand(o.From)
			if !filepath.IsAbs(path) {
				path = filepath.Join(l.spec.Cwd, path)
			}
			r.tails = append(r.tails, tail{name: o.From, path: path})
		}
	}
	return r
}

// read folds in whatever is new. At the end everything is looked at once more.
func (r *reader) read(ctx context.Context, last bool) {
	now := r.life.config.Clock.Now()
	line := func(stream, text string) { r.mark(r.life.meter.Line(stream, text), now) }
	for i := range r.tails {
		n, err := r.tails[i].read(line)
		if last {
			r.tails[i].flush(line)
		}
		if err != nil {
			r.life.config.Log.Warn("supervise: log", "run", r.life.name, "error", err)
		}
		if n > 0 {
			r.life.watch.Signal(now)
		}
	}
	if last || time.Since(r.polled) >= pollFiles {
		r.polled = time.Now()
		r.measure(ctx, now)
	}
}

// mark hands the changes of counters to the watch, in their order.
func (r *reader) mark(marks []Mark, now time.Time) {
	l := r.life
	for _, m := range marks {
		if m.Count == l.meter.counter {
			l.unsaved = l.watch.Count(m.Value, now) || l.unsaved
		} else {
			l.watch.Error(m.Count)
		}
	}
}

// measure looks at files and asks probes.
func (r *reader) measure(ctx context.Context, now time.Time) {
	l := r.life
	_, sources := l.spec.sources()
	for i, o := range sources {
		var v int64
		switch o.Kind {
		case "growth", "warc":
			glob, _ := l.at.launch.Vars.expand(o.Path)
			changed := false
			for _, path := range matches(l.spec.Cwd, glob) {
				n := r.size(path, o.Kind, &changed)
				v += n
			}
			if changed {
				l.watch.Signal(now)
			}
		case "probe":
			every := max(time.Duration(o.Every), time.Second)
			if at, ok := r.probed[i]; ok && now.Sub(at) < every {
				continue
			}
			r.probed[i] = now
			n, err := probe(ctx, l, o.Command)
			if err != nil {
				l.config.Log.Warn("supervise: probe", "run", l.name, "error", err)
				continue
			}
			v = n
		default:
			continue
		}
		r.mark(l.meter.Set(o.Count, v), now)
	}
}

// size measures one file: bytes, or whole records, counted anew only where
// the file has grown.
func (r *reader) size(path, kind string, changed *bool) int64 {
	bytes := sizeOf(path)
	if kind == "growth" {
		*changed = *changed || bytes != r.sizes[path]
		r.sizes[path] = bytes
		return bytes
	}
	if bytes != r.sizes["bytes:"+path] {
		*changed = true
		r.sizes["bytes:"+path] = bytes
		n, _ := r.life.config.CountWARC(path) // torn while it is written
		r.sizes[path] = n
	}
	return r.sizes[path]
}

// probe runs a command that prints a number.
func probe(ctx context.Context, l *life, command []string) (int64, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	words := make([]string, len(command))
	for i, w := range command {
		words[i], _ = l.at.launch.Vars.expand(w)
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.WaitDelay = l.spec.Cwd, time.Second
	out, err := cmd.Output()
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
}

// stopper tells a group to end: INT, then TERM, then KILL.
type stopper struct {
	life   *life
	grace  time.Duration
	reason *StopReason
	sent   int // signals so far
	at     time.Time
}

var escalation = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL}

// want begins to stop; the first reason stands.
func (s *stopper) want(r *StopReason) {
	if s.reason == nil {
		s.reason = r
	}
}

// step asks the watch, and sends the next signal when its time has come.
func (s *stopper) step() error {
	l := s.life
	if s.reason == nil {
		s.reason = l.watch.Verdict(l.config.Clock.Now())
	}
	if s.reason == nil {
		return nil
	}
	killed := false
	select {
	case <-l.killing:
		killed = true
	default:
	}
	if s.sent == 0 {
		// Written before the first signal: whoever judges the exit must know.
		if err := save(filepath.Join(l.at.dir, stopFile), s.reason); err != nil {
			return err
		}
		l.tell(Event{What: Stopping, Text: s.reason.Text})
	} else if time.Since(s.at) < s.grace && (!killed || s.sent >= len(escalation)) {
		return nil
	}
	id, ok, err := l.at.child()
	if err != nil || !ok {
		return err // it is about to appear, or to be closed
	}
	sig := escalation[min(s.sent, len(escalation)-1)]
	if killed {
		sig, s.sent = syscall.SIGKILL, len(escalation)
	}
	s.sent++
	s.at = time.Now()
	if !id.Alive() {
		// Only what holds the lock is known to be ours: the number of a group
		// that is gone may be another's by now.
		if busy, err := l.at.busy(); err != nil || !busy || !groupLives(id.Group) {
			return err
		}
	}
	if err := signalGroup(id.Group, sig); err != nil {
		return failure.New(failure.LocalIO, "signal", err)
	}
	return nil
}
