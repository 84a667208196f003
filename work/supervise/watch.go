package supervise

import (
	"fmt"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
)

// ErrorCounts are errors since the last progress.
type ErrorCounts struct {
	Timeout int `json:"timeout"`
	HTTP    int `json:"http"`
	Other   int `json:"other"`
}

// Sum is all of them.
func (e ErrorCounts) Sum() int { return e.Timeout + e.HTTP + e.Other }

// Watch decides whether an attempt gets on. It is a pure value: every method
// takes the instant.
type Watch struct {
	thresholds policy.Thresholds
	progress   Progress

	StartedAt  time.Time
	SignalAt   time.Time // last output or growth
	ProgressAt time.Time // last rise of the counter
	Units      int64     // of the counter, in this attempt
	Errors     ErrorCounts

	samples []sample // of the counter, oldest first, no more than a window's
}

type sample struct {
	at    time.Time
	units int64
}

// maxSamples bounds what is kept for the rate; the window is cut into so many.
const maxSamples = 60

// rateWindow is what the rate is told over where no slow limit names another.
const rateWindow = 5 * time.Minute

// NewWatch begins to watch an attempt that started at now.
func NewWatch(s *Spec, t policy.Thresholds, now time.Time) *Watch {
	return &Watch{thresholds: t, progress: s.Progress, StartedAt: now, SignalAt: now, ProgressAt: now, samples: []sample{{now, 0}}}
}

// Signal says that the command printed or wrote something.
func (w *Watch) Signal(now time.Time) { w.SignalAt = now }

// Count says where the counter stands. Only a rise is progress: it resets the
// error counters. True if it was one.
func (w *Watch) Count(units int64, now time.Time) bool {
	if units <= w.Units {
		return false
	}
	w.Units, w.ProgressAt, w.SignalAt = units, now, now
	w.Errors = ErrorCounts{}
	if last := w.samples[len(w.samples)-1]; now.Sub(last.at) >= w.window()/maxSamples {
		w.samples = append(w.samples, sample{now, units})
	}
	return true
}

// Error counts one error of the kind; kinds without a name here are not
// errors.
func (w *Watch) Error(kind string) {
	switch kind {
	case countTimeout:
		w.Errors.Timeout++
	case countHTTP:
		w.Errors.HTTP++
	case countOther:
		w.Errors.Other++
	}
}

func (w *Watch) window() time.Duration {
	if w.progress.Slow.Per > 0 {
		return time.Duration(w.progress.Slow.Per)
	}
	return rateWindow
}

// gained returns the units of the last window, and how much of it has passed.
func (w *Watch) gained(now time.Time) (int64, time.Duration) {
	from := now.Add(-w.window())
	for len(w.samples) > 1 && !w.samples[1].at.After(from) {
		w.samples = w.samples[1:]
	}
	first := w.samples[0]
	at := first.at
	if at.Before(from) {
		at = from
	}
	return w.Units - first.units, now.Sub(at)
}

// Rate is units a second over the last window.
func (w *Watch) Rate(now time.Time) float64 {
	units, over := w.gained(now)
	if over <= 0 {
		return 0
	}
	return float64(units) / over.Seconds()
}

// StopReason says why an attempt is stopped.
type StopReason struct {
	Reason string        `json:"reason"`
	Class  failure.Class `json:"class"`
	Text   string        `json:"text"`
	// Adapt: the next attempt works with fewer workers.
	Adapt bool      `json:"adapt,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// Verdict returns why the attempt must be stopped; nil if it may go on.
func (w *Watch) Verdict(now time.Time) *StopReason {
	t, p := w.thresholds, w.progress
	stop := func(reason string, class failure.Class, adapt bool, format string, args ...any) *StopReason {
		return &StopReason{Reason: reason, Class: class, Adapt: adapt, At: now, Text: fmt.Sprintf(format, args...)}
	}
	if t.Timeout > 0 && w.Errors.Timeout >= t.Timeout {
		return stop("error_threshold_timeout", failure.Timeout, true, "%d timeouts without progress", w.Errors.Timeout)
	}
	if t.HTTP > 0 && w.Errors.HTTP >= t.HTTP {
		return stop("error_threshold_http", failure.Server, true, "%d HTTP errors without progress", w.Errors.HTTP)
	}
	if d := now.Sub(w.SignalAt); p.NoSignal > 0 && d >= time.Duration(p.NoSignal) {
		return stop("no_signal", failure.Timeout, false, "no sign of life for %s", policy.FormatDuration(d.Round(time.Second)))
	}
	if d := now.Sub(w.ProgressAt); p.NoProgress > 0 && d >= time.Duration(p.NoProgress) {
		return stop("no_progress", failure.Timeout, false, "no progress for %s", policy.FormatDuration(d.Round(time.Second)))
	}
	if p.Slow.Units > 0 && now.Sub(w.StartedAt) >= time.Duration(p.Slow.Per) {
		if units, _ := w.gained(now); units < p.Slow.Units {
			return stop("too_slow", failure.Timeout, true, "%d units in the last %s, want %d", units, policy.FormatDuration(time.Duration(p.Slow.Per)), p.Slow.Units)
		}
	}
	return nil
}

// restore sets the clocks of an attempt that another supervisor began, after
// its log was read again.
func (w *Watch) restore(units int64, progressAt, now time.Time) {
	if w.Units <= units && !progressAt.IsZero() {
		w.ProgressAt = progressAt
		if progressAt.After(now) { // the clock was set back meanwhile
			w.ProgressAt = now
		}
	}
	w.SignalAt = now // nobody watched: the command gets its time again
	w.samples = []sample{{w.StartedAt, 0}, {now, w.Units}}
}
