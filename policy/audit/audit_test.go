package audit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/audit"
	"github.com/ebbhq/ebb/retry"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// changed seals the policy of a preset after a change.
func changed(t testing.TB, name string, change func(*policy.Policy)) policy.Policy {
	t.Helper()
	p := policy.Base(name)
	change(&p)
	p, err := policy.Seal(p)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ledger is what a sender that follows the policy writes down of jobs that
// always fail, each start of them settled a few milliseconds after its end.
func ledger(p *policy.Policy, seed uint64, jobs int, f func(job, start int) failure.Failure) []audit.Job {
	var list []audit.Job
	for seq := 1; seq <= jobs; seq++ {
		j := audit.Job{Seq: int64(seq)}
		var h retry.History
		for at := epoch; ; {
			h = h.Started(at)
			end := at.Add(200 * time.Millisecond)
			failed := f(seq, h.Starts)
			d := retry.Decide(p, h, failed, end, retry.Derive(seed, uint64(seq), h.Starts))
			h = d.Next
			s := audit.Start{
				Number: h.Starts, StartedAt: at, EndedAt: end, Class: failed.Class, Status: failed.Status, RetryAfter: failed.RetryAfter,
				Cause: d.Cause, Delay: d.Delay, Counted: d.Counted, Rule: d.Rule, Version: d.Version,
			}
			if d.Action.Retries() {
				s.DueAt = end.Add(5*time.Millisecond + d.Delay).Truncate(time.Microsecond)
			}
			j.Starts, j.Attempts = append(j.Starts, s), h.Attempts
			if !d.Action.Retries() {
				break
			}
			at = s.DueAt.Add(3 * time.Millisecond)
		}
		list = append(list, j)
	}
	return list
}

func serverError(int, int) failure.Failure {
	f := failure.Of(failure.Server)
	f.Status = 503
	return f
}

func report(t testing.TB, promise policy.Policy, jobs []audit.Job, accepted ...policy.Policy) audit.Report {
	t.Helper()
	a, err := audit.New(&promise, accepted...)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		a.Add(j)
	}
	return a.Report()
}

func rules(r audit.Report) []string {
	var list []string
	for _, a := range r.Anomalies {
		list = append(list, fmt.Sprintf("%s/%d", a.Rule, a.Try))
	}
	return list
}

func TestTheWebhookPresetIsKept(t *testing.T) {
	p := policy.MustPreset("webhook")
	r := report(t, p, ledger(&p, 1, 300, serverError))
	if len(r.Anomalies) != 0 {
		t.Fatalf("anomalies: %+v", r.Anomalies)
	}
	if r.Jobs != 300 || r.Failed != 1800 || r.Foreign != 0 || len(r.Groups) != 5 {
		t.Fatalf("got %d jobs, %d failed starts, %d foreign, %d groups; want 300, 1800, 0, 5", r.Jobs, r.Failed, r.Foreign, len(r.Groups))
	}
	first := r.Groups[0]
	if first.Try != 2 || first.Waits != 300 || first.Least != 48*time.Second || first.Most != 72*time.Second {
		t.Fatalf("the first group is %+v", first)
	}
	if first.Shortest < 48*time.Second || first.Shortest > 49*time.Second || first.Longest > 72*time.Second || first.Longest < 71*time.Second {
		t.Errorf("waits from %s to %s, want them to fill 48s to 72s", first.Shortest, first.Longest)
	}
	if r.Lag.Starts != 1500 || r.Lag.P99 != 3*time.Millisecond {
		t.Errorf("lag %+v, want 1500 starts after 3ms", r.Lag)
	}
}

