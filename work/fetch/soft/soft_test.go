package soft_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/work/fetch/soft"
)

func judge(t *testing.T, opt soft.Options, rules ...string) *soft.Judge {
	t.Helper()
	var parsed []soft.Rule
	for _, text := range rules {
		r, err := soft.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, r)
	}
	j, err := soft.New(parsed, opt)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// page is an HTML answer whose digest is its body.
func page(url, title, body string) soft.Answer {
	body = "<title>" + title + "</title>" + body
	return soft.Answer{URL: url, ContentType: "text/html; charset=utf-8", Size: int64(len(body)), Body: []byte(body), Title: title, Digest: body}
}

func TestRules(t *testing.T) {
	good := page("http://a/docs/1", "Bill 1", "<p>text</p>")
	pdf := soft.Answer{URL: "http://a/x.pdf", ContentType: "application/pdf", Size: 2000, Body: []byte("%PDF-1.7 …"), Digest: "p"}
	for _, c := range []struct {
		rule   string
		answer soft.Answer
		kind   soft.Kind
		reason string
	}{
		{"title:(?i)not found", page("http://a/", "Page Not Found", ""), soft.Error, `the title is "Page Not Found"`},
		{"title:(?i)not found", good, soft.Sound, ""},
		{"body:stack  *trace", page("http://a/", "x", "a stack  trace"), soft.Error, `the body holds "stack trace"`},
		{"body:stack", good, soft.Sound, ""},
		{"no-body:</p>", good, soft.Sound, ""},
		{"no-body:</footer>", good, soft.Error, "the body does not hold it"},
		{"empty:(?i)no records", page("http://a/", "x", "No records found"), soft.Empty, `the body holds "No records"`},
		{"min-size:2000", pdf, soft.Sound, ""},
		{"min-size:2001", pdf, soft.Error, "a body of 2000 bytes"},
		{"max-size:2000", pdf, soft.Sound, ""},
		{"max-size:1999", pdf, soft.Error, "a body of 2000 bytes"},
		{"type:application/pdf", pdf, soft.Sound, ""},
		{"type:text/html, application/*", pdf, soft.Sound, ""},
		{"type:application/pdf", good, soft.Error, "the type is text/html"},
		{"type:image/*", soft.Answer{URL: "http://a/", Size: 1}, soft.Error, "there is no Content-Type"},
		{"type:application/pdf on \\.pdf$", good, soft.Sound, ""},
		{"magic:pdf", pdf, soft.Sound, ""},
		{"magic:pdf on \\.pdf$", soft.Answer{URL: "http://a/y.pdf", Size: 9, Body: []byte("<html>gone")}, soft.Error, `the body begins with "<html>gone"`},
		{"magic:html", page("http://a/", "x", ""), soft.Sound, ""},
		{"magic:html", soft.Answer{Size: 5, Body: []byte("\ufeff \n<p>")}, soft.Sound, ""},
		{"magic:json", soft.Answer{Size: 5, Body: []byte(" [1]")}, soft.Sound, ""},
		{"magic:webp", soft.Answer{Size: 5, Body: []byte("RIFF1234WEBP")}, soft.Sound, ""},
		{"magic:webp", soft.Answer{Size: 5, Body: []byte("RIFF1234WAVE")}, soft.Error, `the body begins with "RIFF1234WAVE"`},
		{"magic:hex:25 50 44 46", pdf, soft.Sound, ""},
		{"magic:hex:ff", pdf, soft.Error, `the body begins with "%PDF-1.7 …"`},
	} {
		got := judge(t, soft.Options{}, c.rule).Ask(c.answer)
		want := soft.Verdict{Kind: c.kind, Reason: c.reason}
		if c.kind != soft.Sound {
			want.Rule = c.rule
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", c.rule, diff)
		}
	}
}

func TestRulesRefused(t *testing.T) {
	for text, want := range map[string]string{
		"title": "WHAT:WANT", "title:": "empty", "title:(": "missing closing", "size:3": "is nothing a rule looks at", "min-size:x": "number of bytes",
		"min-size:0": "1 or more", "type:pdf": "TYPE/SUBTYPE", "magic:doc": "want pdf", "magic:hex:2": "hexadecimal", "title:x on (": "missing closing",
	} {
		if _, err := soft.ParseRule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error about %q", text, err, want)
		}
	}
	for _, n := range []int{-1, 1} {
		if _, err := soft.New(nil, soft.Options{SameBody: n}); err == nil {
			t.Errorf("same body on %d URLs was taken", n)
		}
	}
}

func TestFirstFaultDecides(t *testing.T) {
	j := judge(t, soft.Options{}, "empty:nothing here", "title:Error", "body:nothing")
	if got := j.Ask(page("http://a/", "Error", "nothing here")).String(); got != `healthy but empty by rule empty:nothing here: the body holds "nothing here"` {
		t.Error(got)
	}
	if got := j.Ask(page("http://a/", "Error", "nothing")).String(); got != `soft error by rule title:Error: the title is "Error"` {
		t.Error(got)
	}
	if got := j.Ask(page("http://a/", "Fine", "")).String(); got != "sound" {
		t.Error(got)
	}
}

