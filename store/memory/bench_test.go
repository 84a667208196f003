package memory_test

import (
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

// BenchmarkDrain claims and settles 100 of b.N jobs a turn, beside 100,000
// that are not due and 100,000 of a kind that nobody here knows.
func BenchmarkDrain(b *testing.B) {
	now := time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)
	s := memory.New(memory.Config{})
	fill := func(n int, what job.New) {
		jobs := make([]job.New, n)
		for i := range jobs {
			jobs[i] = what
		}
		if _, err := s.Enqueue(b.Context(), now, jobs); err != nil {
			b.Fatal(err)
		}
	}
	fill(100_000, job.New{Kind: "mail", DueAt: now.Add(time.Hour)})
	fill(100_000, job.New{Kind: "other"})
	fill(b.N, job.New{Kind: "mail", Priority: 1})
	p, err := s.Register(b.Context(), now, store.Process{})
	if err != nil {
		b.Fatal(err)
	}
	turn := store.Turn{Process: p.ID, Now: now, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 100}}}
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		answer, err := s.Turn(b.Context(), turn)
		if err != nil || len(answer.Claimed) == 0 && done+len(turn.Settles) < b.N {
			b.Fatal(err, done, len(answer.Claimed))
		}
		done += len(turn.Settles)
		turn.Settles = turn.Settles[:0]
		for _, j := range answer.Claimed {
			turn.Settles = append(turn.Settles, store.Settle{Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Succeeded, History: j.History})
		}
	}
}