func TestChangedSendersAreCaught(t *testing.T) {
	cases := []struct {
		name   string
		jobs   int
		change func(*policy.Policy)
		want   []string
		still  []string // where the change was accepted
	}{
		{"PR 247: a fixed interval of 5 s, 9 attempts", 5, func(p *policy.Policy) {
			p.Backoff = policy.Backoff{Base: 5 * time.Second, Factor: 1}
			p.Attempts = 9
		}, []string{
			"too_soon/2", "same/2", "too_soon/3", "same/3", "too_soon/4", "same/4", "too_soon/5", "same/5", "too_soon/6", "same/6", "guard/0", "too_many/0",
		}, []string{"guard/0"}},
		{
			"a fixed interval inside the first band", 5, func(p *policy.Policy) { p.Backoff = policy.Backoff{Base: time.Minute, Factor: 1} },
			[]string{"same/2", "too_soon/3", "same/3", "too_soon/4", "same/4", "too_soon/5", "same/5", "too_soon/6", "same/6"},
			nil,
		},
		{
			"no jitter", 4, func(p *policy.Policy) { p.Backoff.Jitter = policy.Jitter{} },
			[]string{"same/2", "same/3", "same/4", "same/5", "same/6"},
			nil,
		},
		{
			"half the jitter", 200, func(p *policy.Policy) { p.Backoff.Jitter.Ratio = 0.1 },
			[]string{"spread/2", "spread/3", "spread/4", "spread/5", "spread/6"},
			nil,
		},
		{
			"half the base", 20, func(p *policy.Policy) { p.Backoff.Base = 30 * time.Second },
			[]string{"too_soon/2", "too_soon/3", "too_soon/4", "too_soon/5", "too_soon/6"},
			nil,
		},
		{
			"a longer base", 20, func(p *policy.Policy) { p.Backoff.Base = 2 * time.Minute },
			[]string{"too_long/2", "too_long/3", "too_long/4", "too_long/5", "too_long/6"},
			nil,
		},
		{"more attempts", 3, func(p *policy.Policy) { p.Attempts = 8 }, []string{"too_many/0"}, nil},
		{"fewer attempts", 3, func(p *policy.Policy) { p.Attempts = 4 }, []string{"gave_up/0"}, nil},
	}
	promise := policy.MustPreset("webhook")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			sender := changed(t, "webhook", c.change)
			jobs := ledger(&sender, 7, c.jobs, serverError)
			if got := rules(report(t, promise, jobs)); !slices.Equal(got, c.want) {
				t.Errorf("anomalies %v, want %v", got, c.want)
			}
			lie(jobs, promise.Version)
			if got := rules(report(t, promise, jobs)); !slices.Equal(got, c.want) {
				t.Errorf("with the promise's version in the ledger: anomalies %v, want %v", got, c.want)
			}
			honest := ledger(&sender, 7, c.jobs, serverError)
			if got := rules(report(t, promise, honest, sender)); !slices.Equal(got, c.still) {
				t.Errorf("accepted, and still: %v, want %v", got, c.still)
			}
		})
	}
}

// lie writes another version into the ledger.
func lie(jobs []audit.Job, version string) {
	for i := range jobs {
		for k := range jobs[i].Starts {
			jobs[i].Starts[k].Version = version
		}
	}
}

// The ledger may say that a delay was drawn while the due time is another's.
func TestADueTimeThatTheDelayDoesNotExplain(t *testing.T) {
	p := policy.MustPreset("webhook")
	jobs := ledger(&p, 3, 10, serverError)
	for i := range jobs {
		s := &jobs[i].Starts[0]
		s.DueAt = s.EndedAt.Add(5 * time.Second)
	}
	r := report(t, p, jobs)
	if got := rules(r); !slices.Equal(got, []string{"too_soon/2", "same/2", "guard/0"}) {
		t.Fatalf("anomalies %v", got)
	}
	want := "try 2: 10 of 10 waits were shorter than promised: the shortest 5s, promised at least 48s"
	if r.Anomalies[0].Words != want {
		t.Errorf("words %q, want %q", r.Anomalies[0].Words, want)
	}
}

