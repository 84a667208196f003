package path_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/work/fetch/path"
	"github.com/ebbhq/ebb/work/fetch/scope"
)

func TestOf(t *testing.T) {
	for _, c := range []struct{ url, kind, want string }{
		{"https://a/", "", "a/index.html"},
		{"https://a/docs/", "text/html", "a/docs/index.html"},
		{"https://a/docs/x.pdf", "text/html", "a/docs/x.pdf"},
		{"https://a/docs", "text/html; charset=utf-8", "a/docs%.html"},
		{"https://a/docs", "application/octet-stream", "a/docs%"},
		{"https://a/docs/x", "application/pdf", "a/docs/x%.pdf"},
		{"https://a/v1.0/x.pdf", "", "a/v1.0%/x.pdf"},
		{"https://a/v1.0", "", "a/v1.0"},
		{"https://a/x.php?id=1", "text/html", "a/x.php%@id=1"},
		{"https://a/x?", "", "a/x%%@"},
		{"https://a/?q=a/b&r=http://c", "", "a/index.html%@q=a%x2fb&r=http%x3a%x2f%x2fc"},
		{"https://a/?q=..", "", "a/index.html%@q=.%x2e"},
		{"https://a/README.txt", "", "a/README%~fc.txt"},
		{"https://a/Docs/x.txt", "", "a/Docs%~8/x.txt"},
		{"https://a/x.txt?Q=b", "", "a/x%~08.txt%@Q=b"},
		{"https://a/%C3%A4.txt", "", "a/%C3%A4.txt"},
		{"https://a/b:c.txt", "", "a/b%x3ac.txt"},
		{"https://a/b%3Ac.txt", "", "a/b%3Ac.txt"},
		{"https://a/index.html", "", "a/%index.html"},
		{"https://a/index", "text/html", "a/index%.html"},
		{"https://a//x.txt", "", "a/%/x.txt"},
		{"https://a/.git/config", "", "a/%x2egit/config%"},
		{"https://a/.../x.", "", "a/%x2e.%x2e%/x%x2e%"},
		{"https://a/con/nul.txt", "", "a/%_con/%_nul.txt"},
		{"https://a/com1/comb.txt", "", "a/%_com1/comb.txt"},
		{"http://a/x.pdf", "", "a+http/x.pdf"},
		{"http://a:8080/x.pdf", "", "a+http+8080/x.pdf"},
		{"https://a:8443/x.pdf", "", "a+8443/x.pdf"},
		{"https://[::1]:8443/x.pdf", "", "[%x3a%x3a1]+8443/x.pdf"},
	} {
		if got := path.Of(c.url, c.kind); got != c.want {
			t.Errorf("Of(%q, %q) = %q, want %q", c.url, c.kind, got, c.want)
		}
	}
}

func TestLongNames(t *testing.T) {
	long := strings.Repeat("x", 400)
	name := path.Of("https://a/"+long+".pdf", "")
	if base := strings.TrimPrefix(name, "a/"); len(base) != 200 || !strings.HasSuffix(base, ".pdf") {
		t.Errorf("%d bytes: %s", len(base), base)
	}
	deep := path.Of("https://a/"+strings.Repeat("dir/", 500)+"x.pdf", "")
	if want := "a/%long/"; !strings.HasPrefix(deep, want) || len(deep) != len(want)+32+len(".pdf") {
		t.Errorf("a deep one is %s", deep)
	}
	// Pages of one long directory stay together.
	one, two := path.Of("https://a/"+long+"/1.txt", ""), path.Of("https://a/"+long+"/2.txt", "")
	if strings.TrimSuffix(one, "1.txt") != strings.TrimSuffix(two, "2.txt") {
		t.Errorf("apart: %s and %s", one, two)
	}
}

// check holds what is promised of every name.
func check(t interface{ Fatalf(string, ...any) }, url, name string) {
	if len(name) > 900 {
		t.Fatalf("%q: %d bytes", url, len(name))
	}
	for i, part := range strings.Split(name, "/") {
		if part == "" || part == "." || part == ".." || len(part) > 255 || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".") {
			t.Fatalf("%q: part %d of %q", url, i, name)
		}
		if strings.ContainsAny(part, `:*?"<>|\`) || strings.ContainsFunc(part, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			t.Fatalf("%q: characters of %q", url, name)
		}
	}
}

// apart holds that two URLs can be kept side by side.
func apart(t interface{ Fatalf(string, ...any) }, a, b string) {
	for _, kind := range []string{"", "text/html"} {
		x, y := strings.ToLower(path.Of(a, "")), strings.ToLower(path.Of(b, kind))
		if x == y || strings.HasPrefix(x, y+"/") || strings.HasPrefix(y, x+"/") {
			t.Fatalf("%q is kept as %q, %q as %q", a, x, b, y)
		}
	}
}

func TestNamesAreApart(t *testing.T) {
	all := []string{
		"https://a/", "https://a/index.html", "https://a/index", "https://a/INDEX.html", "https://a/index.html/", "https://a/index.html/x", "https://a/index.html?", "https://a/?", "https://a/index/",
		"https://a/x", "https://a/X", "https://a/x/", "https://a/X/", "https://a/x.", "https://a/x.html", "https://a/x.html/", "https://a/x?y", "https://a/x?Y", "https://a/x/?y", "https://a/xY", "https://a/Xy",
		"https://a//", "https://a///", "https://a/%25", "https://a/%25/", "https://a/a:b", "https://a/a%3Ab", "https://a/a%7Cb", "https://a/a|b", "https://a/con", "https://a/_con",
		"http://a/", "http://a:8080/", "https://a:8080/", "https://a:80/", "https://a+http/",
	}
	for i, a := range all {
		check(t, a, path.Of(a, ""))
		for _, b := range all[:i] {
			apart(t, a, b)
		}
	}
}

// Neighbours collide if any do: the second URL is the first with an edit.
func TestNeighboursAreApart(t *testing.T) {
	alphabet := rapid.RuneFrom([]rune("aAbB1.%/?:*+@~_-ä "))
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(alphabet, 0, 10, -1).Draw(t, "path")
		if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
			text += strings.Repeat(text+"z", 150)
		}
		site := rapid.SampledFrom([]string{"https://a/", "http://a/", "https://a:81/"}).Draw(t, "site")
		a, b := normal(t, site+text), normal(t, site+edit(t, text, string(alphabet.Draw(t, "letter"))))
		check(t, a, path.Of(a, "text/html"))
		if a != b {
			apart(t, a, b)
		}
	})
}

// edit changes, removes, adds or flips the case of one letter.
func edit(t *rapid.T, text, letter string) string {
	at := rapid.IntRange(0, len(text)).Draw(t, "at")
	end := min(at+1, len(text))
	switch rapid.IntRange(0, 3).Draw(t, "edit") {
	case 0:
		return text[:at] + letter + text[at:]
	case 1:
		return text[:at] + text[end:]
	case 2:
		return text[:at] + letter + text[end:]
	}
	flipped := strings.ToUpper(text[at:end])
	if flipped == text[at:end] {
		flipped = strings.ToLower(flipped)
	}
	return text[:at] + flipped + text[end:]
}

func normal(t *rapid.T, raw string) string {
	url, err := scope.Normalize(raw)
	if err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return url
}
