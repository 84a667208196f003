package document_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store/sqlite"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/document/providertest"
)

// trial is how much is tried: a little in the normal tests, all of it in `make
// test-document`.
type trial struct {
	documents, kills, workers int
	factor                    float64 // of policy time
	s3                        string  // endpoint of a real server; empty = one in memory
}

func trialOf(t *testing.T) trial {
	t.Helper()
	if os.Getenv("EBB_DOCUMENT") != "full" {
		return trial{documents: 48, kills: 5, workers: 2, factor: 120}
	}
	return trial{documents: 1000, kills: 100, workers: 2, factor: 80, s3: realS3(t)}
}

// realS3 starts the S3 server that EBB_VERSITYGW names and returns its address.
func realS3(t *testing.T) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	_ = free.Close()
	cmd := exec.CommandContext(context.Background(), os.Getenv("EBB_VERSITYGW"), "-q", "-p", at, "-a", "ebbtest", "-s", "ebbsecret", "posix", t.TempDir()) //nolint:gosec // what the Makefile names
	cmd.Stderr = &lines{t: t}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 200 {
		if c, err := net.DialTimeout("tcp", at, time.Second); err == nil {
			_ = c.Close()
			return "http://" + at
		}
		<-tick.C
	}
	t.Fatal("the S3 server does not listen")
	return ""
}

// scene is everything around the children.
type scene struct {
	*trial
	t        *testing.T
	orders   orders
	provider *providertest.Server
	bucket   string // URL, with its query
	query    string

	mu      sync.Mutex
	askedAt map[string][]time.Time // by document's key
	putAt   map[string]int
}

