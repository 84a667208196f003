package simulate_test

import (
	"math"
	"testing"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

const ms = time.Millisecond

func TestMM1(t *testing.T) {
	r := run(t, queue(t, 8, simulate.Downstream{Servers: 1, Service: simulate.Exp(100 * ms)}), 12)
	within(t, r, "downstream/server/waits.mean", 0.4, 0.05)
	within(t, r, "downstream/server/in_system_mean", 4, 0.05)
	within(t, r, "downstream/server/queue_mean", 3.2, 0.06)
	within(t, r, "downstream/server/utilisation", 0.8, 0.01)
	within(t, r, "downstream/server/idle_share", 0.2, 0.03)
	within(t, r, "downstream/server/sojourns.mean", 0.5, 0.05)
	// The time in the system is exponential: quantile q is −mean × ln(1−q).
	within(t, r, "caller/caller/jobs.p90", -0.5*math.Log(0.1), 0.06)
}

// erlangB is the loss of c servers at an offered load of a.
func erlangB(c int, a float64) float64 {
	b := 1.0
	for k := 1; k <= c; k++ {
		b = a * b / (float64(k) + a*b)
	}
	return b
}

func TestErlangC(t *testing.T) {
	const c, lambda, mu = 4, 34.0, 10.0
	a := lambda / mu
	b := erlangB(c, a)
	wait := b / (1 - a/c*(1-b)) // the probability of waiting
	r := run(t, queue(t, lambda, simulate.Downstream{Servers: c, Service: simulate.Exp(100 * ms)}), 10)
	within(t, r, "downstream/server/waits.mean", wait/(c*mu-lambda), 0.06)
	within(t, r, "downstream/server/queue_mean", wait*a/(c-a), 0.06)
	within(t, r, "downstream/server/wait_share", wait, 0.02)
	within(t, r, "downstream/server/busy_mean", a, 0.01)
}

// TestErlangB: the loss depends on the service time's mean alone.
func TestErlangB(t *testing.T) {
	for name, service := range map[string]simulate.Dist{
		"exponential": simulate.Exp(100 * ms),
		"constant":    simulate.Always(100 * ms),
		"bimodal": {Kind: simulate.Mixture, Parts: []simulate.Part{
			{Weight: 9, Dist: simulate.Always(50 * ms)}, {Weight: 1, Dist: simulate.Always(550 * ms)},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := queue(t, 60, simulate.Downstream{Servers: 8, Queue: pointer(0), Service: service})
			s.Length.Time = 1200 * time.Second
			r := run(t, s, 10)
			within(t, r, "downstream/server/loss_share", erlangB(8, 6), 0.05)
			within(t, r, "caller/caller/dead_share", erlangB(8, 6), 0.05)
			within(t, r, "downstream/server/busy_mean", 6*(1-erlangB(8, 6)), 0.01)
		})
	}
}

func TestMM1K(t *testing.T) {
	const rho, k = 0.9, 5.0 // one in service, four wait
	r := run(t, queue(t, 9, simulate.Downstream{Servers: 1, Queue: pointer(k - 1), Service: simulate.Exp(100 * ms)}), 10)
	within(t, r, "downstream/server/loss_share", (1-rho)*math.Pow(rho, k)/(1-math.Pow(rho, k+1)), 0.05)
	within(t, r, "downstream/server/in_system_mean", rho/(1-rho)-(k+1)*math.Pow(rho, k+1)/(1-math.Pow(rho, k+1)), 0.03)
}

// TestMG1: Pollaczek and Khinchine: the mean wait is λ E[S²] / 2(1−ρ).
func TestMG1(t *testing.T) {
	const lambda, mean = 7.0, 0.1
	bimodal := simulate.Dist{Kind: simulate.Mixture, Parts: []simulate.Part{
		{Weight: 0.9, Dist: simulate.Always(50 * ms)}, {Weight: 0.1, Dist: simulate.Always(550 * ms)},
	}}
	for _, c := range []struct {
		name    string
		service simulate.Dist
		second  float64 // moment
	}{
		{"constant", simulate.Always(100 * ms), mean * mean},
		{"uniform", simulate.Dist{Kind: simulate.Uniform, Max: 200 * ms}, 0.04 / 3},
		{"erlang", simulate.Dist{Kind: simulate.Gamma, Mean: 100 * ms, Shape: 4}, mean * mean * 1.25},
		{"lognormal", simulate.Dist{Kind: simulate.Lognormal, Mean: 100 * ms, SD: 100 * ms}, 2 * mean * mean},
		{"bimodal", bimodal, 0.9*0.05*0.05 + 0.1*0.55*0.55},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, queue(t, lambda, simulate.Downstream{Servers: 1, Service: c.service}), 12)
			within(t, r, "downstream/server/waits.mean", lambda*c.second/(2*(1-lambda*mean)), 0.09)
			within(t, r, "downstream/server/utilisation", lambda*mean, 0.02)
		})
	}
}

