package engine

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

func drawTime(t *rapid.T, name string, zero bool) time.Time {
	if zero && rapid.Bool().Draw(t, name+" is none") {
		return time.Time{}
	}
	return noon.Add(time.Duration(rapid.Int64Range(-3e6, 3e6).Draw(t, name)) * time.Millisecond)
}

// drawGathered is any mixture of facts, also such as no store would give.
func drawGathered(t *rapid.T) *gathered {
	return gatheredFor(func(g *gathered) {
		j := &g.job
		j.State = rapid.SampledFrom(job.States()).Draw(t, "state")
		j.Cause = rapid.SampledFrom(append(causes, retry.CauseNone)).Draw(t, "cause")
		j.DueAt, j.DeadlineAt = drawTime(t, "due", false), drawTime(t, "deadline", true)
		j.EndedAt, j.LeasedAt = drawTime(t, "ended", false), drawTime(t, "leased", false)
		j.Begun, j.Process = rapid.Bool().Draw(t, "begun"), rapid.Int64Range(0, 8).Draw(t, "process")
		j.LastError, j.Config = rapid.String().Draw(t, "error"), rapid.SampledFrom([]string{"", "c0ffee"}).Draw(t, "config")
		j.Version = rapid.SampledFrom([]string{"", "0123456789ab"}).Draw(t, "version")
		j.History.Starts, j.History.Attempts = rapid.IntRange(0, 5).Draw(t, "starts"), rapid.IntRange(0, 5).Draw(t, "attempts")
		j.History.Crashes, j.History.FirstStartAt = rapid.IntRange(0, 4).Draw(t, "crashes"), drawTime(t, "first start", true)
		for n := range rapid.IntRange(0, 3).Draw(t, "ledger") {
			g.attempts = append(g.attempts, job.Attempt{
				Start: n + 1, OK: rapid.Bool().Draw(t, "ok"), StartedAt: noon, EndedAt: drawTime(t, "start ended", false),
				Class:   rapid.SampledFrom(failure.Classes()).Draw(t, "class"),
				Rule:    rapid.SampledFrom([]string{"", "builtin/server", "handler/snooze", "handler/park", "handler/fatal", "window", "deadline", "max_hold"}).Draw(t, "rule"),
				Action:  rapid.SampledFrom([]string{"retry", "fail", "park", "cancel", "disable_target"}).Draw(t, "action"),
				Counted: rapid.SampledFrom([]retry.Counted{"", retry.CountedAttempt, retry.CountedFree, retry.CountedApart}).Draw(t, "counted"),
				DueAt:   drawTime(t, "decided due", true), Reason: rapid.SampledFrom([]string{"", "unknown_policy"}).Draw(t, "reason"),
			})
		}
		if rapid.Bool().Draw(t, "policy unknown") {
			g.policy = nil
		} else if rapid.Bool().Draw(t, "no cap") {
			p := policy.MustPreset("default")
			p.Attempts = 0
			g.policy = &p
		}
		if rapid.Bool().Draw(t, "guarded") {
			drawGate(t, g)
		}
		j.Key, j.Blocked = rapid.SampledFrom([]string{"", "k"}).Draw(t, "key"), rapid.Bool().Draw(t, "blocked")
		g.flow.kindPaused = rapid.Bool().Draw(t, "kind paused")
		if rapid.Bool().Draw(t, "head known") {
			g.flow.head = &job.Job{Seq: 1, LeasedAt: noon, State: rapid.SampledFrom(job.States()).Draw(t, "head"), New: job.New{DueAt: drawTime(t, "head due", false)}}
		}
		g.queue.Paused = rapid.Bool().Draw(t, "paused")
		g.ahead = rapid.IntRange(0, aheadLimit).Draw(t, "ahead")
		if rapid.Bool().Draw(t, "orders") {
			g.retried = &store.AuditRow{At: noon, Actor: "maya"}
			g.cancelled, g.paused = g.retried, g.retried
		}
		if rapid.Bool().Draw(t, "no processes") {
			g.processes = nil
		}
	})
}

// drawGate is a target that anything may have happened to.
func drawGate(t *rapid.T, g *gathered) {
	g.job.Target = "a.test"
	g.flow.gate = &store.Gate{Target: "a.test", Version: 1, Disabled: rapid.SampledFrom([]string{"", "gone"}).Draw(t, "disabled")}
	g.flow.config = gate.Of(new(policy.MustPreset(rapid.SampledFrom([]string{"webhook", "default", "scrape"}).Draw(t, "gate of"))))
	if rapid.Bool().Draw(t, "paced") {
		g.flow.config.PerTarget.Rate = 0.01
	}
	at := noon.Add(-5 * time.Minute)
	for range rapid.IntRange(0, 30).Draw(t, "events") {
		at = at.Add(time.Duration(rapid.Int64Range(0, 20_000).Draw(t, "step")) * time.Millisecond)
		f := failure.Of(rapid.SampledFrom(failure.Classes()).Draw(t, "gate's class"))
		f.RetryAfter = rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "retry after")
		e := rapid.SampledFrom([]gate.Event{
			gate.Ask{}, gate.Ask{Retry: true}, gate.Done{OK: true}, gate.Done{Failure: f}, gate.Done{Failure: f, Probe: true}, gate.Pause{}, gate.Pause{Until: at.Add(time.Minute)}, gate.Resume{},
		}).Draw(t, "event")
		g.flow.gate.State, _ = gate.Step(g.flow.config, g.flow.gate.State, e, at, 0.5)
	}
}

// Whatever the facts, there is an answer: whole sentences, valid JSON, and no
// next start before its time or against what holds it.
func TestWhyAlwaysAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGathered(t)
		w := explain(g)
		if len(w.Reasons) == 0 {
			t.Fatalf("no reason for %+v", g.job)
		}
		codes := map[string]bool{}
		for _, r := range w.Reasons {
			codes[r.Code] = true
			text := strings.ReplaceAll(r.Text, quoted(g.job.LastError, 400), "")
			if r.Code == "" || text == "" || strings.ContainsAny(text, "\n") || strings.Contains(text, "%!") || strings.Contains(text, "0001-01-01") {
				t.Fatalf("not a sentence: %q", r.Text)
			}
		}
		if _, err := json.Marshal(w); err != nil {
			t.Fatal(err)
		}
		held := codes["queue_paused"] || codes["no_worker"] || codes["strict_busy"] || codes["deadline_passed"] ||
			codes["kind_paused"] || codes["behind_key"] || codes["target_disabled"] ||
			codes["target_paused"] && g.flow.gate.State.StopUntil == 0 // until somebody resumes it
		switch {
		case g.job.State != job.Queued || held:
			if !w.NextAt.IsZero() {
				t.Fatalf("%s job has a next start at %s: %v", g.job.State, w.NextAt, w.Reasons)
			}
		case w.NextAt.Before(g.job.DueAt) || w.NextAt.Before(g.now):
			t.Fatalf("next start %s is before its time: due %s, now %s", w.NextAt, g.job.DueAt, g.now)
		}
	})
}
