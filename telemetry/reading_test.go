package telemetry

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

// counted is a store that counts how often it is read.
type counted struct {
	*cutStore
	mu    sync.Mutex
	reads int
}

func (c *counted) Queues(ctx context.Context) ([]store.QueueState, error) {
	c.mu.Lock()
	c.reads++
	c.mu.Unlock()
	return c.cutStore.Queues(ctx)
}

// TestScrapesShareAReading: a scrape every moment reads the store once in the
// fresh time, and numbers that cannot be read are not shown old.
func TestScrapesShareAReading(t *testing.T) {
	machine := clock.NewFake(t0)
	s := &counted{cutStore: &cutStore{Store: memory.New(memory.Config{Clock: machine})}}
	enqueue(t, s, job.New{Kind: "k"})
	tel := New(Config{Store: s, Machine: machine, Fresh: 5 * time.Second})
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() { exposition(t, tel) })
	}
	group.Wait()
	if s.reads != 1 {
		t.Errorf("20 scrapes read the store %d times, want once", s.reads)
	}
	enqueue(t, s, job.New{Kind: "k"})
	machine.Advance(5*time.Second - 1)
	want(t, tel, map[string]string{`ebb_queue_jobs{queue="default",state="queued"}`: "1"})
	machine.Advance(1)
	want(t, tel, map[string]string{`ebb_queue_jobs{queue="default",state="queued"}`: "2", `ebb_queue_due_lag_seconds{queue="default"}`: "5"})
	if s.reads != 2 {
		t.Errorf("%d readings, want 2", s.reads)
	}
	s.gone.Store(true)
	machine.Advance(5 * time.Second)
	want(t, tel, map[string]string{"ebb_store_up": "0", `ebb_queue_jobs{queue="default",state="queued"}`: "", `ebb_processes{state="alive"}`: ""})
	s.gone.Store(false)
	machine.Advance(5 * time.Second)
	want(t, tel, map[string]string{"ebb_store_up": "1", `ebb_queue_jobs{queue="default",state="queued"}`: "2"})
}

// TestSilentProcess: a process without a heartbeat for longer than the lease
// serves nobody.
func TestSilentProcess(t *testing.T) {
	fake := clock.NewFake(t0)
	s := memory.New(memory.Config{Clock: fake})
	enqueue(t, s, job.New{Kind: "k", Queue: "a"}, job.New{Kind: "k", Queue: "b"})
	p, err := s.Register(t.Context(), time.Time{}, store.Process{Host: "h", Kinds: []string{"k"}, Queues: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Register(t.Context(), time.Time{}, store.Process{Host: "h", Kinds: []string{"k"}, Queues: []string{"b"}}); err != nil {
		t.Fatal(err)
	}
	tel := New(Config{Store: s, Machine: fake, Fresh: time.Nanosecond})
	want(t, tel, map[string]string{
		`ebb_processes{state="alive"}`: "2", `ebb_queue_processes{queue="a"}`: "1", `ebb_queue_processes{queue="b"}`: "2",
	})
	fake.Advance(20 * time.Second)
	want(t, tel, map[string]string{`ebb_processes{state="alive"}`: "2"})
	if _, err := s.Beat(t.Context(), time.Time{}, p.ID); err != nil {
		t.Fatal(err)
	}
	fake.Advance(time.Second)
	want(t, tel, map[string]string{
		`ebb_processes{state="alive"}`: "1", `ebb_processes{state="silent"}`: "1",
		`ebb_queue_processes{queue="a"}`: "1", `ebb_queue_processes{queue="b"}`: "1",
	})
}

// TestManyQueuesAndTargets: beyond the limit queues are summed and open
// breakers counted, and none is lost.
func TestManyQueuesAndTargets(t *testing.T) {
	fake := clock.NewFake(t0)
	s := memory.New(memory.Config{Clock: fake})
	for i := range 12 {
		enqueue(t, s, job.New{Kind: "k", Queue: fmt.Sprintf("q%02d", i), Target: fmt.Sprintf("t%02d", i)})
		if i < 9 {
			open(t, s, fmt.Sprintf("t%02d", i), t0.Add(time.Minute))
		}
	}
	if err := s.LimitQueue(t.Context(), time.Time{}, "me", "q00", store.QueueLimit{Concurrency: 1}); err != nil {
		t.Fatal(err)
	}
	tel := New(Config{Store: s, MaxNames: 5, Machine: fake, Fresh: time.Nanosecond})
	fake.Advance(time.Second)
	want(t, tel, map[string]string{
		`ebb_queue_jobs{queue="q04",state="queued"}`:   "1",
		`ebb_queue_jobs{queue="q05",state="queued"}`:   "",
		`ebb_queue_jobs{queue="other",state="queued"}`: "7",
		`ebb_queue_due_lag_seconds{queue="other"}`:     "1",
		`ebb_target_breaker_open{target="t04"}`:        "1",
		`ebb_target_breaker_open{target="other"}`:      "4",
		`ebb_targets{state="open"}`:                    "9",
		`ebb_targets{state="closed"}`:                  "3", // the gate of a limited queue is no target
	})
	// Nothing was left to probe with: open on paper only.
	fake.Advance(time.Minute + idleAfter)
	want(t, tel, map[string]string{`ebb_targets{state="open"}`: "0", `ebb_targets{state="closed"}`: "12", `ebb_target_breaker_open{target="t04"}`: ""})
}

// TestProbeWithoutWork: a breaker for which a probe was ordered, and which
// nothing was left to probe with, does not count as open for ever.
func TestProbeWithoutWork(t *testing.T) {
	fake := clock.NewFake(t0)
	s := memory.New(memory.Config{Clock: fake})
	open(t, s, "crm", t0.Add(time.Minute))
	rows, err := s.Gates(t.Context(), []string{"crm"})
	if err != nil {
		t.Fatal(err)
	}
	g := rows[0]
	g.State, _ = gate.Step(gate.Config{}, g.State, gate.Probe{}, t0, 0)
	if ok, err := s.SwapGate(t.Context(), t0, store.AuditRow{Act: "target.probe", What: "crm"}, store.Swap{Gate: g}); err != nil || !ok {
		t.Fatalf("the gate was not swapped: %v", err)
	}
	tel := New(Config{Store: s, Machine: fake, Fresh: time.Nanosecond})
	fake.Advance(idleAfter)
	want(t, tel, map[string]string{`ebb_targets{state="half_open"}`: "1", `ebb_target_breaker_open{target="crm"}`: "1"})
	fake.Advance(time.Second)
	want(t, tel, map[string]string{`ebb_targets{state="half_open"}`: "0", `ebb_targets{state="closed"}`: "1", `ebb_target_breaker_open{target="crm"}`: ""})
}
