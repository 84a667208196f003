package file_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

// drawer draws valid policies.
type drawer struct{ *rapid.T }

func (d drawer) duration(label string, least, most time.Duration) time.Duration {
	n := time.Duration(rapid.Int64Range(int64(least), int64(most)).Draw(d.T, label))
	unit := rapid.SampledFrom([]time.Duration{1, time.Millisecond, time.Second, time.Minute}).Draw(d.T, label+" unit")
	return max(n/unit*unit, least)
}

func (d drawer) whole(label string, least, most int) int {
	return rapid.IntRange(least, most).Draw(d.T, label)
}

func (d drawer) number(label string, least, most float64) float64 {
	return rapid.Float64Range(least, most).Draw(d.T, label)
}

func (d drawer) coin(label string) bool { return rapid.Bool().Draw(d.T, label) }

func pick[T any](d drawer, label string, values ...T) T {
	return rapid.SampledFrom(values).Draw(d.T, label)
}

func (d drawer) classes(label string) policy.ClassSet {
	some := rapid.SliceOfN(rapid.SampledFrom(failure.Classes()), 1, 8).Draw(d.T, label)
	set := policy.SetOf(some...)
	if d.coin(label + " groups") {
		set |= policy.SetOfGroups(pick(d, label+" group", failure.Groups()...))
	}
	return set
}

func (d drawer) backoff() policy.Backoff {
	b := policy.Backoff{
		Base:   d.duration("base", time.Nanosecond, time.Hour),
		Factor: d.number("factor", 1, 10),
		Floor:  d.duration("floor", 0, time.Minute),
	}
	if d.coin("cap") {
		b.Cap = b.Base + d.duration("cap", 0, time.Hour)
	}
	b.Jitter.Kind = pick(d, "jitter", policy.JitterNone, policy.JitterProportional, policy.JitterAdditive, policy.JitterEqual, policy.JitterFull, policy.JitterDecorrelated)
	b.Jitter.Ratio = d.number("ratio", 0.001, 1)
	if b.Jitter.Kind != policy.JitterDecorrelated && d.coin("steps") {
		for range d.whole("number of steps", 1, 5) {
			b.Steps = append(b.Steps, d.duration("step", 1, time.Hour))
		}
	}
	return b
}

func (d drawer) rule() policy.Rule {
	r := policy.Rule{
		Action: pick(d, "action", policy.Retry, policy.Fail, policy.Park, policy.PauseTarget, policy.DisableTarget),
		Counts: pick(d, "counts", policy.CountsAttempt, policy.CountsFree),
		Window: d.duration("rule window", 0, time.Hour),
	}
	if d.coin("match class") {
		r.Match.Classes = d.classes("class")
	}
	if d.coin("match status") {
		r.Match.Status = rapid.SliceOfN(rapid.IntRange(100, 599), 1, 4).Draw(d.T, "status")
	}
	if d.coin("match reason") {
		r.Match.Reason = rapid.SliceOfN(rapid.String(), 1, 3).Draw(d.T, "reason")
	}
	if r.Counts == policy.CountsFree {
		r.Max = d.whole("max", 0, policy.MaxFree)
	}
	if r.Action.Retries() && d.coin("rule backoff") {
		b := d.backoff()
		r.Backoff = &b
	}
	return r
}

func (d drawer) budget() policy.Budget {
	b := policy.Budget{
		Kind:  pick(d, "budget", policy.BudgetNone, policy.BudgetWindow, policy.BudgetTokens, policy.BudgetShare, policy.BudgetThrottle),
		Ratio: d.number("budget ratio", 0.001, 0.999), Floor: d.number("budget floor", 1, 1e9), TTL: d.duration("ttl", 1, time.Hour),
	}
	if b.Kind == policy.BudgetThrottle {
		b.Ratio++
	}
	return b
}

func (d drawer) breaker() policy.Breaker {
	b := policy.Breaker{
		Consecutive: d.whole("consecutive", 0, 20), Ratio: pick(d, "breaker ratio", 0, 0.5, 1), MinCalls: d.whole("min calls", 0, 20),
		Window: d.duration("breaker window", 1, time.Hour), Open: d.duration("open", 1, time.Hour),
	}
	if d.coin("breaker cap") {
		b.Cap = b.Open + d.duration("breaker cap", 0, time.Hour)
	}
	return b
}

func (d drawer) waves() policy.Waves {
	return policy.Waves{
		Count: d.whole("waves", 0, 5), Cooldown: d.duration("cooldown", 0, time.Hour), Concurrency: d.whole("wave concurrency", 1, 9),
		Spacing: d.duration("wave spacing", 0, time.Minute), Classes: d.classes("wave classes"),
	}
}

