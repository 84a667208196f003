package worker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
)

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UTC()
}

// TestNextTime: the times of schedules, by the clocks of their zones. Where
// the clocks go forward, a time that they leave out does not come that day;
// where they go back, a time that comes twice comes twice.
func TestNextTime(t *testing.T) {
	for _, c := range []struct{ spec, zone, after, want string }{
		{"0 6 * * *", "", "2026-03-01T05:59:59Z", "2026-03-01T06:00:00Z"},
		{"0 6 * * *", "", "2026-03-01T06:00:00Z", "2026-03-02T06:00:00Z"},
		{"@hourly", "", "2026-03-01T05:10:00Z", "2026-03-01T06:00:00Z"},
		{"0 6 * * 1", "Europe/Berlin", "2026-03-01T00:00:00Z", "2026-03-02T05:00:00Z"},
		{"0 6 * * *", "Europe/Berlin", "2026-03-28T06:00:00Z", "2026-03-29T04:00:00Z"}, // summer time began at night
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"},
		{"*/30 * * * *", "Europe/Berlin", "2026-10-25T00:45:00Z", "2026-10-25T01:00:00Z"},
		{"0 3 29 2 *", "", "2026-03-01T00:00:00Z", "2028-02-29T03:00:00Z"},
	} {
		at, err := NextTime(c.spec, c.zone, instant(t, c.after))
		if err != nil || !at.Equal(instant(t, c.want)) {
			t.Errorf("%q in %q after %s: %s, %v; want %s", c.spec, c.zone, c.after, at.Format(time.RFC3339), err, c.want)
		}
	}
	for _, c := range []struct{ spec, zone, want string }{
		{"0 6 * *", "", "want five fields"},
		{"0 0 6 * * *", "", "want five fields"},
		{"0 6 * * *", "Mars/Olympus", "want a name of the IANA database"},
		{"0 3 30 2 *", "", "no such time"},
	} {
		if at, err := NextTime(c.spec, c.zone, instant(t, "2026-03-01T00:00:00Z")); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q in %q: %s, %v; want an error that says %q", c.spec, c.zone, at, err, c.want)
		}
	}
}

// TestMissedTimes: what a schedule makes up for after nobody was there.
func TestMissedTimes(t *testing.T) {
	next := instant(t, "2026-03-01T06:00:00Z")
	for _, c := range []struct {
		missed job.Missed
		late   time.Duration
		want   []string
		to     string
	}{
		{job.MissedOnce, 0, []string{"06:00"}, "07:00"},
		{job.MissedSkip, 0, []string{"06:00"}, "07:00"},
		{job.MissedAll, 20 * time.Second, []string{"06:00"}, "07:00"},
		{job.MissedSkip, 20 * time.Second, []string{"06:00"}, "07:00"},
		{job.MissedOnce, 3*time.Hour + 10*time.Minute, []string{"09:00"}, "10:00"},
		{job.MissedSkip, 3*time.Hour + 10*time.Minute, nil, "10:00"},
		{job.MissedSkip, 3*time.Hour + 10*time.Second, []string{"09:00"}, "10:00"},
		{job.MissedAll, 3*time.Hour + 10*time.Minute, []string{"06:00", "07:00", "08:00", "09:00"}, "10:00"},
	} {
		f, err := fires(&store.Periodic{Cron: "@hourly", Missed: c.missed, NextAt: next}, next.Add(c.late))
		var got []string
		for _, at := range f.times {
			got = append(got, at.Format("15:04"))
		}
		if err != nil || strings.Join(got, " ") != strings.Join(c.want, " ") || f.to.Format("15:04") != c.to {
			t.Errorf("%q, %s late: %v and then %s, %v; want %v, %s", c.missed, c.late, got, f.to, err, c.want, c.to)
		}
	}
	f, err := fires(&store.Periodic{Cron: "* * * * *", Missed: job.MissedAll, NextAt: next}, next.AddDate(0, 0, 30))
	if err != nil || len(f.times) != maxMissed || !f.times[maxMissed-1].Equal(next.AddDate(0, 0, 30)) {
		t.Errorf("%d times after a month, %v; want the newest %d", len(f.times), err, maxMissed)
	}
}

// TestPeriodicOncePerFleet: every time of a schedule is one job, at its
// instant, however many processes there are and whoever of them stops.
func TestPeriodicOncePerFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		c := Config{
			Policies: []policy.Policy{calling("p", nil)},
			Handlers: map[string]Handler{"report": func(context.Context, *Task) error { return nil }},
		}
		begin := time.Now() // midnight
		if err := s.PutPeriodic(t.Context(), time.Time{}, "op", store.Periodic{
			Name: "reports", Cron: "*/10 * * * *", Job: job.New{Kind: "report", Policy: "p", Target: "a"}, NextAt: begin.Add(10 * time.Minute),
		}); err != nil {
			t.Fatal(err)
		}
		rigs := fleet(t, s, 3, c)
		pass(time.Hour)
		rigs[0].stop()
		pass(time.Hour + time.Minute)
		jobs, err := s.List(t.Context(), store.Filter{Kind: "report"}, store.Page{Limit: 100})
		if err != nil || len(jobs) != 12 {
			t.Fatalf("%d jobs in two hours, %v; want 12", len(jobs), err)
		}
		for i := range jobs {
			want := begin.Add(time.Duration(12-i) * 10 * time.Minute)
			if row := ledger(t, s, jobs[i].Seq)[0]; !jobs[i].DueAt.Equal(want) || !row.StartedAt.Equal(want) {
				t.Errorf("job %d was due at %s and started at %s, want %s", i, jobs[i].DueAt, row.StartedAt, want)
			}
		}
		fired := 0
		for _, r := range rigs {
			fired += len(r.seen(Fired))
		}
		if fired != 12 {
			t.Errorf("told %d times, want 12", fired)
		}
	})
}

// TestNewPeriodicIsNoticed: a schedule that is added while workers run.
func TestNewPeriodicIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		newRig(t, s, Config{Handlers: map[string]Handler{"report": func(context.Context, *Task) error { return nil }}})
		pass(time.Minute)
		due := time.Now().Add(20 * time.Second)
		for _, p := range []store.Periodic{
			{Name: "broken", Cron: "nonsense", Job: job.New{Kind: "report"}, NextAt: due},
			{Name: "reports", Cron: "@daily", Job: job.New{Kind: "report"}, NextAt: due},
		} {
			if err := s.PutPeriodic(t.Context(), time.Time{}, "op", p); err != nil {
				t.Fatal(err)
			}
		}
		pass(30 * time.Second)
		jobs, err := s.List(t.Context(), store.Filter{Kind: "report"}, store.Page{Limit: 100})
		if err != nil || len(jobs) != 1 || !jobs[0].DueAt.Equal(due) {
			t.Fatalf("%d jobs, %v; want one, due at %s", len(jobs), err, due)
		}
	})
}
