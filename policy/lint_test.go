package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
)

// brief writes findings one a line: severity, id, field, measured number.
func brief(findings []Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s %s %s %s", f.Severity, f.ID, f.Field, f.Measured)
		if f.Waived != nil {
			fmt.Fprintf(&b, " (waived)")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestPresetsLintClean(t *testing.T) {
	notes := map[string]string{"webhook": "note taxonomy classes[1].match rejected, redirect"}
	for _, name := range PresetNames() {
		t.Run(name, func(t *testing.T) {
			p := MustPreset(name)
			if len(p.Waivers) > 0 {
				t.Errorf("has waivers %v", p.Waivers)
			}
			if got := strings.TrimSpace(brief(Lint(p, today))); got != notes[name] {
				t.Errorf("Lint = %q, want %q", got, notes[name])
			}
			if err := Enforce(p, today); err != nil {
				t.Errorf("Enforce = %v, want nil", err)
			}
		})
	}
}

func TestPR247IsRefused(t *testing.T) {
	p := pr247(t)
	var b strings.Builder
	for _, f := range Lint(p, today) {
		b.WriteString(f.String() + "\n")
	}
	golden(t, "pr247.lint.golden", b.String())

	err := Enforce(p, today)
	var refused *EnforceError
	if !errors.As(err, &refused) {
		t.Fatalf("Enforce = %v, want an *EnforceError", err)
	}
	var ids []string
	for _, f := range refused.Findings {
		ids = append(ids, f.ID)
	}
	if want := []string{RuleFloor, RuleJitter, RuleGrowth, RuleWindow, RuleTimeout}; !slices.Equal(ids, want) {
		t.Errorf("refused for %v, want %v", ids, want)
	}
	for _, part := range []string{
		"policy: webhook: refused by lint: floor: backoff.base (5s):",
		"Retry delays under 30s risk overwhelming customer endpoints", "at least 30s", "docs/contract.md",
		"window: attempts (40s of retries)", "93.3%",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("Enforce says %q, without %q", err, part)
		}
	}
}

func TestLint(t *testing.T) {
	connection := func(b Backoff) []Rule {
		return []Rule{{Match: Match{Classes: SetOfGroups(failure.Connection)}, Action: Retry, Backoff: &b}}
	}
	retry := func(m Match) []Rule { return []Rule{{Match: m, Action: Retry}} }
	free := func(r Rule) []Rule { r.Action, r.Counts = Retry, CountsFree; return []Rule{r} }
	tests := []struct {
		name   string
		preset string
		edit   func(*Policy)
		want   string
	}{
		{"floor at the limit", "processing", func(p *Policy) { p.Target = Endpoint }, ""},
		{"floor just under", "processing", func(p *Policy) { p.Target, p.Backoff.Base = Endpoint, 29*time.Second }, "error floor backoff.base 29s"},
		{"floor of a provider", "processing", func(p *Policy) { p.Backoff.Base, p.Attempts = 9*time.Second, 5 }, "error floor backoff.base 9s"},
		{"floor of a host", "scrape", func(p *Policy) { p.Backoff.Base = 4 * time.Second }, "error floor backoff.base 4s"},
		{"floor of a process", "annual-crawl", func(p *Policy) { p.Backoff.Base = 999 * time.Millisecond }, "error floor backoff.base 999ms"},
		{"floor raised by the guard", "processing", func(p *Policy) { p.Guard.MinDelay = time.Minute }, "error floor backoff.base 30s"},
		{"floor not lowered by the guard", "webhook", func(p *Policy) {
			p.Guard.MinDelay, p.Backoff.Base, p.Classes = time.Second, 20*time.Second, nil
		}, "error floor backoff.base 20s"},
		{"floor in a later step", "processing", func(p *Policy) {
			p.Backoff.Steps = []time.Duration{time.Minute, 2 * time.Second, 10 * time.Minute}
		}, "error floor backoff.steps[1] 2s"},
		{"floor of unused steps", "processing", func(p *Policy) {
			p.Backoff.Steps = []time.Duration{time.Minute, 5 * time.Minute, 10 * time.Minute, 2 * time.Second}
		}, ""},
		{"floor of a class override", "processing", func(p *Policy) { p.Classes = connection(Backoff{Base: time.Second}) }, "error floor classes[0].backoff.base 1s"},
		{"floor does not bind our own faults", "processing", func(p *Policy) {
			p.Classes = []Rule{{Match: Match{Classes: SetOf(failure.Crash)}, Action: Retry, Backoff: &Backoff{Base: time.Second}}}
		}, ""},
		{"floor of a cooldown", "scrape", func(p *Policy) { p.Waves.Cooldown, p.Expect.Outage = 2*time.Second, time.Minute }, "error floor waves.cooldown 2s"},
		{"floor without retries", "processing", func(p *Policy) { p.Backoff.Base, p.Attempts = time.Second, 1 }, "error window attempts 0s of retries"},

		{"floor of the least delay", "webhook", func(p *Policy) { p.Backoff.Jitter.Ratio, p.Classes = 0.6, nil }, ""},
		{"floor of the least delay just under", "webhook", func(p *Policy) {
			p.Backoff.Jitter.Ratio, p.Classes = 0.61, nil
		}, "error floor backoff.jitter.ratio a least delay of 23.4s"},
		{"floor under the widest jitter", "webhook", func(p *Policy) {
			p.Backoff.Jitter.Ratio, p.Classes = 1, nil
		}, "error floor backoff.jitter.ratio a least delay of 1s"},
		{"floor under full jitter", "webhook", func(p *Policy) {
			p.Backoff.Base, p.Backoff.Jitter.Kind, p.Attempts, p.Classes = 30*time.Second, JitterFull, 8, nil
		}, "error floor backoff.jitter.kind a least delay of 1s"},
		{"floor under equal jitter", "webhook", func(p *Policy) {
			p.Backoff.Base, p.Backoff.Jitter.Kind, p.Attempts, p.Classes = 47*time.Second, JitterEqual, 7, nil
		}, "error floor backoff.jitter.kind a least delay of 23.5s"},
		{"floor held by backoff.floor", "webhook", func(p *Policy) {
			p.Backoff.Jitter.Kind, p.Backoff.Floor, p.Attempts, p.Classes = JitterFull, 24*time.Second, 7, nil
		}, ""},
		{"floor nearly held by backoff.floor", "webhook", func(p *Policy) {
			p.Backoff.Jitter.Kind, p.Backoff.Floor, p.Attempts, p.Classes = JitterFull, 23*time.Second, 7, nil
		}, "error floor backoff.floor a least delay of 23s"},
		{"floor under additive jitter", "webhook", func(p *Policy) {
			p.Backoff.Base, p.Backoff.Jitter, p.Attempts, p.Classes = 30*time.Second, Jitter{JitterAdditive, 1}, 7, nil
		}, ""},
		{"floor under decorrelated jitter", "webhook", func(p *Policy) {
			p.Backoff.Base, p.Backoff.Jitter.Kind, p.Attempts, p.Classes = 30*time.Second, JitterDecorrelated, 9, nil
		}, ""},
		{"floor of base and jitter", "webhook", func(p *Policy) {
			p.Backoff.Base, p.Backoff.Jitter.Kind, p.Attempts, p.Classes = 20*time.Second, JitterFull, 8, nil
		}, "error floor backoff.base 20s\nerror floor backoff.jitter.kind a least delay of 1s"},
		{"floor of the base, whose jitter would do", "webhook", func(p *Policy) {
			p.Backoff.Base, p.Attempts, p.Classes = 29*time.Second, 8, nil
		}, "error floor backoff.base 29s"},
		{"floor of the least delay raised by the guard", "webhook", func(p *Policy) {
			p.Guard.MinDelay, p.Backoff.Jitter.Ratio, p.Classes = time.Minute, 0.21, nil
		}, "error floor backoff.jitter.ratio a least delay of 47.4s"},
		{"floor of a process's least delay", "annual-crawl", func(p *Policy) {
			p.Backoff.Jitter.Kind = JitterFull
		}, "error floor backoff.jitter.kind a least delay of 0s"},
		{"floor of the jitter of a class override", "processing", func(p *Policy) {
			p.Classes = connection(Backoff{Base: 10 * time.Second, Jitter: Jitter{JitterProportional, 0.3}})
		}, "error floor classes[0].backoff.jitter.ratio a least delay of 7s"},
		{"floor of a class override's own floor", "processing", func(p *Policy) {
			p.Classes = connection(Backoff{Base: 10 * time.Second, Floor: 5 * time.Second, Jitter: Jitter{Kind: JitterFull}})
		}, "error floor classes[0].backoff.floor a least delay of 5s"},
		{"floor of a free class", "processing", func(p *Policy) {
			p.Classes = free(Rule{Match: Match{Classes: SetOf(failure.Throttled)}, Max: 3, Backoff: &Backoff{Base: time.Second}})
		}, "error floor classes[0].backoff.base 1s"},
		{"floor of a free class by the policy's own schedule", "processing", func(p *Policy) {
			p.Backoff.Base, p.Attempts = time.Second, 1
			p.Classes = free(Rule{Match: Match{Classes: SetOf(failure.Throttled)}, Max: 3})
		}, "error floor backoff.base 1s\nerror window attempts 0s of retries"},
		{"floor of a step that only free starts reach", "processing", func(p *Policy) {
			p.Backoff.Steps = []time.Duration{time.Minute, 5 * time.Minute, 10 * time.Minute, 2 * time.Second}
			p.Classes = free(Rule{Match: Match{Classes: SetOf(failure.Throttled)}, Max: 3})
		}, "error floor backoff.steps[3] 2s"},
		{"floor of a step after the free starts are spent", "processing", func(p *Policy) {
			p.Classes = free(Rule{Match: Match{Classes: SetOf(failure.Throttled)}, Max: 1, Backoff: &Backoff{Steps: []time.Duration{time.Minute, time.Minute, 2 * time.Second, time.Second}}})
		}, "error floor classes[0].backoff.steps[2] 2s"},
		{"floor of a step of the free starts", "processing", func(p *Policy) {
			p.Classes = free(Rule{Match: Match{Classes: SetOf(failure.Throttled)}, Max: 4, Backoff: &Backoff{Steps: []time.Duration{time.Minute, time.Minute, time.Minute, 2 * time.Second, time.Second}}})
		}, "error floor classes[0].backoff.steps[3] 2s"},
		{"floor of a rule that names the target's faults beside ours", "processing", func(p *Policy) {
			p.Classes = []Rule{{Match: Match{Classes: SetOf(failure.Crash, failure.Server)}, Action: Retry, Backoff: &Backoff{Base: time.Second}}}
		}, "error floor classes[0].backoff.base 1s"},
		{"floor of a rule behind another", "processing", func(p *Policy) {
			p.Classes = append(connection(Backoff{Base: 10 * time.Second}), connection(Backoff{Base: time.Second})...)
		}, ""},
		{"floor of a cooldown for our own faults", "scrape", func(p *Policy) {
			p.Waves.Cooldown, p.Waves.Classes, p.Expect.Outage = 2*time.Second, SetOf(failure.Crash), time.Minute
		}, ""},

		{"jitter none", "processing", func(p *Policy) { p.Backoff.Jitter.Kind = JitterNone }, "error jitter backoff.jitter.kind none"},
		{"jitter at the limit", "processing", func(p *Policy) { p.Backoff.Jitter.Ratio = 0.1 }, ""},
		{"jitter just under", "processing", func(p *Policy) { p.Backoff.Jitter.Ratio = 0.09 }, "error jitter backoff.jitter.ratio a spread of 18% of the delay"},
		{"jitter additive under", "processing", func(p *Policy) {
			p.Backoff.Jitter = Jitter{JitterAdditive, 0.15}
		}, "error jitter backoff.jitter.ratio a spread of 15% of the delay"},
		{"jitter eaten by the floor", "processing", func(p *Policy) {
			p.Backoff.Floor = 36 * time.Second
		}, "error jitter backoff.jitter.ratio a spread of 0% of the delay"},
		{"jitter decorrelated without room", "processing", func(p *Policy) {
			p.Backoff.Jitter.Kind, p.Backoff.Cap, p.Backoff.Base, p.Attempts = JitterDecorrelated, time.Minute, time.Minute, 12
		}, "error jitter backoff.jitter.kind a spread of 0% of the delay\nerror growth backoff.factor 11 delays from 1m to 1m"},
		{"jitter decorrelated", "processing", func(p *Policy) {
			p.Backoff.Jitter.Kind, p.Backoff.Factor, p.Attempts = JitterDecorrelated, 1, 6
		}, ""},

		{"growth none", "processing", func(p *Policy) { p.Backoff.Factor, p.Attempts = 1, 21 }, "error growth backoff.factor 20 delays from 30s to 30s"},
		{"growth none with two tries", "processing", func(p *Policy) {
			p.Backoff.Factor, p.Attempts, p.Expect.Outage = 1, 2, 30*time.Second
		}, ""},
		{"growth of flat steps", "processing", func(p *Policy) {
			p.Backoff.Steps = []time.Duration{5 * time.Minute}
		}, "error growth backoff.steps 3 delays from 5m to 5m"},
		{"growth backwards", "processing", func(p *Policy) {
			p.Backoff.Steps = []time.Duration{5 * time.Minute, 10 * time.Minute, time.Minute}
		}, "error growth backoff.steps 3 delays from 5m to 1m"},
		{"growth capped at once", "processing", func(p *Policy) { p.Backoff.Cap, p.Attempts = 30*time.Second, 21 }, "error growth backoff.factor 20 delays from 30s to 30s"},
		{"growth capped early", "processing", func(p *Policy) {
			p.Backoff.Cap, p.Attempts = 2*time.Minute, 7
		}, "warning growth backoff.factor 5 of 6 delays are 2m, 4 times the first"},
		{"growth capped late", "processing", func(p *Policy) { p.Backoff.Cap, p.Attempts = 4*time.Minute, 7 }, ""},

		{"window too short", "processing", func(p *Policy) { p.Attempts = 3 }, "error window attempts 2m30s of retries"},
		{"window that cuts", "processing", func(p *Policy) { p.Window = 9 * time.Minute }, "error window window 2m30s of retries"},
		{"window of uncapped attempts", "processing", func(p *Policy) {
			p.Attempts, p.Window, p.Backoff.Cap = 0, 24*time.Hour, 10*time.Minute
		}, ""},
		{"window short by jitter alone", "processing", func(p *Policy) { p.Expect.DeadLetters = 0.01 }, "warning window attempts 2% dead letters"},
		{"window of a process is asked for", "annual-crawl", func(p *Policy) { p.Expect.Outage = time.Hour }, "error window attempts 40m of retries"},

		{"unbounded attempts", "annual-crawl", func(p *Policy) {
			p.Restarts.Max, p.Backoff.Base = 1000, time.Minute
		}, "error unbounded attempts 1001 tries"},
		{"unbounded tries in a window", "annual-crawl", func(p *Policy) {
			p.Name, p.Restarts.Max, p.Attempts, p.Window = "crawl", 0, 0, 34*time.Hour
		}, "error unbounded attempts no cap, and more than 1000 tries fit into the window"},
		{"unbounded tries just fit", "annual-crawl", func(p *Policy) {
			p.Name, p.Restarts.Max, p.Attempts, p.Window = "crawl", 0, 0, 33*time.Hour
		}, ""},
		{"overlong", "webhook", func(p *Policy) { p.Attempts, p.Classes = 14, nil }, "error unbounded attempts retries over 136h31m"},
		{"overlong window", "processing", func(p *Policy) {
			p.Attempts, p.Window, p.Backoff.Cap = 0, 73*time.Hour, time.Hour
		}, "error unbounded window retries over 73h"},
		{"unbounded Retry-After", "processing", func(p *Policy) { p.RetryAfter.Max = 0 }, "error unbounded retry_after.max no limit"},
		{"Retry-After within a window", "processing", func(p *Policy) { p.RetryAfter.Max, p.Window = 0, time.Hour }, ""},

		{"timeout none", "processing", func(p *Policy) { p.Timeout = 0 }, "error timeout timeout none"},
		{"timeout at p99", "webhook", func(p *Policy) { p.Timeout, p.Classes = 25*time.Second, nil }, ""},
		{"timeout under p99", "webhook", func(p *Policy) { p.Timeout, p.Classes = 24*time.Second, nil }, "error timeout timeout 24s"},
		{"lease at timeout", "processing", func(p *Policy) { p.Lease = 2 * time.Minute }, ""},
		{"lease under timeout", "processing", func(p *Policy) { p.Lease = time.Minute }, "error lease lease 1m"},
		{"lease under p99 without timeout", "annual-crawl", func(p *Policy) { p.Lease, p.Expect.P99 = time.Hour, 2*time.Hour }, "error lease lease 1h"},

		{"metastable by attempts", "webhook", func(p *Policy) {
			p.Classes, p.Budget.Kind = nil, BudgetNone
		}, "error metastable budget 300 calls/s\nerror budget budget.kind none"},
		{"metastable by the floor", "webhook", func(p *Policy) { p.Classes, p.Expect.Arrival, p.Expect.Capacity = nil, 1, 2 }, "error metastable budget 2.2 calls/s\nerror budget budget.ratio 1.2 retries per first attempt\nerror catch-up batch 4.333 calls/s"},
		{"stable at capacity", "webhook", func(p *Policy) { p.Classes, p.Expect.Capacity = nil, 61 }, ""},
		{"arrival over capacity", "processing", func(p *Policy) {
			p.Expect.Arrival, p.Expect.Capacity = 100, 90
		}, "error metastable expect.arrival 130 calls/s\nerror catch-up batch 103.3 calls/s"},

		{"budget none", "processing", func(p *Policy) { p.Budget.Kind = BudgetNone }, "error budget budget.kind none"},
		{"budget behind a closed gate", "processing", func(p *Policy) { p.Gate = false }, "error budget gate off"},
		{"budget at loose", "processing", func(p *Policy) { p.Budget.Ratio = 0.5 }, ""},
		{"budget loose", "processing", func(p *Policy) { p.Budget.Ratio = 0.6 }, "warning budget budget.ratio 0.6 retries per first attempt"},
		{"budget open", "processing", func(p *Policy) { p.Budget.Ratio = 1.1 }, "error budget budget.ratio 1.1 retries per first attempt"},
		{"budget tokens", "processing", func(p *Policy) { p.Budget = Budget{Kind: BudgetTokens, Ratio: 0.1, Floor: 100} }, ""},
		{"budget share", "processing", func(p *Policy) { p.Budget = Budget{Kind: BudgetShare, Ratio: 0.4} }, "warning budget budget.ratio 0.667 retries per first attempt"},
		{"budget throttle", "processing", func(p *Policy) { p.Budget = Budget{Kind: BudgetThrottle, Ratio: 2, TTL: time.Minute} }, "warning budget budget.ratio 1 retries per first attempt"},

		{"taxonomy catch-all", "processing", func(p *Policy) { p.Classes = retry(Match{}) }, "error taxonomy classes[0].match matches everything"},
		{"taxonomy explicit and counted", "processing", func(p *Policy) { p.Classes = retry(Match{Status: []int{404, 503}}) }, "note taxonomy classes[0].match status 404"},
		{"taxonomy config counted", "processing", func(p *Policy) { p.Classes = retry(Match{Classes: SetOf(failure.Config)}) }, "error taxonomy classes[0].match config"},
		{"taxonomy config free", "processing", func(p *Policy) {
			p.Classes = free(Rule{Match: Match{Classes: SetOf(failure.Config, failure.Crash)}, Max: 3})
		}, "error taxonomy classes[0].match config"},
		{"taxonomy free without a cap", "processing", func(p *Policy) {
			p.Classes = free(Rule{Match: Match{Classes: SetOf(failure.Crash)}})
		}, "error taxonomy classes[0].counts free without a cap"},
		{"taxonomy free with a window", "processing", func(p *Policy) {
			p.Classes = free(Rule{Match: Match{Classes: SetOf(failure.Crash)}, Window: time.Hour})
		}, ""},
		{"taxonomy free by reason", "processing", func(p *Policy) {
			p.Classes = free(Rule{Match: Match{Reason: []string{"moved"}}, Max: 2})
		}, "warning taxonomy classes[0].match matches by reason alone"},
		{"taxonomy permanent in waves", "scrape", func(p *Policy) {
			p.Waves.Classes |= SetOf(failure.Gone, failure.Config)
		}, "error taxonomy waves.classes config, gone"},
		{"taxonomy 429 without Retry-After", "processing", func(p *Policy) { p.RetryAfter.Honour = false }, "error taxonomy retry_after.honour false"},
		{"taxonomy 429 not retried", "processing", func(p *Policy) {
			p.RetryAfter.Honour = false
			p.Classes = []Rule{{Match: Match{Classes: SetOf(failure.Throttled)}, Action: Park}}
		}, ""},
		{"taxonomy 429 retried by status", "processing", func(p *Policy) {
			p.RetryAfter.Honour = false
			p.Classes = append(retry(Match{Status: []int{429}}), Rule{Match: Match{Classes: SetOf(failure.Throttled)}, Action: Park})
		}, "error taxonomy retry_after.honour false"},

		{"unsafe", "processing", func(p *Policy) { p.Safety = Unsafe }, "error unsafe safety reset, header_timeout, body_timeout, timeout, short_body, server, soft_error, error, interrupted, crash"},
		{"unsafe with a rule", "default", func(p *Policy) {
			p.Safety, p.Classes = Unsafe, []Rule{{Match: Match{Classes: ambiguous &^ SetOf(failure.Crash)}, Action: Park}}
		}, "error unsafe safety crash"},
		{"unsafe with every rule", "default", func(p *Policy) {
			p.Safety, p.Classes = Unsafe, []Rule{{Match: Match{Classes: ambiguous}, Action: Park}}
		}, ""},
		{"unsafe by status", "default", func(p *Policy) {
			p.Safety, p.Classes = Unsafe, append(retry(Match{Status: []int{503}}), Rule{Match: Match{Classes: ambiguous}, Action: Park})
		}, "error unsafe safety server"},
		{"keyed", "processing", func(p *Policy) { p.Safety = Keyed }, ""},

		{"catch-up over capacity", "webhook", func(p *Policy) { p.Classes, p.Batch = nil, 4501 }, "error catch-up batch 200 calls/s"},
		{"catch-up at capacity", "webhook", func(p *Policy) { p.Classes, p.Batch = nil, 4500 }, ""},
		{"catch-up without capacity", "processing", func(p *Policy) { p.Batch = 201 }, "warning catch-up batch 201 for 20 slots"},

		{"process needs neither jitter nor budget", "annual-crawl", func(p *Policy) { p.Backoff.Factor = 1 }, ""},
		{"a class override may be flat", "processing", func(p *Policy) { p.Classes = connection(Backoff{Base: 10 * time.Second}) }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := seal(t, tt.preset, tt.edit)
			if got := strings.TrimSpace(brief(Lint(p, today))); got != tt.want {
				t.Errorf("Lint =\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestWaivers(t *testing.T) {
	flat := func(waivers ...Waiver) Policy {
		return seal(t, "processing", func(p *Policy) {
			p.Backoff.Jitter.Kind = JitterNone
			p.Waivers = waivers
		})
	}
	until := func(rule string, d time.Time) Waiver { return Waiver{Rule: rule, Reason: "agreed", Expires: d} }
	date := today.Truncate(24 * time.Hour)
	tests := []struct {
		name    string
		p       Policy
		want    string
		refused bool
	}{
		{"unexpired", flat(until("jitter", date.AddDate(0, 0, 1))), "error jitter backoff.jitter.kind none (waived)", false},
		{"holds through its day", flat(until("jitter", date)), "error jitter backoff.jitter.kind none (waived)", false},
		{"expired", flat(until("jitter", date.AddDate(0, 0, -1))), "error jitter backoff.jitter.kind none\nerror waiver waivers[0].expires 2026-04-08", true},
		{"silences nothing", flat(until("jitter", date), until("growth", date)), "error jitter backoff.jitter.kind none (waived)\nnote waiver waivers[1].rule growth", false},
		{"of another rule", flat(until("growth", date)), "error jitter backoff.jitter.kind none\nnote waiver waivers[0].rule growth", true},
		{"of a risky diff is for the diff", flat(until("jitter", date), until("risky-diff", date)), "error jitter backoff.jitter.kind none (waived)", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.TrimSpace(brief(Lint(tt.p, today))); got != tt.want {
				t.Errorf("Lint =\n%s\nwant\n%s", got, tt.want)
			}
			if err := Enforce(tt.p, today); (err != nil) != tt.refused {
				t.Errorf("Enforce = %v, refused should be %v", err, tt.refused)
			}
		})
	}
	p := Base("processing")
	p.Waivers = []Waiver{until("waiver", date)}
	if _, err := Seal(p); err == nil {
		t.Error("Seal accepts a waiver of the rule waiver")
	}
}

// TestLintIsDeterministic also holds every finding to the documented order.
func TestLintIsDeterministic(t *testing.T) {
	p := seal(t, "webhook", func(p *Policy) {
		p.Backoff = Backoff{Base: time.Second, Jitter: Jitter{Kind: JitterNone}}
		p.Timeout, p.Lease, p.Safety, p.Batch = 10*time.Second, time.Second, Unsafe, 100_000
		p.RetryAfter, p.Budget.Kind = RetryAfter{Honour: true}, BudgetNone
		p.OnHoldEnd = HoldFail
		p.Waivers = []Waiver{{Rule: "lease", Reason: "old", Expires: today.AddDate(-1, 0, 0)}}
	})
	first := Lint(p, today)
	var ids []string
	for _, f := range first {
		ids = append(ids, f.ID)
	}
	want := slices.DeleteFunc(RuleIDs(), func(id string) bool { return id == RuleRiskyDiff })
	if !slices.Equal(ids, want) {
		t.Errorf("ids = %v, want one of each: %v", ids, want)
	}
	for range 20 {
		if again := Lint(p, today); brief(again) != brief(first) {
			t.Fatalf("differs:\n%s\n%s", brief(first), brief(again))
		}
	}
	for _, f := range first {
		if f.Why == "" || f.Fix == "" || f.Measured == "" || f.Field == "" || f.Policy != "webhook" {
			t.Errorf("incomplete finding %+v", f)
		}
	}
}