// A policy that the guard would refuse may have come past it: with an older
// version, or with a waiver that has ended. What it drew is found, whoever
// accepted it, as are free starts and starts that nothing else judges.
func TestTheGuardIsKept(t *testing.T) {
	wide := func(p *policy.Policy) { p.Backoff.Jitter.Ratio = 1 }
	free := func(classes ...failure.Class) func(*policy.Policy) {
		return func(p *policy.Policy) {
			p.Classes = []policy.Rule{{
				Match: policy.Match{Classes: policy.SetOf(classes...)}, Action: policy.Retry, Counts: policy.CountsFree, Max: 3,
				Backoff: &policy.Backoff{Base: 2 * time.Second},
			}}
		}
	}
	waived := func(expires time.Time) func(*policy.Policy) {
		return func(p *policy.Policy) {
			wide(p)
			p.Waivers = []policy.Waiver{{Rule: policy.RuleFloor, Reason: "agreed", Expires: expires}}
		}
	}
	of := func(class failure.Class) func(int, int) failure.Failure {
		return func(int, int) failure.Failure { return failure.Of(class) }
	}
	for name, c := range map[string]struct {
		change func(*policy.Policy)
		fails  func(int, int) failure.Failure
		want   string
	}{
		"wide jitter":             {wide, serverError, "20 retries were due sooner than the guard allows: the soonest after 1.772s, allowed from 24s on for target endpoint"},
		"a raised guard":          {func(p *policy.Policy) { p.Guard.MinDelay = 2 * time.Minute }, serverError, "50 retries were due sooner than the guard allows: the soonest after 48.354s, allowed from 1m36s on for target endpoint"},
		"waived":                  {waived(epoch.AddDate(0, 1, 0)), serverError, ""},
		"waived until before":     {waived(epoch.AddDate(0, 0, -1)), serverError, "20 retries were due sooner than the guard allows: the soonest after 1.772s, allowed from 24s on for target endpoint"},
		"a free class":            {free(failure.Server), serverError, "400 retries were due sooner than the guard allows: the soonest after 2s, allowed from 24s on for target endpoint"},
		"a free class of our own": {free(failure.Crash, failure.DiskFull), of(failure.DiskFull), ""},
		"the built-in crash":      {func(*policy.Policy) {}, of(failure.Crash), ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := changed(t, "webhook", c.change)
			r := report(t, p, ledger(&p, 7, 50, c.fails))
			got := ""
			for _, a := range r.Anomalies {
				got += a.Words
			}
			if got != c.want || (c.want != "" && r.Anomalies[0].Rule != audit.Guard) {
				t.Errorf("anomalies %+v, want %q", r.Anomalies, c.want)
			}
		})
	}
}

// A start after which it is not sure how many attempts were spent is judged by
// the guard all the same.
func TestTheGuardOfUnsureStarts(t *testing.T) {
	p := policy.MustPreset("webhook")
	jobs := ledger(&p, 7, 1, serverError)
	starts := jobs[0].Starts
	starts[1].StartedAt = starts[0].DueAt.Add(time.Hour) // so long that the attempts are unsure
	starts[1].EndedAt = starts[1].StartedAt.Add(time.Second)
	starts[1].Delay, starts[1].DueAt = 3*time.Second, starts[1].EndedAt.Add(3*time.Second)
	jobs[0].Starts = starts[:2]
	if r := report(t, p, jobs); r.Unsure != 1 || !slices.Equal(rules(r), []string{"guard/0"}) {
		t.Errorf("%d unsure, anomalies %v", r.Unsure, r.Anomalies)
	}
}

func TestFatalFailuresMustNotBeRetried(t *testing.T) {
	sender := changed(t, "processing", func(p *policy.Policy) {
		p.Classes = append(p.Classes, policy.Rule{Match: policy.Match{Classes: policy.SetOf(failure.Rejected)}, Action: policy.Retry})
	})
	jobs := ledger(&sender, 3, 5, func(int, int) failure.Failure { return failure.Of(failure.Rejected) })
	if got := rules(report(t, policy.MustPreset("processing"), jobs)); !slices.Equal(got, []string{"retried/0"}) {
		t.Errorf("anomalies %v, want that rejected was retried", got)
	}
}

