package file_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/simulate"
	"github.com/ebbhq/ebb/simulate/file"
)

// published are results that others have printed, each with a scenario file in
// testdata/published. What theory or counting gives is compared within the
// confidence interval alone. Results of other simulators are means of a few
// runs themselves; near is how far such a mean may be off.
var published = []struct {
	file   string
	title  string
	source string
	near   float64
	claims []claim
}{
	{
		"mm1", "M/M/1", "Kleinrock, Queueing Systems I, 1975, ch. 3: T = 1 ÷ (μ − λ), exponential", 0,
		[]claim{
			{"load 0.5", "mean time in the system, s", "downstream/server/sojourns.mean", 0.2},
			{"load 0.8", "mean time in the system, s", "downstream/server/sojourns.mean", 0.5},
			{"load 0.8", "mean number in the system", "downstream/server/in_system_mean", 4},
			{"load 0.8", "99 % of it are below, s", "downstream/server/sojourns.p99", 2.302585},
			{"load 0.95", "mean time in the system, s", "downstream/server/sojourns.mean", 2},
		},
	},
	{
		"erlang-c", "M/M/10 at 8 erlangs", "Erlang 1917 (C formula)", 0,
		[]claim{
			{"at the server", "share that waits", "downstream/server/wait_share", 0.409180},
			{"at the server", "mean wait, s", "downstream/server/waits.mean", 0.0204590},
			{"at the caller", "mean wait, s", "caller/jobs/waits.mean", 0.0204590},
		},
	},
	{
		"erlang-b", "M/G/10/10 at 10 erlangs", "Erlang 1917 (B table: 0.2146); Sevastyanov 1957: insensitive", 0,
		[]claim{
			{"exponential", "share lost", "downstream/server/loss_share", 0.214582},
			{"constant", "share lost", "downstream/server/loss_share", 0.214582},
			{"lognormal", "share lost", "downstream/server/loss_share", 0.214582},
		},
	},
	{
		"mg1", "M/G/1 at load 0.7", "Pollaczek 1930, Khinchine 1932", 0,
		[]claim{
			{"constant", "mean wait, s", "downstream/server/waits.mean", 0.7 * 0.1 / 2 / 0.3},
			{"uniform", "mean wait, s", "downstream/server/waits.mean", 0.7 * 0.1 * (1 + 1.0/3) / 2 / 0.3},
			{"weibull", "mean wait, s", "downstream/server/waits.mean", 0.7 * 0.1 * (1 + 5) / 2 / 0.3},
		},
	},
	{
		"mm1k", "M/M/1/5", "Gross and Harris, Fundamentals of Queueing Theory, ch. 2", 0,
		[]claim{
			{"load 0.8", "share lost", "downstream/server/loss_share", 0.0888195},
			{"load 0.8", "mean number in the system", "downstream/server/in_system_mean", 1.868331},
			{"load 1", "share lost", "downstream/server/loss_share", 1.0 / 6},
		},
	},
	{
		"gm1", "G/M/1 at load 0.8", "Kleinrock, Queueing Systems I, 1975, ch. 6", 0,
		[]claim{
			{"regular", "mean wait, s", "downstream/server/waits.mean", 0.169273},
			{"erlang-2", "mean wait, s", "downstream/server/waits.mean", 0.284398},
		},
	},
	{
		"repairman", "20 users, one server", "Reiser and Lavenberg 1980 (mean value analysis)", 0,
		[]claim{
			{"", "mean response time, s", "caller/users/jobs.mean", 1.003745},
			{"", "answers a second", "caller/users/throughput", 9.981308},
		},
	},
	{
		"discipline", "M/G/1 at load 0.7, other disciplines", "Kleinrock, Queueing Systems II, 1976, ch. 3 and 4", 0,
		[]claim{
			{"lifo", "mean wait, s", "downstream/server/waits.mean", 0.233333},
			{"lifo", "deviation of the wait, s", "downstream/server/waits.sd", 0.681230},
			{"shared", "mean time in the system, s", "downstream/server/sojourns.mean", 0.333333},
			{"shared constant", "mean time in the system, s", "downstream/server/sojourns.mean", 0.333333},
		},
	},
	{
		"impatience", "Callers who leave the queue", "Palm 1957, Garnett, Mandelbaum and Reiman 2002 (Erlang A); Barrer 1957 (M/M/1+D)", 0,
		[]claim{
			{"exponential", "share that leaves", "caller/calls/dead_share", 0.195656},
			{"exponential", "mean number waiting", "downstream/agents/queue_mean", 4.695737},
			{"constant", "share that leaves", "caller/calls/dead_share", 0.135350},
		},
	},
	{
		"jackson", "Three stations in a row", "Jackson 1957", 0,
		[]claim{
			{"", "mean time through all, s", "caller/jobs/jobs.mean", 1.138889},
			{"", "mean wait at the second, s", "downstream/second/waits.mean", 0.355556},
		},
	},
	{
		"retrial", "M/M/1 retrial queue", "Falin and Templeton, Retrial Queues, 1997: ρ² ÷ (1 − ρ) + λρ ÷ (θ(1 − ρ))", 0,
		[]claim{{"", "mean number in orbit", "caller/jobs/depth_mean", 3}},
	},
	{
		"two-choices", "100 servers, the less busy of two", "Mitzenmacher, The Power of Two Choices in Randomized Load Balancing, 2001: Σ ρ^(2^i − 2), for infinitely many servers; 1 to 2 % more for 100", 0.02,
		[]claim{
			{"random at 0.5", "mean time in the system, s", "caller/jobs/jobs.mean", 2},
			{"two at 0.5", "mean time in the system, s", "caller/jobs/jobs.mean", 1.265689},
			{"two at 0.9", "mean time in the system, s", "caller/jobs/jobs.mean", 2.614061},
		},
	},
	{
		"backoff-jitter", "100 clients contend for a row", "Brooker, Exponential Backoff And Jitter, 2015: its simulator, aws-samples/aws-arch-backoff-simulator, 100 runs", 0.03,
		[]claim{
			{"none", "calls", "caller/clients/calls", 2427.72},
			{"none", "all done after, s", "ended_at", 2.0355},
			{"exponential", "calls", "caller/clients/calls", 1848.93},
			{"exponential", "all done after, s", "ended_at", 63.392},
			{"equal", "calls", "caller/clients/calls", 811.18},
			{"equal", "all done after, s", "ended_at", 6.6976},
			{"full", "calls", "caller/clients/calls", 796.37},
			{"full", "all done after, s", "ended_at", 4.9361},
			{"decorrelated", "calls", "caller/clients/calls", 1002.78},
			{"decorrelated", "all done after, s", "ended_at", 4.5186},
		},
	},
	{
		"retry-budget", "Half of all calls fail", "Brooker, Fixing retries with token buckets and circuit breakers, 2022", 0,
		[]claim{
			{"once", "calls for each job", "caller/clients/amplification", 1},
			{"once", "share that succeeds", "caller/clients/success_share", 0.5},
			{"three", "calls for each job", "caller/clients/amplification", 1.875},
			{"three", "share that succeeds", "caller/clients/success_share", 0.9375},
			// A retry for every ten successes: r = 0.1 × 0.5 × (1 + r).
			{"bucket", "calls for each job", "caller/clients/amplification", 1 + 0.05/0.95},
		},
	},
	{
		"throttle", "Client-side throttling, K = 2, capacity 100 a second", "Site Reliability Engineering, 2016, ch. 21: the backend sees K times what it accepts", 0,
		[]claim{
			{"500 a second", "calls that reach the backend, a second", "caller/app/call_rate", 200},
			{"1000 a second", "calls that reach the backend, a second", "caller/app/call_rate", 200},
		},
	},
	{
		"backoff-for", "A long outage", "Brooker, What is Backoff For?, 2022: users who wait, and independent arrivals", 0,
		[]claim{
			{"closed hasty", "calls a second", "caller/clients/call_rate", 400 / 0.18},
			{"closed backoff", "calls a second", "caller/clients/call_rate", 400 / 0.88},
			{"open hasty", "calls a second", "caller/clients/call_rate", 400},
			{"open backoff", "calls a second", "caller/clients/call_rate", 400},
		},
	},
	{
		"collapse", "Latency that grows with concurrency", "Brooker 2021, mbrooker/simulator_example simple_collapse_sim, ramp, 10 runs", 0.06,
		[]claim{
			{"at once", "calls that succeed", "caller/clients/ok", 1029.2},
			{"at once", "timeouts", "caller/clients/timed_out", 7477},
			{"backoff and jitter", "calls that succeed", "caller/clients/ok", 1121.7},
			{"backoff and jitter", "timeouts", "caller/clients/timed_out", 5945},
		},
	},
	{
		"metastable", "Two tries, capacity 100 a second", "Bronson, Aghayev, Charapko and Zhu, Metastable Failures in Distributed Systems, 2021: vulnerable above capacity ÷ amplification", 0,
		[]claim{
			{"47 a second", "share of runs that recover", "caller/app/recovery.recovered", 1},
			{"53 a second", "share of runs that recover", "caller/app/recovery.recovered", 0},
			{"53 then 40", "share of runs that recover", "caller/app/recovery.recovered", 1},
		},
	},
	{
		"tail-at-scale", "A hundred servers asked at once", "Dean and Barroso, The Tail at Scale, 2013: 63 % take over a second, a mean of 0.634 × 1 s + 0.366 × 10 ms", 0,
		[]claim{{"", "mean time, s", "caller/users/jobs.mean", 0.637628}},
	},
	{
		"layers", "Retries at every layer", "Site Reliability Engineering, 2016, ch. 22: 64; Brooker, Timeouts, retries, and backoff with jitter, 2019: 243", 0,
		[]claim{
			{"three layers", "calls to the database for each job", "downstream/database/amplification", 64},
			{"five layers", "calls to the database for each job", "downstream/e/amplification", 243},
		},
	},
	{
		"rate-limit", "1,000 jobs against a rate limit", "by counting: 1,000 + 900 + 890 + … + 10, and 1,000 + 900 + … + 100", 0,
		[]claim{
			{"bucket", "calls", "caller/jobs/calls", 41950},
			{"bucket", "all done after, s", "ended_at", 90},
			{"window", "calls", "caller/jobs/calls", 5500},
			{"window", "all done after, s", "ended_at", 540},
		},
	},
	{
		"breaker", "A breaker in an outage of 100 s", "by counting: 5 calls, and probes after 10, 30 and 70 s", 0,
		[]claim{{"", "calls into the outage", "downstream/api/errors", 8}},
	},
}

