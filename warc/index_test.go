package warc_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/warc"
)

func TestIndexAgreesWithTheWriter(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir)
	var told []warc.Entry
	x := page("http://a/1", "one")
	x.IP = ""
	first := write(t, w, x)
	told = append(told, first.Entry)
	x = page("http://a/2", "one")
	x.Known = func(string) (warc.Original, bool) {
		return warc.Original{ID: first.ID, URL: "http://a/1", Date: at}, true
	}
	told = append(told, write(t, w, x).Entry)
	x = page("http://a/3", "")
	x.ResponseHead = []byte("HTTP/1.1 301 Moved\r\nlocation: http://a/ 1\r\n\r\n")
	told = append(told, write(t, w, x).Entry)
	places, err := w.Write(&warc.Draft{Type: warc.Resource, Date: at, TargetURI: "urn:x:log", ContentType: "text/plain; a=b", Body: strings.NewReader("log"), Payload: true})
	if err != nil {
		t.Fatal(err)
	}
	told = append(told, warc.Entry{
		URL: "urn:x:log", Date: at, MIME: "text/plain", Digest: "POV4EM66E2VRT2WRXHBHQEUNLRBUSEHO",
		Length: places[0].Length, Offset: places[0].Offset, File: places[0].File, ID: places[0].ID,
	})
	finish(t, w)
	var read []warc.Entry
	if _, err := warc.Index(only(t, dir), func(e warc.Entry) error { read = append(read, e); return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range told {
		told[i].Date = told[i].Date.Truncate(1e9)
	}
	if diff := cmp.Diff(told, read); diff != "" {
		t.Error(diff)
	}
	if read[2].Redirect != "http://a/ 1" || read[1].MIME != "warc/revisit" {
		t.Errorf("read %+v", read)
	}
}

func TestForms(t *testing.T) {
	e := warc.Entry{
		URL: "http://www.Example.org:80/A/?b=2&a=<1>", Date: at, MIME: "text/html", Status: 200, Digest: "VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N",
		Length: 123, Offset: 456, File: "x.warc.gz", ID: "<urn:uuid:1>",
	}
	bare := warc.Entry{URL: "http://a/b c", Date: at, MIME: "warc/revisit", Length: 1, File: "y"}
	for _, c := range []struct {
		form warc.Format
		want string
	}{
		{warc.CDX, " CDX N b a m s k r M S V g\n" +
			"org,example)/a?a=<1>&b=2 20260221103015 http://www.Example.org:80/A/?b=2&a=<1> text/html 200 VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N - - 123 456 x.warc.gz\n" +
			"a)/b%20c 20260221103015 http://a/b%20c warc/revisit - - - - 1 0 y\n"},
		{warc.WgetCDX, " CDX a b a m s k r M V g u\n" +
			"http://www.Example.org:80/A/?b=2&a=<1> 20260221103015 http://www.Example.org:80/A/?b=2&a=<1> text/html 200 VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N - - 456 x.warc.gz <urn:uuid:1>\n"},
		{warc.CDXJ, `org,example)/a?a=<1>&b=2 20260221103015 {"url":"http://www.Example.org:80/A/?b=2&a=<1>","mime":"text/html","status":"200","digest":"VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N","length":"123","offset":"456","filename":"x.warc.gz"}` + "\n" +
			`a)/b%20c 20260221103015 {"url":"http://a/b c","mime":"warc/revisit","length":"1","offset":"0","filename":"y"}` + "\n"},
	} {
		if diff := cmp.Diff(c.want, c.form.Header+c.form.Line(e)+c.form.Line(bare)); diff != "" {
			t.Error(diff)
		}
	}
}

// As the surt library of replay tools has them.
func TestSURT(t *testing.T) {
	for url, want := range map[string]string{
		"http://archive.org":                                                       "org,archive)/",
		"http://archive.org/goo/":                                                  "org,archive)/goo",
		"http://archive.org/goo/?":                                                 "org,archive)/goo",
		"http://archive.org/goo/?b&a":                                              "org,archive)/goo?a&b",
		"http://archive.org/goo/?a=2&b&a=1":                                        "org,archive)/goo?a=1&a=2&b",
		"https://www.archive.org/Goo/":                                             "org,archive)/goo",
		"http://www2.archive.org/":                                                 "org,archive)/",
		"http://wwwx.archive.org/":                                                 "org,archive,wwwx)/",
		"http://archive.org:8080/goo":                                              "org,archive:8080)/goo",
		"https://archive.org:443/goo":                                              "org,archive)/goo",
		"http://archive.org:443/goo":                                               "org,archive:443)/goo",
		"http://127.0.0.1:99/":                                                     "1,0,0,127:99)/",
		"http://[::1]:99/x":                                                        "::1:99)/x",
		"http://a/x#frag":                                                          "a)/x",
		"http://a/x;jsessionid=0123456789abcdefghijklemopqrstuv":                   "a)/x",
		"http://a/x?y=1&PHPSESSID=0123456789abcdefghijklemopqrstuv":                "a)/x?y=1",
		"http://a/x?sid=9682993c8daa2c5497996114facdc805&x=y":                      "a)/x?x=y",
		"http://a/x?CFID=1169580&CFTOKEN=48630702&dtstamp=22%2F08":                 "a)/x?dtstamp=22%2f08",
		"http://a/(a(4hqa0555fwsecu455xqckv45)S(4hqa0555fwsecu455xqckv45))/m.aspx": "a)/m.aspx",
		"mailto:A@b":     "mailto:a@b",
		"http://a/%zz x": "http://a/%zz%20x",
	} {
		if got := warc.SURT(url); got != want {
			t.Errorf("SURT(%q) = %q, want %q", url, got, want)
		}
	}
}

// More than fits in memory comes out sorted by bytes, each line once.
func TestSortedIndex(t *testing.T) {
	dir := t.TempDir()
	for _, form := range []warc.Format{warc.CDX, warc.CDXJ, warc.WgetCDX} {
		path := filepath.Join(dir, "index")
		w, err := warc.CreateIndex(path, form)
		if err != nil {
			t.Fatal(err)
		}
		w.SpillAt(4000)
		var want []string
		for i := range 1000 {
			e := warc.Entry{URL: fmt.Sprintf("http://a/%d", i*7919%997), Date: at, File: "x", Digest: "VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N"}
			want = append(want, form.Line(e))
			if err := w.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(path); err == nil && form.Header == warc.CDX.Header {
			t.Error("the index has its name before it is whole")
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if form.Sorted {
			slices.Sort(want)
			want = slices.Compact(want)
		}
		if text := form.Header + strings.Join(want, ""); string(got) != text {
			t.Errorf("%q: %d bytes, want %d", form.Header, len(got), len(text))
		}
		if names := list(t, dir); len(names) != 1 {
			t.Errorf("left behind: %q", names)
		}
	}
}
