package campaign

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/work/supervise"
)

// oldJob is a run as an older setup queued it.
func (d *desk) oldJob(source string) {
	d.Helper()
	spec, err := d.campaign.RunSpec(source, 2026)
	if err != nil {
		d.Fatal(err)
	}
	spec.Options = supervise.Options{MaxContainerRestarts: 5, ErrorThresholdTimeout: 10, ErrorThresholdHTTP: 10}
	if _, err := d.service.runs.Submit(d.Context(), d.clock.Now(), supervise.Submission{Spec: spec, Queue: "campaign", Actor: "maya"}); err != nil {
		d.Fatal(err)
	}
}

// A job with 5/10/10 becomes 20/50/50.
func TestRecoverRaisesOldJobs(t *testing.T) {
	d := newDesk(t, annual)
	d.oldJob("hc")
	if p := d.schedule(true); states(&p) != "hc-2026:adopt phac-2026:enqueue cihr-2026:enqueue" {
		t.Fatal(states(&p))
	}
	if got := d.fail(timeouts); got != "hc-2026" {
		t.Fatal(got)
	}
	want := supervise.Options{MaxContainerRestarts: 20, ErrorThresholdTimeout: 50, ErrorThresholdHTTP: 50}
	if r := d.recovers(false); r.Applied || r.Acts().Run != "hc-2026" || r.Acts().To != want {
		t.Fatalf("%+v", r)
	}
	if r := d.run("hc-2026"); r.State != job.Parked || r.Spec.MaxContainerRestarts != 5 || r.RestartsUsed != 20 {
		t.Fatalf("a dry run changed something: %+v", r)
	}
	r := d.recovers(true)
	if !r.Applied || r.Acts().Verb != Restart || r.Acts().From.MaxContainerRestarts != 5 {
		t.Fatalf("%+v", r)
	}
	got := d.run("hc-2026")
	if got.Spec.Options != want || got.State != job.Queued || got.RestartsLeft != 20 {
		t.Errorf("%+v", got)
	}
	if acts := d.acts(); !slices.Equal(acts, []string{"campaign.recover annual-2026", "campaign.schedule annual-2026"}) {
		t.Error(acts)
	}
	if p := d.schedule(true); p.Changes() != 0 { // raised figures are not lowered again
		t.Error(states(&p))
	}
}

// What waits or runs is raised without a restart, and costs nothing of the
// day.
func TestRecoverRaisesWhatWaits(t *testing.T) {
	d := newDesk(t, annual)
	d.oldJob("hc")
	d.schedule(true)
	if r := d.recovers(true); r.Acts().Verb != Raise {
		t.Fatalf("%+v", r)
	}
	if r := d.run("hc-2026"); r.Spec.ErrorThresholdHTTP != 50 || r.State != job.Queued {
		t.Errorf("%+v", r)
	}
	if r := d.recovers(true); r.Acts() != nil || r.Applied {
		t.Errorf("%+v", r)
	}
	if st, err := d.service.Show(t.Context(), "annual-2026"); err != nil || len(st.Recoveries) != 0 {
		t.Errorf("%+v %v", st, err)
	}
}

// One at a time: the next only when the last has got further or has ended.
func TestRecoverOneAtATime(t *testing.T) {
	d := newDesk(t, annual)
	d.schedule(true)
	d.fail(timeouts)
	d.fail(timeouts)
	r := d.recovers(true)
	if r.Acts().Run != "hc-2026" || r.Remedies[1].Verb != Wait || !strings.Contains(r.Remedies[1].Why, "one at a time, after hc-2026") {
		t.Fatalf("%+v", r)
	}
	if r = d.recovers(true); r.Acts() != nil || !strings.Contains(r.Blocked, "hc-2026 was recovered at") {
		t.Fatalf("%+v", r)
	}
	d.units("hc-2026", `{"high":7}`)
	if r = d.recovers(true); r.Acts() == nil || r.Acts().Run != "phac-2026" {
		t.Fatalf("%+v", r)
	}
}

func TestRecoverBreakerAndDailyCap(t *testing.T) {
	d := newDesk(t, annual)
	d.schedule(true)
	for range 3 {
		d.fail(timeouts)
	}
	var got []string
	for range 3 { // hc twice, then its breaker is open; phac once, then the day is spent
		r := d.recovers(true)
		if r.Acts() == nil {
			t.Fatalf("%+v", r)
		}
		got = append(got, r.Acts().Run, d.fail(timeouts))
	}
	if !slices.Equal(got, []string{"hc-2026", "hc-2026", "hc-2026", "hc-2026", "phac-2026", "phac-2026"}) {
		t.Fatal(got)
	}
	r := d.recovers(true)
	if r.Acts() != nil || !strings.Contains(r.Blocked, "3 of 3 recoveries of a day are spent") || r.Remedies[0].Verb != Person || r.Remedies[1].Verb != Wait {
		t.Fatalf("%+v", r)
	}
	d.clock.Advance(24 * time.Hour)
	if r = d.recovers(true); r.Acts() == nil || r.Acts().Run != "phac-2026" {
		t.Fatalf("%+v", r)
	}
	d.fail(timeouts)
	d.units("hc-2026", `{"high":1}`) // progress closes the breaker
	if r = d.recovers(true); r.Acts() == nil || r.Acts().Run != "hc-2026" {
		t.Fatalf("%+v", r)
	}
}

