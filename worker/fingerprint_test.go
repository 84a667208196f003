package worker

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ebbhq/ebb/failure"
)

func TestShape(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"connection refused", "connection refused"},
		{"dial tcp 10.0.0.1:5432: connect: connection refused", "dial tcp #: connect: connection refused"},
		{"dial tcp [fe80::1]:80: i/o timeout", "dial tcp [#]:#: i/o timeout"},
		{`row "alice@example.org" of 'users' not found`, `row "…" of "…" not found`},
		{`path "C:\"x\"" gone`, `path "…" gone`},
		{"can't open file", "can't open file"},
		{"it's a 'quoted' word", `it's a "…" word`},
		{"job 00000000000a1: attempt 3 of 7 failed", "job #: attempt # of # failed"},
		{"object 6ba7b810-9dad-11d1-80b4-00c04fd430c8 missing", "object # missing"},
		{"commit deadbeefcafe is bad", "commit # is bad"},
		{"a decade facade", "a decade facade"},
		{"at 2026-01-02T03:04:05.678Z: late", "at #: late"},
		{"took 12.5ms, limit 0x1F", "took #, limit #"},
		{"a\n\tb   c ", "a b c"},
		{`unterminated "quote`, `unterminated "quote`},
		{"файл 17 не найден", "файл # не найден"},
		{"https://example.org/v1/users/42 said 503", "https://example.org/#/users/# said #"},
	} {
		if got := Shape(c.text); got != c.want {
			t.Errorf("Shape(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}

func TestFingerprint(t *testing.T) {
	of := func(class failure.Class, reason, text string) string {
		f := failure.Of(class)
		f.Reason, f.Err = reason, errors.New(text)
		return Fingerprint(f)
	}
	base := of(failure.Server, "", "GET /a: 503 after 12ms")
	if len(base) != 16 {
		t.Errorf("fingerprint %q has %d characters, want 16", base, len(base))
	}
	if got := of(failure.Server, "", "GET /a: 503 after 9ms"); got != base {
		t.Errorf("another duration: %s, want %s", got, base)
	}
	for name, got := range map[string]string{
		"class": of(failure.Unavailable, "", "GET /a: 503 after 12ms"), "reason": of(failure.Server, "x", "GET /a: 503 after 12ms"),
		"text": of(failure.Server, "", "POST /a: 503 after 12ms"), "none": Fingerprint(failure.Of(failure.Server)),
	} {
		if got == base {
			t.Errorf("another %s has the same fingerprint %s", name, got)
		}
	}
}

func FuzzShape(f *testing.F) {
	f.Add("dial tcp 10.0.0.1:5432: \"x\" 'y")
	f.Add(strings.Repeat("é1 ", 400))
	f.Fuzz(func(t *testing.T, text string) {
		once := Shape(text)
		if utf8.ValidString(text) && !utf8.ValidString(once) {
			t.Errorf("Shape(%q) = %q is not UTF-8", text, once)
		}
		if strings.ContainsAny(once, "0123456789") && !strings.ContainsAny(text, "\"'`") {
			t.Errorf("Shape(%q) = %q keeps a digit", text, once)
		}
	})
}