func (d drawer) name() string {
	if d.coin("preset name") {
		return pick(d, "preset", policy.PresetNames()...)
	}
	return pick(d, "odd name", rapid.StringMatching(`[a-z0-9][a-z0-9-]{0,63}`).Draw(d.T, "name"), "null", "true", "on", "0x1f", "1e5", "2027-01-31")
}

// policy draws a sealed policy: each part is the base's or random.
func (d drawer) policy() policy.Policy {
	p := policy.Base(d.name())
	parts := map[string]func(){
		"target": func() {
			p.Target = pick(d, "target", policy.Endpoint, policy.Host, policy.Provider, policy.Process)
		},
		"attempts": func() {
			p.Attempts, p.Restarts.Max = d.whole("attempts", 0, 300), 0
			p.Window = d.duration("window", time.Second, 100*time.Hour)
		},
		"hold": func() {
			p.MaxHold, p.OnHoldEnd = d.duration("hold", 0, time.Hour), pick(d, "hold end", policy.HoldFail, policy.HoldPark)
		},
		"backoff": func() { p.Backoff = d.backoff() },
		"flow": func() {
			p.Timeout, p.Spacing, p.Lease = d.duration("timeout", 0, time.Hour), d.duration("spacing", 0, time.Hour), d.duration("lease", 0, time.Hour)
			p.Concurrency, p.Batch, p.FirstShare = d.whole("concurrency", 1, 1e6), d.whole("batch", 1, 1e6), d.number("share", 0, 0.999)
			p.PerTarget = policy.PerTarget{Concurrency: d.whole("per target", 0, 100), Rate: d.number("rate", 0, 1e12)}
		},
		"words": func() {
			p.Gate, p.Slot = d.coin("gate"), pick(d, "slot", policy.SlotRelease, policy.SlotKeep)
			p.Safety = pick(d, "safety", policy.Idempotent, policy.Keyed, policy.Unsafe)
			p.RetryAfter = policy.RetryAfter{Honour: d.coin("honour"), Max: d.duration("retry after", 0, time.Hour)}
		},
		"budget":  func() { p.Budget = d.budget() },
		"breaker": func() { p.Breaker = d.breaker() },
		"waves":   func() { p.Waves = d.waves() },
		"expect": func() {
			p.Guard.MinDelay = d.duration("guard", 0, time.Hour)
			p.Expect = policy.Expect{
				Outage: d.duration("outage", 0, time.Hour), Arrival: d.number("arrival", 0, 1e9), Capacity: d.number("capacity", 0, 1e9),
				P99: d.duration("p99", 0, time.Minute), DeadLetters: d.number("dead letters", 0, 1),
			}
		},
		"restarts": func() {
			p.Restarts = policy.Restarts{Max: d.whole("restarts", 1, 100), Refill: d.coin("refill"), NoProgress: d.whole("no progress", 0, 100)}
			p.Thresholds = policy.Thresholds{Timeout: d.whole("timeouts", 0, 100), HTTP: d.whole("http", 0, 100)}
		},
		"classes": func() {
			p.Classes = nil
			for range d.whole("number of rules", 0, 3) {
				p.Classes = append(p.Classes, d.rule())
			}
		},
		"waivers": func() {
			p.Waivers = []policy.Waiver{{
				Rule: pick(d, "waived", "floor", "jitter", "risky-diff"), Reason: "x" + rapid.String().Draw(d.T, "why"),
				Expires: time.Date(d.whole("year", 1, 9999), 1, d.whole("day", 2, 365), 0, 0, 0, 0, time.UTC),
			}}
		},
	}
	for _, part := range []string{"target", "attempts", "hold", "backoff", "flow", "words", "budget", "breaker", "waves", "expect", "restarts", "classes", "waivers"} {
		if d.coin(part) {
			parts[part]()
		}
	}
	sealed, err := policy.Seal(p)
	if err != nil {
		d.Fatalf("drew a policy that cannot be: %v", err)
	}
	return sealed
}

func TestPrintReadsBackEqual(t *testing.T) {
	schema := compileSchema(t)
	rapid.Check(t, func(rt *rapid.T) {
		p := drawer{rt}.policy()
		text := file.Print(p)
		f, err := file.Parse("print", []byte(text))
		if err != nil {
			rt.Fatalf("the print does not parse: %v\n%s", err, text)
		}
		got := f.Entries[0].Policy
		if diff := cmp.Diff(p, got); diff != "" {
			rt.Fatalf("read back differently:\n%s\n%s", diff, text)
		}
		if again := file.Print(got); again != text {
			rt.Fatalf("printed differently:\n%s", cmp.Diff(text, again))
		}
		if err := validate(schema, text); err != nil {
			rt.Fatalf("the schema refuses the print: %v\n%s", err, text)
		}
	})
}

