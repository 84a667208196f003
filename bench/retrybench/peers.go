package main

import (
	"context"
	"testing"

	avast "github.com/avast/retry-go/v4"
	cenkalti "github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	sethvargo "github.com/sethvargo/go-retry"
)

// peers are configured with the same policy. A backoff that remembers its
// last delay cannot be shared between calls and is built for each; a policy
// that can (failsafe-go) is built once, as its users do.
func peers() []subject {
	return []subject{
		{group: groupDelay, name: "cenkalti/backoff v5", run: cenkaltiDelay},
		{group: groupDelay, name: "sethvargo/go-retry", run: sethvargoDelay},
		{group: groupDo, name: "failsafe-go 0.9", run: failsafeDo},
		{group: groupDo, name: "cenkalti/backoff v5", run: cenkaltiDo},
		{group: groupDo, name: "avast/retry-go v4", run: avastDo},
		{group: groupDo, name: "sethvargo/go-retry 0.5", run: sethvargoDo},
	}
}

func newCenkalti() *cenkalti.ExponentialBackOff {
	return &cenkalti.ExponentialBackOff{InitialInterval: base, RandomizationFactor: spread, Multiplier: 2, MaxInterval: most}
}

func newSethvargo() sethvargo.Backoff {
	b := sethvargo.NewExponential(base)
	b = sethvargo.WithCappedDuration(most, b)
	b = sethvargo.WithJitterPercent(100*spread, b)
	return sethvargo.WithMaxRetries(tries-1, b)
}

func cenkaltiDelay(t *testing.B) {
	t.ReportAllocs()
	b := newCenkalti()
	b.Reset()
	for t.Loop() {
		sink.delay = b.NextBackOff()
	}
}

func sethvargoDelay(t *testing.B) {
	t.ReportAllocs()
	b := sethvargo.WithJitterPercent(100*spread, sethvargo.WithCappedDuration(most, sethvargo.NewExponential(base)))
	for t.Loop() {
		sink.delay, _ = b.Next()
	}
}

func failsafeDo(t *testing.B) {
	t.ReportAllocs()
	p := retrypolicy.NewBuilder[int]().WithMaxRetries(tries-1).WithBackoff(base, most).WithJitterFactor(spread).Build()
	executor := failsafe.With(p).WithContext(t.Context())
	for t.Loop() {
		sink.value, sink.err = executor.Get(succeed)
	}
}

func cenkaltiDo(t *testing.B) {
	t.ReportAllocs()
	ctx := t.Context()
	for t.Loop() {
		sink.value, sink.err = cenkalti.Retry(ctx, succeed, cenkalti.WithBackOff(newCenkalti()), cenkalti.WithMaxTries(tries))
	}
}

func avastDo(t *testing.B) {
	t.ReportAllocs()
	ctx := t.Context()
	for t.Loop() {
		sink.value, sink.err = avast.DoWithData(succeed,
			avast.Context(ctx), avast.Attempts(tries), avast.Delay(base), avast.MaxDelay(most),
			avast.MaxJitter(base/5), avast.LastErrorOnly(true))
	}
}

func sethvargoDo(t *testing.B) {
	t.ReportAllocs()
	ctx := t.Context()
	for t.Loop() {
		sink.value, sink.err = sethvargo.DoValue(ctx, newSethvargo(), func(context.Context) (int, error) { return succeed() })
	}
}
