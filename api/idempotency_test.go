package api_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

// TestIdempotencyKey: a key's request is done once and answered alike.
func TestIdempotencyKey(t *testing.T) {
	b := newBench(t)
	maya, noor := b.token("maya", access.Produce), b.token("noor", access.Produce)
	body := `{"kind":"k","args":{"html":"<b>&"}}`
	first := b.do(maya, "POST", "/v1/jobs", body, "Idempotency-Key", "one")
	again := b.do(maya, "POST", "/v1/jobs", body, "Idempotency-Key", "one")
	if first.status != 201 || again.status != 201 || string(first.body) != string(again.body) {
		t.Fatalf("got\n%d %s, then\n%d %s", first.status, first.body, again.status, again.body)
	}
	if first.header.Get("Idempotent-Replayed") != "" || again.header.Get("Idempotent-Replayed") != "true" {
		t.Fatal("the second answer is the kept one, and says so")
	}
	b.refused(b.do(maya, "POST", "/v1/jobs", `{"kind":"other"}`, "Idempotency-Key", "one"), 409, "idempotency")
	b.refused(b.do(maya, "POST", "/v1/jobs/batch", body, "Idempotency-Key", "one"), 409, "idempotency")
	want[engine.Enqueued](b, b.do(noor, "POST", "/v1/jobs", body, "Idempotency-Key", "one"), 201) // a key is its token's
	// A refusal is kept too.
	b.refused(b.do(maya, "POST", "/v1/jobs", `{"kind":""}`, "Idempotency-Key", "two"), 422, "invalid")
	g := b.do(maya, "POST", "/v1/jobs", `{"kind":""}`, "Idempotency-Key", "two")
	b.refused(g, 422, "invalid")
	if g.header.Get("Idempotent-Replayed") != "true" {
		t.Fatal("a refusal is not done again")
	}
	if list := want[engine.Jobs](b, b.do(maya, "GET", "/v1/jobs", ""), 200); len(list.Jobs) != 2 {
		t.Fatalf("there are %d jobs, want 2", len(list.Jobs))
	}
}

// TestIdempotencyRace: of many requests with one key at once, one is done, and
// all have its answer.
func TestIdempotencyRace(t *testing.T) {
	b := newBench(t)
	maya := b.token("maya", access.Produce)
	var group sync.WaitGroup
	answers := make([]got, 20)
	for i := range answers {
		group.Go(func() { answers[i] = b.do(maya, "POST", "/v1/jobs", `{"kind":"k"}`, "Idempotency-Key", "one") })
	}
	group.Wait()
	for _, g := range answers {
		if g.status != 201 || string(g.body) != string(answers[0].body) {
			t.Fatalf("got %d %s, and %s", g.status, g.body, answers[0].body)
		}
	}
	if list := want[engine.Jobs](b, b.do(maya, "GET", "/v1/jobs", ""), 200); len(list.Jobs) != 1 {
		t.Fatalf("there are %d jobs, want 1", len(list.Jobs))
	}
}

// TestIdempotencyOfTokens: the secret of a token is not kept for a second
// answer.
func TestIdempotencyOfTokens(t *testing.T) {
	b := newBench(t)
	admin := b.token("root", access.Admin)
	body := `{"name":"ci","scopes":["produce"]}`
	x := want[api.TokenMade](b, b.do(admin, "POST", "/v1/tokens", body, "Idempotency-Key", "one"), 201)
	y := want[api.TokenMade](b, b.do(admin, "POST", "/v1/tokens", body, "Idempotency-Key", "one"), 201)
	if x.Secret == y.Secret || x.ID == y.ID {
		t.Fatal("a secret was kept")
	}
}

