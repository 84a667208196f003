package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
)

func TestPR247Diff(t *testing.T) {
	changes := Diff(MustPreset("webhook"), pr247(t))
	var out strings.Builder
	named := map[string]bool{}
	for _, c := range changes {
		out.WriteString(c.String() + "\n")
		named[c.Path] = true
		if !c.Risky || c.Why == "" || c.Effect == "" {
			t.Errorf("%s: want a risk, its reason and its effect, got %+v", c.Path, c)
		}
	}
	golden(t, "pr247.diff.golden", out.String())
	for _, path := range []string{"backoff.base", "backoff.jitter.kind", "attempts", "timeout", "concurrency", "batch"} {
		if !named[path] {
			t.Errorf("%s is not named", path)
		}
	}
	back := Diff(pr247(t), MustPreset("webhook"))
	for _, c := range back { // fewer attempts too, but over a longer time
		if c.Risky {
			t.Errorf("reverting %s is called risky: %s", c.Path, c.Why)
		}
	}
	if len(back) != len(changes) {
		t.Errorf("reverting changes %d fields, want %d", len(back), len(changes))
	}
}

func TestDiffOfEqualPolicies(t *testing.T) {
	for _, name := range PresetNames() {
		if got := Diff(MustPreset(name), MustPreset(name)); len(got) > 0 {
			t.Errorf("%s differs from itself: %v", name, got)
		}
	}
}

// TestEveryFieldIsJudged holds judges to the field table: a new field must
// say what its change does.
func TestEveryFieldIsJudged(t *testing.T) {
	for _, f := range Fields() {
		if judges[f.Path] == nil {
			t.Errorf("no judge for %s", f.Path)
		}
	}
	if len(judges) != len(Fields()) {
		t.Errorf("%d judges for %d fields", len(judges), len(Fields()))
	}
}

