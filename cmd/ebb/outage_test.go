package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/telemetry"
	"github.com/ebbhq/ebb/worker"
)

const downTarget = "https://crm.example"

// outage is a real worker on SQLite whose target is down, in a bubble of its
// own time.
type outage struct {
	t     *testing.T
	file  string
	store *sqlite.Store
	tel   *telemetry.Telemetry
	down  atomic.Bool
}

func newOutage(t *testing.T) *outage {
	t.Helper()
	o := &outage{t: t, file: filepath.Join(t.TempDir(), "ebb.db")}
	o.down.Store(true)
	var err error
	if o.store, err = sqlite.Open(t.Context(), o.file, sqlite.Options{WakeEvery: time.Hour, Relaxed: true}); err != nil {
		t.Fatal(err)
	}
	o.tel = telemetry.New(telemetry.Config{Store: o.store, Fresh: time.Nanosecond})
	w, err := worker.New(o.store, worker.Config{Seed: 7, Observe: o.tel.Observe, Handlers: map[string]worker.Handler{"hook": o.call}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.Background()) }()
	t.Cleanup(func() {
		w.Stop()
		w.Stop()
		if err := errors.Join(<-ended, o.store.Close()); err != nil {
			t.Error(err)
		}
	})
	return o
}

func (o *outage) call(context.Context, *worker.Task) error {
	if o.down.Load() {
		return failure.New(failure.Server, "", errors.New("503 Service Unavailable"))
	}
	return nil
}

// add enqueues n deliveries and returns their ids.
func (o *outage) add(n int, j job.New) []string {
	o.t.Helper()
	jobs := make([]job.New, n)
	for i := range jobs {
		jobs[i] = j
		jobs[i].Kind, jobs[i].Policy = "hook", "webhook"
	}
	got, err := o.store.Enqueue(o.t.Context(), time.Time{}, jobs)
	if err != nil {
		o.t.Fatal(err)
	}
	ids := make([]string, n)
	for i := range got {
		ids[i] = job.FormatID(got[i].Seq)
	}
	return ids
}

// pass lets the bubble's time run until everybody waits.
func (o *outage) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// ebb runs a command on the same file.
func (o *outage) ebb(args ...string) (code int, stdout string) {
	o.t.Helper()
	var out, stderr bytes.Buffer
	code = run(o.t.Context(), append(args, "--db", "sqlite:"+o.file), nil, &out, &stderr, noEnv)
	if code == exitUsage {
		o.t.Fatalf("ebb %v: %s", args, stderr.String())
	}
	return code, out.String()
}

// metrics returns the samples of the exposition that count ends.
func (o *outage) metrics() map[string]string {
	o.t.Helper()
	w := httptest.NewRecorder()
	o.tel.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	list := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		for _, name := range []string{"ebb_dead_letters_total{", "ebb_dead_letters_untried_total{", "ebb_jobs_parked_total{", "ebb_jobs_redriven_total"} {
			if strings.HasPrefix(line, name) {
				sample := strings.Fields(line)
				list[sample[0]] = sample[1]
			}
		}
	}
	return list
}

func ended(metric, label, value string) string {
	return fmt.Sprintf(`%s{%s=%q,kind="hook",queue="default"}`, metric, label, value)
}

// count is how many jobs stand there for the cause.
func (o *outage) count(state job.State, cause job.Cause) int {
	o.t.Helper()
	n, err := o.store.Matching(o.t.Context(), store.Filter{State: state, Cause: cause}, 1000)
	if err != nil {
		o.t.Fatal(err)
	}
	return n
}

func has(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: no %q in\n%s", what, part, text)
		}
	}
}

// TestLongOutageIsTold: a target is down for longer than max_hold. Nothing dies; what was
// held too long is parked, counted by cause, named by the audit, the console
// and why, and all of it arrives when the target is well.
func TestLongOutageIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t)
		o.add(60, job.New{Target: downTarget})
		began := time.Now()
		o.pass(35 * time.Minute)
		parked := o.count(job.Parked, retry.CauseTargetDown)
		if parked < 30 || o.count(job.Failed, "") != 0 {
			t.Fatalf("%d jobs are parked and %d dead letters, want most of 60 and none", parked, o.count(job.Failed, ""))
		}
		o.agree(o.metrics(), parked)

		code, text := o.ebb("policy", "audit", "webhook")
		has(t, "audit", text, fmt.Sprintf("parked until the target is well, attempts unspent: %d jobs of %s, down since %s", parked, downTarget, stamp(began)), "ok: the promise is kept\n")
		if code != exitDone {
			t.Errorf("audit: exit %d, want 0:\n%s", code, text)
		}
		o.judged(parked)

		list, err := o.store.List(t.Context(), store.Filter{State: job.Parked}, store.Page{Limit: 1})
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		_, text = o.ebb("job", "why", list[0].ID())
		has(t, "why", text, "(target_down)", "holds all that calls it since 00:00:0", "the wait has cost it no attempt", "of 6 attempts are left",
			"it is released by itself, in its order, when the target is well", "ebb target probe "+downTarget)
		o.seen(parked)

		o.down.Store(false)
		o.pass(10 * time.Minute)
		if n := o.count(job.Parked, "") + o.count(job.Failed, ""); n != 0 {
			t.Errorf("%d jobs have not arrived 10 minutes after the target was well", n)
		}
		code, text = o.ebb("policy", "audit", "webhook")
		if code != exitDone || strings.Contains(text, "parked") {
			t.Errorf("audit: exit %d, want 0 and nothing parked:\n%s", code, text)
		}
	})
}

