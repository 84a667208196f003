package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

// noon is when every explanation of these tests is asked for.
var noon = time.Date(2026, 2, 21, 12, 1, 23, 0, time.UTC)

func clockAt(text string) time.Time {
	t, err := time.Parse("15:04:05.999999", text)
	if err != nil {
		panic(err)
	}
	return time.Date(2026, 2, 21, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// gatheredFor is a job of the preset processing with one live worker.
func gatheredFor(change func(g *gathered)) *gathered {
	p := policy.MustPreset("processing")
	g := &gathered{
		now: noon, policy: &p, lease: 20 * time.Second,
		job: job.Job{
			Seq: 42, New: job.New{Kind: "ocr", Queue: "docs", Policy: "processing", DueAt: clockAt("12:00:00")},
			State: job.Queued, EnqueuedAt: clockAt("11:58:00"),
		},
		queue: store.QueueRule{Name: "docs"},
		processes: []store.Process{
			{ID: 7, Host: "alpha", PID: 4711, Kinds: []string{"ocr", "index"}, Queues: []string{"docs"}, SeenAt: clockAt("12:01:20")},
		},
	}
	change(g)
	return g
}

// failedWith adds a start that did not succeed, as the worker settles it.
func (g *gathered) failedWith(f failure.Failure, started, ended string, draw float64) {
	h := g.job.History.Started(clockAt(started))
	d := retry.Decide(g.policy, h, f, clockAt(ended), retry.Draw(draw*(1<<63)*2))
	a := job.Attempt{
		Start: h.Starts, Process: 7, StartedAt: clockAt(started), EndedAt: clockAt(ended), Class: f.Class, Reason: f.Reason, Status: f.Status,
		RetryAfter: f.RetryAfter, Action: string(d.Action), Cause: d.Cause, Delay: d.Delay, Rule: d.Rule, Counted: d.Counted, Version: d.Version,
	}
	if f.Err != nil {
		a.Error = f.Err.Error()
	}
	g.job.History, g.job.LastClass, g.job.LastError, g.job.Version, g.job.Cause = d.Next, f.Class, a.Error, d.Version, d.Cause
	g.job.Fingerprint = "00ff00ff00ff00ff"
	switch {
	case d.Action.Retries():
		g.job.State, g.job.DueAt = job.Queued, store.Due(clockAt(ended), d.Delay)
		a.DueAt = g.job.DueAt
	case d.Action == policy.Park:
		g.job.State, g.job.Config = job.Parked, "c0ffee"
	default:
		g.job.State, g.job.EndedAt = job.Failed, clockAt(ended)
	}
	g.attempts = append(g.attempts, a)
}

func status(code int) failure.Failure {
	class := failure.Server
	switch {
	case code == 429:
		class = failure.Throttled
	case code < 500:
		class = failure.Rejected
	}
	f := failure.Of(class)
	f.Status = code
	return f
}

func orderedFailure(err error) failure.Failure { return failure.Classify(err) }

// processing's version is part of what people read: the contract's hash.
var version = policy.MustPreset("processing").Version

func TestWhy(t *testing.T) {
	for _, c := range whyCases() {
		t.Run(c.name, func(t *testing.T) {
			g := gatheredFor(c.change)
			w := explain(g)
			var got []string
			for _, r := range w.Reasons {
				got = append(got, r.Code+": "+r.Text)
			}
			var want []string
			for _, line := range c.want {
				want = append(want, strings.ReplaceAll(line, "@V", "@"+version))
			}
			if !slices.Equal(got, want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
			}
			if !w.NextAt.Equal(c.next) {
				t.Errorf("next start %v, want %v", w.NextAt, c.next)
			}
		})
	}
}

func TestWhyText(t *testing.T) {
	w := explain(gatheredFor(func(g *gathered) { g.job.DueAt = clockAt("12:01:23") }))
	want := "job 000000000001a (kind ocr, queue docs) is queued:\n" +
		"- was enqueued at 11:58:00Z and has not started yet; due since 12:01:23Z (0s ago)\n" +
		"- it is next in queue docs: it starts as soon as the one live worker has a free slot\n"
	if w.Text != want {
		t.Errorf("got\n%s\nwant\n%s", w.Text, want)
	}
}

// Text never promises a start before its time: due times and waits go up.
func TestWhyRoundsUp(t *testing.T) {
	w := explain(gatheredFor(func(g *gathered) { g.job.DueAt = clockAt("12:02:34.000001") }))
	if want := "next start not before 12:02:35Z (in 1m12s)"; !strings.HasSuffix(w.Reasons[0].Text, want) {
		t.Errorf("got %q, want it to end in %q", w.Reasons[0].Text, want)
	}
}

func TestWhyOnAnotherDay(t *testing.T) {
	w := explain(gatheredFor(func(g *gathered) {
		g.job.EnqueuedAt = noon.Add(-75 * time.Hour)
		g.job.DueAt = noon.Add(12 * time.Hour)
	}))
	want := "was enqueued at 2026-02-18T09:01:23Z and has not started yet; next start not before 2026-02-22T00:01:23Z (in 12h)"
	if got := w.Reasons[0].Text; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWhyFacts(t *testing.T) {
	g := gatheredFor(func(g *gathered) {
		g.failedWith(status(503), "12:00:01", "12:00:31", 0.5)
		g.job.State, g.job.Process, g.job.LeasedAt, g.job.Begun = job.Running, 7, clockAt("12:01:10"), true
	})
	got := explain(g).Facts
	want := WhyFacts{
		Now: noon, DueAt: clockAt("12:01:01"), Starts: 1, Attempts: 1, MaxAttempts: 4, Policy: "processing", VersionThen: version, VersionNow: version,
		Class: "server", Rule: "builtin/server", Workers: 1, Process: 7, HeartbeatAge: 3,
	}
	if got != want {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}