// TestDiffOfFields changes one field at a time, in both directions.
func TestDiffOfFields(t *testing.T) {
	const (
		up   = "→"  // only old to new is risky
		down = "←"  // only new to old is risky
		both = "↔"  // both directions are
		no   = "no" // neither is
	)
	tests := []struct {
		preset   string
		path     string
		old, new string
		want     string
	}{
		{"webhook", "target", "endpoint", "host", both},
		{"webhook", "attempts", "6", "7", both}, // more load; given up sooner
		{"webhook", "window", "20m", "25m", no}, // no try between
		{"webhook", "window", "14m", "16m", both},
		{"webhook", "max_hold", "1h", "30m", up},
		{"webhook", "on_hold_end", "park", "fail", up},
		{"webhook", "backoff.base", "60s", "45s", up},
		{"webhook", "backoff.factor", "2", "1.9", up},
		{"webhook", "backoff.cap", "0s", "15m", up},
		{"webhook", "backoff.cap", "0s", "16m", no},                      // never reached
		{"webhook", "backoff.jitter.kind", "proportional", "none", both}, // a narrower spread; a lower least delay
		{"webhook", "backoff.jitter.kind", "proportional", "full", both}, // a shorter mean; a narrower spread
		{"webhook", "backoff.jitter.ratio", "0.2", "0.1", both},          // a narrower spread; a lower least delay
		{"webhook", "backoff.jitter.ratio", "0.2", "0.6", both},
		{"webhook", "backoff.floor", "1s", "0s", no},
		{"webhook", "backoff.floor", "1s", "70s", both}, // eats the jitter; lets go of the delay
		{"webhook", "timeout", "30s", "29s", up},
		{"webhook", "timeout", "30s", "0s", both},
		{"webhook", "retry_after.honour", "true", "false", up},
		{"webhook", "retry_after.max", "15m", "1m", up},
		{"webhook", "retry_after.max", "15m", "0s", both},
		{"webhook", "concurrency", "20", "21", up},
		{"webhook", "spacing", "10ms", "0s", up},
		{"webhook", "batch", "100", "101", up},
		{"webhook", "per_target.concurrency", "4", "5", up},
		{"webhook", "per_target.concurrency", "4", "0", up},
		{"webhook", "per_target.rate", "0", "10", down},
		{"webhook", "first_share", "0.25", "0.2", up},
		{"webhook", "slow_share", "0.5", "0.6", up},
		{"webhook", "slow_share", "0.5", "0", up},
		{"webhook", "gate", "on", "off", up},
		{"webhook", "budget.kind", "window", "none", up},
		{"webhook", "budget.ratio", "0.2", "0.3", up},
		{"webhook", "budget.floor", "10", "20", up},
		{"webhook", "budget.ttl", "10s", "5s", up},
		{"webhook", "breaker.consecutive", "10", "11", up},
		{"webhook", "breaker.consecutive", "10", "0", up},
		{"webhook", "breaker.ratio", "0.5", "0.6", up},
		{"webhook", "breaker.ratio", "0.5", "0", up},
		{"webhook", "breaker.min_calls", "10", "20", up},
		{"webhook", "breaker.window", "60s", "30s", up},
		{"webhook", "breaker.open", "30s", "20s", up},
		{"webhook", "breaker.cap", "15m", "10m", up},
		{"webhook", "breaker.cap", "15m", "0s", down},
		{"webhook", "lease", "1m", "40s", up},
		{"webhook", "lease", "0s", "29s", up},
		{"annual-crawl", "lease", "0s", "24h", up},
		{"webhook", "slot", "release", "keep", up},
		{"annual-crawl", "slot", "keep", "release", both},
		{"webhook", "safety", "unsafe", "keyed", up},
		{"webhook", "safety", "keyed", "idempotent", up},
		{"webhook", "guard.min_delay", "30s", "0s", up},
		{"webhook", "expect.outage", "10m", "9m", up},
		{"webhook", "expect.outage", "10m", "0s", up},
		{"webhook", "expect.arrival", "50", "40", up},
		{"webhook", "expect.capacity", "200", "300", up},
		{"webhook", "expect.capacity", "200", "0", up},
		{"webhook", "expect.p99", "25s", "20s", up},
		{"webhook", "expect.dead_letters", "0.02", "0.03", up},
		{"webhook", "expect.dead_letters", "0.02", "0", up},
		{"scrape", "waves.count", "3", "4", both},
		{"scrape", "waves.cooldown", "90s", "60s", up},
		{"scrape", "waves.concurrency", "2", "3", up},
		{"scrape", "waves.spacing", "500ms", "400ms", up},
		{"scrape", "waves.classes", "transient", "timeout", both},
		{"scrape", "waves.classes", "transient", "transient empty", up},
		{"annual-crawl", "restarts.max", "20", "30", both},
		{"annual-crawl", "restarts.refill", "off", "on", up},
		{"annual-crawl", "restarts.no_progress", "20", "25", up},
		{"annual-crawl", "restarts.no_progress", "20", "0", up},
		{"annual-crawl", "thresholds.timeout", "50", "10", up},
		{"annual-crawl", "thresholds.http", "50", "0", up},
		{"webhook", "backoff.steps", "1m 2m 4m", "1m 1m 4m", up},
		{"webhook", "backoff.steps", "1m 2m 4m", "", down}, // 1m, 2m, 4m, 4m, 4m become 1m, 2m, 4m, 8m, 16m
	}
	covered := map[string]bool{}
	for _, tt := range tests {
		covered[tt.path] = true
		t.Run(fmt.Sprintf("%s %s to %s", tt.path, tt.old, tt.new), func(t *testing.T) {
			set := func(text string) Policy {
				return seal(t, tt.preset, func(p *Policy) {
					f, _ := FieldAt(tt.path)
					texts := []string{text}
					if f.Kind == KindClasses || f.Kind == KindDurations {
						texts = strings.Fields(text)
					}
					if err := f.Set(p, texts...); err != nil {
						t.Fatal(err)
					}
					if p.MaxHold == 0 {
						p.MaxHold = 45 * time.Minute // keep it out of the way
					}
				})
			}
			old, new := set(tt.old), set(tt.new)
			there, back := one(t, old, new), one(t, new, old)
			got := map[[2]bool]string{{true, false}: up, {false, true}: down, {true, true}: both, {false, false}: no}[[2]bool{there.Risky, back.Risky}]
			if got != tt.want {
				t.Errorf("risk is %s, want %s: %v; back: %v", got, tt.want, there, back)
			}
			for _, c := range []Change{there, back} {
				if c.Path != tt.path || c.Effect == "" || strings.Contains(c.Effect, "%!") || c.Risky != (c.Why != "") {
					t.Errorf("incomplete change %+v", c)
				}
			}
		})
	}
	for _, f := range Fields() {
		if !covered[f.Path] {
			t.Errorf("%s has no case", f.Path)
		}
	}
}

