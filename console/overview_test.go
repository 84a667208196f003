package console

import (
	"testing"
	"time"

	"github.com/ebbhq/ebb/engine"
)

func TestDrawing(t *testing.T) {
	from := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r := &engine.Recent{From: from, To: from.Add(15 * time.Minute), Steps: make([]engine.RecentStep, 30), Succeeded: 35, Dead: 1}
	r.Steps[0] = engine.RecentStep{Succeeded: 35, Retried: 10, Dead: 1}
	e := drawEndings(r)
	if e.Most != 50 || len(e.First) != 1 || len(e.Retried) != 1 || len(e.Dead) != 1 {
		t.Fatalf("%+v", e)
	}
	// 25, 10 and 1 of 50 over a height of 120, on each other.
	for _, c := range []struct {
		name      string
		got, want bar
	}{
		{"first", e.First[0], bar{"2.7", "60", "24.6", "60"}},
		{"retried", e.Retried[0], bar{"2.7", "36", "24.6", "24"}},
		{"dead", e.Dead[0], bar{"2.7", "33.6", "24.6", "2.4"}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, c.got, c.want)
		}
	}
	for n, want := range map[int]int{1: 1, 2: 2, 3: 5, 6: 10, 11: 20, 100: 100, 101: 200} {
		if got := roundUp(n); got != want {
			t.Errorf("roundUp(%d) = %d, want %d", n, got, want)
		}
	}
	for _, c := range []struct {
		rate, accepted float64
		want           meter
	}{{0, 0.02, meter{"0", false}}, {0.01, 0.02, meter{"25", false}}, {0.02, 0.02, meter{"50", false}}, {0.5, 0.02, meter{"100", true}}, {0.1, 0, meter{"100", true}}} {
		if got := drawMeter(c.rate, c.accepted); got != c.want {
			t.Errorf("%v of %v: %+v, want %+v", c.rate, c.accepted, got, c.want)
		}
	}
}

func TestVerdict(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	lately := func(succeeded, dead int) engine.Recent {
		return engine.Recent{
			From: now.Add(-15 * time.Minute), To: now, Succeeded: succeeded, Dead: dead,
			Policies: []engine.RecentPolicy{{Policy: "webhook", Succeeded: succeeded, Dead: dead, Accepted: 0.02}},
		}
	}
	some := []queueRow{{Queue: engine.Queue{Name: "mail"}}}
	alive := []engine.Worker{{Process: 1, Alive: true}}
	for _, c := range []struct {
		name string
		b    overviewBody
		want verdict
	}{
		{"empty", overviewBody{}, verdict{"ok", "All is well", "Nothing was enqueued yet."}},
		{"idle", overviewBody{Queues: some, Recent: engine.Recent{From: now.Add(-15 * time.Minute), To: now}}, verdict{"ok", "All is well", "Nothing due waits, and nothing ended in the last 15 min."}},
		{"busy", overviewBody{Queues: some, Recent: lately(99, 1)}, verdict{"ok", "All is well", "Due work starts at once, and 99.0\u202f% of what ended lately succeeded."}},
		{"slow", overviewBody{Queues: some, Workers: alive, Lag: 2 * time.Minute, LagOf: "mail"}, verdict{"warn", "Work waits", "Due work has waited for 2 min in mail."}},
		{
			"nobody, and two more",
			overviewBody{Queues: some, Lag: 2 * time.Minute, LagOf: "mail", Recent: lately(9, 1), Paused: 1},
			verdict{"bad", "Nobody works", "No live process serves the queues, and due work has waited for 2 min. 10\u202f% of the jobs of webhook died lately, and 2.0\u202f% are accepted. 1 queue is paused by order."},
		},
		{
			"worst gives the level",
			overviewBody{Queues: some, Workers: alive, Lag: 2 * time.Minute, LagOf: "mail", Recent: lately(1, 1)},
			verdict{"bad", "More dies than was promised", "Due work has waited for 2 min in mail. 50\u202f% of the jobs of webhook died lately, and 2.0\u202f% are accepted."},
		},
		{
			"down",
			overviewBody{Queues: some, Parked: &parkedSum{Down: []downTarget{{Name: "crm", Jobs: 1}}}},
			verdict{"warn", "Some targets are down", "1 job is parked until crm is well; nothing is lost."},
		},
		{
			"several down",
			overviewBody{Queues: some, Parked: &parkedSum{Down: []downTarget{{Name: "crm", Jobs: 120}, {Name: "shop", Jobs: 2}}}},
			verdict{"warn", "Some targets are down", "122 jobs are parked until crm and 1 more are well; nothing is lost."},
		},
		{"held", overviewBody{Queues: some, Held: []engine.Target{{Name: "crm"}}}, verdict{"warn", "Some targets are held back", "Work that calls crm waits, and spends no attempt."}},
	} {
		if got := c.b.judge(); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}