// claim is one number of a publication.
type claim struct {
	variant, what, measure string
	value                  float64
}

func TestPublished(t *testing.T) {
	rows := make([]string, len(published))
	t.Run("results", func(t *testing.T) {
		for i, p := range published {
			t.Run(p.file, func(t *testing.T) {
				t.Parallel()
				f, err := file.Load(filepath.Join("testdata", "published", p.file+".yaml"))
				if err != nil {
					t.Fatal(err)
				}
				results := map[string]*simulate.Result{}
				for _, c := range p.claims {
					if results[c.variant] == nil {
						results[c.variant] = runVariant(t, f, c.variant)
					}
					ours := c.check(t, results[c.variant], p.near)
					rows[i] += fmt.Sprintf("| %s | %s | %.5g | %s |\n", cmp.Or(c.variant, "–"), c.what, c.value, ours)
				}
			})
		}
	})
	if t.Failed() {
		return
	}
	pageOf(t, rows)
}

func runVariant(t *testing.T, f *file.File, name string) *simulate.Result {
	t.Helper()
	s := f.Scenario
	if name != "" {
		v, ok := f.Variant(name)
		if !ok {
			t.Fatalf("no variant %q", name)
		}
		s = v.Scenario
	}
	r, err := simulate.Run(context.Background(), s, simulate.Options{Seeds: max(1, f.Seeds)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// check compares a claim with the estimate, within the confidence interval
// widened to 99.9 % (the quantile of 10 runs) and what the source may be off,
// and demands an interval that is narrow enough to mean something.
func (c *claim) check(t *testing.T, r *simulate.Result, near float64) string {
	t.Helper()
	e, ok := r.Estimate(c.measure)
	if !ok {
		t.Fatalf("no estimate %s", c.measure)
	}
	const narrow = 0.12
	if half := 2.2*e.Half + near*c.value; math.Abs(e.Mean-c.value) > half+1e-6*c.value {
		t.Errorf("%s: %s = %.6g ± %.2g, published %.6g", c.variant, c.measure, e.Mean, half, c.value)
	}
	if e.Half > narrow*c.value {
		t.Errorf("%s: %s: ± %.3g is too wide to judge %.4g by", c.variant, c.measure, e.Half, c.value)
	}
	if e.Half == 0 {
		return fmt.Sprintf("%.5g", e.Mean)
	}
	return fmt.Sprintf("%.5g ± %.2g", e.Mean, e.Half)
}

const pageHead = `# Published results

What others have printed, or what their formulas give, and what the simulator gives for the same. Every line is a scenario file in ` + "`simulate/file/testdata/published`" + `, which you can run: ` + "`ebb simulate FILE`" + `. Ours are means with 95 % confidence; a number without ± is the same in every run. A test holds each against the published value, within the confidence interval, and within a few per cent where the source is itself a mean of a few runs of another simulator. This page is written by that test: ` + "`go test ./simulate/file -run TestPublished -update`" + `.
`

func pageOf(t *testing.T, rows []string) {
	t.Helper()
	var page strings.Builder
	page.WriteString(pageHead)
	for i, p := range published {
		fmt.Fprintf(&page, "\n## %s\n\n`%s.yaml` · %s\n\n| case | what | published | ours |\n|---|---|---|---|\n%s", p.title, p.file, p.source, rows[i])
	}
	path := filepath.Join("..", "..", "docs", "published.md")
	if *update {
		if err := os.WriteFile(path, []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shown, err := os.ReadFile(path)
	if err != nil || string(shown) != page.String() {
		t.Errorf("docs/published.md is not what the scenarios give (%v); run: go test ./simulate/file -run TestPublished -update", err)
	}
}