func TestMaintenanceLock(t *testing.T) {
	d := newDesk(t, annual)
	d.oldJob("phac")
	d.schedule(true)
	d.fail(timeouts)
	lock := func(length time.Duration) {
		if err := d.service.Lock(t.Context(), d.clock.Now(), "maya", "annual", "new disk", length); err != nil {
			t.Fatal(err)
		}
	}
	lock(time.Hour)
	if r := d.recovers(true); r.Applied || r.Acts() != nil || !strings.Contains(r.Blocked, "locked by maya since") || !strings.Contains(r.Blocked, "new disk") {
		t.Fatalf("%+v", r)
	}
	d.clock.Advance(time.Hour)
	if r := d.recovers(false); r.Acts() == nil {
		t.Fatalf("the lock has passed: %+v", r)
	}
	lock(0)
	d.clock.Advance(1000 * time.Hour)
	if r := d.recovers(false); r.Acts() != nil {
		t.Fatalf("%+v", r)
	}
	if err := d.service.Unlock(t.Context(), d.clock.Now(), "maya", "annual"); err != nil {
		t.Fatal(err)
	}
	if r := d.recovers(true); !r.Applied {
		t.Fatalf("%+v", r)
	}
	if err := d.service.Lock(t.Context(), t0, "maya", "annual", " ", 0); err == nil {
		t.Error("a lock without a reason")
	}
}

func TestReportAndWhy(t *testing.T) {
	d := newDesk(t, annual)
	d.schedule(true)
	d.units("hc-2025", `{"last_units":200}`)
	spec, err := d.campaign.RunSpec("hc", 2025)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.service.runs.Submit(t.Context(), t0, supervise.Submission{Spec: spec, Queue: "elsewhere"}); err != nil {
		t.Fatal(err)
	}
	d.fail(timeouts)
	d.units("hc-2026", `{"high":150}`)
	r, err := d.service.Report(t.Context(), d.clock.Now(), "annual")
	if err != nil || r.Complete || r.Parked != 1 || r.Waiting != 2 {
		t.Fatalf("%+v %v", r, err)
	}
	if hc := r.Sources[0]; hc.Coverage != 0.75 || hc.Last != 200 || hc.Restarts != 20 || hc.Cause != "no_progress" || hc.Reasons["timeout"] != 1 {
		t.Errorf("%+v", hc)
	}
	lines, err := d.service.Why(t.Context(), d.clock.Now(), "annual", "cihr")
	if err != nil || !strings.Contains(strings.Join(lines, "\n"), "cihr is source 3 of 3 of annual-2026") || !strings.Contains(strings.Join(lines, "\n"), "phac-2026 comes before it") {
		t.Errorf("%q %v", lines, err)
	}
	if _, err := d.service.Why(t.Context(), t0, "annual", "nih"); err == nil || !strings.Contains(err.Error(), "one of: hc, phac, cihr") {
		t.Errorf("%v", err)
	}
}

func TestDrill(t *testing.T) {
	c, err := Parse("annual.yaml", []byte(annual), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	list, err := Drill(t.Context(), t0, &c, 2026, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, r := range list {
		seen[r.Name] = r.Text
		if !r.OK {
			t.Errorf("%s: %s", r.Name, r.Text)
		}
	}
	if seen["order"] != "runs start as hc-2026, phac-2026, cihr-2026" || !strings.Contains(seen["recover"], "5/10/10 becomes 20/50/50") {
		t.Errorf("%q", seen)
	}
	for _, name := range []string{"command", "directory", "schedule", "maintenance lock", "one at a time", "progress breaker", "daily cap", "wrong flag"} {
		if seen[name] == "" {
			t.Errorf("%s was not rehearsed", name)
		}
	}
	c.Command, c.Sources[0].Scope = supervise.Words("no-such-crawler"), Scope{}
	if list, err = Drill(t.Context(), t0, &c, 2026, nil); err != nil || list[0].OK {
		t.Errorf("a program that is not there passed: %+v %v", list, err)
	}
}
