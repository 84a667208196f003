package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/retry"
)

// The policy that everybody gets: 4 tries, 100 ms doubling to at most 10 s,
// spread by ±20 %, no timeout of its own.
const (
	tries  = 4
	base   = 100 * time.Millisecond
	most   = 10 * time.Second
	spread = 0.2
)

// sink keeps the compiler from dropping what is measured.
var sink struct {
	delay    time.Duration
	decision retry.Decision
	value    int
	err      error
}

// ours lists Ebb's subjects: the slowest of a group counts.
func ours() []subject {
	var all []subject
	for _, kind := range []policy.JitterKind{
		policy.JitterNone, policy.JitterProportional, policy.JitterAdditive,
		policy.JitterEqual, policy.JitterFull, policy.JitterDecorrelated,
	} {
		all = append(all, subject{group: groupDelay, name: "Ebb, " + string(kind), ours: true, run: drawing(kind, 2)})
	}
	all = append(all, subject{group: groupDelay, name: "Ebb, try 1,000,000", ours: true, note: true, run: drawing(policy.JitterProportional, 1_000_000)})
	for _, name := range policy.PresetNames() {
		all = append(all, subject{group: groupDecide, name: "Ebb, " + name, ours: true, run: deciding(policy.MustPreset(name))})
	}
	p := comparable()
	timed := p
	timed.Timeout = 30 * time.Second
	return append(all,
		subject{group: groupDo, name: "Ebb", ours: true, run: doing(&p)},
		subject{group: groupDo, name: "Ebb, each try within 30 s", ours: true, note: true, run: doing(&timed)},
	)
}

// drawing draws the delays of tries first to first+7, each from a fresh
// derived draw, as the worker does.
func drawing(kind policy.JitterKind, first int) func(*testing.B) {
	b := policy.Backoff{
		Base: base, Factor: 2, Cap: most,
		Jitter: policy.Jitter{Kind: kind, Ratio: spread}, Floor: time.Millisecond,
	}
	return func(t *testing.B) {
		t.ReportAllocs()
		var last time.Duration
		for i := 0; t.Loop(); i++ {
			last = b.Draw(first+i&7, last, retry.Derive(1, uint64(i), 2).Unit())
		}
		sink.delay = last
	}
}

// deciding gives verdicts on a server error of a job in the middle of its
// life, one of four tries with a Retry-After.
func deciding(p policy.Policy) func(*testing.B) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	h := retry.History{Attempts: 1}.Started(began).Started(began.Add(time.Minute))
	f := failure.Failure{Class: failure.Server, Status: 503, Reason: "http 503", Err: errors.New("http 503")}
	return func(t *testing.B) {
		t.ReportAllocs()
		now := began.Add(2 * time.Minute)
		for i := 0; t.Loop(); i++ {
			f.RetryAfter = 0
			if i&3 == 0 {
				f.RetryAfter = 20 * time.Second
			}
			sink.decision = retry.Decide(&p, h, f, now, retry.Derive(1, uint64(i), h.Starts))
		}
	}
}

func comparable() policy.Policy {
	p := policy.Base("bench")
	p.Attempts, p.Timeout = tries, 0
	p.Backoff = policy.Backoff{Base: base, Factor: 2, Cap: most, Jitter: policy.Jitter{Kind: policy.JitterProportional, Ratio: spread}}
	p, err := policy.Seal(p)
	if err != nil {
		panic(err)
	}
	return p
}

func doing(p *policy.Policy) func(*testing.B) {
	return func(t *testing.B) {
		t.ReportAllocs()
		ctx := t.Context()
		for t.Loop() {
			sink.value, sink.err = retry.Do(ctx, p, func(context.Context) (int, error) { return succeed() })
		}
	}
}

// succeed is the work: nothing, but not inlined away.
//
//go:noinline
func succeed() (int, error) { return 1, nil }
