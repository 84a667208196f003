package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// Why tells why a job is where it is and when it will run next.
type Why struct {
	ID    string    `json:"id"`
	Kind  string    `json:"kind"`
	Queue string    `json:"queue"`
	State job.State `json:"state"`
	// NextAt is the earliest instant of the next start; zero where none comes
	// by itself.
	NextAt time.Time `json:"next_at,omitzero"`
	// Reasons are the sentences in the order to be told.
	Reasons []Reason `json:"reasons"`
	// Text is all of it as people read it.
	Text  string   `json:"text"`
	Facts WhyFacts `json:"facts"`
}

// Reason is one sentence with a stable word for programs.
type Reason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// WhyFacts are the numbers behind the sentences.
type WhyFacts struct {
	Now         time.Time `json:"now"`
	DueAt       time.Time `json:"due_at"`
	DeadlineAt  time.Time `json:"deadline_at,omitzero"`
	Starts      int       `json:"starts"`
	Attempts    int       `json:"attempts"`                      // spent
	MaxAttempts int       `json:"max_attempts,omitempty"`        // by the policy now; 0 = no cap, or unknown
	Policy      string    `json:"policy"`                        // its name
	VersionThen string    `json:"policy_version_then,omitempty"` // that decided last
	VersionNow  string    `json:"policy_version_now,omitempty"`  // empty = not known here
	Cause       job.Cause `json:"cause,omitempty"`
	Class       string    `json:"class,omitempty"` // of the last failure
	Rule        string    `json:"rule,omitempty"`  // that decided last
	Error       string    `json:"error,omitempty"` // of the last failure
	QueuePaused bool      `json:"queue_paused"`
	Ahead       int       `json:"ahead"` // due jobs that go before it, up to aheadLimit
	// Workers counts the live processes that handle the kind in the queue.
	Workers int `json:"workers"`
	// Gate guards its starts: its target, or queue:NAME; HeldBy is what holds
	// it there, HeldUntil when time alone ends that. Held is how long gates have
	// held it by what counts towards MaxHold. Behind is the job of its key that
	// goes first.
	Gate      string    `json:"gate,omitempty"`
	HeldBy    string    `json:"held_by,omitempty"`
	HeldUntil time.Time `json:"held_until,omitzero"`
	Held      float64   `json:"held_s,omitempty"`
	MaxHold   float64   `json:"max_hold_s,omitempty"`
	Behind    string    `json:"behind,omitempty"`
	// Process holds the lease; HeartbeatAge is how long it has been silent.
	Process      int64   `json:"process,omitempty"`
	HeartbeatAge float64 `json:"heartbeat_age_s,omitempty"`
}

// gathered is everything that an explanation is made of.
type gathered struct {
	now       time.Time
	job       job.Job
	attempts  []job.Attempt
	policy    *policy.Policy // as it is now; nil = not known here
	queue     store.QueueRule
	paused    *store.AuditRow // the order that paused the queue, if it is known
	cancelled *store.AuditRow // an order to cancel this job
	retried   *store.AuditRow // the last order to retry it
	holder    *job.Job        // the running job of a strict queue, another than this
	ahead     int
	processes []store.Process
	lease     time.Duration
	flow      flowFacts
}

// aheadLimit bounds the count of jobs ahead.
const aheadLimit = 1000

// telling collects the sentences of one explanation.
type telling struct {
	*gathered
	why Why
}

// explain is pure: the same facts give the same sentences.
func explain(g *gathered) Why {
	j := &g.job
	t := &telling{gathered: g, why: Why{ID: j.ID(), Kind: j.Kind, Queue: j.Queue, State: j.State, Facts: g.facts()}}
	switch j.State {
	case job.Queued:
		t.queued()
	case job.Running:
		t.running()
	case job.Succeeded:
		t.succeeded()
	case job.Failed:
		t.failed()
	case job.Parked:
		t.parked()
	case job.Cancelled:
		t.cancelledFor()
	}
	t.why.Text = fmt.Sprintf("job %s (kind %s, queue %s) is %s:\n", t.why.ID, j.Kind, j.Queue, stateWords(j))
	for _, r := range t.why.Reasons {
		t.why.Text += "- " + r.Text + "\n"
	}
	return t.why
}

func stateWords(j *job.Job) string {
	if j.Cause != retry.CauseNone {
		return fmt.Sprintf("%s (%s)", j.State, j.Cause)
	}
	return string(j.State)
}

func (g *gathered) facts() WhyFacts {
	j := &g.job
	f := WhyFacts{
		Now: g.now, DueAt: utc(j.DueAt), DeadlineAt: utc(j.DeadlineAt), Starts: j.History.Starts, Attempts: j.History.Attempts,
		Policy: j.Policy, VersionThen: j.Version, Cause: j.Cause, Class: className(j.LastClass), Error: j.LastError,
		QueuePaused: g.queue.Paused, Ahead: g.ahead, Workers: len(g.workers()), Process: j.Process,
	}
	if g.policy != nil {
		f.MaxAttempts, f.VersionNow = g.policy.Attempts, g.policy.Version
	}
	if last := g.last(); last != nil {
		f.Rule = last.Rule
	}
	if p := g.leaseholder(); p != nil {
		f.HeartbeatAge = max(g.now.Sub(p.SeenAt), 0).Seconds()
	}
	g.flowFacts(&f)
	return f
}

