package retry

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

// FuzzGuard builds any policy. Where lint finds nothing against the floor, no
// retry after a failure of the target comes sooner than the guard allows,
// whatever fails, whatever the job's history and whatever is drawn. Where lint
// finds something, such a retry exists, and the fixes that it names pass.
func FuzzGuard(f *testing.F) {
	random := rand.NewChaCha8([32]byte{})
	for range 50 {
		seed := make([]byte, 8<<10) // enough for every draw of a policy
		_, _ = random.Read(seed)    // never fails
		f.Add(seed)
	}
	f.Fuzz(rapid.MakeFuzz(checkGuard))
}

// TestGuard is FuzzGuard in every test run.
func TestGuard(t *testing.T) { rapid.Check(t, checkGuard) }

func checkGuard(t *rapid.T) {
	p := drawGuarded(t)
	found := floorFindings(p)
	if len(found) == 0 {
		checkNoneTooSoon(t, p)
		return
	}
	if policy.Enforce(*p, t0) == nil {
		t.Fatalf("Enforce accepts what lint refuses: %v", found)
	}
	for i := range found {
		checkNoFalseAlarm(t, p, &found[i])
	}
	checkFixes(t, p, found)
}

func floorFindings(p *policy.Policy) []policy.Finding {
	var found []policy.Finding
	for _, f := range policy.Lint(*p, t0) {
		if f.ID == policy.RuleFloor {
			found = append(found, f)
		}
	}
	return found
}

func checkNoneTooSoon(t *rapid.T, p *policy.Policy) {
	plain := withoutJitter(p)
	someRetries(t, p, func(h History, f failure.Failure, draw Draw) {
		d := Decide(p, h, f, t0, draw)
		if !d.Action.Retries() {
			return
		}
		if d.Delay < p.LeastDelay() {
			t.Fatalf("a retry after %s, the guard wants %s: %v, %+v, draw %x\n%s", d.Delay, p.LeastDelay(), f, h, draw, file.Print(*p))
		}
		if nominal := Decide(plain, h, f, t0, draw); nominal.Action.Retries() && nominal.Delay < p.MinDelay() {
			t.Fatalf("a nominal delay of %s, the guard wants %s: %v, %+v\n%s", nominal.Delay, p.MinDelay(), f, h, file.Print(*p))
		}
	})
}

// checkNoFalseAlarm looks for a retry that the finding speaks of.
func checkNoFalseAlarm(t *rapid.T, p *policy.Policy, found *policy.Finding) {
	if found.Field == "waves.cooldown" {
		for _, c := range failure.Classes() {
			if policy.Guarded(c) && p.Waves.Classes.Has(c) && p.Waves.Cooldown < p.MinDelay() {
				return
			}
		}
		t.Fatalf("no wave can come too soon: %v\n%s", found, file.Print(*p))
	}
	judged, limit := withoutJitter(p), p.MinDelay()
	if strings.HasPrefix(found.Measured, "a least delay") {
		judged, limit = p, p.LeastDelay()
	}
	proven := false
	someRetries(t, p, func(h History, f failure.Failure, _ Draw) {
		r := p.RuleFor(f)
		own, _, _ := strings.Cut(found.Field, "backoff")
		if own == "" && r.Backoff == nil || r.Backoff != nil && own == r.Label+"." {
			f.RetryAfter = 0
			d := Decide(judged, h, f, t0, 0)
			proven = proven || d.Action.Retries() && d.Delay < limit
		}
	})
	if !proven {
		t.Fatalf("no retry is under %s: %v\n%s", limit, found, file.Print(*p))
	}
}

// withoutJitter is the policy with its nominal delays.
func withoutJitter(p *policy.Policy) *policy.Policy {
	q := *p
	q.Backoff.Jitter = policy.Jitter{Kind: policy.JitterNone}
	q.Classes = append([]policy.Rule(nil), p.Classes...)
	for i := range q.Classes {
		if q.Classes[i].Backoff != nil {
			b := *q.Classes[i].Backoff
			b.Jitter = policy.Jitter{Kind: policy.JitterNone}
			q.Classes[i].Backoff = &b
		}
	}
	return &q
}