// one returns the only change.
func one(t *testing.T, old, new Policy) Change {
	t.Helper()
	changes := Diff(old, new)
	if len(changes) != 1 {
		t.Fatalf("want one change, got %v", changes)
	}
	return changes[0]
}

func TestDiffOfClasses(t *testing.T) {
	with := func(rules ...Rule) Policy {
		return seal(t, "default", func(p *Policy) { p.Classes = rules })
	}
	rule := func(a Action, classes ...failure.Class) Rule {
		return Rule{Match: Match{Classes: SetOf(classes...)}, Action: a}
	}
	status := func(a Action, codes ...int) Rule { return Rule{Match: Match{Status: codes}, Action: a} }
	crash := func(limit int) Rule {
		return Rule{Match: Match{Classes: SetOf(failure.Crash)}, Action: Retry, Counts: CountsFree, Max: limit}
	}
	slow, fast := crash(3), crash(3)
	slow.Backoff, fast.Backoff = &Backoff{Base: time.Minute}, &Backoff{Base: time.Second}
	narrow, wide := crash(3), crash(3)
	narrow.Backoff = &Backoff{Base: time.Minute, Jitter: Jitter{JitterProportional, 0.2}}
	wide.Backoff = &Backoff{Base: time.Minute, Jitter: Jitter{JitterProportional, 0.5}}
	tests := []struct {
		name     string
		old, new Policy
		want     string
	}{
		{
			"permanent now retried", with(), with(rule(Retry, failure.Rejected, failure.Gone)),
			"classes[0]: fail → retry, counts: attempt: gone, rejected failures are retried after 30s instead of being failed at once (risky: targets get calls again after failures that got none)",
		},
		{
			"no longer retried", with(rule(Retry, failure.Rejected)), with(),
			"classes: retry, counts: attempt → fail: rejected failures are failed at once instead of being retried after 30s",
		},
		{
			"target's failures given up", with(), with(rule(Fail, failure.Server)),
			"classes[0]: retry, counts: attempt → fail: server failures are failed at once instead of being retried after 30s (risky: work is given up at the first such failure)",
		},
		{
			"one status", with(), with(status(Retry, 404)),
			"classes[0]: fail → retry, counts: attempt: rejected failures with status 404 are retried after 30s instead of being failed at once (risky: targets get calls again after failures that got none)",
		},
		{
			"more free crashes", with(crash(3)), with(crash(5)),
			"classes[0]: retry, counts: free, max: 3 → retry, counts: free, max: 5: crash failures are retried after 30s without spending an attempt, up to 5 times instead of being retried after 30s without spending an attempt, up to 3 times (risky: more retries spend no attempt)",
		},
		{
			"fewer free crashes", with(crash(5)), with(crash(3)),
			"classes[0]: retry, counts: free, max: 5 → retry, counts: free, max: 3: crash failures are retried after 30s without spending an attempt, up to 3 times instead of being retried after 30s without spending an attempt, up to 5 times",
		},
		{
			"faster override", with(slow), with(fast),
			"classes[0]: retry, counts: free, max: 3, backoff: {base: 1m, factor: 1, jitter: {kind: none}} → retry, counts: free, max: 3, backoff: {base: 1s, factor: 1, jitter: {kind: none}}: crash failures are retried after 1s without spending an attempt, up to 3 times instead of being retried after 1m without spending an attempt, up to 3 times (risky: failing targets are called again sooner and get less time to recover)",
		},
		{
			"wider jitter of an override", with(narrow), with(wide),
			"classes[0]: retry, counts: free, max: 3, backoff: {base: 1m, factor: 1, jitter: {kind: proportional, ratio: 0.2}} → retry, counts: free, max: 3, backoff: {base: 1m, factor: 1, jitter: {kind: proportional, ratio: 0.5}}: crash failures are retried after 1m without spending an attempt, up to 3 times instead of being retried after 1m without spending an attempt, up to 3 times (risky: failing targets can be called again sooner: the least delay before try 2 falls from 48s to 30s)",
		},
		{
			"gone no longer disables", with(rule(DisableTarget, failure.Gone)), with(),
			"classes: disable_target → fail: gone failures are failed at once instead of being failed at once, with their target disabled (risky: a target that is gone is called on and on)",
		},
		{
			"written differently", with(rule(Fail, failure.Gone), rule(Fail, failure.Rejected)), with(rule(Fail, failure.Gone, failure.Rejected)),
			"classes: {match: {class: [gone]}, action: fail, counts: attempt} {match: {class: [rejected]}, action: fail, counts: attempt} → {match: {class: [gone, rejected]}, action: fail, counts: attempt}: the rules are written differently and decide every failure as before",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := one(t, tt.old, tt.new).String(); got != tt.want {
				t.Errorf("Diff =\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// A wider jitter is no risk by its mean or its spread, but by its lower end.
func TestDiffNamesALowerLeastDelay(t *testing.T) {
	with := func(base time.Duration, j Jitter, floor time.Duration) Policy {
		return seal(t, "webhook", func(p *Policy) { p.Backoff.Base, p.Backoff.Jitter, p.Backoff.Floor = base, j, floor })
	}
	narrow, wide, none := Jitter{JitterProportional, 0.2}, Jitter{JitterProportional, 0.6}, Jitter{Kind: JitterNone}
	const sooner = "failing targets can be called again sooner: the least delay before try 2 falls from "
	tests := []struct {
		name     string
		old, new Policy
		path     string
		why      string
	}{
		{"wider", with(time.Minute, narrow, time.Second), with(time.Minute, wide, time.Second), "backoff.jitter.ratio", sooner + "48s to 24s"},
		{"jitter where there was none", with(time.Minute, none, time.Second), with(time.Minute, narrow, time.Second), "backoff.jitter.kind", sooner + "1m to 48s"},
		{"another kind", with(time.Minute, Jitter{JitterAdditive, 0.2}, time.Second), with(time.Minute, wide, time.Second), "backoff.jitter.kind", "on average failing targets are called again sooner"},
		{"a lower floor", with(time.Minute, wide, 40*time.Second), with(time.Minute, wide, 20*time.Second), "backoff.floor", "on average failing targets are called again sooner"},
		{"wider, and a base that makes up for it", with(time.Minute, narrow, time.Second), with(2*time.Minute, wide, time.Second), "backoff.jitter.ratio", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range Diff(tt.old, tt.new) {
				if c.Path == tt.path {
					if c.Why != tt.why || c.Risky != (tt.why != "") {
						t.Errorf("risky %v: %q, want %q", c.Risky, c.Why, tt.why)
					}
					return
				}
			}
			t.Errorf("no change of %s in %v", tt.path, Diff(tt.old, tt.new))
		})
	}
}

func TestDiffOfBreakerAndSteps(t *testing.T) {
	off := seal(t, "webhook", func(p *Policy) { p.Breaker = Breaker{} })
	c := one(t, MustPreset("webhook"), off)
	if c.Path != "breaker" || !c.Risky || c.New != "off" {
		t.Errorf("breaker taken out: %v", c)
	}
	if back := one(t, off, MustPreset("webhook")); back.Risky {
		t.Errorf("breaker put in: %v", back)
	}
	steps := seal(t, "webhook", func(p *Policy) {
		p.Backoff.Steps = []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute}
	})
	if c := one(t, MustPreset("webhook"), steps); c.Risky || c.Old != "base 1m, factor 2" || c.New != "[1m, 2m, 4m, 8m, 16m]" {
		t.Errorf("the same delays as steps: %v", c)
	}
}

// Thousands of reasons beside hundreds of statuses took minutes: all pairs
// were compared.
func TestDiffOfManyReasonsEnds(t *testing.T) {
	var reasons []string
	var statuses []int
	for i := range 600 {
		reasons = append(reasons, fmt.Sprintf("reason-%d", i))
	}
	for code := 400; code < 600; code++ {
		statuses = append(statuses, code)
	}
	p := seal(t, "webhook", func(p *Policy) {
		p.Classes = []Rule{
			{Match: Match{Reason: reasons}, Action: Fail},
			{Match: Match{Status: statuses}, Action: Retry},
		}
	})
	for class, most := range map[failure.Class]int{failure.Server: 702, failure.DNS: 601} {
		if got := len(probes(class, &p)); got > most {
			t.Errorf("%s: %d probes, want %d at most", class, got, most)
		}
	}
	if changes := Diff(MustPreset("webhook"), p); len(changes) == 0 {
		t.Error("no change found")
	}
}

func TestDiffOfWaivers(t *testing.T) {
	with := func(waivers ...Waiver) Policy {
		return seal(t, "processing", func(p *Policy) { p.Waivers = waivers })
	}
	w := Waiver{Rule: "jitter", Reason: "agreed", Expires: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
	later, reworded := w, w
	later.Expires = w.Expires.AddDate(0, 1, 0)
	reworded.Reason = "agreed with ops"
	tests := []struct {
		name     string
		old, new Policy
		path     string
		risky    bool
	}{
		{"new", with(), with(w), "waivers[0]", true},
		{"gone", with(w), with(), "waivers", false},
		{"longer", with(w), with(later), "waivers[0]", true},
		{"shorter", with(later), with(w), "waivers[0]", false},
		{"reworded", with(w), with(reworded), "waivers[0]", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if c := one(t, tt.old, tt.new); c.Path != tt.path || c.Risky != tt.risky || c.Risky != (c.Why != "") {
				t.Errorf("got %+v, want path %s, risky %v", c, tt.path, tt.risky)
			}
		})
	}
}

func TestDiffSets(t *testing.T) {
	named := func(name string, edit func(*Policy)) Policy { return seal(t, name, edit) }
	same := func(*Policy) {}
	faster := func(p *Policy) { p.Concurrency = 30 }
	slower := func(p *Policy) { p.Concurrency = 10 }
	old := []Policy{named("mail", same), named("sms", same), named("gone", same), named("webhook", faster)}
	new := []Policy{named("sms", faster), named("mail", same), named("push", faster), named("processing", slower)}
	var got []string
	for _, d := range DiffSets(old, new) {
		got = append(got, fmt.Sprintf("%s %s %v %d", d.Name, d.Kind, d.Risky, len(d.Changes)))
	}
	want := []string{
		"sms changed true 1",
		"push added false 0",
		"processing changed false 1", // its jobs ran under the preset before
		"gone removed true 0",
		"webhook changed false 1", // its jobs run under the preset now
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("DiffSets =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestDiffFindings(t *testing.T) {
	waiver := Waiver{Rule: RuleRiskyDiff, Reason: "load test", Expires: today}
	with := func(concurrency int, waivers ...Waiver) []Policy {
		return []Policy{seal(t, "mail", func(p *Policy) { p.Concurrency, p.Waivers = concurrency, waivers })}
	}
	tests := []struct {
		name     string
		old, new []Policy
		on       time.Time
		want     string
	}{
		{"safe", with(20), with(10), today, ""},
		{"risky", with(20), with(30), today, "error risky-diff concurrency 30, was 20"},
		{"waived before", with(20, waiver), with(30, waiver), today, "error risky-diff concurrency 30, was 20 (waived)"},
		{"waived before, expired", with(20, waiver), with(30, waiver), today.AddDate(0, 0, 1), "error risky-diff concurrency 30, was 20"},
		{
			"excuses itself", with(20), with(30, waiver), today,
			"error risky-diff concurrency 30, was 20\nerror risky-diff waivers[0] {rule: risky-diff, reason: \"load test\", expires: 2026-04-09}, was none",
		},
		{"removed", with(20), nil, today, "error risky-diff policies removed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var all []Finding
			for _, d := range DiffSets(tt.old, tt.new) {
				all = append(all, d.Findings(tt.on)...)
			}
			if got := strings.TrimSpace(brief(all)); got != tt.want {
				t.Errorf("Findings =\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
