package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store/sqlite"
)

// enqueue adds a job and returns its id.
func (b *bench) enqueue(token, body string) string {
	b.Helper()
	return want[engine.Enqueued](b, b.do(token, "POST", "/v1/jobs", body), 201).ID
}

// claim takes one lease.
func (b *bench) claim(token, body string) api.Lease {
	b.Helper()
	c := want[api.Claimed](b, b.do(token, "POST", "/v1/leases", body), 200)
	if len(c.Leases) != 1 {
		b.Fatalf("got %d leases, want 1", len(c.Leases))
	}
	return c.Leases[0]
}

// rows asks one of the routes that answer row by row.
func (b *bench) rows(token, path, format string, args ...any) []api.LeaseAnswer {
	b.Helper()
	return want[api.LeaseAnswers](b, b.do(token, "POST", "/v1/leases"+path, fmt.Sprintf(format, args...)), 200).Leases
}

func (b *bench) job(token, id string) engine.Job {
	b.Helper()
	return want[engine.Job](b, b.do(token, "GET", "/v1/jobs/"+id, ""), 200)
}

func TestLeaseEndToEnd(t *testing.T) {
	t.Run("memory", func(t *testing.T) { leaseEndToEnd(newBench(t)) })
	t.Run("SQLite", func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), t.TempDir()+"/ebb.db", sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		leaseEndToEnd(newBenchOn(t, s))
	})
}

func leaseEndToEnd(b *bench) {
	admin := b.token("root", access.Admin)
	id := b.enqueue(admin, `{"kind":"k","args":{"a":1}}`)
	l := b.claim(admin, `{"kinds":["k"],"worker":"far"}`)
	if l.ID != id || l.Epoch != 1 || l.Start != 1 || l.Attempt != 1 || l.Timeout != 120 || string(l.Args) != `{"a":1}` {
		b.Fatalf("got the lease %+v", l)
	}
	if j := b.job(admin, id); j.State != job.Running || !j.Begun {
		b.Fatalf("the job is %+v", j)
	}
	if a := b.rows(admin, "/heartbeat", `{"leases":[{"id":%q,"epoch":1}]}`, id); !a[0].OK {
		b.Fatalf("the heartbeat: %+v", a)
	}
	if a := b.rows(admin, "/progress", `{"id":%q,"epoch":1,"progress":{"half":true}}`, id); !a[0].OK {
		b.Fatalf("the progress: %+v", a)
	}
	if j := b.job(admin, id); string(j.Progress) != `{"half":true}` {
		b.Fatalf("the progress is %s", j.Progress)
	}
	a := b.rows(admin, "/settle", `{"leases":[{"id":%q,"epoch":1,"result":[2]}]}`, id)
	if !a[0].OK || a[0].State != job.Succeeded {
		b.Fatalf("the settle: %+v", a)
	}
	if j := b.job(admin, id); j.State != job.Succeeded || string(j.Result) != "[2]" {
		b.Fatalf("the job is %+v", j)
	}
}

// TestStaleEpoch: a lease that is over changes nothing, and the answer says
// what became of it, row by row.
func TestStaleEpoch(t *testing.T) {
	b := newBench(t)
	admin := b.token("root", access.Admin)
	id := b.enqueue(admin, `{"kind":"k","policy":"processing"}`)
	first := b.claim(admin, `{"kinds":["k"]}`)
	a := b.rows(admin, "/settle", `{"leases":[{"id":%q,"epoch":%d,"failure":{"status":503,"error":"busy"}},{"id":"0000000000099","epoch":1}]}`, id, first.Epoch)
	if !a[0].OK || a[0].State != job.Queued || a[0].Delay < 24 || a[0].Delay > 36 {
		t.Fatalf("a 503 is retried by the policy: %+v", a[0])
	}
	if a[1].OK || a[1].Code != "stale" || !strings.Contains(a[1].Error, "this server has given no such lease") {
		t.Fatalf("an unknown lease: %+v", a[1])
	}
	if g := b.do(admin, "POST", "/v1/jobs/"+id+"/retry", ""); g.status != 200 {
		t.Fatalf("retry: %s", g.body)
	}
	second := b.claim(admin, `{"kinds":["k"]}`)
	if second.Epoch <= first.Epoch || second.Start != 2 {
		t.Fatalf("the second lease is %+v", second)
	}
	for _, path := range []string{"/heartbeat", "/settle"} {
		a := b.rows(admin, path, `{"leases":[{"id":%q,"epoch":%d}]}`, id, first.Epoch)
		want := fmt.Sprintf("lease: job %s, epoch 1: the lease is over: its start 1 ended with server (server: busy); the job is running, epoch %d; stop working on it, nothing was changed", id, second.Epoch)
		if a[0].OK || a[0].Code != "stale" || a[0].Error != want {
			t.Fatalf("%s: got %+v, want %s", path, a[0], want)
		}
	}
	if a := b.rows(admin, "/progress", `{"id":%q,"epoch":%d,"progress":1}`, id, first.Epoch); a[0].Code != "stale" {
		t.Fatalf("progress: %+v", a)
	}
	if j := b.job(admin, id); j.State != job.Running || j.Progress != nil {
		t.Fatalf("a stale row changed the job: %+v", j)
	}
	if a := b.rows(admin, "/settle", `{"leases":[{"id":%q,"epoch":%d}]}`, id, second.Epoch); !a[0].OK || a[0].State != job.Succeeded {
		t.Fatalf("the living lease: %+v", a)
	}
	a = b.rows(admin, "/settle", `{"leases":[{"id":%q,"epoch":%d}]}`, id, second.Epoch)
	if a[0].Code != "stale" || !strings.Contains(a[0].Error, "its start 2 was settled and succeeded; the job is succeeded") {
		t.Fatalf("a settle sent twice: %+v", a)
	}
}