// What a target asked for is a floor under the wait, and no part of the
// distribution test.
func TestRetryAfterIsApart(t *testing.T) {
	p := policy.MustPreset("webhook")
	jobs := ledger(&p, 5, 200, func(_, start int) failure.Failure {
		f := serverError(0, 0)
		if start == 1 {
			f.RetryAfter = 100 * time.Second
		}
		return f
	})
	r := report(t, p, jobs)
	if len(r.Anomalies) != 0 || r.Groups[0].Asked != 200 || r.Groups[0].Shortest != 100*time.Second {
		t.Fatalf("anomalies %v, group %+v", r.Anomalies, r.Groups[0])
	}
	for i := range jobs { // a sender that does not wait as long as it was asked to
		s := &jobs[i].Starts[0]
		s.Delay -= 20 * time.Second
		s.DueAt = s.DueAt.Add(-20 * time.Second)
	}
	if got := rules(report(t, p, jobs)); !slices.Equal(got, []string{"too_soon/2"}) {
		t.Errorf("anomalies %v", got)
	}
}

func TestHoldsAreReportedApart(t *testing.T) {
	p := policy.MustPreset("webhook")
	jobs := ledger(&p, 5, 40, serverError)
	for i := range jobs {
		for k := 1; k < len(jobs[i].Starts); k++ {
			shift := 3 * time.Minute
			s := &jobs[i].Starts[k]
			s.HeldBy, s.Held = "breaker", shift
			for n := k; n < len(jobs[i].Starts); n++ {
				later := &jobs[i].Starts[n]
				later.StartedAt, later.EndedAt = later.StartedAt.Add(shift), later.EndedAt.Add(shift)
				if !later.DueAt.IsZero() {
					later.DueAt = later.DueAt.Add(shift)
				}
			}
		}
	}
	r := report(t, p, jobs)
	if len(r.Anomalies) != 0 || r.Unsure != 0 {
		t.Fatalf("anomalies %v, %d unsure", r.Anomalies, r.Unsure)
	}
	want := []audit.Hold{{By: "breaker", Starts: 200, Total: 600 * time.Minute, Longest: 3 * time.Minute}}
	if !slices.Equal(r.Holds, want) || r.Lag.Most != 3*time.Millisecond {
		t.Errorf("holds %+v, lag %+v", r.Holds, r.Lag)
	}
}

// A redrive gives fresh attempts: after an end that the ledger shows, and
// after one while the job waited, which it does not.
func TestRedrivenJobsBeginAnew(t *testing.T) {
	p := policy.MustPreset("webhook")
	whole := func(seed uint64) []audit.Start { return ledger(&p, seed, 1, serverError)[0].Starts }
	later := func(starts []audit.Start, d time.Duration) []audit.Start {
		for i := range starts {
			s := &starts[i]
			s.StartedAt, s.EndedAt = s.StartedAt.Add(d), s.EndedAt.Add(d)
			if !s.DueAt.IsZero() {
				s.DueAt = s.DueAt.Add(d)
			}
		}
		return starts
	}
	cases := map[string]audit.Job{
		"after the last attempt": {Seq: 1, Attempts: 6, Starts: append(whole(1), later(whole(2), time.Hour)...)},
		"while it waited":        {Seq: 1, Attempts: 6, Starts: append(whole(1)[:3], later(whole(2), 10*time.Minute)...)},
		"while it waited long":   {Seq: 1, Attempts: 2, Starts: append(append(whole(1)[:3], later(whole(2)[:3], 2*time.Hour)...), later(whole(3)[:2], 5*time.Hour)...)},
	}
	for name, j := range cases {
		t.Run(name, func(t *testing.T) {
			if r := report(t, p, []audit.Job{j}); len(r.Anomalies) != 0 {
				t.Errorf("anomalies: %+v", r.Anomalies)
			}
		})
	}
}

