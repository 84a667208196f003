package sqlite_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// A batch is looked at as a whole where all its leases are alike. One that is
// not must be judged by itself, and leave the others as they are.
func TestOddLeaseAmongMany(t *testing.T) {
	const n = 6
	for _, c := range []struct {
		name    string
		odd     func(t *testing.T, s store.Store, settles []store.Settle) []store.Settle
		settled []bool
		running int64 // jobs that are left so
		ended   map[job.State]int64
	}{
		{
			"none", func(_ *testing.T, _ store.Store, settles []store.Settle) []store.Settle { return settles },
			[]bool{true, true, true, true, true, true},
			0,
			map[job.State]int64{job.Succeeded: n},
		},
		{"stale epoch", func(_ *testing.T, _ store.Store, settles []store.Settle) []store.Settle {
			settles[3].Epoch--
			return settles
		}, []bool{true, true, true, false, true, true}, 1, map[job.State]int64{job.Succeeded: n - 1}},
		{"all stale", func(_ *testing.T, _ store.Store, settles []store.Settle) []store.Settle {
			for i := range settles {
				settles[i].Epoch++
			}
			return settles
		}, make([]bool, n), n, nil},
		{"named twice", func(_ *testing.T, _ store.Store, settles []store.Settle) []store.Settle {
			return append(settles, settles[0])
		}, []bool{true, true, true, true, true, true, false}, 0, map[job.State]int64{job.Succeeded: n}},
		{"nobody's", func(_ *testing.T, _ store.Store, settles []store.Settle) []store.Settle {
			settles[0].Seq = 1000
			return settles
		}, []bool{false, true, true, true, true, true}, 1, map[job.State]int64{job.Succeeded: n - 1}},
		{"to be cancelled", func(t *testing.T, s store.Store, settles []store.Settle) []store.Settle {
			if _, err := s.Cancel(t.Context(), t0, "ops", settles[5].Seq); err != nil {
				t.Fatal(err)
			}
			for i := range settles {
				settles[i].To, settles[i].Attempt.OK = job.Queued, false
			}
			return settles
		}, []bool{true, true, true, true, true, true}, 0, map[job.State]int64{job.Queued: n - 1, job.Cancelled: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			process, settles := sixHeld(t, s)
			answer, err := s.Turn(t.Context(), store.Turn{Process: process, Now: t0.Add(time.Second), Settles: c.odd(t, s, settles)})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(answer.Settled, c.settled) {
				t.Errorf("settled: got %v, want %v", answer.Settled, c.settled)
			}
			for _, state := range []job.State{job.Queued, job.Running, job.Succeeded, job.Cancelled} {
				want := c.ended[state]
				if state == job.Running {
					want = c.running
				}
				found, err := s.List(t.Context(), store.Filter{State: state}, store.Page{Limit: 10})
				if err != nil {
					t.Fatal(err)
				}
				if int64(len(found)) != want {
					t.Errorf("%s: got %d jobs, want %d", state, len(found), want)
				}
			}
		})
	}
}

// sixHeld claims six jobs and returns their process, and how each succeeds.
func sixHeld(t *testing.T, s store.Store) (process int64, settles []store.Settle) {
	t.Helper()
	p, err := s.Register(t.Context(), t0, store.Process{Host: "h", Kinds: []string{"noop"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enqueue(t.Context(), t0, slices.Repeat([]job.New{{Kind: "noop"}}, 6)); err != nil {
		t.Fatal(err)
	}
	answer, err := s.Turn(t.Context(), store.Turn{
		Process: p.ID, Now: t0, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"noop"}, Limit: 6}},
	})
	if err != nil || len(answer.Claimed) != 6 {
		t.Fatalf("claimed %d jobs: %v; want 6", len(answer.Claimed), err)
	}
	for _, j := range answer.Claimed {
		h := j.History.Started(t0)
		settles = append(settles, store.Settle{
			Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Succeeded, History: h,
			Attempt: &job.Attempt{Start: h.Starts, StartedAt: t0, EndedAt: t0.Add(time.Second), OK: true},
		})
	}
	return p.ID, settles
}