// someRetries calls check with every kind of failure that the guard holds for,
// in many histories, with the ends of the draw and any between.
func someRetries(t *rapid.T, p *policy.Policy, check func(History, failure.Failure, Draw)) {
	any := Draw(rapid.Uint64().Draw(t, "draw"))
	last := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "last delay"))
	asked := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "retry after"))
	statuses, reasons := []int{0}, []string{"", "nobody names this"}
	for i := range p.Classes {
		statuses = append(statuses, p.Classes[i].Match.Status...)
		reasons = append(reasons, p.Classes[i].Match.Reason...)
	}
	for _, class := range failure.Classes() {
		if !policy.Guarded(class) {
			continue
		}
		for _, status := range statuses {
			for _, reason := range reasons {
				f := failure.Of(class)
				f.Status, f.Reason, f.RetryAfter = status, reason, asked
				for n := range 8 {
					h := History{Starts: n, Attempts: n, Idle: 1, FirstStartAt: t0, LastDelay: last}
					check(h.Started(t0), f, []Draw{0, any, 1<<64 - 1}[n%3])
					h.Free[class] = 250 // all free starts spent
					check(h.Started(t0), f, []Draw{0, any}[n%2])
					h.Attempts, h.Waits, h.Free[class] = 0, n, uint8(n)
					check(h.Started(t0), f, []Draw{any, 0}[n%2])
				}
			}
		}
	}
}

// checkFixes does what the findings say until there are none: once for each
// delay at most.
func checkFixes(t *rapid.T, p *policy.Policy, found []policy.Finding) {
	fixed := *p
	fixed.Classes = append([]policy.Rule(nil), p.Classes...)
	for round := 0; len(found) > 0; round++ {
		if round > 10 {
			t.Fatalf("still refused after its fixes: %v\n%s", found, file.Print(fixed))
		}
		for _, f := range found {
			applyFix(t, &fixed, f)
		}
		sealed, err := policy.Seal(fixed)
		if err != nil {
			t.Fatalf("fixed as told, and wrong: %v: %v", found, err)
		}
		fixed = sealed
		found = floorFindings(&fixed)
	}
}

func applyFix(t *rapid.T, p *policy.Policy, f policy.Finding) {
	value := strings.Fields(strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(f.Fix, "at least "), "at most "), ",", ""))[0]
	if f.Field == "waves.cooldown" {
		p.Waves.Cooldown = parseDelay(t, value)
		return
	}
	b, field := &p.Backoff, strings.TrimPrefix(f.Field, "backoff.")
	if rest, ok := strings.CutPrefix(f.Field, "classes["); ok {
		number, rest, _ := strings.Cut(rest, "].backoff.")
		i, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		own := *p.Classes[i].Backoff
		p.Classes[i].Backoff, b, field = &own, &own, rest
	}
	var step int
	switch n, _ := fmt.Sscanf(field, "steps[%d]", &step); {
	case n == 1:
		b.Steps = append([]time.Duration(nil), b.Steps...)
		b.Steps[step] = parseDelay(t, value)
	case field == "base":
		b.Base = parseDelay(t, value)
		if b.Cap > 0 {
			b.Cap = max(b.Cap, b.Base)
		}
	case field == "floor":
		b.Floor = parseDelay(t, value)
	case field == "jitter.kind":
		b.Jitter = policy.Jitter{Kind: policy.JitterProportional, Ratio: 0.2}
	case field == "jitter.ratio":
		ratio, err := strconv.ParseFloat(value, 64)
		if err != nil || ratio < 0.2 {
			t.Fatalf("no ratio that would pass: %v", f)
		}
		b.Jitter.Ratio = ratio
	default:
		t.Fatalf("no such field: %v", f)
	}
}