// TestProcessorSharing: the mean sojourn is E[S]/(1−ρ) whatever the service.
func TestProcessorSharing(t *testing.T) {
	service := simulate.Dist{Kind: simulate.Lognormal, Mean: 100 * ms, SD: 150 * ms}
	r := run(t, queue(t, 7, simulate.Downstream{Servers: 1, Order: simulate.PS, Service: service}), 10)
	within(t, r, "downstream/server/sojourns.mean", 0.1/0.3, 0.06)
	within(t, r, "downstream/server/utilisation", 0.7, 0.02)
}

// TestLIFO: the order changes the spread of waits, not their mean.
func TestLIFO(t *testing.T) {
	r := run(t, queue(t, 7, simulate.Downstream{Servers: 1, Order: simulate.LIFO, Service: simulate.Exp(100 * ms)}), 10)
	within(t, r, "downstream/server/waits.mean", 0.7/3, 0.06)
}

// birthDeath returns the stationary distribution of a birth-death chain.
func birthDeath(states int, birth, death func(k int) float64) []float64 {
	p := make([]float64, states)
	p[0] = 1
	sum := 1.0
	for k := 1; k < states; k++ {
		p[k] = p[k-1] * birth(k-1) / death(k)
		sum += p[k]
	}
	for k := range p {
		p[k] /= sum
	}
	return p
}

// TestErlangA: callers who wait in the queue lose patience.
func TestErlangA(t *testing.T) {
	const c, lambda, mu, theta = 5, 60.0, 10.0, 2.0
	p := birthDeath(400, func(int) float64 { return lambda }, func(k int) float64 {
		return float64(min(k, c))*mu + float64(max(0, k-c))*theta
	})
	waiting := 0.0
	for k := c; k < len(p); k++ {
		waiting += float64(k-c) * p[k]
	}
	s := queue(t, lambda, simulate.Downstream{Servers: c, Service: simulate.Exp(100 * ms), MaxWait: simulate.Exp(500 * ms)})
	s.Length.Time = 2000 * time.Second
	r := run(t, s, 10)
	within(t, r, "downstream/server/queue_mean", waiting, 0.04)
	within(t, r, "caller/caller/dead_share", theta*waiting/lambda, 0.04)
}

// TestTimeoutsThatFreeTheServer: a timeout that also ends service makes the
// number in system a birth-death chain.
func TestTimeoutsThatFreeTheServer(t *testing.T) {
	const lambda, mu, theta = 12.0, 10.0, 4.0
	p := birthDeath(400, func(int) float64 { return lambda }, func(k int) float64 { return mu + float64(k)*theta })
	mean := 0.0
	for k := range p {
		mean += float64(k) * p[k]
	}
	s := queue(t, lambda, simulate.Downstream{Servers: 1, Service: simulate.Exp(100 * ms), Abandoned: simulate.Cancel})
	patience := simulate.Exp(250 * ms)
	s.Callers[0].Timeout = &patience
	r := run(t, s, 10)
	within(t, r, "downstream/server/in_system_mean", mean, 0.03)
	within(t, r, "caller/caller/dead_share", theta*mean/lambda, 0.03)
}

// TestRepairmen: a closed set of N users who think, one server.
func TestRepairmen(t *testing.T) {
	const users, mu, think = 10, 10.0, 1.0 // rates
	p := birthDeath(users+1, func(k int) float64 { return float64(users-k) * think }, func(int) float64 { return mu })
	s := queue(t, 1, simulate.Downstream{Servers: 1, Service: simulate.Exp(100 * ms)})
	s.Callers[0].Arrivals = []simulate.Arrivals{{Kind: simulate.Closed, Users: users, Think: simulate.Exp(time.Second)}}
	r := run(t, s, 10)
	within(t, r, "downstream/server/utilisation", 1-p[0], 0.02)
	within(t, r, "caller/caller/goodput", mu*(1-p[0]), 0.02)
	// N = X (R + Z): the interactive response time law.
	within(t, r, "caller/caller/jobs.mean", users/(mu*(1-p[0]))-1/think, 0.05)
}

// TestRetrialQueue: M/M/1 without a queue whose blocked callers come again
// after an exponential time: the orbit's mean is ρ(λ+ρν)/((1−ρ)ν).
func TestRetrialQueue(t *testing.T) {
	const lambda, rho, nu = 5.0, 0.5, 5.0
	s := queue(t, lambda, simulate.Downstream{Servers: 1, Queue: pointer(0), Service: simulate.Exp(100 * ms)})
	again := simulate.Exp(200 * ms)
	s.Callers[0].Client = calls(tries(t, policy.MaxWhole, time.Second), "server")
	s.Callers[0].Delay = &again
	r := run(t, s, 10)
	within(t, r, "caller/caller/depth_mean", rho*(lambda+rho*nu)/((1-rho)*nu), 0.05)
	within(t, r, "caller/caller/success_share", 1, 0)
}

