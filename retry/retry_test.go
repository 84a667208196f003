package retry

import (
	"errors"
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
)

var t0 = time.Date(2026, 4, 9, 12, 0, 0, 0, time.UTC)

// middle draws the nominal delay of proportional jitter.
const middle = Draw(1 << 63)

func preset(t testing.TB, name string) *policy.Policy {
	t.Helper()
	p, err := policy.Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

func sealed(t testing.TB, p policy.Policy) *policy.Policy {
	t.Helper()
	p, err := policy.Seal(p)
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

// play fails every start with f until the job ends, and returns the decisions.
func play(p *policy.Policy, f failure.Failure, draw Draw) []Decision {
	var all []Decision
	h, now := History{}, t0
	for range 10_000 {
		h = h.Started(now)
		d := Decide(p, h, f, now, draw)
		all = append(all, d)
		if !d.Action.Retries() {
			return all
		}
		h, now = d.Next, now.Add(d.Delay)
	}
	return all
}

func delays(all []Decision) []time.Duration {
	var list []time.Duration
	for _, d := range all {
		if d.Action.Retries() {
			list = append(list, d.Delay)
		}
	}
	return list
}

func seconds(list ...float64) []time.Duration {
	var ds []time.Duration
	for _, s := range list {
		ds = append(ds, time.Duration(s*float64(time.Second)))
	}
	return ds
}

func equal(a, b []time.Duration) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// The seeds' schedules, start for start, at the nominal draw and both ends.
func TestSeedSchedules(t *testing.T) {
	const least, most = Draw(0), Draw(1<<64 - 1)
	for _, c := range []struct {
		preset string
		class  failure.Class
		draw   Draw
		want   []time.Duration
	}{
		{"processing", failure.Server, middle, seconds(30, 120, 480)},
		{"processing", failure.Server, least, seconds(24, 96, 384)},
		{"processing", failure.Crash, middle, seconds(30, 120, 480)},
		{"processing", failure.Interrupted, middle, seconds(30, 120, 480)},
		{"webhook", failure.Server, middle, seconds(60, 120, 240, 480, 960)},
		{"webhook", failure.Timeout, least, seconds(48, 96, 192, 384, 768)},
		{"webhook", failure.Rejected, middle, seconds(60, 120, 240, 480, 960)},
		{"scrape", failure.Server, least, seconds(5, 10)},
		{"scrape", failure.HeaderTimeout, middle, seconds(6.25, 12.5)},
		{"scrape", failure.Throttled, least, seconds(5, 10)},
		{"scrape", failure.Refused, most, seconds(5, 5)},
		{"scrape", failure.Reset, least, seconds(5, 5)},
		{"default", failure.Plain, middle, seconds(30, 120, 480)},
		{"default", failure.Crash, middle, seconds(0, 0, 0)},
	} {
		all := play(preset(t, c.preset), failure.Of(c.class), c.draw)
		if got := delays(all); !equal(got, c.want) {
			t.Errorf("%s, %s: delays %v, want %v", c.preset, c.class, got, c.want)
		}
	}
}

func TestHowJobsEnd(t *testing.T) {
	for _, c := range []struct {
		preset string
		class  failure.Class
		starts int
		action policy.Action
		cause  Cause
		rule   string
	}{
		{"processing", failure.Server, 4, policy.Fail, CauseExhausted, "builtin/server"},
		{"processing", failure.Crash, 4, policy.Fail, CauseExhausted, "classes[0]"},
		{"processing", failure.InvalidOutput, 1, policy.Fail, CauseFatal, "builtin/invalid_output"},
		{"processing", failure.InvalidInput, 1, policy.Fail, CauseFatal, "builtin/invalid_input"},
		{"processing", failure.Rejected, 1, policy.Fail, CauseFatal, "builtin/rejected"},
		{"processing", failure.RequestTimeout, 1, policy.Fail, CauseFatal, "classes[1]"},
		{"processing", failure.TooEarly, 1, policy.Fail, CauseFatal, "classes[1]"},
		{"processing", failure.Throttled, 4, policy.Fail, CauseExhausted, "builtin/throttled"},
		{"processing", failure.Config, 1, policy.Park, CauseConfig, "builtin/config"},
		{"default", failure.Crash, 4, policy.Fail, CausePoison, "builtin/crash"},
		{"default", failure.Unknown, 1, policy.Fail, CauseFatal, "builtin/unmatched"},
		{"webhook", failure.Server, 6, policy.Fail, CauseExhausted, "builtin/server"},
		{"webhook", failure.Gone, 1, policy.DisableTarget, CauseFatal, "classes[0]"},
		{"webhook", failure.Redirect, 6, policy.Fail, CauseExhausted, "classes[1]"},
		{"scrape", failure.Rejected, 1, policy.Fail, CauseFatal, "builtin/rejected"},
		{"annual-crawl", failure.Timeout, 21, policy.Park, CauseNoProgress, "builtin/timeout"},
		{"annual-crawl", failure.Config, 1, policy.Park, CauseConfig, "builtin/config"},
	} {
		all := play(preset(t, c.preset), failure.Of(c.class), middle)
		last := all[len(all)-1]
		if len(all) != c.starts || last.Action != c.action || last.Cause != c.cause || last.Rule != c.rule {
			t.Errorf("%s, %s: %d starts, then %s (%s) by %s; want %d, %s (%s) by %s",
				c.preset, c.class, len(all), last.Action, last.Cause, last.Rule, c.starts, c.action, c.cause, c.rule)
		}
		if last.Version == "" || last.Class != c.class {
			t.Errorf("%s, %s: the decision lacks its reason: %+v", c.preset, c.class, last)
		}
	}
}

// A configuration error spends nothing: seed 003.
func TestConfigSpendsNoBudget(t *testing.T) {
	d := Decide(preset(t, "annual-crawl"), History{Starts: 1, Idle: 1}, failure.Of(failure.Config), t0, middle)
	if d.Next.Attempts != 0 || d.Counted != CountedApart {
		t.Errorf("spent %d attempts, counted %s", d.Next.Attempts, d.Counted)
	}
}

func TestProgressGivesBack(t *testing.T) {
	p := preset(t, "annual-crawl")
	h, now := History{}, t0
	for i := range 20 {
		h = h.Started(now).Progressed(p)
		d := Decide(p, h, failure.Of(failure.Timeout), now, middle)
		if d.Action != policy.Retry || d.Delay != 2*time.Minute {
			t.Fatalf("restart %d: %v", i+1, d)
		}
		h = d.Next
	}
	// Restarts are hard in annual-crawl: progress does not refill them.
	if d := Decide(p, h.Started(now).Progressed(p), failure.Of(failure.Timeout), now, middle); d.Cause != CauseExhausted {
		t.Errorf("after 21 starts with progress: %v", d)
	}
	refill := policy.Base("crawl")
	refill.Restarts = policy.Restarts{Max: 2, Refill: true, NoProgress: 2}
	q := sealed(t, refill)
	h = History{}
	for range 50 {
		h = Decide(q, h.Started(now).Progressed(q), failure.Of(failure.Timeout), now, middle).Next
	}
	if h.Attempts != 1 || h.Starts != 50 {
		t.Errorf("refilled: %+v", h)
	}
	h = History{Crashes: 2, Idle: 4, Free: FreeCounts{failure.Crash: 2}, Attempts: 3}.Progressed(p)
	if h.Crashes != 0 || h.Idle != 0 || h.Free != (FreeCounts{}) || h.Attempts != 3 {
		t.Errorf("after progress: %+v", h)
	}
}

// A full disk, a daemon that is away or a supervisor that was stopped, however
// often, is no restart without progress.
func TestWaitsForOurOwnMachineNeverPark(t *testing.T) {
	p := preset(t, "annual-crawl")
	h := History{}
	for i := range 100 {
		class := []failure.Class{failure.DiskFull, failure.LocalIO, failure.Interrupted}[i%3]
		d := Decide(p, h.Started(t0), failure.Of(class), t0, middle)
		if d.Action != policy.Retry || d.Counted != CountedApart || d.Next.Idle != 0 || d.Next.Attempts != 0 {
			t.Fatalf("start %d, %s: %v, %+v", i+1, class, d, d.Next)
		}
		h = d.Next
	}
	if d := Decide(p, h.Started(t0), failure.Classify(failure.Snooze(time.Hour)), t0, middle); d.Next.Idle != 0 {
		t.Errorf("snooze: %+v", d.Next)
	}
	for i := range 20 { // the restarts that are promised are still there
		d := Decide(p, h.Started(t0), failure.Of(failure.Timeout), t0, middle)
		if d.Action != policy.Retry || d.Next.Idle != i+1 {
			t.Fatalf("restart %d: %v, %+v", i+1, d, d.Next)
		}
		h = d.Next
	}
	if d := Decide(p, h.Started(t0), failure.Of(failure.Timeout), t0, middle); d.Action != policy.Park || d.Cause != CauseNoProgress {
		t.Errorf("%v", d)
	}
}

func TestOrdersOverrideRules(t *testing.T) {
	p := preset(t, "webhook")
	h := History{}.Started(t0)
	d := Decide(p, h, failure.Classify(failure.Fatal(errors.New("x"))), t0, middle)
	if d.Action != policy.Fail || d.Cause != CauseFatal || d.Rule != "handler/fatal" {
		t.Errorf("fatal: %v", d)
	}
	d = Decide(p, h, failure.Classify(failure.Park(errors.New("x"))), t0, middle)
	if d.Action != policy.Park || d.Next.Attempts != 0 {
		t.Errorf("park: %v", d)
	}
	d = Decide(p, h, failure.Classify(failure.Snooze(time.Hour)), t0, middle)
	if d.Action != policy.Retry || d.Delay != time.Hour || d.Next.Attempts != 0 || d.Next.Waits != 1 {
		t.Errorf("snooze: %v", d)
	}
	h.DeadlineAt = t0.Add(time.Minute)
	if d = Decide(p, h, failure.Classify(failure.Snooze(time.Hour)), t0, middle); d.Cause != CauseExpired {
		t.Errorf("snooze past the deadline: %v", d)
	}
}

func TestRetryAfterIsAFloor(t *testing.T) {
	p := preset(t, "webhook") // max 15m
	h := History{}.Started(t0)
	for _, c := range []struct {
		asked, want time.Duration
		floored     bool
	}{
		{time.Second, time.Minute, false},
		{5 * time.Minute, 5 * time.Minute, true},
		{time.Hour, 15 * time.Minute, true},
	} {
		f := failure.Of(failure.Throttled)
		f.RetryAfter = c.asked
		if d := Decide(p, h, f, t0, middle); d.Delay != c.want || d.Floored != c.floored {
			t.Errorf("asked for %s: waits %s, floored %v", c.asked, d.Delay, d.Floored)
		}
	}
	deaf := policy.Base("deaf")
	deaf.RetryAfter.Honour = false
	f := failure.Of(failure.Throttled)
	f.RetryAfter = time.Hour
	if d := Decide(sealed(t, deaf), h, f, t0, middle); d.Delay != 30*time.Second {
		t.Errorf("not honoured, yet waits %s", d.Delay)
	}
}

func TestWindowAndDeadline(t *testing.T) {
	base := policy.Base("windowed")
	base.Attempts, base.Window = 0, 20*time.Minute
	base.Backoff = policy.Backoff{Base: time.Minute, Factor: 1}
	all := play(sealed(t, base), failure.Of(failure.Server), middle)
	last := all[len(all)-1]
	if len(all) != 21 || last.Cause != CauseExhausted || last.Rule != "window" {
		t.Errorf("%d starts in a window of 20 minutes, then %v", len(all), last)
	}
	h := History{DeadlineAt: t0.Add(59 * time.Second)}.Started(t0)
	d := Decide(preset(t, "webhook"), h, failure.Of(failure.Server), t0, middle)
	if d.Action != policy.Fail || d.Cause != CauseExpired || d.Rule != "deadline" || d.Delay != 0 {
		t.Errorf("past the deadline: %v", d)
	}
}

func TestFreeStartsHaveACap(t *testing.T) {
	base := policy.Base("free")
	base.Classes = []policy.Rule{
		{Match: policy.Match{Classes: policy.SetOf(failure.Throttled)}, Action: policy.Retry, Counts: policy.CountsFree, Max: 5},
		{Match: policy.Match{Classes: policy.SetOf(failure.TooEarly)}, Action: policy.Retry, Counts: policy.CountsFree, Window: time.Minute},
	}
	p := sealed(t, base)
	all := play(p, failure.Of(failure.Throttled), middle)
	if len(all) != 9 { // 5 free, then 4 attempts
		t.Errorf("%d starts, want 9", len(all))
	}
	if got := delays(all)[:3]; !equal(got, seconds(30, 120, 480)) {
		t.Errorf("free starts wait %v", got)
	}
	h := History{Attempts: 1}.Started(t0)
	if d := Decide(p, h, failure.Of(failure.TooEarly), t0.Add(time.Minute), middle); d.Counted != CountedFree {
		t.Errorf("inside its window: %v", d)
	}
	if d := Decide(p, h, failure.Of(failure.TooEarly), t0.Add(time.Minute+1), middle); d.Counted != CountedAttempt {
		t.Errorf("after its window: %v", d)
	}
}

// Our own disk costs nothing and waits 5, 10, 20, 40, 60, 60 … s.
func TestLocalFaultsAreCountedApart(t *testing.T) {
	p := preset(t, "webhook")
	h, now := History{}, t0
	var got []time.Duration
	for range 6 {
		d := Decide(p, h.Started(now), failure.Of(failure.DiskFull), now, middle)
		got = append(got, d.Delay)
		h = d.Next
	}
	if !equal(got, seconds(5, 10, 20, 40, 60, 60)) || h.Attempts != 0 || h.Waits != 6 {
		t.Errorf("waits %v, history %+v", got, h)
	}
}

func TestPauseTargetRetries(t *testing.T) {
	base := policy.Base("pausing")
	base.Classes = []policy.Rule{{Match: policy.Match{Status: []int{503}}, Action: policy.PauseTarget, Counts: policy.CountsAttempt}}
	p := sealed(t, base)
	if d := Decide(p, History{}.Started(t0), failure.Status(503), t0, middle); d.Action != policy.PauseTarget || d.Delay != 30*time.Second {
		t.Errorf("503: %v", d)
	}
	if d := Decide(p, History{}.Started(t0), failure.Status(502), t0, middle); d.Action != policy.Retry {
		t.Errorf("502: %v", d)
	}
}

func TestDecisionInWords(t *testing.T) {
	p := preset(t, "webhook")
	h := History{}.Started(t0)
	f := failure.Of(failure.Throttled)
	f.RetryAfter = 5 * time.Minute
	d := Decide(p, h, f, t0, middle)
	want := "retry after 5m (1 attempt spent, as long as the target asked): throttled by rule builtin/throttled of policy version " + p.Version
	if d.String() != want {
		t.Errorf("got  %s\nwant %s", d, want)
	}
	d = Decide(p, h, failure.Of(failure.Gone), t0, middle)
	if want := "disable_target (fatal): gone by rule classes[0] of policy version " + p.Version; d.String() != want {
		t.Errorf("got  %s\nwant %s", d, want)
	}
}
