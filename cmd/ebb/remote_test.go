package main

import (
	"bytes"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/api"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store/memory"
)

// TestServerInsteadOfDatabase: with EBB_URL and EBB_TOKEN the commands ask a
// running server.
func TestServerInsteadOfDatabase(t *testing.T) {
	s := memory.New(memory.Config{})
	defer s.Close()
	keeper, err := access.New(s, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := api.New(api.Config{Ops: engine.New(s, nil, engine.Config{}), Keeper: keeper, Records: s})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	defer server.Close()
	token := func(scope access.Scope) string {
		_, secret, err := keeper.CreateToken(t.Context(), access.NewToken{Name: "maya", Scopes: []access.Scope{scope}})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	admin, reader := token(access.Admin), token(access.Read)
	for _, c := range []struct {
		token, line, out, errs string
		code                   int
	}{
		{admin, "job enqueue --kind mail --quiet", `^0000000000001$`, "", 0},
		{admin, "job list", `mail`, "", 0},
		{admin, "job show 0000000000001", `mail`, "", 0},
		{admin, "job why 0000000000001", `no worker is running`, "", 0},
		{admin, "queue pause default", ``, "", 0},
		{admin, "queue explain default", `by order of maya`, "", 0},
		{admin, "queue limit default --concurrency 2", ``, "", 0},
		{admin, "target pause crm", ``, "", 0},
		{admin, "target list", `crm`, "", 0},
		{admin, "kind pause mail", ``, "", 0},
		{admin, "kind list", `mail`, "", 0},
		{admin, "dead list", ``, "", 0},
		{admin, "dead groups", ``, "", 0},
		{admin, "periodic list", ``, "", 0},
		{admin, "job cancel 0000000000001", ``, "", 0},
		{admin, "token create ci --scope produce --queue mail --expires 1d", `^ebb_`, `token [0-9a-f]{16} of ci: produce on mail; expires`, 0},
		{admin, "token list", `ci +produce on mail`, "", 0},
		{admin, "token revoke 0123456789abcdef", "", `^ebb: token: 0123456789abcdef: no such token.*\nTry: ebb token list$`, 1},
		{admin, "token create ci --scope root", "", `scope "root": must be one of`, 2},
		{reader, "token list", "", `scope admin is missing: maya has \[read\]\nTry: ebb token create NAME --scope admin`, 1},
		{admin, "job show 0000000000009", "", `^ebb: job: 0000000000009: no such job\nTry: ebb job list$`, 1},
		{admin, "job enqueue --kind mail --priority 12", "", `priority 12 is out of range; 0 to 9`, 2},
		{reader, "queue pause default", "", `scope operate is missing: maya has \[read\]\nTry: ebb token create NAME --scope operate`, 1},
		{"ebb_wrong", "job list", "", `this needs a token that is known`, 1},
		{"", "job list", "", `EBB_TOKEN is not set`, 2},
	} {
		env := map[string]string{"EBB_URL": server.URL, "EBB_TOKEN": c.token, "HOME": t.TempDir()}
		var out, errs bytes.Buffer
		code := run(t.Context(), strings.Fields(c.line), strings.NewReader(""), &out, &errs, func(name string) (string, bool) {
			v, ok := env[name]
			return v, ok
		})
		told := strings.TrimSpace(out.String())
		if code != c.code || !regexp.MustCompile(c.out).MatchString(told) || !regexp.MustCompile(c.errs).MatchString(strings.TrimSpace(errs.String())) {
			t.Errorf("ebb %s: exit code %d, want %d\n%s%s", c.line, code, c.code, out.String(), errs.String())
		}
	}
}

// TestServerAway: a server that does not answer is named.
func TestServerAway(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	env := map[string]string{"EBB_URL": server.URL, "EBB_TOKEN": "ebb_x"}
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"job", "list"}, strings.NewReader(""), &out, &errs, func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	if code != exitNo || !strings.Contains(errs.String(), "connection refused") || !strings.Contains(errs.String(), "Try: is the server running, and EBB_URL right? It is "+server.URL) {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
}