// last is the newest row of the ledger that did not succeed.
func (g *gathered) last() *job.Attempt {
	for i := len(g.attempts) - 1; i >= 0; i-- {
		if !g.attempts[i].OK {
			return &g.attempts[i]
		}
	}
	return nil
}

// fresh reports whether an order gave the job fresh attempts and it has not
// started since.
func (g *gathered) fresh() bool {
	h := &g.job.History
	return h.Starts > 0 && h.FirstStartAt.IsZero() && h.Attempts == 0
}

// live are the processes that others would not take for dead.
func (g *gathered) live() []store.Process {
	return slices.DeleteFunc(slices.Clone(g.processes), func(p store.Process) bool { return g.now.Sub(p.SeenAt) > g.lease })
}

// workers are the live processes that would claim the job.
func (g *gathered) workers() []store.Process {
	return slices.DeleteFunc(g.live(), func(p store.Process) bool {
		return !slices.Contains(p.Queues, g.job.Queue) || !slices.Contains(p.Kinds, g.job.Kind)
	})
}

func (g *gathered) leaseholder() *store.Process {
	for i := range g.processes {
		if g.job.Process != 0 && g.processes[i].ID == g.job.Process {
			return &g.processes[i]
		}
	}
	return nil
}

// say adds a sentence.
func (t *telling) say(code, format string, args ...any) {
	t.why.Reasons = append(t.why.Reasons, Reason{Code: code, Text: fmt.Sprintf(format, args...)})
}

// attemptWords numbers a try: "2nd of 4 attempts", without a cap "2nd attempt".
func (t *telling) attemptWords(n int) string {
	if t.policy == nil || t.policy.Attempts == 0 {
		return ordinal(n) + " attempt"
	}
	return fmt.Sprintf("%s of %s", ordinal(n), count(t.policy.Attempts, "attempt"))
}

// spentWords says what is spent: "2 of 4 attempts are spent".
func (t *telling) spentWords() string {
	n := t.job.History.Attempts
	if t.policy == nil || t.policy.Attempts == 0 {
		return count(n, "attempt") + " spent"
	}
	return fmt.Sprintf("%d of %s spent", n, count(t.policy.Attempts, "attempt"))
}

// policyWords names the policy with the version that decided then.
func (t *telling) policyWords(version string) string {
	if version == "" {
		return "policy " + t.job.Policy
	}
	return "policy " + t.job.Policy + "@" + version
}

// ruleWords names what decided: "rule builtin/server of policy p@v".
func (t *telling) ruleWords(a *job.Attempt) string {
	switch a.Rule {
	case "window", "deadline", "max_hold":
		return fmt.Sprintf("the %s of %s", a.Rule, t.policyWords(a.Version))
	}
	return fmt.Sprintf("rule %s of %s", a.Rule, t.policyWords(a.Version))
}

// failureWords says what went wrong: "server (http status 503)".
func failureWords(a *job.Attempt) string {
	var more []string
	if a.Reason != "" {
		more = append(more, a.Reason)
	}
	if a.Status != 0 {
		more = append(more, fmt.Sprintf("http status %d", a.Status))
	}
	if len(more) == 0 {
		return a.Class.String()
	}
	return fmt.Sprintf("%s (%s)", a.Class, strings.Join(more, ", "))
}

// tryWords says which try ended how: "failed its 2nd of 4 attempts with
// server (http status 503) at 12:00:31Z". What cost no attempt is numbered as a start.
func (t *telling) tryWords(a *job.Attempt) string {
	at := clockTime(t.now, a.EndedAt)
	n := t.job.History.Attempts
	if t.job.State == job.Succeeded {
		n-- // the start that succeeded spent one as well
	}
	switch {
	case a.Counted == retry.CountedAttempt && n > 0 && !t.fresh():
		return fmt.Sprintf("failed its %s with %s at %s", t.attemptWords(n), failureWords(a), at)
	case a.Counted == retry.CountedAttempt || t.fresh():
		return fmt.Sprintf("failed its %s start with %s at %s", ordinal(a.Start), failureWords(a), at)
	}
	return fmt.Sprintf("failed its %s start with %s at %s, which cost no attempt (%s)", ordinal(a.Start), failureWords(a), at, t.spentWords())
}

// errorText quotes the last error.
func (t *telling) errorText() {
	if t.job.LastError != "" {
		t.say("error", "the error was: %s", quoted(t.job.LastError, 400))
	}
}

// policyChange says when the next decision will follow another policy than
// the last one did.
func (t *telling) policyChange() {
	switch {
	case t.policy == nil:
		t.say("policy_unknown", "policy %s is not known here; a worker that does not know it parks the job", t.job.Policy)
	case t.job.Version != "" && t.job.Version != t.policy.Version:
		t.say("policy_changed", "policy %s has changed from %s to %s since then; the next decision uses %s, and what is spent stays spent",
			t.job.Policy, t.job.Version, t.policy.Version, t.policy.Version)
	}
}
