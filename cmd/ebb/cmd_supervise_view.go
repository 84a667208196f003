package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/work/supervise"
	"github.com/ebbhq/ebb/worker"
)

// runView tells what happens to a run: a line for each turn of events, and on
// a terminal one more that moves.
type runView struct {
	app    *app
	mu     sync.Mutex
	moving bool // the last line on the terminal is to be overwritten
	toldAt time.Time
}

func (a *app) newRunView() *runView { return &runView{app: a} }

// progressEvery is how often progress is told where nothing can be overwritten.
const progressEvery = 30 * time.Second

// event tells what the supervisor saw.
func (v *runView) event(e supervise.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.app.json {
		v.line(e)
		return
	}
	switch e.What {
	case supervise.Advanced:
		v.progress(&e)
	case supervise.Launched:
		v.say(e.At, "start %d: %s", e.Attempt, e.Text)
	case supervise.Adopted:
		v.say(e.At, "took over pid %d of attempt %d: %s so far", e.PID, e.Attempt, count(int(e.Units), "unit"))
	case supervise.Judged:
		v.say(e.At, "attempt %d ended while nobody watched", e.Attempt)
	case supervise.Stopping:
		v.say(e.At, "stop: %s", e.Text)
	case supervise.Ended:
		v.say(e.At, "attempt %d: %s (%s, %s): %s", e.Attempt, v.app.paint(outcomeColour(e.Verdict), string(e.Verdict.Outcome)), e.Verdict.Reason, count(int(e.Units), "unit"), e.Text)
	case supervise.HeldBack:
		v.say(e.At, "waits: %s", e.Text)
	case supervise.Left:
		v.say(e.At, "%s", e.Text)
	}
}

func outcomeColour(verdict *supervise.Verdict) string {
	switch verdict.Outcome {
	case supervise.OutcomeSuccess:
		return green
	case supervise.OutcomeConfig, supervise.OutcomeFatal:
		return red
	}
	return yellow
}

// progress moves a line on a terminal; elsewhere it is told now and then.
func (v *runView) progress(e *supervise.Event) {
	text := fmt.Sprintf("%s, %.2f/s", count(int(e.Units), "unit"), e.Rate)
	if n := e.Errors.Sum(); n > 0 {
		text += fmt.Sprintf(", %s since the last", count(n, "error"))
	}
	if isTerminal(v.app.stdout) && !v.app.quiet {
		fmt.Fprintf(v.app.stdout, "\r\x1b[K%s", text)
		v.moving = true
	} else if time.Since(v.toldAt) >= progressEvery {
		v.toldAt = time.Now()
		v.say(e.At, "%s", text)
	}
}

// decided is a settle of the ledger as an event.
type decided struct {
	What   string        `json:"event"`
	At     time.Time     `json:"at"`
	To     string        `json:"state"`
	Class  failure.Class `json:"class,omitempty"`
	Reason string        `json:"reason,omitempty"`
	Action string        `json:"action,omitempty"`
	Delay  float64       `json:"delay,omitempty"`
	Rule   string        `json:"rule,omitempty"`
	Spent  int           `json:"attempts"`
}

// settled tells what the policy decided.
func (v *runView) settled(e worker.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := e.Decision
	if v.app.json {
		v.line(decided{"decided", e.At.UTC(), string(e.To), e.Failure.Class, e.Failure.Reason, string(d.Action), d.Delay.Seconds(), d.Rule, d.Next.Attempts})
		return
	}
	if d.Action == policy.Retry && d.Delay > 0 {
		v.say(e.At, "%s", d)
	}
}

// conclude tells the outcome.
func (v *runView) conclude(r *supervise.Run) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.app.json {
		v.line(struct {
			What string        `json:"event"`
			Run  supervise.Run `json:"run"`
		}{"over", *r})
		return
	}
	v.clear()
	fmt.Fprintf(v.app.stdout, "run %s: %s, %s, %s used\n", r.Name, r.State, count(int(r.Units), "unit"), count(r.RestartsUsed, "restart"))
}

// say prints one line for people.
func (v *runView) say(at time.Time, format string, args ...any) {
	if v.app.quiet {
		return
	}
	v.clear()
	fmt.Fprintf(v.app.stdout, "%s %s\n", v.app.paint(dim, at.Local().Format(time.TimeOnly)), fmt.Sprintf(format, args...))
}

func (v *runView) clear() {
	if v.moving {
		fmt.Fprint(v.app.stdout, "\r\x1b[K")
		v.moving = false
	}
}

// line prints one JSON object for programs.
func (v *runView) line(what any) {
	e := json.NewEncoder(v.app.stdout)
	e.SetEscapeHTML(false)
	_ = e.Encode(what) // output remembers its first error
}
