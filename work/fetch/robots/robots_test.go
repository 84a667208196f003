package robots_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/work/fetch/robots"
)

// TestCases runs testdata/cases.txt: a robots.txt, then for each agent the
// URLs it may and may not fetch.
func TestCases(t *testing.T) {
	text, err := os.ReadFile("testdata/cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, section := range strings.Split(string(text), "\n=== ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		file, expect, found := strings.Cut(body, "\n---\n")
		if !found {
			t.Fatalf("%s: no line of ---", title)
		}
		t.Run(title, func(t *testing.T) {
			f := robots.Parse([]byte(file))
			for line := range strings.Lines(expect) {
				words := strings.Fields(line)
				if len(words) == 0 || strings.HasPrefix(line, "#") {
					continue
				}
				if len(words) != 3 {
					t.Fatalf("%q: want yes or no, agent, URL", line)
				}
				asked++
				if got := f.Ask(words[1], words[2]); got.Allowed != (words[0] == "yes") {
					t.Errorf("%s: %s", strings.TrimSpace(line), got)
				}
			}
		})
	}
	if asked < 100 {
		t.Errorf("only %d questions were asked", asked)
	}
}

func TestVerdictNamesItsRule(t *testing.T) {
	f := robots.Parse([]byte("\ufeffuser-agent: *\r\n\rdisallow: /x # secret\nALLOW /x/y\n\nSitemap: http://a/s.xml\nsitemap: http://a/t.xml"))
	for url, want := range map[string]robots.Verdict{
		"http://a/x":          {Rule: "disallow: /x", Line: 3},
		"http://a/x/y":        {Allowed: true, Rule: "allow: /x/y", Line: 4},
		"http://a/z":          {Allowed: true},
		"http://a/robots.txt": {Allowed: true},
	} {
		if diff := cmp.Diff(want, f.Ask("Ebb", url)); diff != "" {
			t.Errorf("%s: %s", url, diff)
		}
	}
	if diff := cmp.Diff([]string{"http://a/s.xml", "http://a/t.xml"}, f.Sitemaps()); diff != "" {
		t.Error(diff)
	}
	if got := f.Ask("Ebb", "http://a/x").String(); got != "forbidden by line 3 of robots.txt: disallow: /x" {
		t.Error(got)
	}
}