func TestEarlyStarts(t *testing.T) {
	p := policy.MustPreset("webhook")
	jobs := ledger(&p, 9, 20, serverError)
	for i := range jobs[:6] { // of 100 retries
		jobs[i].Starts[1].StartedAt = jobs[i].Starts[0].DueAt.Add(-10 * time.Second)
	}
	if r := report(t, p, jobs); r.Early != 6 || len(r.Anomalies) != 0 {
		t.Errorf("6 of 100: %d early, %v", r.Early, r.Anomalies)
	}
	for i := range jobs {
		jobs[i].Starts[1].StartedAt = jobs[i].Starts[0].DueAt.Add(-10 * time.Second)
	}
	if got := rules(report(t, p, jobs)); !slices.Equal(got, []string{"early/0"}) {
		t.Errorf("20 of 100: %v", got)
	}
}

// Starts and ends are by the worker's clock, due times by the store's: half a
// second between them is no anomaly, either way.
func TestClocksThatDiffer(t *testing.T) {
	p := policy.MustPreset("webhook")
	for _, off := range []time.Duration{-500 * time.Millisecond, 500 * time.Millisecond} {
		jobs := ledger(&p, 11, 400, serverError)
		for i := range jobs {
			for k := range jobs[i].Starts {
				s := &jobs[i].Starts[k]
				s.StartedAt, s.EndedAt = s.StartedAt.Add(off), s.EndedAt.Add(off)
			}
		}
		if r := report(t, p, jobs); len(r.Anomalies) != 0 || r.Early != 0 {
			t.Errorf("off by %s: %v, %d early", off, r.Anomalies, r.Early)
		}
	}
}

func TestRefilledAttemptsCannotBeAudited(t *testing.T) {
	p := changed(t, "annual-crawl", func(p *policy.Policy) { p.Restarts.Refill = true })
	if _, err := audit.New(&p); err == nil {
		t.Error("want an error: the ledger does not tell the try")
	}
}

// False alarms over many seeds, every preset and every jitter.
func TestFalseAlarmsAreRare(t *testing.T) {
	full := func(floor time.Duration) policy.Policy {
		return changed(t, "webhook", func(p *policy.Policy) {
			p.Backoff.Jitter, p.Backoff.Floor = policy.Jitter{Kind: policy.JitterFull}, floor
			p.Waivers = []policy.Waiver{{Rule: policy.RuleFloor, Reason: "its law is what is tested", Expires: epoch.AddDate(1, 0, 0)}}
		})
	}
	kinds := []policy.Policy{
		policy.MustPreset("webhook"), policy.MustPreset("processing"), policy.MustPreset("scrape"), policy.MustPreset("default"),
		full(time.Second), full(20 * time.Second),
		changed(t, "webhook", func(p *policy.Policy) { p.Backoff.Jitter = policy.Jitter{Kind: policy.JitterEqual} }),
		changed(t, "webhook", func(p *policy.Policy) {
			p.Backoff.Jitter, p.Backoff.Cap = policy.Jitter{Kind: policy.JitterDecorrelated}, 4*time.Minute
		}),
	}
	const seeds = 150
	wrong := 0
	for i := range kinds {
		for seed := range uint64(seeds) {
			jobs := ledger(&kinds[i], seed+1, 10+int(seed%4)*15, serverError)
			if r := report(t, kinds[i], jobs); len(r.Anomalies) > 0 {
				wrong++
				t.Logf("%s %s, seed %d: %v", kinds[i].Name, kinds[i].Backoff.Jitter.Kind, seed+1, r.Anomalies)
			}
		}
	}
	if most := seeds * len(kinds) / 100; wrong >= most {
		t.Errorf("%d of %d audits of senders that keep their promise found anomalies, want under 1 %%", wrong, seeds*len(kinds))
	}
}