// TestKilled: documents with every kind of fault, over real processes that are
// killed with SIGKILL again and again, a provider that speaks the protocol and
// an S3 server: each ends as the table demands, and no model is asked again
// whose answer was kept.
func TestKilled(t *testing.T) {
	c := trialOf(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("%d documents, %d kills, seed %d", c.documents, c.kills, seed)
	s := newScene(t, &c)
	db, err := sqlite.Open(t.Context(), s.orders.DB, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	ops := engine.New(db, []policy.Policy{patient()}, engine.Config{Actor: "test", Clock: s.orders.clock()})
	service, err := document.New(document.Config{Store: db, Ops: ops, Settings: s.orders.settings(), Clock: s.orders.clock(), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = service.Close() }()
	var batches []document.Batch
	for _, from := range []string{"test", "stream"} {
		in := submission()
		in.Model, in.Inputs, in.Output = from+"/m-1", []string{"s3://docs/" + from + "/*.txt" + s.query}, "s3://docs/out"+s.query
		b, err := service.Submit(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		batches = append(batches, b)
	}
	s.storm(rand.New(rand.NewPCG(seed, 1)), func() bool { return drained(t, service, batches) })
	s.judge(service, ops, batches)
}

func newScene(t *testing.T, c *trial) *scene {
	t.Helper()
	s := &scene{trial: c, t: t, askedAt: map[string][]time.Time{}, putAt: map[string]int{}}
	s.provider = providertest.New(s.act)
	t.Cleanup(s.provider.Close)
	at := c.s3
	if at == "" {
		memory := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
		t.Cleanup(memory.Close)
		at = memory.URL
	}
	for _, v := range [][2]string{{"AWS_ACCESS_KEY_ID", "ebbtest"}, {"AWS_SECRET_ACCESS_KEY", "ebbsecret"}, {"AWS_EC2_METADATA_DISABLED", "true"}} {
		t.Setenv(v[0], v[1])
	}
	front := httptest.NewServer(s.front(at))
	t.Cleanup(front.Close)
	s.query = "?region=us-east-1&use_path_style=true&endpoint=" + url.QueryEscape(front.URL)
	s.bucket = "s3://docs" + s.query
	dir := t.TempDir()
	s.orders = orders{
		DB: filepath.Join(dir, "ebb.db"), Evidence: filepath.Join(dir, "kept"), Base: s.provider.Base(), Start: time.Now(), Factor: c.factor,
	}
	s.fill(at)
	return s
}

// fill makes the bucket and the documents.
func (s *scene) fill(at string) {
	s.t.Helper()
	makeBucket(s.t, at)
	b, err := document.OpenBucket(s.t.Context(), s.bucket)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	for i := range s.documents {
		provider := "test"
		if i%4 == 3 {
			provider = "stream"
		}
		key := fmt.Sprintf("%s/%04d.txt", provider, i)
		if err := b.WriteAll(s.t.Context(), key, []byte(fmt.Sprintf("doc=%s;", key)), nil); err != nil {
			s.t.Fatal(err)
		}
	}
}

// plans are the faults, by a document's number.
var plans = []string{
	"well", "429", "schema", "500", "well", "hang", "unparseable", "reset", "well", "cut", "bad write", "slow", "well", "down", "well", "400",
}

func planOf(key string) string {
	_, number, _ := strings.Cut(strings.TrimSuffix(key, ".txt"), "/")
	n, err := strconv.Atoi(number)
	if err != nil {
		panic(key)
	}
	return plans[(n/4+n)%len(plans)]
}

// act is the provider's script.
func (s *scene) act(c providertest.Call) providertest.Act {
	_, rest, _ := strings.Cut(c.Prompt, "doc=")
	key, _, _ := strings.Cut(rest, ";")
	s.mu.Lock()
	s.askedAt[key] = append(s.askedAt[key], time.Now())
	s.mu.Unlock()
	well := providertest.Act{Text: `{"total": 7}`, Delay: 20 * time.Millisecond}
	if plan := planOf(key); plan == "down" || c.N == 1 || plan == "schema" || plan == "unparseable" || plan == "400" {
		switch plan {
		case "429":
			return providertest.Act{Status: 429, Header: http.Header{"Retry-After": {"40"}}}
		case "500", "down":
			return providertest.Act{Status: 500}
		case "hang":
			return providertest.Act{Fault: providertest.Hang}
		case "reset":
			return providertest.Act{Fault: providertest.Reset}
		case "cut":
			return providertest.Act{Fault: providertest.CutOff, Text: `{"total": 1234567890}`}
		case "slow":
			return providertest.Act{Text: `{"total": 70000000000}`, Delay: 50 * time.Millisecond, Pause: 20 * time.Millisecond}
		case "schema":
			return providertest.Act{Text: `{"total": "seven"}`}
		case "unparseable":
			return providertest.Act{Text: `{"total": `}
		case "400":
			return providertest.Act{Status: 400}
		}
	}
	return well
}

// front stands before the S3 server and fails the first write of a result
// where the plan says so.
func (s *scene) front(at string) http.Handler {
	to, err := url.Parse(at)
	if err != nil {
		s.t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // it is signed
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, isResult := strings.CutPrefix(r.URL.Path, "/docs/out/")
		if isResult && r.Method == http.MethodPut && planOf(strings.TrimSuffix(key, ".json")) == "bad write" {
			s.mu.Lock()
			s.putAt[key]++
			first := s.putAt[key] == 1
			s.mu.Unlock()
			if first {
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)
				return
			}
		}
		proxy.ServeHTTP(w, r)
	})
}

// storm keeps the children running, kills one after another, and lets the
// last ones finish.
func (s *scene) storm(draw *rand.Rand, over func() bool) {
	told, err := json.Marshal(s.orders)
	if err != nil {
		s.t.Fatal(err)
	}
	run := func() *exec.Cmd {
		cmd := exec.CommandContext(context.Background(), os.Args[0]) //nolint:gosec // this very program
		cmd.Env = append(os.Environ(), childEnv+"="+string(told))
		cmd.Stderr = &lines{t: s.t}
		if err := cmd.Start(); err != nil {
			s.t.Fatal(err)
		}
		return cmd
	}
	kill := func(cmd *exec.Cmd) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}
	children := make([]*exec.Cmd, s.workers)
	for i := range children {
		children[i] = run()
	}
	defer func() {
		for _, c := range children {
			kill(c)
		}
	}()
	// The points are spread over the whole run: a kill follows so many calls
	// of the provider or the S3 server, not a time.
	for range s.kills {
		s.await(over, s.calls()+draw.IntN(3*s.documents/s.kills+1))
		victim := draw.IntN(len(children))
		kill(children[victim])
		children[victim] = run()
	}
	s.await(over, 1<<30)
}

func (s *scene) calls() int { return len(s.provider.Calls()) }

// await returns when so many calls were made or all is over.
func (s *scene) await(over func() bool, calls int) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		if s.calls() >= calls || n%20 == 19 && over() {
			return
		}
		select {
		case <-tick.C:
		case <-s.t.Context().Done():
			s.t.Fatal("the documents did not end in time")
		}
	}
}

// lines shows what a child says.
type lines struct{ t *testing.T }

func (l *lines) Write(p []byte) (int, error) {
	l.t.Logf("child: %s", bytes.TrimSpace(p))
	return len(p), nil
}
