package sqlite_test

import (
	"bytes"
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
			process, settles := someHeld(t, s, n)
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

// Numbers with gaps between them are told run by run where these are long, as a
// map where most of the numbers between them are meant, or noted once for all
// statements of a turn: each start keeps its own instants, in whatever order they
// are told, and what is not named stays. Two turns, so that a note is replaced.
func TestScatteredStarts(t *testing.T) {
	const n = 400
	for _, c := range []struct {
		name string
		turn func(i int) int // in which a start is settled; none but 0 and 1 is
	}{
		{"scattered", func(i int) int { return i % 3 }},
		{"far apart", func(i int) int { return min(i%6, 2) }},
		{"dense at first", func(i int) int {
			switch {
			case i < n/4:
				return i % 2
			case i%9 == 0:
				return 1
			}
			return 2
		}},
		{"runs", func(i int) int {
			if i%100 == 99 {
				return 2
			}
			return i / (n / 2)
		}},
		{"runs, then scattered", func(i int) int {
			switch {
			case i < n/2 && i != 100:
				return 0
			case i < n/2:
				return 2
			}
			return 1 + i%2
		}},
	} {
		for _, to := range []job.State{job.Succeeded, job.Queued} {
			t.Run(c.name+" "+string(to), func(t *testing.T) {
				s := open(t)
				process, settles := someHeld(t, s, n)
				for i := range settles {
					a := settles[i].Attempt
					settles[i].To, a.OK, a.EndedAt = to, to == job.Succeeded, t0.Add(time.Duration(settles[i].Seq)*time.Millisecond)
				}
				var turns [3][]store.Settle
				for i := range settles {
					turns[c.turn(i)] = append(turns[c.turn(i)], settles[i])
				}
				for _, some := range turns[:2] {
					slices.Reverse(some)
					answer, err := s.Turn(t.Context(), store.Turn{Process: process, Now: t0.Add(time.Second), Settles: some})
					if err != nil || slices.Contains(answer.Settled, false) {
						t.Fatalf("settled %v: %v; want all", answer.Settled, err)
					}
				}
				running, err := s.List(t.Context(), store.Filter{State: job.Running}, store.Page{Limit: n})
				if err != nil || len(running) != len(turns[2]) {
					t.Errorf("%d are left running: %v; want %d", len(running), err, len(turns[2]))
				}
				for i, st := range settles {
					ledger, err := s.Attempts(t.Context(), st.Seq)
					switch settled := c.turn(i) < 2; {
					case err != nil:
						t.Fatal(err)
					case !settled && len(ledger) != 0:
						t.Errorf("job %d was not settled and has %d starts", st.Seq, len(ledger))
					case settled && (len(ledger) != 1 || !ledger[0].EndedAt.Equal(st.Attempt.EndedAt)):
						t.Errorf("job %d: got %+v, want one start until %v", st.Seq, ledger, st.Attempt.EndedAt)
					}
				}
			})
		}
	}
}

// Starts that ended alike but for their results are written together, and each
// keeps its own, byte by byte; those without stay without.
func TestResultsOfStartsAlike(t *testing.T) {
	for _, c := range []struct{ n, run, turns, some int }{
		{3, 1, 2, 3}, {7, 1, 2, 3}, // one by one, together
		{200, 1, 2, 3}, {400, 1, 6, 3}, // as a map, noted
		{600, 100, 2, 600}, // run by run
	} {
		n := c.n
		s := open(t)
		process, settles := someHeld(t, s, n)
		for i := range settles {
			if i%c.some > 0 {
				settles[i].Result = bytes.Repeat([]byte{0, 0xff, byte(i), '\''}, 1+i%5)
			}
		}
		scattered := slices.Clone(settles)
		slices.Reverse(scattered)
		for from := range c.turns { // with gaps between them
			var some []store.Settle
			for i := range n {
				if i/c.run%c.turns == from {
					some = append(some, scattered[i])
				}
			}
			answer, err := s.Turn(t.Context(), store.Turn{Process: process, Now: t0.Add(time.Second), Settles: some})
			if err != nil || slices.Contains(answer.Settled, false) {
				t.Fatalf("settled %v: %v; want all", answer.Settled, err)
			}
		}
		for _, st := range settles {
			j, err := s.Job(t.Context(), st.Seq)
			if err != nil {
				t.Fatal(err)
			}
			if j.State != job.Succeeded || !bytes.Equal(j.Result, st.Result) {
				t.Errorf("%d together: job %d is %s with result %q, want %q", n, st.Seq, j.State, j.Result, st.Result)
			}
		}
	}
}

// someHeld claims n jobs and returns their process, and how each succeeds.
func someHeld(t *testing.T, s store.Store, n int) (process int64, settles []store.Settle) {
	t.Helper()
	p, err := s.Register(t.Context(), t0, store.Process{Host: "h", Kinds: []string{"noop"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enqueue(t.Context(), t0, slices.Repeat([]job.New{{Kind: "noop"}}, n)); err != nil {
		t.Fatal(err)
	}
	answer, err := s.Turn(t.Context(), store.Turn{
		Process: p.ID, Now: t0, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"noop"}, Limit: n}},
	})
	if err != nil || len(answer.Claimed) != n {
		t.Fatalf("claimed %d jobs: %v; want %d", len(answer.Claimed), err, n)
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
