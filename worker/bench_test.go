package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
)

// BenchmarkDrain is the worker's own cost of a job: the store is memory and
// the handlers do nothing, or fail once.
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
			p := wide("wide", func(p *policy.Policy) {
				p.Target, p.Backoff = policy.Process, policy.Backoff{Base: time.Microsecond, Factor: 1}
				p.Waivers = []policy.Waiver{{Rule: "floor", Reason: "calls nobody", Expires: time.Now().AddDate(1, 0, 0)}}
			})
			s := newStore()
			if _, err := s.Enqueue(b.Context(), time.Time{}, times(b.N, job.New{Kind: "k", Policy: "wide"})); err != nil {
				b.Fatal(err)
			}
			w, err := New(s, Config{Concurrency: 4000, Policies: []policy.Policy{p}, Handlers: map[string]Handler{"k": handler}})
			if err != nil {
				b.Fatal(err)
			}
			ended := make(chan error, 1)
			b.ReportAllocs()
			b.ResetTimer()
			go func() { ended <- w.Run(b.Context()) }()
			for left := true; left; {
				if err := w.Quiet(b.Context()); err != nil {
					b.Fatal(err)
				}
				due, err := s.NextDue(b.Context(), []string{job.DefaultQueue})
				if err != nil {
					b.Fatal(err)
				}
				left = !due.IsZero()
			}
			w.Stop()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
		})
	}
}
