package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/work/webhook"
	"github.com/ebbhq/ebb/worker"
)

// sending is a server that sends webhooks, its database, and an endpoint that
// answers as its path says.
type sending struct {
	*testing.T
	env      map[string]string
	receiver *httptest.Server
	ids      chan string // webhook-id of each call
	worker   *worker.Worker
}

func startSending(t *testing.T) *sending {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "ebb.yaml")
	if err := os.WriteFile(config, []byte("db: sqlite:ebb.db\nwebhook: {allow_networks: [\"127.0.0.0/8\"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &sending{T: t, env: map[string]string{"EBB_CONFIG": config, "HOME": dir}, ids: make(chan string, 100)}
	s.receiver = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.HasSuffix(r.URL.Path, "/down") {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "we are down")
		}
		s.ids <- r.Header.Get("webhook-id")
	}))
	t.Cleanup(s.receiver.Close)
	a := &app{lookup: s.lookup, stderr: io.Discard}
	db, err := a.database()
	if err != nil {
		t.Fatal(err)
	}
	on := site{}
	if on.store, err = db.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = on.store.Close() })
	if on.keeper, err = a.keeper(t.Context(), on.store, &db); err != nil {
		t.Fatal(err)
	}
	if on.settings, err = a.settings(); err != nil {
		t.Fatal(err)
	}
	sender, err := a.webhooks(&on)
	if err != nil {
		t.Fatal(err)
	}
	s.work(&on, sender)
	s.serve(&on, sender)
	return s
}

func (s *sending) lookup(name string) (string, bool) {
	v, ok := s.env[name]
	return v, ok
}

func (s *sending) work(on *site, sender *webhook.Service) {
	var err error
	s.worker, err = worker.New(on.store, worker.Config{Handlers: sender.Handlers(), Queues: []string{webhook.Queue}, Policies: sender.Policies(), Seed: 1})
	if err != nil {
		s.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.worker.Run(context.Background()) }()
	s.Cleanup(func() {
		s.worker.Stop()
		if err := <-ended; err != nil {
			s.Error(err)
		}
		sender.Close()
	})
}

func (s *sending) serve(on *site, sender *webhook.Service) {
	h, err := api.New(api.Config{Ops: engine.New(on.store, sender.Policies(), engine.Config{}), Keeper: on.keeper, Records: on.store, Webhooks: sender})
	if err != nil {
		s.Fatal(err)
	}
	server := httptest.NewServer(h)
	s.Cleanup(server.Close)
	_, token, err := on.keeper.CreateToken(s.Context(), access.NewToken{Name: "maya", Scopes: []access.Scope{access.Operate}})
	if err != nil {
		s.Fatal(err)
	}
	s.env["EBB_TOKEN"] = token
	s.env["server"] = server.URL
}

// ebb runs a command line and wants its exit code and what it tells.
func (s *sending) ebb(code int, out, errs string, args ...string) string {
	s.Helper()
	var stdout, stderr bytes.Buffer
	got := run(s.Context(), args, strings.NewReader(""), &stdout, &stderr, s.lookup)
	if got != code || !regexp.MustCompile(out).MatchString(stdout.String()) || !regexp.MustCompile(errs).MatchString(stderr.String()) {
		s.Fatalf("ebb %s: exit code %d, want %d, %q and %q\n%s%s", strings.Join(args, " "), got, code, out, errs, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// A delivery from the command line to the endpoint and back, on the database
// itself and through a server.
func TestWebhookCommandsDeliver(t *testing.T) {
	for _, way := range []string{"database", "server"} {
		t.Run(way, func(t *testing.T) {
			s := startSending(t)
			if way == "server" {
				s.env["EBB_URL"] = s.env["server"]
			}
			add := func(path string) string {
				var added struct{ Endpoint webhook.Endpoint }
				if err := json.Unmarshal([]byte(s.ebb(0, "whsec_", "", "webhook", "endpoint", "add", s.receiver.URL+path, "--owner", path, "--json")), &added); err != nil {
					t.Fatal(err)
				}
				return added.Endpoint.ID
			}
			well, down := add("/well"), add("/down")
			s.ebb(0, `(?s)state +succeeded.*start 1 at .*: succeeded, http status 200\n  POST http://127.*total [0-9.]+ ms`, "", "webhook", "endpoint", "test", well, "--wait", "20s")
			<-s.ids
			s.ebb(1, `(?s)start 1 at .*: failed: server, http status 503.*answer: we are down\n  decided: retry after .*, due .*, by rule builtin/server`, "", "webhook", "endpoint", "test", down, "--wait", "20s")
			<-s.ids

			var sent webhook.Event
			if err := json.Unmarshal([]byte(s.ebb(0, "", "", "webhook", "send", "--type", "a.b", "--owner", "/well", "--payload", "1", "--json")), &sent); err != nil {
				t.Fatal(err)
			}
			if id := <-s.ids; id != sent.ID {
				t.Errorf("called with webhook-id %s, want %s", id, sent.ID)
			}
			if err := s.worker.Quiet(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.ebb(0, `(?s)a\.b.*webhook\.test`, "", "webhook", "deliveries", "--endpoint", well, "--state", "succeeded")
			s.ebb(0, `delivery `+sent.Deliveries[0].ID+` is sent anew as [0-9a-z]{13}`, "", "webhook", "redrive", sent.Deliveries[0].ID)
			if id := <-s.ids; id != sent.ID {
				t.Errorf("sent anew with webhook-id %s, want %s", id, sent.ID)
			}
			s.ebb(0, `redrive .*: 0 deliveries queued again`, "", "webhook", "redrive", "--endpoint", well)
			s.ebb(0, `waiting +0 first attempts, 1 retries, 0 in flight`, "", "webhook", "endpoint", "show", down)
			s.ebb(0, `the promise is kept`, "", "policy", "audit", "webhook")
			s.ebb(1, "", `there is none\nTry: ebb webhook endpoint list`, "webhook", "endpoint", "show", "ep_nosuch")
		})
	}
}
