package engine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

func TestRecentFigures(t *testing.T) {
	from := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	to := from.Add(15 * time.Minute)
	at := func(seconds int) time.Time { return from.Add(time.Duration(seconds) * time.Second) }
	var rows []store.Ended
	for i := range 20 { // 1 s to 20 s, one every 30 s
		rows = append(rows, store.Ended{State: job.Succeeded, At: at(30 * i), ReadyAt: at(30*i - i - 1), Policy: "webhook", Starts: 1 + i%2})
	}
	rows = append(rows,
		store.Ended{State: job.Failed, At: at(900), ReadyAt: at(0), Policy: "webhook", Starts: 6},
		store.Ended{State: job.Failed, At: at(899), ReadyAt: at(0), Policy: "own", Starts: 1},
		store.Ended{State: job.Cancelled, At: at(10), ReadyAt: at(0), Policy: "other"})
	accepted := func(name string) float64 { return map[string]float64{"webhook": 0.02, "own": 0.5}[name] }
	got := recentOf(rows, from, to, accepted)
	steps := got.Steps
	got.Steps = nil
	want := Recent{
		From: from, To: to, Succeeded: 20, Dead: 2, Cancelled: 1, Starts: 30 + 7, Retries: 10 + 5, P50: 10, P95: 19,
		Accepted: (21*0.02 + 0.5) / 22,
		Policies: []RecentPolicy{
			{Policy: "webhook", Succeeded: 20, Dead: 1, P95: 19, Accepted: 0.02},
			{Policy: "own", Dead: 1, Accepted: 0.5},
		},
	}
	near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 })
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(steps) != recentSteps || steps[1] != (RecentStep{At: at(30), Succeeded: 1, Retried: 1}) || steps[29] != (RecentStep{At: at(870), Dead: 2}) {
		t.Errorf("steps %+v", steps)
	}
	if got.PerMinute(got.Succeeded) != 20.0/15 || got.DeadRate() != 2.0/22 || got.RetryRate() != 15.0/37 {
		t.Errorf("rates %v %v %v", got.PerMinute(got.Succeeded), got.DeadRate(), got.RetryRate())
	}
	if got.Policies[0].Met() || got.Policies[1].Met() {
		t.Error("1 of 21 is more than 2 %, 1 of 1 more than half")
	}
	if empty := recentOf(nil, to, to, accepted); empty.DeadRate() != 0 || empty.PerMinute(0) != 0 || len(empty.Steps) != recentSteps {
		t.Errorf("of nothing: %+v", empty)
	}
}

// TestAPartLooksAtSoManyJobs: a list that may look at few jobs at a time finds
// all in the end, and says so by a cursor where it found none.
func TestAPartLooksAtSoManyJobs(t *testing.T) {
	m := memory.New(memory.Config{})
	defer m.Close()
	e := New(m, nil, Config{})
	var want []string
	for i := range 100 {
		n := NewJob{Kind: "mail"}
		if i%40 == 0 {
			n.Kind = "rare"
		}
		added, err := e.Enqueue(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if n.Kind == "rare" {
			want = append([]string{added[0].ID}, want...)
		}
	}
	var got []string
	parts, page := 0, Page{Limit: 5, Rows: 10}
	for {
		list, err := e.Jobs(t.Context(), Filter{Kind: "rare"}, page)
		if err != nil {
			t.Fatal(err)
		}
		parts++
		for _, j := range list.Jobs {
			got = append(got, j.ID)
		}
		if page.Cursor = list.Next; list.Next == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || parts < 10 || parts > 11 {
		t.Errorf("%d parts (-want +got):\n%s", parts, diff)
	}
	all, err := e.Jobs(t.Context(), Filter{}, Page{Limit: 50, Rows: 10})
	if err != nil || len(all.Jobs) != 50 {
		t.Errorf("without a filter nothing is searched for: %d jobs, %v", len(all.Jobs), err)
	}
}