// TestFailures: what is told of a failure is judged by the job's policy.
func TestFailures(t *testing.T) {
	b := newBench(t)
	admin := b.token("root", access.Admin)
	for _, c := range []struct {
		failure string
		state   job.State
		cause   job.Cause
		code    string
	}{
		{`{"error":"plain"}`, job.Queued, "", ""},
		{`{"class":"config","error":"no key"}`, job.Parked, "config", ""},
		{`{"class":"invalid_input"}`, job.Failed, "fatal", ""},
		{`{"status":429,"retry_after_s":40}`, job.Queued, "", ""},
		{`{"error":"no","order":"fail"}`, job.Failed, "fatal", ""},
		{`{"error":"look","order":"park"}`, job.Parked, "", ""},
		{`{"order":"snooze","snooze_s":60}`, job.Queued, "", ""},
		{`{"class":"nonsense"}`, "", "", "invalid"},
		{`{"status":200}`, "", "", "invalid"},
		{`{"retry_after_s":-1}`, "", "", "invalid"},
		{`{"order":"dance"}`, "", "", "invalid"},
		{`{"status":503,"order":"snooze","snooze_s":60}`, "", "", "invalid"}, // a failed call waits by the policy
		{`{"class":"server","order":"snooze","snooze_s":60}`, "", "", "invalid"},
	} {
		id := b.enqueue(admin, `{"kind":"k","policy":"processing"}`)
		l := b.claim(admin, `{"kinds":["k"]}`)
		if l.ID != id {
			t.Fatalf("got job %s, want %s", l.ID, id)
		}
		a := b.rows(admin, "/settle", `{"leases":[{"id":%q,"epoch":%d,"failure":%s}]}`, id, l.Epoch, c.failure)[0]
		if a.OK != (c.code == "") || a.Code != c.code || a.State != c.state || c.cause != "" && a.Cause != c.cause {
			t.Errorf("%s: got %+v", c.failure, a)
		}
		if c.code == "" && strings.Contains(c.failure, "snooze_s") && a.Delay != 60 || strings.Contains(c.failure, "429") && a.Delay < 40 {
			t.Errorf("%s: comes back after %v s", c.failure, a.Delay)
		}
		if c.code != "" { // it is still held, and can be settled rightly
			if a := b.rows(admin, "/settle", `{"leases":[{"id":%q,"epoch":%d}]}`, id, l.Epoch)[0]; !a.OK {
				t.Errorf("after %s: %+v", c.failure, a)
			}
		}
	}
}

// TestGate: what a remote worker tells of a target is the gate's to judge:
// further work waits as long as the target asked.
func TestGate(t *testing.T) {
	b := newBench(t)
	admin := b.token("root", access.Admin)
	const work = `{"kind":"hook","target":"https://crm.test","policy":"webhook"}`
	id := b.enqueue(admin, work)
	l := b.claim(admin, `{"kinds":["hook"]}`)
	if l.ID != id || l.Target != "https://crm.test" || l.Timeout != 30 {
		t.Fatalf("got %+v", l)
	}
	const path = "/v1/targets/https:%2F%2Fcrm.test"
	if target := want[engine.TargetExplained](b, b.do(admin, "GET", path, ""), 200); target.InFlight != 1 {
		t.Fatalf("the lease has a permit of the gate: %+v", target.Target)
	}
	a := b.rows(admin, "/settle", `{"leases":[{"id":%q,"epoch":%d,"failure":{"status":429,"retry_after_s":300}}]}`, id, l.Epoch)[0]
	if !a.OK || a.State != job.Queued || a.Delay < 300 {
		t.Fatalf("got %+v", a)
	}
	b.waitFor(func() bool {
		target := want[engine.TargetExplained](b, b.do(admin, "GET", path, ""), 200)
		return target.InFlight == 0 && !target.AskedUntil.IsZero()
	})
	b.enqueue(admin, work)
	if c := want[api.Claimed](b, b.do(admin, "POST", "/v1/leases", `{"kinds":["hook"],"wait_s":1}`), 200); len(c.Leases) != 0 {
		t.Fatalf("the target asked for a pause, and got %+v", c)
	}
}