func TestEmptyBody(t *testing.T) {
	empty := soft.Answer{URL: "http://a/", ContentType: "text/html"}
	if got := judge(t, soft.Options{}).Ask(empty); got.Kind != soft.Empty || got.Reason != "a body of 0 bytes" {
		t.Error(got)
	}
	if got := judge(t, soft.Options{KeepEmpty: true}).Ask(empty); got.Kind != soft.Sound {
		t.Error(got)
	}
}

func TestProbes(t *testing.T) {
	var text strings.Builder
	for i := range 40 {
		fmt.Fprintf(&text, "Offer %d is better than the page you asked for. ", i)
	}
	words := text.String()
	gone := func(url string) soft.Answer { return page(url, "Welcome", words+"You asked for "+url+".") }
	j := judge(t, soft.Options{})
	probe := soft.ProbeURL("http://a/bills/hb1.html?x=1", 0xabc)
	if probe != "http://a/bills/ebb-probe-0000000000000abc.html" {
		t.Fatalf("the probe is %s", probe)
	}
	if got := j.Ask(gone("http://a/bills/hb2.html")); got.Kind != soft.Sound {
		t.Errorf("before any probe: %s", got)
	}
	j.Probed(gone(probe))
	for url, want := range map[string]soft.Kind{
		"http://a/bills/hb2.html": soft.Error, "http://a/bills/x?y": soft.Sound, "http://a/other/hb2.html": soft.Sound, "http://b/bills/hb2.html": soft.Sound,
	} {
		if got := j.Ask(gone(url)); got.Kind != want {
			t.Errorf("%s: %s", url, got)
		}
	}
	real := strings.Repeat("An act concerning schools, amending section 72 of the statutes. ", 40)
	for name, a := range map[string]soft.Answer{
		"other words":       page("http://a/bills/hb3.html", "Welcome", real[:len(words)]),
		"half of the words": page("http://a/bills/hb3.html", "Welcome", words[:len(words)/2]+real[:len(words)/2]),
		"other title":       page("http://a/bills/hb3.html", "Bill 3", words+"You asked for x"),
		"other size":        page("http://a/bills/hb3.html", "Welcome", words+words),
	} {
		if got := j.Ask(a); got.Kind != soft.Sound {
			t.Errorf("%s: %s", name, got)
		}
	}
	exact := gone(probe)
	exact.URL = "http://a/bills/hb9.html"
	if got := j.Ask(exact); got.Rule != "probe" || !strings.HasPrefix(got.Reason, "the body is what") {
		t.Errorf("the same body: %s", got)
	}
	for url, want := range map[string]string{"http://a": "http://a/ebb-probe-0000000000000001", "http://a/": "http://a/ebb-probe-0000000000000001", "http://a/b.c/d": "http://a/b.c/ebb-probe-0000000000000001"} {
		if got := soft.ProbeURL(url, 1); got != want {
			t.Errorf("the probe of %s is %s, want %s", url, got, want)
		}
		if got := soft.Place(want); !strings.HasSuffix(got, "/*") {
			t.Errorf("the place of %s is %s", want, got)
		}
	}
}

func TestSameBody(t *testing.T) {
	j := judge(t, soft.Options{SameBody: 2})
	steps := []struct {
		url  string
		want soft.Kind
	}{{"http://a/1", soft.Sound}, {"http://a/1", soft.Sound}, {"http://a/2", soft.Error}, {"http://a/3", soft.Error}}
	for _, s := range steps {
		if got := j.Ask(page(s.url, "x", "sorry")); got.Kind != s.want {
			t.Errorf("%s: %s", s.url, got)
		}
	}
	image := soft.Answer{ContentType: "image/gif", Size: 43, Digest: "pixel"}
	for i := range 9 {
		image.URL = fmt.Sprint("http://a/", i)
		if got := j.Ask(image); got.Kind != soft.Sound {
			t.Errorf("an image on many URLs: %s", got)
		}
	}
	if diff := cmp.Diff([]string{"<title>x</title>sorry"}, j.Over()); diff != "" {
		t.Error(diff)
	}
	if got := judge(t, soft.Options{}).Over(); got != nil {
		t.Errorf("nothing is counted, but over are %v", got)
	}
}

// Between the limit and one and a half times it, in memory that stays the
// same, whatever other bodies there are.
func TestBodies(t *testing.T) {
	const limit = 20
	b := soft.NewBodies(limit)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	over := 0
	for i := range 60_000 {
		url := fmt.Sprint("http://a/", i)
		if n := b.Add(fmt.Sprint("body ", i), url); n >= limit {
			t.Fatalf("body %d stands on one URL, counted on %d", i, n)
		}
		if i%500 == 499 {
			n := b.Add("sorry", url)
			if n >= limit && over == 0 {
				over = i/500 + 1
			}
		}
	}
	if over < limit || over > limit*3/2 {
		t.Errorf("over at %d URLs, want from %d to %d", over, limit, limit*3/2)
	}
	if after := heap(); after > before+1<<20 {
		t.Errorf("%d bytes more in use after 60,000 bodies", after-before)
	}
	if diff := cmp.Diff([]string{"sorry"}, b.Over()); diff != "" {
		t.Error(diff)
	}
}
