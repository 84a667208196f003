package policy

import (
	"fmt"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
)

// DefaultName is the preset of jobs enqueued without a policy and the base of
// every policy whose name is not a preset's.
const DefaultName = "default"

// minRestarts are the restarts below which a preset's own name may not be
// set: seed 003 raises lower values to 20.
var minRestarts = map[string]int{"annual-crawl": 20}

var presets = []struct {
	name  string
	about string
	build func() Policy
}{
	{"default", "jobs without a policy: processing's figures, a crash is free up to 3", defaultPolicy},
	{"processing", "seed 001: document processing, 4 attempts after 30, 120, 480 s", processing},
	{"webhook", "seed 002: webhook delivery, the first send and 5 retries over 31 minutes", webhook},
	{"scrape", "seed 000: bulk fetching, 3 tries a URL, then up to 3 waves", scrape},
	{"polite", "scrape with the host gate: the default of ebb fetch", polite},
	{"annual-crawl", "seed 003: supervised crawls, 20 restarts, 2 minutes apart", annualCrawl},
}

// PresetNames lists the presets in the order they are shown.
func PresetNames() []string {
	names := make([]string, len(presets))
	for i, p := range presets {
		names[i] = p.name
	}
	return names
}

// About says in one line what a preset is for; empty for other names.
func About(name string) string {
	for _, p := range presets {
		if p.name == name {
			return p.about
		}
	}
	return ""
}

// Preset returns the sealed preset of that name.
func Preset(name string) (Policy, error) {
	for _, p := range presets {
		if p.name == name {
			return Seal(Base(name))
		}
	}
	return Policy{}, fmt.Errorf("policy: no preset %q; one of: %s", name, strings.Join(PresetNames(), ", "))
}

// MustPreset is Preset for names known to exist; it panics on any other.
func MustPreset(name string) Policy {
	p, err := Preset(name)
	if err != nil {
		panic(err)
	}
	return p
}

// IsPreset reports whether the name is a preset's.
func IsPreset(name string) bool { return contains(PresetNames(), name) }

// Base returns the unsealed policy that a file's policy of that name starts
// from: the preset, or default under the new name.
func Base(name string) Policy {
	for _, p := range presets {
		if p.name == name {
			b := p.build()
			b.Name = name
			return b
		}
	}
	b := defaultPolicy()
	b.Name = name
	return b
}

func defaultPolicy() Policy {
	return Policy{
		Target:    Provider,
		Attempts:  4,
		OnHoldEnd: HoldPark,
		Backoff: Backoff{
			Base: 30 * time.Second, Factor: 4,
			Jitter: Jitter{Kind: JitterProportional, Ratio: 0.2},
			Floor:  time.Second,
		},
		Timeout:     2 * time.Minute,
		RetryAfter:  RetryAfter{Honour: true, Max: 15 * time.Minute},
		Concurrency: 20,
		Batch:       100,
		FirstShare:  0.25,
		Gate:        true,
		Budget:      Budget{Kind: BudgetWindow, Ratio: 0.2, Floor: 100, TTL: 10 * time.Second},
		Breaker: Breaker{
			Consecutive: 10, Ratio: 0.5, MinCalls: 10, Window: time.Minute,
			Open: 30 * time.Second, Cap: maxProbeGap,
		},
		Slot:   SlotRelease,
		Safety: Idempotent,
	}
}

func processing() Policy {
	p := defaultPolicy()
	p.Classes = []Rule{
		{Match: Match{Classes: SetOf(failure.Crash, failure.Interrupted)}, Action: Retry, Counts: CountsAttempt},
		// Its seed gives up on every 4xx but 429, on 408 and 425 too.
		{Match: Match{Classes: SetOf(failure.RequestTimeout, failure.TooEarly)}, Action: Fail, Counts: CountsAttempt},
	}
	return p
}

func webhook() Policy {
	p := defaultPolicy()
	p.Target = Endpoint
	p.Attempts = 6
	p.Backoff.Base, p.Backoff.Factor = time.Minute, 2
	p.Timeout = 30 * time.Second
	p.PerTarget.Concurrency = 4
	p.SlowShare = 0.5
	p.Budget = Budget{Kind: BudgetWindow, Ratio: 0.2, Floor: 10, TTL: 10 * time.Second}
	p.Guard.MinDelay = 30 * time.Second
	p.Expect = Expect{
		Outage: 10 * time.Minute, Arrival: 50, Capacity: 200,
		P99: 25 * time.Second, DeadLetters: 0.02,
	}
	p.Classes = []Rule{
		{Match: Match{Classes: SetOf(failure.Gone)}, Action: DisableTarget, Counts: CountsAttempt},
		{Match: Match{Classes: SetOf(failure.Rejected, failure.Redirect)}, Action: Retry, Counts: CountsAttempt},
	}
	return p
}

func scrape() Policy {
	return Policy{
		Target:    Host,
		Attempts:  3,
		OnHoldEnd: HoldPark,
		Backoff: Backoff{
			Base: 5 * time.Second, Factor: 2,
			Jitter: Jitter{Kind: JitterAdditive, Ratio: 0.5},
		},
		Timeout:     30 * time.Second,
		RetryAfter:  RetryAfter{Honour: true, Max: 90 * time.Second},
		Concurrency: 5,
		Spacing:     150 * time.Millisecond,
		Batch:       25,
		Budget:      Budget{Kind: BudgetNone},
		Classes: []Rule{{
			Match:  Match{Classes: SetOfGroups(failure.Connection)},
			Action: Retry, Counts: CountsAttempt,
			Backoff: &Backoff{Base: 5 * time.Second, Factor: 1, Jitter: Jitter{Kind: JitterNone}},
		}},
		Slot:   SlotKeep,
		Safety: Idempotent,
		Expect: Expect{Outage: 4 * time.Minute},
		Waves: Waves{
			Count: 3, Cooldown: 90 * time.Second, Concurrency: 2, Spacing: 500 * time.Millisecond,
			Classes: SetOfGroups(failure.Transient, failure.TimedOut, failure.Connection),
		},
	}
}

func polite() Policy {
	p := scrape()
	p.Gate = true
	p.MaxHold = time.Hour
	p.RetryAfter.Max = 15 * time.Minute
	p.PerTarget.Concurrency = 5
	p.Breaker = Breaker{
		Consecutive: 5, Ratio: 0.5, MinCalls: 10, Window: time.Minute,
		Open: 10 * time.Second, Cap: maxProbeGap,
	}
	return p
}

func annualCrawl() Policy {
	return Policy{
		Target:      Process,
		Attempts:    21,
		OnHoldEnd:   HoldPark,
		Backoff:     Backoff{Base: 2 * time.Minute, Factor: 1, Jitter: Jitter{Kind: JitterNone}},
		RetryAfter:  RetryAfter{Honour: true, Max: 15 * time.Minute},
		Concurrency: 1,
		Batch:       1,
		Budget:      Budget{Kind: BudgetNone},
		Slot:        SlotKeep,
		Safety:      Idempotent,
		Restarts:    Restarts{Max: 20, NoProgress: 20},
		Thresholds:  Thresholds{Timeout: 50, HTTP: 50},
	}
}
