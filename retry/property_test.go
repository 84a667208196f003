package retry

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
)

// Whatever fails in whatever order: no delay is negative or over the limit,
// spent attempts stay within the policy's, starts since the last progress
// within attempts plus the declared caps, and the job ends.
func TestDecidePromises(t *testing.T) {
	classes := failure.Classes()
	rapid.Check(t, func(t *rapid.T) {
		base := policy.Base("any")
		base.Attempts = rapid.IntRange(1, 30).Draw(t, "attempts")
		base.Backoff.Base = time.Duration(rapid.Int64Range(1, int64(100*365*24*time.Hour)).Draw(t, "base"))
		base.Backoff.Factor = rapid.Float64Range(1, 1e6).Draw(t, "factor")
		base.Backoff.Jitter = rapid.SampledFrom([]policy.Jitter{
			{Kind: policy.JitterNone},
			{Kind: policy.JitterProportional, Ratio: 1},
			{Kind: policy.JitterAdditive, Ratio: 1},
			{Kind: policy.JitterEqual},
			{Kind: policy.JitterFull},
			{Kind: policy.JitterDecorrelated},
		}).Draw(t, "jitter")
		free := rapid.IntRange(1, 20).Draw(t, "free")
		base.Classes = []policy.Rule{{
			Match:  policy.Match{Classes: policy.SetOf(failure.Throttled)},
			Action: policy.Retry, Counts: policy.CountsFree, Max: free,
		}}
		p, err := policy.Seal(base)
		if err != nil {
			t.Fatal(err)
		}
		seed := rapid.Uint64().Draw(t, "seed")
		h, now := History{}, t0
		for start := 1; ; start++ {
			h = h.Started(now)
			f := failure.Of(rapid.SampledFrom(classes).Draw(t, "class"))
			f.RetryAfter = time.Duration(rapid.Int64Min(0).Draw(t, "retry after"))
			d := Decide(&p, h, f, now, Derive(seed, 1, start))
			if d.Delay < 0 || d.Delay > policy.MaxDelay {
				t.Fatalf("delay %d", d.Delay)
			}
			if d.Next.Attempts > p.Attempts {
				t.Fatalf("%d attempts of %d", d.Next.Attempts, p.Attempts)
			}
			if limit := p.Attempts + free + policy.CrashCap; d.Next.Starts-d.Next.Waits > limit {
				t.Fatalf("%d starts besides %d waits, limit %d", d.Next.Starts, d.Next.Waits, limit)
			}
			if !d.Action.Retries() {
				if d.Cause == CauseNone {
					t.Fatalf("ended without a cause: %v", d)
				}
				return
			}
			h, now = d.Next, t0 // virtual time may not overflow over a hundred waits of 73 years
		}
	})
}

func TestMillionAttempts(t *testing.T) {
	base := policy.Base("long")
	base.Attempts = 2_000_000
	for _, b := range []policy.Backoff{
		{Base: time.Second, Factor: 2},
		{Base: time.Second, Factor: 1.0000001, Jitter: policy.Jitter{Kind: policy.JitterAdditive, Ratio: 1}},
		{Base: time.Second, Factor: 10, Cap: time.Hour, Jitter: policy.Jitter{Kind: policy.JitterFull}},
		{Base: time.Second, Factor: 2, Jitter: policy.Jitter{Kind: policy.JitterDecorrelated}},
	} {
		base.Backoff = b
		p := sealed(t, base)
		for _, n := range []int{999_999, 1_000_000, 1_999_998} {
			h := History{Starts: n, Attempts: n, LastDelay: policy.MaxDelay, FirstStartAt: t0}
			d := Decide(p, h, failure.Of(failure.Server), t0, Draw(1<<64-1))
			if d.Action != policy.Retry || d.Delay < 0 || d.Delay > policy.MaxDelay {
				t.Errorf("%+v, attempt %d: %v", b, n, d)
			}
		}
	}
}

// Draws are uniform and independent of order: no two of a job or of
// neighbouring jobs are equal, and the mean of many is a half.
func TestDerive(t *testing.T) {
	if got, want := Derive(1, 2, 3), Draw(0); got == want || got != Derive(1, 2, 3) {
		t.Errorf("derive: %x", got)
	}
	seen := map[Draw]bool{}
	var sum float64
	const jobs, starts = 2000, 10
	for job := range uint64(jobs) {
		for start := range starts {
			d := Derive(7, job, start)
			if seen[d] {
				t.Fatalf("job %d, start %d: drawn before", job, start)
			}
			seen[d] = true
			u := d.Unit()
			if u < 0 || u >= 1 {
				t.Fatalf("unit %v", u)
			}
			sum += u
		}
	}
	if mean := sum / (jobs * starts); mean < 0.49 || mean > 0.51 {
		t.Errorf("mean %v", mean)
	}
	if u := Draw(1<<64 - 1).Unit(); u >= 1 {
		t.Errorf("the largest draw is %v", u)
	}
}

func BenchmarkDecide(b *testing.B) {
	p := preset(b, "webhook")
	h := History{Attempts: 2}.Started(t0)
	f := failure.Status(503)
	b.ReportAllocs()
	for i := range b.N {
		d := Decide(p, h, f, t0, Derive(1, uint64(i), 3))
		if d.Delay == 0 {
			b.Fatal(d)
		}
	}
}

func BenchmarkNextDelay(b *testing.B) {
	p := preset(b, "webhook")
	b.ReportAllocs()
	for i := range b.N {
		if p.Backoff.Draw(4, 0, Derive(1, uint64(i), 3).Unit()) == 0 {
			b.Fatal("no delay")
		}
	}
}
