package clock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Limited is a context that ends by itself when its time is up; its error is
// then context.DeadlineExceeded. End releases it early and must be called.
type Limited interface {
	context.Context
	End()
}

// WithTimeout returns a context that ends after d of the clock's time, or with
// its parent. On the machine's clock no timer starts before somebody waits for
// the end, so that work that is quick pays for none. On any other clock the
// deadline is not the machine's, so Deadline tells the parent's.
func WithTimeout(parent context.Context, c Clock, d time.Duration) Limited {
	if _, machine := c.(System); machine {
		return &lazy{Context: parent, until: time.Now().Add(d)}
	}
	ctx, cancel := context.WithCancelCause(parent)
	fired, stop := c.Timer(d)
	go func() {
		defer stop()
		select {
		case <-fired:
			cancel(context.DeadlineExceeded)
		case <-ctx.Done():
		}
	}()
	return &policyTimed{Context: ctx, cancel: cancel}
}

// lazy becomes a context of the standard library when it is first waited for.
type lazy struct {
	context.Context // the parent
	until           time.Time

	mu     sync.Mutex
	armed  context.Context // nil until somebody waits
	cancel context.CancelFunc
	ended  bool
}

func (l *lazy) arm() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.armed == nil {
		l.armed, l.cancel = context.WithDeadline(l.Context, l.until)
		if l.ended {
			l.cancel()
		}
	}
	return l.armed
}

func (l *lazy) Done() <-chan struct{} { return l.arm().Done() }
func (l *lazy) Err() error            { return l.arm().Err() }

func (l *lazy) Deadline() (time.Time, bool) {
	if at, ok := l.Context.Deadline(); ok && at.Before(l.until) {
		return at, true
	}
	return l.until, true
}

// Value asks the armed context, so that contexts made of this one join it
// without a goroutine of their own.
func (l *lazy) Value(key any) any {
	l.mu.Lock()
	ctx := l.Context
	if l.armed != nil {
		ctx = l.armed
	}
	l.mu.Unlock()
	return ctx.Value(key)
}

// End ends the context; whoever still has it sees it cancelled.
func (l *lazy) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.cancel != nil {
		l.cancel()
	}
}

// policyTimed is cancelled by a timer of another clock. Contexts made of it
// are cancelled with the cause context.DeadlineExceeded.
type policyTimed struct {
	context.Context
	cancel context.CancelCauseFunc
}

func (t *policyTimed) Err() error {
	err := t.Context.Err()
	if err != nil && errors.Is(context.Cause(t.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}

func (t *policyTimed) End() { t.cancel(nil) }
