package audit_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/audit"
	"github.com/ebbhq/ebb/retry"
)

// expiries audits dead letters whose time ran out.
func expiries(t *testing.T, promise policy.Policy, list []audit.Expiry, accepted ...policy.Policy) audit.Report {
	t.Helper()
	a, err := audit.New(&promise, accepted...)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		a.AddExpired(e)
	}
	return a.Report()
}

// starts are tries of the ledger that were to be followed by another.
func starts(n int) []audit.Start {
	p := policy.MustPreset("webhook")
	return ledger(&p, 1, 1, serverError)[0].Starts[:n]
}

// What was held until its time ran out, with attempts left, breaks the
// promise: the audit counts it and names some.
func TestHeldUntilItExpired(t *testing.T) {
	p := policy.MustPreset("webhook")
	var list []audit.Expiry
	for seq := int64(1); seq <= 7; seq++ {
		list = append(list, audit.Expiry{Seq: seq, EndedAt: epoch.Add(time.Hour)})
	}
	list = append(list, audit.Expiry{Seq: 8, Attempts: 2, Starts: starts(2), Version: p.Version, EndedAt: epoch.Add(time.Hour)})
	r := expiries(t, p, list)
	if len(r.Anomalies) != 1 {
		t.Fatalf("anomalies %+v, want one", r.Anomalies)
	}
	got := r.Anomalies[0]
	want := "8 jobs became dead letters (expired) with attempts left: promised are 6, they had 0 to 2; 7 of them never started"
	if got.Rule != audit.EndedEarly || got.Count != 8 || got.Words != want || got.Cause != retry.CauseExpired {
		t.Errorf("got %+v, want %q", got, want)
	}
	if !slices.Equal(got.Seqs, []int64{1, 2, 3, 4, 5}) {
		t.Errorf("names %v, want the first five", got.Seqs)
	}
	if r.Expired != (audit.Expired{Jobs: 8}) {
		t.Errorf("expired %+v", r.Expired)
	}
}

// A job's own deadline and the policy's window are parts of the promise; so
// is a job that had all its attempts.
func TestExpiredAsPromised(t *testing.T) {
	webhook := policy.MustPreset("webhook")
	windowed := changed(t, "webhook", func(p *policy.Policy) { p.Window = 20 * time.Minute })
	endless := changed(t, "webhook", func(p *policy.Policy) { p.Attempts, p.Window = 0, 20*time.Minute })
	after := epoch.Add
	redriven := append(starts(6), starts(2)...)
	redriven[5].DueAt = time.Time{}
	redriven[5].EndedAt = after(-time.Hour)
	late := starts(3)
	late[2].DueAt, late[2].Rule = time.Time{}, "deadline"
	for _, c := range []struct {
		name    string
		promise policy.Policy
		e       audit.Expiry
		want    audit.Expired
		broken  string
	}{
		{"its deadline passed while it waited", webhook, audit.Expiry{EndedAt: after(time.Hour), DeadlineAt: after(time.Hour)}, audit.Expired{Jobs: 1, ByDeadline: 1}, ""},
		{"the next try would have come after its deadline", webhook, audit.Expiry{Attempts: 3, Starts: late, EndedAt: late[2].EndedAt, DeadlineAt: late[2].EndedAt.Add(time.Minute)}, audit.Expired{Jobs: 1, ByDeadline: 1}, ""},
		{"held, its deadline still to come", webhook, audit.Expiry{EndedAt: after(time.Hour), DeadlineAt: after(2 * time.Hour)}, audit.Expired{Jobs: 1}, "1 job became a dead letter (expired) with attempts left: promised are 6, it had 0; it never started"},
		{"the window is over", windowed, audit.Expiry{Attempts: 2, Starts: starts(2), EndedAt: after(20 * time.Minute)}, audit.Expired{Jobs: 1, ByWindow: 1}, ""},
		{"the window is not over", windowed, audit.Expiry{Attempts: 2, Starts: starts(2), EndedAt: after(19 * time.Minute)}, audit.Expired{Jobs: 1}, "1 job became a dead letter (expired) with attempts left: promised are 6, it had 2"},
		{"the window never began", windowed, audit.Expiry{EndedAt: after(time.Hour)}, audit.Expired{Jobs: 1}, "1 job became a dead letter (expired) with attempts left: promised are 6, it had 0; it never started"},
		{"the window of an earlier life", windowed, audit.Expiry{Attempts: 0, Starts: redriven[:6], EndedAt: after(time.Hour)}, audit.Expired{Jobs: 1}, "1 job became a dead letter (expired) with attempts left: promised are 6, it had 0; it never started"},
		{"it had all its attempts", webhook, audit.Expiry{Attempts: 6, Starts: starts(5), EndedAt: after(time.Hour)}, audit.Expired{Jobs: 1}, ""},
		{"no cap, only a window", endless, audit.Expiry{Attempts: 1, Starts: starts(1), EndedAt: after(time.Minute)}, audit.Expired{Jobs: 1}, "1 job became a dead letter (expired) with attempts left: promised is one try after the other until the window of 20m is over, it had 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := expiries(t, c.promise, []audit.Expiry{c.e})
			if r.Expired != c.want {
				t.Errorf("expired %+v, want %+v", r.Expired, c.want)
			}
			got := ""
			for _, a := range r.Anomalies {
				got += a.Words
			}
			if got != c.broken {
				t.Errorf("anomalies %q, want %q", got, c.broken)
			}
		})
	}
}

// A job is judged by the accepted version that decided it last.
func TestExpiredUnderAnAcceptedVersion(t *testing.T) {
	promise := policy.MustPreset("webhook")
	before := changed(t, "webhook", func(p *policy.Policy) { p.Attempts = 4 })
	e := []audit.Expiry{
		{Seq: 1, Attempts: 4, Starts: starts(4), Version: before.Version, EndedAt: epoch.Add(time.Hour)},
		{Seq: 2, Attempts: 1, Starts: starts(1), Version: before.Version, EndedAt: epoch.Add(time.Hour)},
	}
	r := expiries(t, promise, e, before)
	if len(r.Anomalies) != 1 || r.Anomalies[0].Count != 1 || r.Anomalies[0].Words !=
		"1 job became a dead letter (expired) with attempts left: promised are 4, it had 1 (decided under version "+before.Version+")" {
		t.Errorf("anomalies %+v", r.Anomalies)
	}
	if r = expiries(t, promise, e); len(r.Anomalies) != 1 || r.Anomalies[0].Count != 2 {
		t.Errorf("by the promise itself: %+v, want both", r.Anomalies)
	}
}
