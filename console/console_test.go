package console_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// site is a console over an empty store, without sessions.
type site struct {
	*testing.T
	handler http.Handler
	store   store.Store
	clock   *clock.Fake
	ops     engine.Ops
	cookie  string
}

func open(t *testing.T, change ...func(*console.Config)) *site {
	t.Helper()
	c := clock.NewFake(t0)
	return over(t, memory.New(memory.Config{Clock: c}), c, change...)
}

// over is a console over the store.
func over(t *testing.T, keeps store.Store, c *clock.Fake, change ...func(*console.Config)) *site {
	t.Helper()
	s := &site{T: t, clock: c, store: keeps}
	s.ops = engine.New(s.store, nil, engine.Config{Clock: s.clock, Actor: "maya"})
	config := console.Config{Ops: s.ops, Now: s.clock.Now}
	for _, f := range change {
		f(&config)
	}
	var err error
	if s.handler, err = console.New(config); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) ask(method, target string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	s.Helper()
	r := httptest.NewRequestWithContext(context.Background(), method, "http://ebb.test"+target, body)
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if s.cookie != "" {
		r.AddCookie(&http.Cookie{Name: "ebb_session", Value: s.cookie})
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// page asks for a page that must be well-formed and contain the texts.
func (s *site) page(status int, target string, texts ...string) string {
	s.Helper()
	w := s.ask("GET", target, nil)
	if w.Code != status {
		s.Fatalf("GET %s: status %d, want %d: %s", target, w.Code, status, w.Body)
	}
	text := w.Body.String()
	wellFormed(s.T, target, text)
	for _, want := range texts {
		if !strings.Contains(text, want) {
			s.Errorf("GET %s has no %q:\n%s", target, want, text)
		}
	}
	return text
}

// void elements have no end tag.
var void = map[string]bool{"meta": true, "link": true, "input": true, "br": true, "img": true}

// wellFormed checks that every element is closed in its order, every id is
// there once, and nothing carries a script or a style of its own: the policy
// of the headers would not run it.
func wellFormed(t *testing.T, name, text string) {
	t.Helper()
	z := html.NewTokenizer(strings.NewReader(text))
	var open []string
	ids := map[string]bool{}
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		token := z.Token()
		for _, a := range token.Attr {
			if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
				t.Errorf("%s: <%s> has the attribute %s", name, token.Data, a.Key)
			}
			if a.Key == "id" && kind != html.EndTagToken {
				if ids[a.Val] {
					t.Errorf("%s: the id %s is there twice", name, a.Val)
				}
				ids[a.Val] = true
			}
		}
		switch {
		case token.Data == "style" && kind == html.StartTagToken:
			t.Errorf("%s: has a <style>", name)
		case kind == html.StartTagToken && !void[token.Data]:
			open = append(open, token.Data)
		case kind == html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != token.Data {
				t.Fatalf("%s: </%s> closes %v", name, token.Data, open)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("%s: not closed: %v", name, open)
	}
}

func TestHeaders(t *testing.T) {
	s := open(t)
	for _, target := range []string{"/simulate", "/asset/console.css", "/nowhere"} {
		h := s.ask("GET", target, nil).Header()
		csp := h.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "script-src 'self'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", target, csp)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: headers %v", target, h)
		}
	}
}
