package scope_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/work/fetch/scope"
)

func TestNormalize(t *testing.T) {
	for raw, want := range map[string]string{
		"HTTP://Example.ORG":                       "http://example.org/",
		"http://example.org:80/a":                  "http://example.org/a",
		"https://example.org:443/a":                "https://example.org/a",
		"https://example.org:80/a":                 "https://example.org:80/a",
		"http://example.org:/a":                    "http://example.org/a",
		"http://example.org:0080/a":                "http://example.org/a",
		"http://a/b/c/./../../g":                   "http://a/g",
		"http://a/b/../../../g/.":                  "http://a/g/",
		"http://a/b/%2e%2E/g":                      "http://a/g",
		"http://a/..":                              "http://a/",
		"http://a/b/..":                            "http://a/",
		"http://a//b///c":                          "http://a//b///c",
		"http://a/%7euser/%c3%a4/%2f":              "http://a/~user/%C3%A4/%2F",
		"http://a/ä b":                             "http://a/%C3%A4%20b",
		"http://a/100%":                            "http://a/100%25",
		"http://a/100%zz?x=5%":                     "http://a/100%25zz?x=5%25",
		"http://a/x#frag":                          "http://a/x",
		"http://a?q=1":                             "http://a/?q=1",
		"http://a/?":                               "http://a/?",
		"http://a/?q=a+b&r=ä|c":                    "http://a/?q=a+b&r=%C3%A4|c",
		"http://a/?next=/../x":                     "http://a/?next=/../x",
		"http://bücher.example/":                   "http://xn--bcher-kva.example/",
		"http://XN--BCHER-KVA.example/":            "http://xn--bcher-kva.example/",
		"http://straße.example/":                   "http://xn--strae-oqa.example/",
		"http://a_b.example/":                      "http://a_b.example/",
		"http://[2001:DB8::0:1]:80/":               "http://[2001:db8::1]/",
		"http://[::1]:8080/x":                      "http://[::1]:8080/x",
		"  http://a/b\t":                           "http://a/b",
		"http://a/b\nc":                            "http://a/bc",
		`http:\\a\b\c?d\e`:                         "http://a/b/c?d%5Ce",
		"http://a/\"<>^`{}":                        "http://a/%22%3C%3E%5E%60%7B%7D",
		"http://a/\xff":                            "http://a/%FF",
		"http://ex%61mple.org/":                    "http://example.org/",
		"http://www.kslegislature.gov/li/b2025_26": "http://www.kslegislature.gov/li/b2025_26",
	} {
		got, err := scope.Normalize(raw)
		if err != nil || got != want {
			t.Errorf("Normalize(%q) = %q, %v, want %q", raw, got, err, want)
		}
	}
}

func TestNormalizeRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		"":                        "no scheme",
		"example.org/x":           "no scheme",
		"example.org:8080/x":      "no scheme",
		"/x":                      "no scheme",
		"ftp://a/":                "scheme ftp",
		"mailto:a@b":              "scheme mailto",
		"javascript:void(0)":      "scheme javascript",
		"http:a":                  "no host",
		"http://":                 "no host",
		"http:///x":               "no host",
		"http://:80/":             "no host",
		"http://u:p@a/":           "header",
		"http://a:b/":             "port",
		"http://a:0/":             "port",
		"http://a:65536/":         "port",
		"http://a..b/":            "empty part",
		"http://a b/":             "characters",
		"http://a%00b/":           "characters",
		"http://[::1/":            "IPv6",
		"http://[1.2.3.4]/":       "IPv6",
		"http://[fe80::1%25e0]/":  "IPv6",
		"http://a/" + long(20000): "longer than 16384 bytes",
		"http://" + strings.Repeat("abcdefgh.", 40) + "org/": "253",
	} {
		if got, err := scope.Normalize(raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Normalize(%.40q) = %q, %v, want an error about %q", raw, got, err, want)
		}
	}
}

func long(n int) string { return strings.Repeat("x", n) }

// The examples of RFC 3986, 5.4, without those of other schemes.
func TestResolve(t *testing.T) {
	const base = "http://a/b/c/d;p?q"
	for ref, want := range map[string]string{
		"g": "http://a/b/c/g", "./g": "http://a/b/c/g", "g/": "http://a/b/c/g/", "/g": "http://a/g", "//g": "http://g/",
		"?y": "http://a/b/c/d;p?y", "g?y": "http://a/b/c/g?y", "#s": "http://a/b/c/d;p?q", "g#s": "http://a/b/c/g",
		";x": "http://a/b/c/;x", "g;x": "http://a/b/c/g;x", "": "http://a/b/c/d;p?q", ".": "http://a/b/c/", "./": "http://a/b/c/",
		"..": "http://a/b/", "../": "http://a/b/", "../g": "http://a/b/g", "../..": "http://a/", "../../g": "http://a/g",
		"../../../g": "http://a/g", "/./g": "http://a/g", "/../g": "http://a/g", "g.": "http://a/b/c/g.", "..g": "http://a/b/c/..g",
		"./g/.": "http://a/b/c/g/", "g/../h": "http://a/b/c/h", "g;x=1/../y": "http://a/b/c/y", "g?y/../x": "http://a/b/c/g?y/../x",
		"https://x/y": "https://x/y", `\g`: "http://a/g", "a:b/c?": "error", "mailto:x@y": "error",
	} {
		got, err := scope.Resolve(base, ref)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("Resolve(%q) = %q, %v, want %q", ref, got, err, want)
		}
	}
	if got := scope.Host("https://example.org:8443/a?b"); got != "example.org:8443" {
		t.Errorf("Host = %q", got)
	}
}

// What is normal stays so, and holds nothing that a request line or a file
// of lines could break on.
func TestNormalFormsAreStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SampledFrom([]string{"http://a", "https://Ex.org:444", "HTTP://bücher.example:80"}).Draw(t, "site") +
			"/" + rapid.StringOf(rapid.RuneFrom([]rune("a./%2eFf#?&= äß\\\t\n:@[]é\x00\x7f"))).Draw(t, "path")
		once, err := scope.Normalize(raw)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		twice, err := scope.Normalize(once)
		if err != nil || twice != once {
			t.Fatalf("%q: %q becomes %q, %v", raw, once, twice, err)
		}
		for i := range len(once) {
			if c := once[i]; c <= ' ' || c >= 0x7f || c == '#' {
				t.Fatalf("%q: %q holds byte %#x", raw, once, c)
			}
		}
		if strings.Contains(strings.SplitN(once, "?", 2)[0], "/../") {
			t.Fatalf("%q: %q has dot segments", raw, once)
		}
	})
}

func FuzzNormalize(f *testing.F) {
	f.Add("http://a/b/../c?d#e")
	f.Add("https://bücher.example:443/%7e%zz")
	f.Fuzz(func(t *testing.T, raw string) {
		once, err := scope.Normalize(raw)
		if err != nil {
			return
		}
		if twice, err := scope.Normalize(once); err != nil || twice != once {
			t.Fatalf("%q: %q becomes %q, %v", raw, once, twice, err)
		}
	})
}
