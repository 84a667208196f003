package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

const (
	// recentWindow is how far back Recent looks.
	recentWindow = 15 * time.Minute
	// recentLimit is the most ended jobs that Recent reads: with more in the
	// window, the figures are of the newest.
	recentLimit = 2000
	// recentSteps is into how many equal parts the window is cut.
	recentSteps = 30
	// deadTarget is the accepted share of dead letters of a policy whose
	// expect block names none.
	deadTarget = 0.02
)

// Recent is how the jobs that ended lately ended.
type Recent struct {
	// From and To are the window: 15 minutes, or less where more than 2,000
	// jobs ended in it.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// More is set where the window is less than 15 minutes.
	More      bool `json:"more,omitempty"`
	Succeeded int  `json:"succeeded"`
	Dead      int  `json:"dead"`
	Cancelled int  `json:"cancelled"`
	// Starts are those of these jobs over their lives; Retries of them came
	// after a job's first.
	Starts  int `json:"starts"`
	Retries int `json:"retries"`
	// P50 and P95 are the time to success, in seconds: from when a job could
	// have started. 0 = none succeeded.
	P50 float64 `json:"p50_s"`
	P95 float64 `json:"p95_s"`
	// Accepted is the share of dead letters that the policies expect, weighed
	// by how many of their jobs ended.
	Accepted float64        `json:"accepted"`
	Policies []RecentPolicy `json:"policies"` // most ended first
	Steps    []RecentStep   `json:"steps"`    // 30 equal parts of the window, oldest first
}

// RecentPolicy is what ended lately under one policy.
type RecentPolicy struct {
	Policy    string  `json:"policy"`
	Succeeded int     `json:"succeeded"`
	Dead      int     `json:"dead"`
	P95       float64 `json:"p95_s"`
	Accepted  float64 `json:"accepted"` // share of dead letters: expect.dead_letters, 0.02 unless given
}

// RecentStep is one part of the window.
type RecentStep struct {
	At        time.Time `json:"at"` // its beginning
	Succeeded int       `json:"succeeded"`
	Retried   int       `json:"retried"` // of those that succeeded, at a later start than the first
	Dead      int       `json:"dead"`
}

// share is a part of a whole; of nothing it is 0.
func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// DeadRate is the share of dead letters among the jobs that succeeded or died.
func (r *Recent) DeadRate() float64 { return share(r.Dead, r.Succeeded+r.Dead) }

// RetryRate is the share of retries among the starts.
func (r *Recent) RetryRate() float64 { return share(r.Retries, r.Starts) }

// PerMinute is how many ended a minute, of the given count.
func (r *Recent) PerMinute(n int) float64 {
	if span := r.To.Sub(r.From).Minutes(); span > 0 {
		return float64(n) / span
	}
	return 0
}

// DeadRate is the share of dead letters of the policy.
func (p *RecentPolicy) DeadRate() float64 { return share(p.Dead, p.Succeeded+p.Dead) }

// Met reports whether no more died than is accepted.
func (p *RecentPolicy) Met() bool { return p.DeadRate() <= p.Accepted }

// Recent tells how the jobs of the queues that ended lately ended; without
// queues, those of all.
func (e *Engine) Recent(ctx context.Context, queues []string) (Recent, error) {
	now, err := e.now(ctx)
	if err != nil {
		return Recent{}, fmt.Errorf("recent: %w", err)
	}
	rows, err := e.store.Recent(ctx, now.Add(-recentWindow), recentLimit)
	if err != nil {
		return Recent{}, fmt.Errorf("recent: %w", err)
	}
	from, more := now.Add(-recentWindow), len(rows) == recentLimit
	if more {
		from = rows[len(rows)-1].At
	}
	if queues != nil {
		rows = slices.DeleteFunc(rows, func(r store.Ended) bool { return !slices.Contains(queues, r.Queue) })
	}
	out := recentOf(rows, from, now, e.accepted)
	out.More = more
	return out, nil
}

// accepted is the share of dead letters that a policy expects.
func (e *Engine) accepted(name string) float64 {
	if p := e.byName[name]; p != nil && p.Expect.DeadLetters > 0 {
		return p.Expect.DeadLetters
	}
	return deadTarget
}

// recentOf makes the figures.
func recentOf(rows []store.Ended, from, to time.Time, accepted func(policy string) float64) Recent {
	out := Recent{From: utc(from), To: utc(to), Policies: []RecentPolicy{}, Steps: make([]RecentStep, recentSteps)}
	width := to.Sub(from) / recentSteps
	for i := range out.Steps {
		out.Steps[i].At = utc(from.Add(time.Duration(i) * width))
	}
	places := map[string]int{}
	took := map[string][]float64{} // by policy; of all under ""
	for i := range rows {
		r := &rows[i]
		if r.State == job.Cancelled {
			out.Cancelled++
			continue
		}
		out.Starts += r.Starts
		out.Retries += max(r.Starts-1, 0)
		place, known := places[r.Policy]
		if !known {
			place = len(out.Policies)
			places[r.Policy] = place
			out.Policies = append(out.Policies, RecentPolicy{Policy: r.Policy, Accepted: accepted(r.Policy)})
		}
		p, step := &out.Policies[place], &out.Steps[stepOf(r.At, from, width)]
		if r.State == job.Failed {
			p.Dead++
			step.Dead++
			out.Dead++
			continue
		}
		p.Succeeded++
		step.Succeeded++
		out.Succeeded++
		if r.Starts > 1 {
			step.Retried++
		}
		seconds := max(r.At.Sub(r.ReadyAt), 0).Seconds()
		took[""] = append(took[""], seconds)
		took["p"+r.Policy] = append(took["p"+r.Policy], seconds)
	}
	out.P50, out.P95 = quantile(took[""], 0.5), quantile(took[""], 0.95)
	for i := range out.Policies {
		p := &out.Policies[i]
		p.P95 = quantile(took["p"+p.Policy], 0.95)
		out.Accepted += p.Accepted * share(p.Succeeded+p.Dead, out.Succeeded+out.Dead)
	}
	slices.SortStableFunc(out.Policies, func(a, b RecentPolicy) int {
		return cmp.Or(cmp.Compare(b.Succeeded+b.Dead, a.Succeeded+a.Dead), cmp.Compare(a.Policy, b.Policy))
	})
	return out
}

func stepOf(at, from time.Time, width time.Duration) int {
	if width <= 0 {
		return recentSteps - 1
	}
	return int(min(max(at.Sub(from)/width, 0), recentSteps-1))
}

// quantile is the least value that a share q of all do not exceed.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[int(math.Ceil(q*float64(len(values))))-1]
}
