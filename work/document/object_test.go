package document_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/work/document"
)

// sickS3 is an S3 server that answers requests for keys that say so with an
// error.
func sickS3(t *testing.T) (query string, calls map[string]int) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "ebbtest")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "ebbsecret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	memory := gofakes3.New(s3mem.New()).Server()
	calls = map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse := func(status int, code string) {
			calls[code]++
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`<?xml version="1.0"?><Error><Code>` + code + `</Code><Message>no</Message></Error>`))
		}
		switch {
		case strings.Contains(r.URL.Path, "busy"):
			refuse(503, "SlowDown")
		case strings.Contains(r.URL.Path, "broken"):
			refuse(500, "InternalError")
		case strings.Contains(r.URL.Path, "secret"):
			refuse(403, "AccessDenied")
		case strings.Contains(r.URL.Path, "key"):
			refuse(403, "InvalidAccessKeyId")
		default:
			memory.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	makeBucket(t, server.URL)
	return "?region=us-east-1&use_path_style=true&endpoint=" + url.QueryEscape(server.URL), calls
}

// TestS3Failures: what an object store says has the class that seed 001
// demands, and its client makes each call once.
func TestS3Failures(t *testing.T) {
	query, calls := sickS3(t)
	r := newRig(t, setup{open: document.OpenBucket})
	for name, want := range map[string]struct {
		class  failure.Class
		reason string
		fatal  bool
	}{
		"s3://docs/gone.txt" + query:   {failure.InvalidInput, document.ReasonMissing, true},
		"s3://nodocs/a.txt" + query:    {failure.InvalidInput, document.ReasonMissing, true},
		"s3://docs/secret.txt" + query: {failure.Rejected, document.ReasonDenied, true},
		"s3://docs/key.txt" + query:    {failure.Rejected, document.ReasonDenied, true},
		"s3://docs/busy.txt" + query:   {failure.Throttled, "SlowDown", false},
		"s3://docs/broken.txt" + query: {failure.Server, "InternalError", false},
		"s3://docs/a.txt?region=us-east-1&use_path_style=true&endpoint=http%3A%2F%2F127.0.0.1%3A1": {failure.Refused, "", false},
		"s3://docs/a.txt?nonsense=1": {failure.InvalidInput, document.ReasonBucket, true},
	} {
		in := submission()
		in.Inputs, in.Output = []string{name}, "s3://docs/out"+query
		b := r.submit(in)
		<-r.wake
		d := r.documents(b)[0]
		for d.Class == "" {
			<-r.wake
			d = r.documents(b)[0]
		}
		ledger, err := r.ops.Attempts(t.Context(), d.Job)
		if err != nil || len(ledger) != 1 || ledger[0].Class != want.class.String() || ledger[0].Reason != want.reason {
			t.Errorf("%s: %+v, %v", name, ledger, err)
		}
		if state := map[bool]job.State{true: job.Failed, false: job.Queued}[want.fatal]; d.State != state {
			t.Errorf("%s: %s", name, d.State)
		}
		r.mu.Lock()
		for _, e := range r.settled {
			if e.Failure.Blame == failure.BlameTarget {
				t.Errorf("%s: the provider is blamed for %s", name, e.Failure.Class)
			}
		}
		r.mu.Unlock()
	}
	for code, n := range calls {
		if n != 1 {
			t.Errorf("%s: asked %d times; Ebb retries, not the client", code, n)
		}
	}
}

// TestS3EndToEnd: a pattern in a bucket, results beside it.
func TestS3EndToEnd(t *testing.T) {
	query, _ := sickS3(t)
	b, err := document.OpenBucket(t.Context(), "s3://docs"+query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	for _, name := range []string{"in/a.txt", "in/deep/b.md", "in/c.bin"} {
		if err := b.WriteAll(t.Context(), name, []byte("Total 7"), nil); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t, setup{open: document.OpenBucket})
	in := submission()
	in.Inputs, in.Output = []string{"s3://docs/in/**/*" + query}, "s3://docs/out"+query
	all := r.ended(r.submit(in))
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	for i, name := range []string{"out/in/a.txt.json", "out/in/deep/b.md.json"} {
		got, err := b.ReadAll(t.Context(), name)
		if err != nil || string(got) != "{\"total\": 7}\n" || all[i].State != job.Succeeded {
			t.Errorf("%s: %q, %v, %s", name, got, err, all[i].State)
		}
	}
}

// TestBuckets: what a bucket's URL may say.
func TestBuckets(t *testing.T) {
	for at, want := range map[string]string{
		"ftp://x":                      "want file:///DIR or s3://NAME",
		"file:///tmp?metadata=write":   "knows create_dir alone",
		"file://" + t.TempDir() + "/x": "no such file",
		"s3://docs?use_path_style=x":   "must be true or false",
		"s3://docs?nonsense=1":         "unknown query parameter",
		"://":                          "not a URL",
	} {
		if b, err := document.OpenBucket(t.Context(), at); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v %v", at, b, err)
		}
	}
}

// TestRawIsBoundedAndRedacted: what is kept of a refused answer.
func TestRawIsBoundedAndRedacted(t *testing.T) {
	for _, c := range []struct {
		raw  document.Raw
		want string
		cut  bool
		n    int
	}{
		{document.Raw{Redact: []string{`\d{4}`}}, "Card [redacted] and [redacted], ü.", false, 2},
		{document.Raw{MaxBytes: 6}, "Card 1", true, 0},
		{document.Raw{MaxBytes: 21}, "Card 1234 and 5678, ", true, 0}, // no half of a letter
	} {
		synctest.Test(t, func(t *testing.T) {
			settings := document.Settings{Raw: c.raw, Providers: map[string]document.Provider{"test": {}}}
			r := newRig(t, setup{piped: true, settings: settings, script: says("Card 1234 and 5678, ü.")})
			r.put("a.txt", "A")
			d := r.ended(r.submit(submission("a.txt")))[0]
			got, err := r.service.Raw(t.Context(), d.ID)
			if err != nil || got.Text != c.want || got.Cut != c.cut || got.Redacted != c.n || d.Raw != len(c.want) {
				t.Errorf("%+v: %+v, %v", c.raw, got, err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setup{piped: true, settings: document.Settings{Raw: document.Raw{MaxBytes: -1}, Providers: map[string]document.Provider{"test": {}}}, script: says("no")})
		r.put("a.txt", "A")
		d := r.ended(r.submit(submission("a.txt")))[0]
		if got, err := r.service.Raw(t.Context(), d.ID); err == nil || d.Invalid != document.ReasonUnparseable {
			t.Errorf("%+v", got)
		}
	})
}
