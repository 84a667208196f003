package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
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
	if l.before != nil {
		r.lines(0)
	}
	if r.read(ctx, false); l.before != nil {
		l.watch.restore(l.before.Units, l.before.ProgressAt, l.config.Clock.Now())
	}
	launched, done := false, ctx.Done()
	l.followed = time.Now()
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

// wrapperPatience is how long a wrapper may take to name its process, machine
// time. It waits for the lock itself.
const wrapperPatience = 2 * lockPatience

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
		} else if !l.at.unattended(l.followed, l.patience) {
			return nil
		} else if id, ok := l.at.unnamed(); ok {
			return save(filepath.Join(l.at.dir, childFile), id)
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