// checkRoundTrip is what holds for every input that parses.
func checkRoundTrip(t interface{ Fatalf(string, ...any) }, src string) {
	f, err := file.Parse("fuzz.yaml", []byte(src))
	if err != nil {
		var errs file.Errors
		if !errors.As(err, &errs) || len(errs) == 0 {
			t.Fatalf("the error is %T %v, want file.Errors", err, err)
		}
		for _, e := range errs {
			if e.Line < 1 || e.Column < 1 || e.Msg == "" {
				t.Fatalf("an error without a place or text: %+v", e)
			}
		}
		return
	}
	text := file.Print(f.Policies()...)
	again, err := file.Parse("print", []byte(text))
	if err != nil {
		t.Fatalf("the print does not parse: %v\n%s", err, text)
	}
	if diff := cmp.Diff(f.Policies(), again.Policies()); diff != "" {
		t.Fatalf("read back differently:\n%s\n%s", diff, text)
	}
	if second := file.Print(again.Policies()...); second != text {
		t.Fatalf("printed differently:\n%s", cmp.Diff(text, second))
	}
	for i := range f.Entries {
		for _, field := range policy.Fields() {
			if o := f.Entries[i].Origin(field.Path); o.Source == 0 || (o.Source == file.Derived && o.Note == "") {
				t.Fatalf("%s has no origin: %+v\n%s", field.Path, o, src)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatalf("no seeds in %s: %v", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			input, _, _ := strings.Cut(string(text), separator)
			f.Add(input)
		}
	}
	for _, name := range policy.PresetNames() {
		f.Add(fmt.Sprintf("version: 1\npolicies:\n  x:\n%s", strings.ReplaceAll("    "+policy.Canonical(policy.MustPreset(name)), "\n", "\n    ")))
	}
	f.Fuzz(func(t *testing.T, src string) { checkRoundTrip(t, src) })
}

// texts are values that a field of the kind may be given, good and bad.
func texts(f policy.Field) []string {
	switch f.Kind {
	case policy.KindDuration:
		return []string{"0s", "0", "1ns", "30s", "1h", "2d", "100000h", "1", "x"}
	case policy.KindInt:
		return []string{"0", "1", "2", "5", "21", "300", "9223372036854775807", "-1", "1.5"}
	case policy.KindFloat:
		return []string{"0", "-0", "0.2", "0.5", "1", "2", "1e-9", "1e300", "-1", "x"}
	case policy.KindDurations:
		return []string{"[30s, 2m]", "10s", "[100000h]", "[0s]", "[]"}
	case policy.KindClasses:
		return []string{"[transient, dns]", "class.timeout", "[]", "[x]"}
	case policy.KindBool, policy.KindSwitch:
		return []string{"true", "false", "on", "off", "x"}
	}
	return f.Enum
}

// TestAnyFieldsRoundTrip writes any fields with any values: most files are
// refused, the others must read back.
func TestAnyFieldsRoundTrip(t *testing.T) {
	parsed := 0
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom(append(policy.PresetNames(), "other")).Draw(rt, "name")
		chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(policy.Fields()), 1, 4, func(f policy.Field) string { return f.Path }).Draw(rt, "fields")
		groups := map[string][]string{}
		var order []string
		for _, f := range chosen {
			group, leaf := "", f.Path
			if i := strings.LastIndexByte(f.Path, '.'); i >= 0 {
				group, leaf = f.Path[:i], f.Path[i+1:]
			}
			if groups[group] == nil {
				order = append(order, group)
			}
			groups[group] = append(groups[group], leaf+": "+rapid.SampledFrom(texts(f)).Draw(rt, f.Path))
		}
		var body []string
		for _, group := range order {
			text := strings.Join(groups[group], ", ")
			if outer, inner, deep := strings.Cut(group, "."); deep {
				text = outer + ": {" + inner + ": {" + text + "}}" // written twice beside its outer group: refused
			} else if group != "" {
				text = group + ": {" + text + "}"
			}
			body = append(body, text)
		}
		src := "version: 1\npolicies:\n  " + name + ": {" + strings.Join(body, ", ") + "}\n"
		if _, err := file.Parse("any.yaml", []byte(src)); err == nil {
			parsed++
		}
		checkRoundTrip(rt, src)
	})
	if parsed == 0 {
		t.Error("no file of any parsed; the test tests nothing")
	}
}
