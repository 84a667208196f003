package scope_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/work/fetch/scope"
)

func TestRules(t *testing.T) {
	for _, c := range []struct{ rule, yes, no string }{
		{"host:example.org", "http://example.org/ https://example.org:8443/x", "http://www.example.org/ http://notexample.org/ http://example.org.evil/"},
		{"Example.ORG", "http://example.org/", "http://example.com/"},
		{"host:.example.org", "http://example.org/ http://a.b.example.org/", "http://notexample.org/"},
		{"host:*.example.org", "http://a.example.org/", "http://example.org/"},
		{"host:example.org:8080", "http://example.org:8080/", "http://example.org/"},
		{"host:bücher.example", "http://xn--bcher-kva.example/", "http://bucher.example/"},
		{"host:[::1]", "http://[::1]/ http://[::1]:80/x", "http://[::2]/"},
		{"/docs", "http://a/docs http://a/docs/x http://b/docs?q=1", "http://a/docsy http://a/x/docs http://a/"},
		{"path:/docs/", "http://a/docs/ http://a/docs/x", "http://a/docs"},
		{"path:/ä ö", "http://a/%C3%A4%20%C3%B6/x", "http://a/x"},
		{"https://A/x", "https://a/x https://a/xyz?q", "http://a/x https://a/y"},
		{"prefix:https://a/x/", "https://a/x/y", "https://a/x"},
		{"http://a/*/print", "http://a/x/print", "http://a/x/y/print http://a/x/print2"},
		{"glob:**.pdf", "http://a/b/c.pdf", "http://a/c.pdf?x"},
		{"glob:http://a/x?y=*", "http://a/x?y=1", "http://a/xy=1 http://a/xzy=1"},
		{`regexp:/b20(25|27)_\d+/`, "http://a/li/b2025_26/x", "http://a/li/b2026_27/x"},
	} {
		r, err := scope.ParseRule(c.rule, false)
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		s, err := scope.New(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, url := range strings.Fields(c.yes) {
			if got := s.Ask(url); !got.In || got.Rule != r.String() {
				t.Errorf("%s: %s is %s", c.rule, url, got)
			}
		}
		for _, url := range strings.Fields(c.no) {
			if got := s.Ask(url); got.In {
				t.Errorf("%s: %s is %s", c.rule, url, got)
			}
		}
	}
}

func TestRulesRefused(t *testing.T) {
	for text, want := range map[string]string{
		"": "empty", "host:": "empty", "regexp:(": "missing closing", "path:docs": "begins with /", "prefix:example.org": "no scheme",
		"host:a/b": "without a path", "host:a b": "characters", "host:*": "characters that no host name has",
	} {
		r, err := scope.ParseRule(text, false)
		if text == "host:*" && err == nil {
			_, err = scope.New(r)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error about %q", text, err, want)
		}
	}
	if _, err := scope.New(scope.Rule{Kind: "depth", Text: "3"}); err == nil {
		t.Error("an unknown kind was taken")
	}
}

func TestExcludeWins(t *testing.T) {
	s, err := scope.New(append(scope.HostsOf("http://a/x", "http://a/y", "https://b:8443/"), scope.Rule{Exclude: true, Kind: scope.KindPath, Text: "/private"})...)
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"http://a/x":         "in scope by rule include host:a",
		"https://b:8443/":    "in scope by rule include host:b:8443",
		"https://b/":         "out of scope: no include rule matches",
		"http://a/private/x": "out of scope by rule exclude path:/private",
	} {
		if got := s.Ask(url).String(); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
	if got := new(scope.Scope).Ask("http://any/").String(); got != "in scope: there are no include rules" {
		t.Error(got)
	}
}

// told lists a document's links, assets with a star.
func told(d scope.Document) []string {
	var all []string
	for _, l := range d.Links {
		text := l.From + " " + l.URL
		if l.Asset {
			text += " *"
		}
		all = append(all, text)
	}
	return all
}

func TestRead(t *testing.T) {
	const page = `<!DOCTYPE html><html><head>
<svg><title>a drawing</title></svg>
<title> The
 page &amp; more </title><title>second</title>
<a href="early">before the base</a>
<base href="/dir/"><base href="/other/">
<meta http-equiv="Refresh" content="5; URL='next.html'">
<meta name="ROBOTS" content="noindex, NoFollow">
<link rel="stylesheet" href="style.css"><link rel="preconnect" href="//cdn.example"><link rel=canonical href="/canon">
<style>@import "imp.css"; @import url(imp2.css); body { background: url( 'bg.png' ) /* url(no.png) */ }</style>
<script src=app.js></script><script>var x = "<a href='no.html'>"; url(no2.png)</script>
</head><body background=back.gif>
<a href="page.html#part">x</a> <a href="page.html">again</a> <a href="#top">no</a> <a href="mailto:a@b">no</a> <a href="javascript:x()">no</a>
<a href=" /white space/ä?q=ö ">y</a> <a>no</a> <a href="http://u:p@h/">no</a> <A HREF=//other.example/UP>z</A>
<map><area href="area.html"></map>
<img src="one.png" srcset="two.png 1x, three,3.png 2x,four.png" alt="">
<picture><source srcset="five.png?a=1,b 100w, data:image/gif;base64,AAAA 2x"></picture>
<iframe src="frame.html"></iframe> <object data="o.swf"></object> <embed src="e.swf"> <video src=v.mp4 poster=p.jpg><track src=t.vtt></video>
<form action="no-form.html"><input type=image src=button.png><input type=text src=no.png></form>
<div style="background:URL(&quot;inline.png&quot;)"></div> <svg><image xlink:href="pic.svg"/><use href="#id"/></svg>
<noscript><img src="noscript.png"></noscript> <!-- <a href="comment.html"> -->
</body></html>`
	d, err := scope.Read("http://h/start/index.html", "text/html; charset=utf-8", strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	if d.Title != "The page & more" || !d.NoFollow {
		t.Errorf("title %q, nofollow %v", d.Title, d.NoFollow)
	}
	want := []string{
		"a href http://h/dir/early", "meta refresh http://h/dir/next.html", "link href http://h/dir/style.css *", "link href http://h/canon",
		"css import http://h/dir/imp.css *", "css url http://h/dir/imp2.css *", "css url http://h/dir/bg.png *", "script src http://h/dir/app.js *",
		"body background http://h/dir/back.gif *", "a href http://h/dir/page.html", "a href http://h/white%20space/%C3%A4?q=%C3%B6", "a href http://other.example/UP",
		"area href http://h/dir/area.html", "img src http://h/dir/one.png *", "img srcset http://h/dir/two.png *", "img srcset http://h/dir/three,3.png *",
		"img srcset http://h/dir/four.png *", "source srcset http://h/dir/five.png?a=1,b *", "iframe src http://h/dir/frame.html *", "object data http://h/dir/o.swf *",
		"embed src http://h/dir/e.swf *", "video src http://h/dir/v.mp4 *", "video poster http://h/dir/p.jpg *", "track src http://h/dir/t.vtt *",
		"input src http://h/dir/button.png *", "css url http://h/dir/inline.png *", "image xlink:href http://h/dir/pic.svg *", "img src http://h/dir/noscript.png *",
	}
	if diff := cmp.Diff(want, told(d)); diff != "" {
		t.Error(diff)
	}
}

func TestReadOtherTypes(t *testing.T) {
	for _, c := range []struct{ kind, body, want string }{
		{"text/css", "a{b:url(x.png)}\n@IMPORT 'y.css';/* url(no) */ c{d:url(a\\ b\\29.png);e:url(\"q\\\"r\\41 s\")} f{content:'url(no)'} g{h:url(unclosed", "css url http://h/s/x.png *|css import http://h/s/y.css *|css url http://h/s/a%20b).png *|css url http://h/s/q%22rAs *|css url http://h/s/unclosed *"},
		{"text/plain", "<a href=x>", ""},
		{"application/json", `{"a":"http://h/"}`, ""},
		{"", "<a href=x>", ""},
		{"TEXT/HTML;;bad", "<a href=x>", "a href http://h/s/x"},
		{"application/xhtml+xml", "<a href='x'/>", "a href http://h/s/x"},
		{"text/html", "", ""},
		{"text/html; charset=iso-8859-1", "<a href='/\xe4'>", "a href http://h/%C3%A4"},
		{"text/html", "<meta charset=windows-1252><a href='/\x80'>", "a href http://h/%E2%82%AC"},
		{"text/html", "<meta http-equiv=refresh content='0;/a'><meta http-equiv=refresh content='3'><meta http-equiv=refresh content='1,url = b'>", "meta refresh http://h/a|meta refresh http://h/s/b"},
		{"text/html", "<a href='unclosed", ""},
		{"text/html", "<base href='https://b/c/d'><a href=e>", "a href https://b/c/e"},
		{"text/html", "<base href='mailto:x'><a href=e>", "a href http://h/s/e"},
	} {
		d, err := scope.Read("http://h/s/", c.kind, strings.NewReader(c.body))
		if got := strings.Join(told(d), "|"); err != nil || got != c.want {
			t.Errorf("%s %q: %s, %v, want %s", c.kind, c.body, got, err, c.want)
		}
	}
}

func FuzzReadDocument(f *testing.F) {
	f.Add("text/html", "<base href=x><a href='y' style='url(z'><img srcset='a 1x,b'>")
	f.Add("text/css", "@import 'x';a{b:url(\\")
	f.Fuzz(func(t *testing.T, kind, body string) {
		d, err := scope.Read("http://h/s/", kind, strings.NewReader(body))
		if err != nil {
			return
		}
		for _, l := range d.Links {
			if again, err := scope.Normalize(l.URL); err != nil || again != l.URL {
				t.Fatalf("%q is not in normal form", l.URL)
			}
		}
	})
}