// TestStop: a server that stops gives its leases back, free of charge.
func TestStop(t *testing.T) {
	b := newBench(t)
	admin := b.token("root", access.Admin)
	id := b.enqueue(admin, `{"kind":"k"}`)
	l := b.claim(admin, `{"kinds":["k"]}`)
	b.leases.Stop()
	if j := b.job(admin, id); j.State != job.Queued || j.Attempts != 0 || j.LastClass != "interrupted" {
		t.Fatalf("the job is %+v", j)
	}
	if a := b.rows(admin, "/settle", `{"leases":[{"id":%q,"epoch":%d}]}`, id, l.Epoch)[0]; a.Code != "stale" {
		t.Fatalf("got %+v", a)
	}
	if g := b.do(admin, "POST", "/v1/leases", `{"kinds":["k"]}`); g.status != 503 || g.problem().Code != "stopping" {
		t.Fatalf("got %d %s", g.status, g.body)
	}
}

// TestSilence: a lease without a heartbeat ends as a crash, free of charge, and
// its late settle is refused.
func TestSilence(t *testing.T) {
	b := newBench(t, func(_ *api.Config, l *api.LeasesConfig) { l.Silence = 50 * time.Millisecond })
	admin := b.token("root", access.Admin)
	id := b.enqueue(admin, `{"kind":"k"}`)
	first := b.claim(admin, `{"kinds":["k"]}`)
	second := b.claim(admin, `{"kinds":["k"],"wait_s":60}`) // nobody beats for the first
	if second.ID != id || second.Epoch <= first.Epoch || second.Attempt != 1 || second.Start != 2 {
		t.Fatalf("got %+v after %+v", second, first)
	}
	a := b.rows(admin, "/settle", `{"leases":[{"id":%q,"epoch":%d}]}`, id, first.Epoch)[0]
	if a.Code != "stale" || !strings.Contains(a.Error, "its start 1 ended with crash") {
		t.Fatalf("got %+v", a)
	}
}

// TestCancelReachesRemote: an operator's cancel ends the lease.
func TestCancelReachesRemote(t *testing.T) {
	b := newBench(t, func(_ *api.Config, l *api.LeasesConfig) { l.Lease = 200 * time.Millisecond })
	admin := b.token("root", access.Admin)
	id := b.enqueue(admin, `{"kind":"k"}`)
	l := b.claim(admin, `{"kinds":["k"]}`)
	b.do(admin, "POST", "/v1/jobs/"+id+"/cancel", "")
	for {
		a := b.rows(admin, "/heartbeat", `{"leases":[{"id":%q,"epoch":%d}]}`, id, l.Epoch)[0]
		if !a.OK {
			if a.Code != "stale" || !strings.Contains(a.Error, "the job is cancelled") {
				t.Fatalf("got %+v", a)
			}
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("the cancel did not arrive")
		}
	}
}

// TestLongPoll: a claim waits for work, and one that is given up takes none.
func TestLongPoll(t *testing.T) {
	b := newBench(t)
	admin := b.token("root", access.Admin)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", b.url+"/v1/leases", strings.NewReader(`{"kinds":["k"],"wait_s":60}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+admin)
	r.Header.Set("Content-Type", "application/json")
	gone := make(chan error, 1)
	go func() {
		response, err := http.DefaultTransport.RoundTrip(r)
		if err == nil {
			_ = response.Body.Close()
		}
		gone <- err
	}()
	b.waitFor(func() bool { return len(b.processes()) == 1 })
	cancel()
	if err := <-gone; err == nil {
		t.Fatal("the claim that was given up was answered")
	}
	b.waitFor(func() bool { return len(b.processes()) == 0 })
	came := make(chan api.Lease, 1)
	go func() { came <- b.claim(admin, `{"kinds":["k"],"wait_s":60,"limit":5}`) }()
	b.waitFor(func() bool { return len(b.processes()) == 1 })
	id := b.enqueue(admin, `{"kind":"k"}`)
	if l := <-came; l.ID != id || l.Start != 1 {
		t.Fatalf("got %+v", l)
	}
}