// agree fails the test unless the counters say what the store has, with what
// was let out again.
func (o *outage) agree(m map[string]string, parked int) {
	o.t.Helper()
	var counted, released int
	if _, err := fmt.Sscan(m[ended("ebb_jobs_parked_total", "cause", "target_down")], &counted); err != nil {
		o.t.Fatal(err, m)
	}
	if _, err := fmt.Sscan(m["ebb_jobs_redriven_total"], &released); err != nil {
		o.t.Fatal(err, m)
	}
	if counted != parked+released {
		o.t.Errorf("%d are parked and %d were let out to probe; counted %d", parked, released, counted)
	}
	for _, cause := range []job.Cause{retry.CauseExpired, retry.CauseExhausted, retry.CauseFatal, retry.CausePoison} {
		if got := m[ended("ebb_dead_letters_total", "cause", string(cause))]; got != "0" {
			o.t.Errorf("%s dead letters of cause %s, want 0", got, cause)
		}
	}
}

// judged reads the audit as a program does.
func (o *outage) judged(parked int) {
	o.t.Helper()
	_, text := o.ebb("policy", "audit", "webhook", "--json")
	var got auditedJSON
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		o.t.Fatal(err)
	}
	if !got.Kept || len(got.Parked) != 1 || got.Parked[0].Jobs != parked || got.Parked[0].Target != downTarget || got.Parked[0].DownSince.IsZero() {
		o.t.Errorf("audit --json: kept %t, parked %+v", got.Kept, got.Parked)
	}
}

// seen looks at the console's first page.
func (o *outage) seen(parked int) {
	o.t.Helper()
	looks, err := console.New(console.Config{Ops: engine.New(o.store, nil, engine.Config{}), Now: time.Now})
	if err != nil {
		o.t.Fatal(err)
	}
	w := httptest.NewRecorder()
	looks.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	has(o.t, "console", w.Body.String(), fmt.Sprintf("%d jobs wait</a> until <a href=\"/target?name=https%%3a%%2f%%2fcrm.example\">%s</a> is well; it is probed once a minute.", parked, downTarget))
}

// TestEndedEarlyFailsTheAudit: jobs that were failed while their target held
// them, as older versions did, are counted, break the promise and are named;
// those whose own deadline passed are told apart.
func TestEndedEarlyFailsTheAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t)
		later := time.Now().Add(time.Hour)
		ids := o.add(7, job.New{Target: "https://shop.example", DueAt: later})
		o.add(3, job.New{DueAt: later, DeadlineAt: time.Now().Add(time.Minute)})
		if n, err := o.store.EndWaiting(t.Context(), time.Time{}, store.Ending{
			Target: "https://shop.example", Any: true, DueBy: store.Never, To: job.Failed, Cause: retry.CauseExpired, Limit: 100,
		}); err != nil || store.EndTotal(n) != 7 {
			t.Fatal(n, err)
		}
		o.pass(2 * time.Minute)
		if got := o.metrics()[ended("ebb_dead_letters_total", "cause", "expired")]; got != "3" {
			t.Errorf("counted %s dead letters whose deadline passed in this process, want 3", got)
		}
		if got := o.metrics()[ended("ebb_dead_letters_untried_total", "by", "deadline")]; got != "3" {
			t.Errorf("counted %s of them as untried, want 3", got)
		}
		code, text := o.ebb("policy", "audit", "webhook")
		if code != exitNo {
			t.Errorf("audit: exit %d, want %d", code, exitNo)
		}
		slices.Reverse(ids) // newest first
		has(t, "audit", text,
			"3 jobs expired by their own deadline, which is a part of their promise\n",
			"anomaly ended_early: 7 jobs became dead letters (expired) with attempts left: promised are 6, they had 0; 7 of them never started\n"+
				"  such as "+strings.Join(ids[:5], ", ")+"\n"+
				"  Try: ebb job why "+ids[0]+"; fresh attempts: ebb dead redrive --cause expired --dry-run\n")
		if strings.Contains(text, "the promise is kept") {
			t.Errorf("audit says that the promise is kept:\n%s", text)
		}
		code, text = o.ebb("policy", "audit", "webhook", "--json")
		var got auditedJSON
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if code != exitNo || got.Kept || len(got.Anomalies) != 1 || got.Anomalies[0].Cause != retry.CauseExpired ||
			!slices.Equal(got.Anomalies[0].Jobs, ids[:5]) || got.Expired != (auditedExpired{Jobs: 10, ByDeadline: 3}) {
			t.Errorf("audit --json: exit %d, %+v", code, got)
		}
		_, text = o.ebb("job", "why", ids[0])
		has(t, "why", text, "with 6 of 6 attempts left")
	})
}