// TestInfiniteServers: M/G/∞ holds λ E[S] on average.
func TestInfiniteServers(t *testing.T) {
	s := queue(t, 50, simulate.Downstream{Service: simulate.Dist{Kind: simulate.Pareto, Min: 100 * ms, Shape: 2.5}})
	r := run(t, s, 10)
	within(t, r, "downstream/server/in_system_mean", 50*0.1*2.5/1.5, 0.03)
}

// TestLittle: with exact integrals L = λW holds in every run that drains, not
// only in the limit.
func TestLittle(t *testing.T) {
	s := queue(t, 9, simulate.Downstream{Servers: 1, Queue: pointer(20), Service: simulate.Exp(100 * ms)})
	s.WarmUp, s.Length = 0, simulate.Length{Jobs: 20000, End: simulate.Drain}
	s.Callers[0].Client = calls(tries(t, 3, 300*ms), "server")
	for _, o := range run(t, s, 3).Runs {
		d, c := o.Downstream("server"), o.Caller("caller")
		near(t, "downstream L", d.Totals.InSystemMean*o.EndedAt, d.Sojourns.Mean*float64(d.Sojourns.Count), 1e-9)
		near(t, "downstream Lq", d.Totals.QueueMean*o.EndedAt, d.Waits.Mean*float64(d.Waits.Count), 1e-9)
		near(t, "in flight", c.Totals.InFlightMean*o.EndedAt, c.Calls.Mean*float64(c.Calls.Count), 1e-9)
		near(t, "busy", d.Totals.BusyMean*o.EndedAt, d.Services.Mean*float64(d.Services.Count), 1e-9)
		if c.Totals.Unfinished != 0 || o.CutShort {
			t.Errorf("a drained run left %d jobs", c.Totals.Unfinished)
		}
	}
}

// TestBatchesInPoissonStreams: M^K/M/1 holds ρ(1+K)/(2(1−ρ)) on average.
func TestBatchesInPoissonStreams(t *testing.T) {
	const k, rho = 4.0, 0.6
	s := queue(t, rho*10/k, simulate.Downstream{Servers: 1, Service: simulate.Exp(100 * ms)})
	s.Callers[0].Arrivals[0].Size = k
	within(t, run(t, s, 12), "downstream/server/in_system_mean", rho*(1+k)/(2*(1-rho)), 0.05)
}

// TestRandomOutages: with up and down times of means U and D the share of
// failures is D/(U+D).
func TestRandomOutages(t *testing.T) {
	s := queue(t, 10, simulate.Downstream{Faults: []simulate.Fault{{
		Kind: simulate.FaultRefuse, Up: simulate.Exp(9 * time.Second), Down: simulate.Dist{Kind: simulate.Uniform, Max: 2 * time.Second},
	}}})
	within(t, run(t, s, 12), "caller/caller/dead_share", 0.1, 0.06)
}

// TestBalancing: eight servers at 90 % load. Random choice makes each an
// M/M/1; two choices come near the known fixed point Σ ρ^(2^i − 1), the
// shortest queue is better still.
func TestBalancing(t *testing.T) {
	const rho = 0.9
	sojourn := map[simulate.Pick]float64{}
	for _, pick := range []simulate.Pick{simulate.Random, simulate.TwoChoices, simulate.Least} {
		s := queue(t, 8*rho*10, simulate.Downstream{Servers: 1, Copies: 8, Service: simulate.Exp(100 * ms)})
		s.Callers[0].Pick = pick
		s.Length.Time = 2000 * time.Second
		r := run(t, s, 10)
		if pick == simulate.Random {
			within(t, r, "caller/caller/jobs.mean", 0.1/(1-rho), 0.1)
		}
		e, _ := r.Estimate("caller/caller/jobs.mean")
		sojourn[pick] = e.Mean
	}
	limit := 0.0 // for infinitely many servers
	for i := 1; i < 12; i++ {
		limit += math.Pow(rho, math.Pow(2, float64(i))-2) * 0.1
	}
	if two := sojourn[simulate.TwoChoices]; two < limit*0.98 || two > limit*1.35 {
		t.Errorf("two choices: %v s, the limit for many servers is %v", two, limit)
	}
	if sojourn[simulate.Least] > sojourn[simulate.TwoChoices] {
		t.Errorf("sojourns %v", sojourn)
	}
}