// TestTokenRoutes: a token is made, listed without its secret, used and
// revoked, at once, over HTTP; the audit names who did it.
func TestTokenRoutes(t *testing.T) {
	b := newBench(t)
	admin := b.token("root", access.Admin)
	made := want[api.TokenMade](b, b.do(admin, "POST", "/v1/tokens", `{"name":"ci","scopes":["produce"],"queues":["mail"]}`), 201)
	want[engine.Enqueued](b, b.do(made.Secret, "POST", "/v1/jobs", `{"kind":"k","queue":"mail"}`), 201)
	list := want[api.TokenList](b, b.do(admin, "GET", "/v1/tokens", ""), 200)
	if len(list.Tokens) != 2 {
		t.Fatalf("got %+v", list)
	}
	if g := b.do(admin, "DELETE", "/v1/tokens/"+made.ID, ""); g.status != 204 {
		t.Fatalf("got %d %s", g.status, g.body)
	}
	b.refused(b.do(made.Secret, "GET", "/v1/jobs", ""), 401, "unauthorized")
	b.refused(b.do(admin, "DELETE", "/v1/tokens/"+made.ID, ""), 404, "not_found")
	rows, err := b.store.Audit(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if rows[0].Act != "token.revoke" || rows[0].Actor != "root" || rows[0].What != made.ID {
		t.Fatalf("the audit says %+v", rows[0])
	}
}

// TestExpiry: a token ends when it should.
func TestExpiry(t *testing.T) {
	b := newBench(t)
	_, secret, err := b.keeper.CreateToken(t.Context(), access.NewToken{Name: "short", Scopes: []access.Scope{access.Read}, ExpiresAt: b.clock.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	want[engine.Jobs](b, b.do(secret, "GET", "/v1/jobs", ""), 200)
	b.clock.Advance(time.Hour)
	b.refused(b.do(secret, "GET", "/v1/jobs", ""), 401, "unauthorized")
}

// TestRequests: what is written wrongly is refused with what would be right.
func TestRequests(t *testing.T) {
	b := newBench(t)
	admin := b.token("root", access.Admin)
	b.refused(b.do(admin, "POST", "/v1/jobs", `{"kind":"k"`), 400, "json")
	b.refused(b.do(admin, "POST", "/v1/jobs", `{"kind":"k","colour":"red"}`), 400, "json")
	b.refused(b.do(admin, "POST", "/v1/jobs", `{"kind":"k"}{}`), 400, "json")
	b.refused(b.do(admin, "POST", "/v1/jobs", ``), 400, "json")
	b.refused(b.do(admin, "POST", "/v1/jobs", `{"kind":"k"}`, "Content-Type", "text/plain"), 415, "media_type")
	b.refused(b.do(admin, "GET", "/v1/jobs?limit=many", ""), 400, "parameter")
	b.refused(b.do(admin, "GET", "/v1/jobs?since=yesterday", ""), 400, "parameter")
	b.refused(b.do(admin, "GET", "/v1/jobs?limit=1&limit=2", ""), 400, "parameter")
	b.refused(b.do(admin, "GET", "/v1/jobs?limit=1001", ""), 422, "invalid")
	b.refused(b.do(admin, "GET", "/v1/nothing", ""), 404, "not_found")
	b.refused(b.do(admin, "DELETE", "/v1/jobs", ""), 405, "method")
}

// TestIdempotencyUnknown: an order whose key was taken and whose end was never
// kept is not given again, whatever became of it: it is under way at first, and
// then nobody knows.
func TestIdempotencyUnknown(t *testing.T) {
	var cut *cutOff
	b := newBench(t, func(c *api.Config, _ *api.LeasesConfig) {
		cut = &cutOff{documents: c.Records}
		c.Records = cut
	})
	maya := b.token("maya", access.Operate)
	ask := func() got { return b.do(maya, "POST", "/v1/queues/mail/pause", "", "Idempotency-Key", "one") }
	cut.left = 1 // the key is taken, its answer is not kept: as if the server was killed
	want[engine.Queue](b, ask(), 200)
	cut.left = 100
	if p := b.refused(ask(), 409, "under_way"); p.Try != "the same again in a moment" {
		t.Errorf("try: %s", p.Try)
	}
	b.clock.Advance(2 * time.Minute)
	b.refused(ask(), 409, "outcome_unknown")
	b.refused(ask(), 409, "outcome_unknown")
	b.clock.Advance(api.KeptFor)
	want[engine.Queue](b, ask(), 200) // the key is forgotten
}

// TestEnqueueIsOneWithItsKey: whatever the store does to the write of a keyed
// enqueue, asking again with the key ends with one job, and with its answer.
func TestEnqueueIsOneWithItsKey(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault fault
	}{
		{"refused before the commit", fault{before: true}},
		{"committed, and the word of it lost", fault{}},
	} {
		for _, path := range []string{"/v1/jobs", "/v1/jobs/batch"} {
			t.Run(c.name+" "+path, func(t *testing.T) {
				s := &faulty{Store: memory.New(memory.Config{}), fault: c.fault}
				b := newBenchOn(t, s)
				maya := b.token("maya", access.Produce)
				body := `{"kind":"k","args":{"html":"<b>&"}}`
				if path != "/v1/jobs" {
					body = `{"jobs":[` + body + `,{"kind":"l"}]}`
				}
				ask := func() got { return b.do(maya, "POST", path, body, "Idempotency-Key", "one") }
				s.armed.Store(true)
				b.refused(ask(), 503, "unavailable")
				s.armed.Store(false)
				first, again := ask(), ask()
				if first.status != 201 || string(first.body) != string(again.body) {
					t.Fatalf("got\n%d %s, then\n%d %s", first.status, first.body, again.status, again.body)
				}
				replayed := ""
				if !c.fault.before {
					replayed = "true" // it had been done
				}
				if got := first.header.Get("Idempotent-Replayed"); got != replayed {
					t.Errorf("replayed %q, want %q", got, replayed)
				}
				b.refused(b.do(maya, "POST", path, `{"kind":"other"}`, "Idempotency-Key", "one"), 409, "idempotency")
				jobs := want[engine.Jobs](b, b.do(maya, "GET", "/v1/jobs", ""), 200).Jobs
				if n := strings.Count(body, `"kind"`); len(jobs) != n {
					t.Fatalf("there are %d jobs, want %d", len(jobs), n)
				}
				for _, j := range jobs {
					if !strings.Contains(string(first.body), `"id":"`+j.ID+`"`) {
						t.Errorf("job %s is not in the answer %s", j.ID, first.body)
					}
				}
			})
		}
	}
}

// TestKeyOfWhatWasThere: the answer of a keyed enqueue that met a living job is
// given again with what has become of that.
func TestKeyOfWhatWasThere(t *testing.T) {
	b := newBench(t)
	maya := b.token("maya", access.Operate)
	there := want[engine.Enqueued](b, b.do(maya, "POST", "/v1/jobs", `{"kind":"k","unique":"u"}`), 201)
	ask := func() got {
		return b.do(maya, "POST", "/v1/jobs", `{"kind":"k","unique":"u"}`, "Idempotency-Key", "one")
	}
	first := want[engine.Enqueued](b, ask(), 201)
	if !first.Existing || first.ID != there.ID || first.State != job.Queued {
		t.Fatalf("got %+v", first)
	}
	want[engine.Job](b, b.do(maya, "POST", "/v1/jobs/"+there.ID+"/cancel", ""), 200)
	again := want[engine.Enqueued](b, ask(), 201)
	if !again.Existing || again.ID != there.ID || again.State != job.Cancelled {
		t.Fatalf("got %+v", again)
	}
}

// fault is what happens to a write of jobs.
type fault struct {
	before bool // it fails before it is done; otherwise after
}

// faulty fails writes of jobs while it is armed.
type faulty struct {
	store.Store
	fault
	armed atomic.Bool
}

func (f *faulty) Enqueue(ctx context.Context, now time.Time, jobs []job.New) ([]store.Enqueued, error) {
	return f.strike(func() ([]store.Enqueued, error) { return f.Store.Enqueue(ctx, now, jobs) })
}

func (f *faulty) Write(ctx context.Context, now time.Time, w store.Write) ([]store.Enqueued, error) {
	if len(w.Jobs) == 0 {
		return f.Store.Write(ctx, now, w)
	}
	return f.strike(func() ([]store.Enqueued, error) { return f.Store.Write(ctx, now, w) })
}

func (f *faulty) strike(do func() ([]store.Enqueued, error)) ([]store.Enqueued, error) {
	lost := errors.New("the connection was lost")
	if f.armed.Load() && f.before {
		return nil, lost
	}
	answers, err := do()
	if f.armed.Load() {
		return nil, lost
	}
	return answers, err
}

// cutOff fails every write after so many.
type cutOff struct {
	documents
	left int
}

type documents = store.Records

func (c *cutOff) Write(ctx context.Context, now time.Time, w store.Write) ([]store.Enqueued, error) {
	if c.left--; c.left < 0 {
		return nil, errors.New("cut off")
	}
	return c.documents.Write(ctx, now, w)
}