func parseDelay(t *rapid.T, text string) time.Duration {
	d, err := policy.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// drawDelay draws delays around the limits more often than others.
func drawDelay(t *rapid.T, label string, least time.Duration) time.Duration {
	near := rapid.SampledFrom([]time.Duration{
		1, 800 * time.Millisecond, time.Second, 4 * time.Second, 5 * time.Second, 8 * time.Second, 10 * time.Second,
		24*time.Second - 1, 24 * time.Second, 25 * time.Second, 30*time.Second - 1, 30 * time.Second, 37 * time.Second, 48 * time.Second, time.Minute,
	}).Draw(t, label)
	if rapid.Bool().Draw(t, label+" off") {
		near = time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, label+" by"))
	}
	return max(near, least)
}

func drawBackoff(t *rapid.T, label string) policy.Backoff {
	b := policy.Backoff{
		Base:   drawDelay(t, label+" base", 1),
		Factor: rapid.Float64Range(1, 10).Draw(t, label+" factor"),
		Jitter: policy.Jitter{
			Kind: rapid.SampledFrom([]policy.JitterKind{
				policy.JitterNone, policy.JitterProportional, policy.JitterAdditive, policy.JitterEqual, policy.JitterFull, policy.JitterDecorrelated,
			}).Draw(t, label+" jitter"),
			Ratio: rapid.SampledFrom([]float64{0.1, 0.2, 0.2000001, 0.21, 0.5, 0.6, 1}).Draw(t, label+" ratio"),
		},
	}
	if rapid.Bool().Draw(t, label+" any ratio") {
		b.Jitter.Ratio = rapid.Float64Range(1e-9, 1).Draw(t, label+" ratio")
	}
	if rapid.Bool().Draw(t, label+" has floor") {
		b.Floor = drawDelay(t, label+" floor", 0)
	}
	if rapid.Bool().Draw(t, label+" has cap") {
		b.Cap = drawDelay(t, label+" cap", b.Base)
	}
	if b.Jitter.Kind != policy.JitterDecorrelated && rapid.Bool().Draw(t, label+" has steps") {
		for i := range rapid.IntRange(1, 5).Draw(t, label+" steps") {
			b.Steps = append(b.Steps, drawDelay(t, fmt.Sprintf("%s step %d", label, i), 1))
		}
	}
	return b
}

func drawClasses(t *rapid.T, label string) policy.ClassSet {
	set := policy.SetOf(rapid.SliceOfN(rapid.SampledFrom(failure.Classes()), 1, 3).Draw(t, label)...)
	if rapid.Bool().Draw(t, label+" group") {
		set |= policy.SetOfGroups(rapid.SampledFrom(failure.Groups()).Draw(t, label+" groups"))
	}
	return set
}

func drawRule(t *rapid.T, label string) policy.Rule {
	r := policy.Rule{
		Action: rapid.SampledFrom([]policy.Action{policy.Retry, policy.Retry, policy.PauseTarget, policy.Fail, policy.Park}).Draw(t, label+" action"),
		Counts: rapid.SampledFrom([]policy.Counts{policy.CountsAttempt, policy.CountsFree}).Draw(t, label+" counts"),
	}
	if rapid.Bool().Draw(t, label+" by class") {
		r.Match.Classes = drawClasses(t, label+" class")
	}
	if rapid.Bool().Draw(t, label+" by status") {
		r.Match.Status = rapid.SliceOfN(rapid.SampledFrom([]int{404, 429, 500, 503}), 1, 2).Draw(t, label+" status")
	}
	if rapid.Bool().Draw(t, label+" by reason") {
		r.Match.Reason = rapid.SliceOfN(rapid.SampledFrom([]string{"", "?", "slow", "busy"}), 1, 2).Draw(t, label+" reason")
	}
	if r.Counts == policy.CountsFree {
		r.Max = rapid.IntRange(0, 6).Draw(t, label+" max")
		r.Window = time.Duration(rapid.IntRange(0, 1).Draw(t, label+" window")) * time.Hour
	}
	if r.Action.Retries() && rapid.Bool().Draw(t, label+" has backoff") {
		b := drawBackoff(t, label)
		r.Backoff = &b
	}
	return r
}

