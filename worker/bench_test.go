//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

// endless is a store whose turns cost next to nothing: claims are answered
// with jobs made up on the spot, as many as are left, and settles are taken
// unread. What a drain of it costs is the worker's own.
type endless struct {
	*memory.Store
	left, seq int64
}

// Turn is called by one turn at a time: the benchmark allows no second.
func (e *endless) Turn(_ context.Context, t store.Turn) (store.Turned, error) {
	answer := store.Turned{Settled: make([]bool, len(t.Settles))}
	for i := range t.Settles {
		answer.Settled[i] = true
	}
	for _, c := range t.Claims {
		n := min(int64(c.Limit), e.left)
		e.left -= n
		answer.Claimed = make([]job.Job, n)
		for i := range answer.Claimed {
			e.seq++
			answer.Claimed[i] = job.Job{
				Seq: e.seq, New: job.New{Kind: "k", Queue: job.DefaultQueue, Policy: "wide"},
				State: job.Running, Epoch: 1, Process: t.Process, Begun: true,
			}
		}
	}
	return answer, nil
}

// BenchmarkAlone is what the worker itself spends on a job that does nothing,
// without and with a handler that looks at its context.
func BenchmarkAlone(b *testing.B) {
	for name, handler := range map[string]Handler{
		"noop": func(context.Context, *Task) error { return nil },
		"asks": func(ctx context.Context, _ *Task) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			default:
				return nil
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			s := &endless{Store: newStore(), left: int64(b.N)}
			drain(b, s, Config{Concurrency: 4000, Turns: 1, Handlers: map[string]Handler{"k": handler}})
			if s.left > 0 {
				b.Fatalf("%d jobs are left", s.left)
			}
		})
	}
}

// BenchmarkDrain is a drain of a store in memory, which costs more than the
// worker does: handlers do nothing, or fail once.
func BenchmarkDrain(b *testing.B) {
	for name, handler := range map[string]Handler{
		"noop": func(context.Context, *Task) error { return nil },
		"fail once": func(_ context.Context, t *Task) error {
			if t.Start() == 1 {
				return errors.New("once")
			}
			return nil
		},
	} {
		b.Run(name, func(b *testing.B) {
			s := newStore()
			if _, err := s.Enqueue(b.Context(), time.Time{}, times(b.N, job.New{Kind: "k", Policy: "wide"})); err != nil {
				b.Fatal(err)
			}
			drain(b, s, Config{Concurrency: 4000, Handlers: map[string]Handler{"k": handler}})
		})
	}
}

// drain runs a worker until nothing is due, and reports the CPU time of a job.
func drain(b *testing.B, s store.Store, c Config) {
	c.Policies = append(c.Policies, wide("wide", func(p *policy.Policy) {
		p.Target, p.Backoff = policy.Process, policy.Backoff{Base: time.Microsecond, Factor: 1}
		p.Waivers = []policy.Waiver{{Rule: "floor", Reason: "calls nobody", Expires: time.Now().AddDate(1, 0, 0)}}
	}))
	w, err := New(s, c)
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	b.ReportAllocs()
	before := cpuTime(b)
	b.ResetTimer()
	go func() { ended <- w.Run(b.Context()) }()
	for left := true; left; {
		if err := w.Quiet(b.Context()); err != nil {
			b.Fatal(err)
		}
		due, err := s.NextDue(b.Context(), []string{job.DefaultQueue}, []string{"k"})
		if err != nil {
			b.Fatal(err)
		}
		left = !due.IsZero()
	}
	w.Stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// cpuTime is what this process has spent on all cores, also on garbage. On a
// busy machine it says more than the time that passed.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLanes is a drain of a store in memory of work with targets: how
// many, and how many calls each may get at once.
func BenchmarkLanes(b *testing.B) {
	for _, c := range []struct{ targets, limit int }{{1, 0}, {1, 40}, {100, 0}, {100, 4}, {1000, 4}} {
		b.Run(fmt.Sprintf("%d targets, limit %d", c.targets, c.limit), func(b *testing.B) {
			s := newStore()
			jobs := times(b.N, job.New{Kind: "k", Policy: "lane"})
			for i := range jobs {
				jobs[i].Target = fmt.Sprint("target", i%c.targets)
			}
			if _, err := s.Enqueue(b.Context(), time.Time{}, jobs); err != nil {
				b.Fatal(err)
			}
			limited := calling("lane", func(p *policy.Policy) { p.PerTarget.Concurrency = c.limit })
			drain(b, s, Config{
				Concurrency: 4000, Policies: []policy.Policy{limited},
				Handlers: map[string]Handler{"k": func(context.Context, *Task) error { return nil }},
			})
		})
	}
}
