//go:build unix

package sqlite_test

import (
	"cmp"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
)

// The benchmarks do rounds of Ebb and of lean design B in turn, on the same
// disk with full durability, and report the medians: only the ratio counts.
//
//	go test -run - -bench . -benchtime 7x ./store/sqlite
const (
	benchJobs  = 20_000
	benchBatch = 500
)

var benchArgs = []byte(`{"id":12345,"name":"someone@example.com"}`)

// cost is what a round took.
type cost struct{ wall, cpu time.Duration }

// contest times both sides round by round. On a busy machine the CPU time is
// the steadier measure.
func contest(b *testing.B, ebb, lean func() cost) {
	var ours, limit []cost
	for b.Loop() {
		ours = append(ours, ebb())
		limit = append(limit, lean())
	}
	us, them := medians(ours), medians(limit)
	b.ReportMetric(benchJobs/us.wall.Seconds(), "ebb-jobs/s")
	b.ReportMetric(benchJobs/them.wall.Seconds(), "lean-jobs/s")
	b.ReportMetric(them.wall.Seconds()/us.wall.Seconds(), "of-lean")
	b.ReportMetric(float64(us.cpu.Microseconds())/benchJobs, "ebb-cpu-us/job")
	b.ReportMetric(float64(them.cpu.Microseconds())/benchJobs, "lean-cpu-us/job")
	b.ReportMetric(0, "ns/op")
}

func medians(rounds []cost) cost {
	var m cost
	slices.SortFunc(rounds, func(a, b cost) int { return cmp.Compare(a.wall, b.wall) })
	m.wall = rounds[len(rounds)/2].wall
	slices.SortFunc(rounds, func(a, b cost) int { return cmp.Compare(a.cpu, b.cpu) })
	m.cpu = rounds[len(rounds)/2].cpu
	return m
}

// contestant is Ebb in the ring.
type contestant struct {
	b       *testing.B
	s       *sqlite.Store
	process int64
	now     time.Time
}

func newContestant(b *testing.B) *contestant {
	b.Helper()
	s := openAt(b, filepath.Join(b.TempDir(), "ebb.db"), sqlite.Options{})
	now := time.Now()
	p, err := s.Register(b.Context(), now, store.Process{Host: "h", Kinds: []string{"noop"}})
	if err != nil {
		b.Fatal(err)
	}
	return &contestant{b: b, s: s, process: p.ID, now: now}
}

func (c *contestant) enqueue(jobs []job.New) {
	c.b.Helper()
	for batch := range slices.Chunk(jobs, benchBatch) {
		if _, err := c.s.Enqueue(c.b.Context(), c.now, batch); err != nil {
			c.b.Fatal(err)
		}
	}
}

func benchLoad() []job.New {
	return slices.Repeat([]job.New{{Kind: "noop", Args: benchArgs}}, benchJobs)
}

// drain runs every due job; end says how each start ends.
func (c *contestant) drain(end func(j *job.Job) store.Settle) int {
	c.b.Helper()
	ran := 0
	claims := []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"noop"}, Limit: benchBatch}}
	var settles []store.Settle
	for {
		c.now = c.now.Add(time.Millisecond)
		answer, err := c.s.Turn(c.b.Context(), store.Turn{Process: c.process, Now: c.now, Settles: settles, Claims: claims})
		if err != nil {
			c.b.Fatal(err)
		}
		if slices.Contains(answer.Settled, false) {
			c.b.Fatal("a settle was refused")
		}
		ran += len(answer.Claimed)
		if len(answer.Claimed) == 0 {
			return ran
		}
		settles = settles[:0]
		for i := range answer.Claimed {
			settles = append(settles, end(&answer.Claimed[i]))
		}
	}
}

func (c *contestant) succeed(j *job.Job) store.Settle {
	h := j.History.Started(j.LeasedAt)
	return store.Settle{
		Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Succeeded, History: h,
		Attempt: &job.Attempt{Start: h.Starts, StartedAt: j.LeasedAt.Add(time.Duration(j.Seq%100) * time.Microsecond), EndedAt: c.now, OK: true, Version: "v1"},
	}
}

func (c *contestant) failOnce(j *job.Job) store.Settle {
	if j.History.Attempts > 0 {
		return c.succeed(j)
	}
	h := j.History.Started(j.LeasedAt)
	h.Attempts++
	return store.Settle{
		Ref: store.Ref{Seq: j.Seq, Epoch: j.Epoch}, To: job.Queued, History: h, Fingerprint: "f1",
		Attempt: &job.Attempt{
			Start: h.Starts, StartedAt: j.LeasedAt, EndedAt: c.now, Class: failure.Server, Status: 503, Error: "no answer",
			Action: "retry", Counted: retry.CountedAttempt, Rule: "builtin/server", Version: "v1",
		},
	}
}

func timed(f func()) cost {
	began, spent := time.Now(), cpuTime()
	f()
	return cost{wall: time.Since(began), cpu: cpuTime() - spent}
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		panic(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

func BenchmarkEnqueue(b *testing.B) {
	c, l, load := newContestant(b), newLean(b), benchLoad()
	contest(b,
		func() cost { return timed(func() { c.enqueue(load) }) },
		func() cost {
			return timed(func() {
				for range benchJobs / benchBatch {
					l.enqueue(benchBatch)
				}
			})
		})
}

// BenchmarkEnqueueMixed has jobs that differ in more than their args.
func BenchmarkEnqueueMixed(b *testing.B) {
	c, l, load := newContestant(b), newLean(b), benchLoad()
	for i := range load {
		load[i].Target, load[i].DueAt = "host"+string(rune('a'+i%26)), c.now.Add(time.Duration(i)*time.Microsecond)
	}
	contest(b,
		func() cost { return timed(func() { c.enqueue(load) }) },
		func() cost {
			return timed(func() {
				for range benchJobs / benchBatch {
					l.enqueue(benchBatch)
				}
			})
		})
}

func BenchmarkDrain(b *testing.B) { benchDrain(b, 0) }

// BenchmarkDrainFuture has half a million jobs of tomorrow beside the ready
// ones, on Ebb's side alone.
func BenchmarkDrainFuture(b *testing.B) { benchDrain(b, 500_000) }

func benchDrain(b *testing.B, future int) {
	c, l, load := newContestant(b), newLean(b), benchLoad()
	if future > 0 {
		later := benchLoad()
		for i := range later {
			later[i].DueAt = c.now.Add(24 * time.Hour)
		}
		for range future / benchJobs {
			c.enqueue(later)
		}
	}
	contest(b,
		func() cost {
			c.enqueue(load)
			return timed(func() {
				if n := c.drain(c.succeed); n != benchJobs {
					b.Fatalf("ran %d", n)
				}
			})
		},
		func() cost {
			l.enqueue(benchJobs)
			return timed(func() {
				for ran := l.turn(nil, false, benchBatch); len(ran) > 0; {
					ran = l.turn(ran, false, benchBatch)
				}
			})
		})
}

func BenchmarkFailOnce(b *testing.B) {
	c, l, load := newContestant(b), newLean(b), benchLoad()
	contest(b,
		func() cost {
			c.enqueue(load)
			return timed(func() {
				if n := c.drain(c.failOnce); n != 2*benchJobs {
					b.Fatalf("ran %d", n)
				}
			})
		},
		func() cost {
			l.enqueue(benchJobs)
			return timed(func() {
				left := benchJobs // first starts
				for ran := l.turn(nil, false, benchBatch); len(ran) > 0; {
					first := left > 0
					left -= len(ran)
					ran = l.turn(ran, first, benchBatch)
				}
			})
		})
}