// drawGuarded draws a sealed policy, as a file and the environment can make it.
func drawGuarded(t *rapid.T) *policy.Policy {
	p := policy.Base(rapid.SampledFrom(append(policy.PresetNames(), "webhook", "other")).Draw(t, "name"))
	p.Target = rapid.SampledFrom([]policy.Target{policy.Endpoint, policy.Endpoint, policy.Host, policy.Provider, policy.Process}).Draw(t, "target")
	p.Attempts, p.Restarts.Max = rapid.IntRange(0, 8).Draw(t, "attempts"), 0
	if p.Attempts == 0 || rapid.Bool().Draw(t, "has window") {
		p.Window = 24 * time.Hour
	}
	if rapid.Bool().Draw(t, "has backoff") {
		p.Backoff = drawBackoff(t, "backoff")
	}
	if p.Attempts == 0 && p.Backoff.Band(2).Least == 0 {
		p.Attempts = 8 // lint takes a second for any number of tries without a delay
	}
	if rapid.Bool().Draw(t, "has guard") {
		p.Guard.MinDelay = drawDelay(t, "guard", 0)
	}
	if rapid.Bool().Draw(t, "has rules") {
		p.Classes = nil
		for i := range rapid.IntRange(0, 3).Draw(t, "rules") {
			p.Classes = append(p.Classes, drawRule(t, fmt.Sprintf("rule %d", i)))
		}
	}
	if rapid.Bool().Draw(t, "has waves") {
		p.Waves = policy.Waves{
			Count: rapid.IntRange(1, 3).Draw(t, "waves"), Cooldown: drawDelay(t, "cooldown", 0), Concurrency: 1, Classes: drawClasses(t, "wave classes"),
		}
	}
	p.Expect.Outage = 1 // what a longer one would lose takes long to compute, and is not asked here
	sealed, err := policy.Seal(p)
	if err != nil {
		t.Fatalf("drew a policy that cannot be: %v", err)
	}
	if sealed.Name == file.EnvPolicy && rapid.Bool().Draw(t, "environment") {
		sealed = withEnv(t, sealed)
	}
	return &sealed
}

// withEnv reads the policy from a file, under an environment.
func withEnv(t *rapid.T, p policy.Policy) policy.Policy {
	f, err := file.Parse("policies.yaml", []byte(file.Print(p)))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, v := range file.Variables() {
		if rapid.Bool().Draw(t, v.Name) {
			values[v.Name] = strconv.Itoa(rapid.IntRange(1, 10).Draw(t, v.Name+" value"))
		}
	}
	e, err := file.ApplyEnv(f.Entries[0], func(name string) (string, bool) { v, ok := values[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	return e.Policy
}

// A snooze alone is the handler's word that nothing failed. One that comes with
// a failure of the target does not bring the next call before the guard.
func TestSnoozeDoesNotHurryAFailedCall(t *testing.T) {
	failed := failure.New(failure.Server, "", errors.New("503"))
	for _, c := range []struct {
		name string
		err  error
		want time.Duration
	}{
		{"alone", failure.Snooze(time.Second), time.Second},
		{"beside a failure", errors.Join(failed, failure.Snooze(time.Second)), 24 * time.Second},
		{"around a failure", fmt.Errorf("%w: %w", failure.Snooze(0), failed), 24 * time.Second},
		{"for longer", errors.Join(failed, failure.Snooze(time.Hour)), time.Hour},
		{"beside a fault of ours", errors.Join(failure.New(failure.DiskFull, "", nil), failure.Snooze(time.Second)), time.Second},
	} {
		d := Decide(preset(t, "webhook"), History{}.Started(t0), failure.Classify(c.err), t0, middle)
		if d.Delay != c.want || d.Rule != "handler/snooze" || d.Counted != CountedApart {
			t.Errorf("%s: %v, want it back after %s", c.name, d, c.want)
		}
	}
}
