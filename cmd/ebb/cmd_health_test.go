package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	answers := map[string]struct {
		status int
		body   string
	}{
		"/readyz":       {http.StatusServiceUnavailable, `{"status":"unready","reason":"draining"}`},
		"/healthz":      {http.StatusOK, `{"status":"ok"}`},
		"/other/readyz": {http.StatusOK, "<html>It works!</html>"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(answers[r.URL.Path].status)
		_, _ = w.Write([]byte(answers[r.URL.Path].body))
	}))
	t.Cleanup(server.Close)
	for _, c := range []struct {
		args         []string
		env          string
		code         int
		stdout, said string
	}{
		{[]string{server.URL}, "", exitNo, "", "ebb: health: " + server.URL + ": draining\n"},
		{[]string{server.URL, "--json"}, "", exitNo, "{\n  \"status\": \"unready\",\n  \"reason\": \"draining\"\n}\n", ""},
		{[]string{"--live"}, server.URL, exitDone, "ok\n", ""},
		{[]string{"--live", "--quiet"}, server.URL + "/", exitDone, "", ""},
		{[]string{server.URL + "/other"}, "", exitNo, "", "answered 200 OK, which is not how ebb answers"},
		{[]string{server.URL, "--timeout", "0s"}, "", exitNo, "", "deadline exceeded"},
	} {
		var out, errs strings.Builder
		lookup := func(name string) (string, bool) { return c.env, name == "EBB_URL" }
		code := run(t.Context(), append([]string{"health"}, c.args...), strings.NewReader(""), &out, &errs, lookup)
		if code != c.code || out.String() != c.stdout || !strings.Contains(errs.String(), c.said) {
			t.Errorf("%q: exit %d, %q, %q; want %d, %q, %q", c.args, code, out.String(), errs.String(), c.code, c.stdout, c.said)
		}
	}
}