// TestRemoteWorkOutlivesTheServer: a server that is gone does not mean that the
// remote worker is. Its lease must last until the server's heartbeat is late.
func TestRemoteWorkOutlivesTheServer(t *testing.T) {
	b := newBench(t)
	admin := b.token("root", access.Admin)
	b.enqueue(admin, `{"kind":"k"}`)
	b.claim(admin, `{"kinds":["k"]}`)
	list, err := b.store.Processes(t.Context())
	if err != nil || len(list) != 1 || list[0].Identity != "" {
		t.Errorf("%+v, %v; want one process that nobody can take for gone", list, err)
	}
}

func (b *bench) processes() []string {
	list, err := b.store.Processes(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var hosts []string
	for i := range list {
		hosts = append(hosts, list[i].Host)
	}
	return hosts
}

// waitFor asks until the answer is yes, as long as the test may run.
func (b *bench) waitFor(yes func() bool) {
	b.Helper()
	for !yes() {
		select {
		case <-b.Context().Done():
			b.Fatal("it never came")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestClaimIsChecked(t *testing.T) {
	b := newBench(t)
	mail := b.token("mailer", access.Work, "mail")
	for _, body := range []string{`{"kinds":[]}`, `{"kinds":["k"],"limit":101}`, `{"kinds":["k"],"wait_s":61}`, `{"kinds":["k"],"queues":["mail","mail"]}`, `{"kinds":["k"],"wait_s":-1}`} {
		if !strings.Contains(body, "queues") {
			body = strings.Replace(body, "{", `{"queues":["mail"],`, 1)
		}
		b.refused(b.do(mail, "POST", "/v1/leases", body), 422, "invalid")
	}
	b.refused(b.do(mail, "POST", "/v1/leases", `{"kinds":["k"],"queues":["mail","bills"]}`), 403, "forbidden")
	admin := b.token("root", access.Admin)
	id := b.enqueue(admin, `{"kind":"k"}`)
	l := b.claim(admin, `{"kinds":["k"]}`)
	if a := b.rows(mail, "/settle", `{"leases":[{"id":%q,"epoch":%d}]}`, id, l.Epoch)[0]; a.OK || a.Code != "forbidden" {
		t.Fatalf("a token of another queue settles: %+v", a)
	}
	if a := b.rows(mail, "/settle", `{"leases":[{"id":%q,"epoch":77}]}`, id)[0]; a.Code != "stale" || !strings.Contains(a.Error, "no such lease") {
		t.Fatalf("a token of another queue is told of its jobs: %+v", a)
	}
	if j := b.job(admin, id); j.State != job.Running {
		t.Fatalf("the job is %s", j.State)
	}
}

// TestExamples: the workers in curl, Python and Node do a job each.
func TestExamples(t *testing.T) {
	b := newBench(t)
	admin, work := b.token("root", access.Admin), b.token("worker", access.Work)
	for _, c := range []struct{ command, kind, args, result string }{
		{"sh worker.sh", "echo", `{"say":"hi"}`, `{"say":"hi"}`},
		{"python3 worker.py 1", "sum", `{"numbers":[1,2,39]}`, `{"sum":42}`},
		{"node worker.mjs 1", "sum", `{"numbers":[20,22]}`, `{"sum":42}`},
	} {
		id := b.enqueue(admin, `{"kind":"`+c.kind+`","args":`+c.args+`}`)
		words := strings.Fields(c.command)
		run := exec.CommandContext(t.Context(), words[0], words[1:]...)
		run.Dir, run.Env = "../examples/workers", append(os.Environ(), "EBB_URL="+b.url, "EBB_TOKEN="+work)
		out, err := run.CombinedOutput()
		if err != nil || !json.Valid(out) || !strings.Contains(string(out), `"state":`) {
			t.Fatalf("%s: %v: %s", c.command, err, out)
		}
		j := b.job(admin, id)
		if got := strings.ReplaceAll(string(j.Result), " ", ""); j.State != job.Succeeded || got != c.result {
			t.Fatalf("%s: the job is %s with %s", c.command, j.State, j.Result)
		}
	}
	// Work that raises is retried by the policy.
	id := b.enqueue(admin, `{"kind":"sum","args":{"numbers":["x"]}}`)
	run := exec.CommandContext(t.Context(), "python3", "worker.py", "1")
	run.Dir, run.Env = "../examples/workers", append(os.Environ(), "EBB_URL="+b.url, "EBB_TOKEN="+work)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if j := b.job(admin, id); j.State != job.Queued || j.Attempts != 1 || !strings.Contains(j.LastError, "TypeError") {
		t.Fatalf("the job is %+v", j)
	}
}