func TestLimit(t *testing.T) {
	head := "user-agent: *\ndisallow: /first\n"
	fill := strings.Repeat("# "+strings.Repeat("x", 97)+"\n", (robots.MaxBytes-len(head))/100)
	rest := robots.MaxBytes - len(head) - len(fill)
	// The line that the limit cuts would forbid everything.
	text := head + fill + strings.Repeat("#", rest-len("\ndisallow: /")) + "\ndisallow: /private/only\ndisallow: /late\n"
	f := robots.Parse([]byte(text))
	for path, want := range map[string]bool{"/first": false, "/late": true, "/private/only": true, "/": true} {
		if got := f.Ask("Ebb", "http://a"+path).Allowed; got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	body, err := robots.ReadBody(strings.NewReader(text + fill))
	if err != nil || len(body) != robots.MaxBytes+1 {
		t.Errorf("read %d bytes, %v", len(body), err)
	}
}

func TestDelay(t *testing.T) {
	f := robots.Parse([]byte("user-agent: a\ncrawl-delay: 2.5\nuser-agent: b\ndisallow: /x\n\nuser-agent: c\ncrawl-delay: 99999\ncrawl-delay: -1\ndisallow:\n\n" +
		"user-agent: d\ncrawl-delay: soon\ndisallow:\nuser-agent: a\ncrawl-delay: 4\n\nuser-agent: *\ncrawl-delay: 1\ncrawl-delay: NaN\n"))
	for agent, want := range map[string]time.Duration{"A/1.0": 4 * time.Second, "b": 0, "c": 5 * time.Minute, "d": 0, "e": time.Second} {
		if got := f.Delay(agent); got != want {
			t.Errorf("%s waits %v, want %v", agent, got, want)
		}
	}
	if f.Ask("a", "http://h/x").Allowed {
		t.Error("a Crawl-delay ended the group of a")
	}
	if got := new(robots.File).Delay("a"); got != 0 {
		t.Errorf("nothing asks for %v", got)
	}
}

func TestToken(t *testing.T) {
	for agent, want := range map[string]string{"Ebb/1.0 (+https://x)": "Ebb", "foo_Bar-x": "foo_Bar-x", "": "", "*": "", "ツ": "", "Foo Bar": "Foo", "Bot2": "Bot"} {
		if got := robots.Token(agent); got != want {
			t.Errorf("Token(%q) = %q, want %q", agent, got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	now := time.Date(2026, 2, 21, 0, 0, 0, 0, time.UTC)
	forbid := []byte("user-agent: *\ndisallow: /\n")
	for _, c := range []struct {
		name     string
		answer   robots.Answer
		deferred bool
		allowed  bool
		until    time.Duration
	}{
		{"200", robots.Answer{Status: 200, Body: forbid}, false, false, robots.TTL},
		{"203", robots.Answer{Status: 203, Body: forbid}, false, false, robots.TTL},
		{"204", robots.Answer{Status: 204}, false, true, robots.TTL},
		{"304 without asking for it", robots.Answer{Status: 304}, false, true, robots.TTL},
		{"401", robots.Answer{Status: 401, Body: forbid}, false, true, robots.TTL},
		{"403", robots.Answer{Status: 403, Body: forbid}, false, true, robots.TTL},
		{"404", robots.Answer{Status: 404, Body: forbid}, false, true, robots.TTL},
		{"410", robots.Answer{Status: 410}, false, true, robots.TTL},
		{"429", robots.Answer{Status: 429, RetryAfter: time.Hour}, true, true, time.Hour},
		{"500", robots.Answer{Status: 500, Body: forbid}, true, true, robots.DeferFor},
		{"503 for a week", robots.Answer{Status: 503, RetryAfter: 7 * 24 * time.Hour}, true, true, robots.TTL},
		{"no answer", robots.Answer{}, true, true, robots.DeferFor},
		{"5 redirects", robots.Answer{Status: 200, Redirects: 5, Body: forbid}, false, false, robots.TTL},
		{"6 redirects", robots.Answer{Status: 302, Redirects: 6, Body: forbid}, false, true, robots.TTL},
	} {
		got := robots.Judge(c.answer, now)
		if got.Deferred != c.deferred || got.File.Ask("x", "http://a/").Allowed != c.allowed || got.Until.Sub(now) != c.until || (got.Why == "") != (c.answer.Status >= 200 && c.answer.Status < 300) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestCache(t *testing.T) {
	var c robots.Cache
	now := time.Date(2026, 2, 21, 0, 0, 0, 0, time.UTC)
	origin, url := robots.URL("https://a.example:8443/x/y?z")
	if origin != "https://a.example:8443" || url != "https://a.example:8443/robots.txt" {
		t.Fatalf("origin %q, robots.txt at %q", origin, url)
	}
	if _, fresh := c.Lookup(origin, now); fresh {
		t.Error("fresh before anything was asked")
	}
	if got := c.Keep(origin, robots.Answer{Status: 503}, now); !got.Deferred {
		t.Errorf("a first 503 gives %+v", got)
	}
	if got, fresh := c.Lookup(origin, now.Add(robots.DeferFor-1)); !fresh || !got.Deferred {
		t.Errorf("before the time: %+v, fresh %v", got, fresh)
	}
	if _, fresh := c.Lookup(origin, now.Add(robots.DeferFor)); fresh {
		t.Error("still fresh when it is time to ask again")
	}
	c.Keep(origin, robots.Answer{Status: 200, Body: []byte("user-agent: *\ndisallow: /x")}, now)
	if got, fresh := c.Lookup(origin, now.Add(robots.TTL-1)); !fresh || got.File.Ask("e", origin+"/x").Allowed {
		t.Errorf("within a day: %+v, fresh %v", got, fresh)
	}
	later := now.Add(robots.TTL)
	if _, fresh := c.Lookup(origin, later); fresh {
		t.Error("fresh after a day")
	}
	got := c.Keep(origin, robots.Answer{}, later)
	if got.Deferred || got.File.Ask("e", origin+"/x").Allowed || got.Until != later.Add(robots.DeferFor) {
		t.Errorf("rules learnt before do not hold: %+v", got)
	}
	if got := c.Keep(origin, robots.Answer{Status: 404}, later); !got.File.Ask("e", origin+"/x").Allowed {
		t.Errorf("rules that are gone still hold: %+v", got)
	}
}

// A pattern of many stars takes no more than its parts, whatever the path.
func TestManyStars(t *testing.T) {
	f := robots.Parse([]byte("user-agent: *\ndisallow: /" + strings.Repeat("*a", 5000) + "b$\n"))
	if !f.Ask("e", "http://h/"+strings.Repeat("a", 16000)).Allowed {
		t.Error("matched without a b")
	}
}

func FuzzAsk(f *testing.F) {
	f.Add("user-agent: *\ndisallow: /a*b$\n", "/axb")
	f.Add("user-agent: e\nallow: /%7e\ncrawl-delay: 1e309", "/~")
	f.Fuzz(func(t *testing.T, file, path string) {
		parsed := robots.Parse([]byte(file))
		got := parsed.Ask("e", "http://h/"+path)
		if (got.Rule == "") != (got.Line == 0) || got.Rule == "" && !got.Allowed {
			t.Fatalf("%+v", got)
		}
		if d := parsed.Delay("e"); d < 0 || d > 5*time.Minute {
			t.Fatalf("waits %v", d)
		}
	})
}

func ExampleFile_Ask() {
	f := robots.Parse([]byte("user-agent: *\ndisallow: /private/\nallow: /private/open\n"))
	fmt.Println(f.Ask("Ebb/1.0", "https://example.org/private/x"))
	// Output: forbidden by line 2 of robots.txt: disallow: /private/
}
