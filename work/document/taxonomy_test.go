package document_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/document/model"
	"github.com/ebbhq/ebb/work/document/providertest"
)

// fate is what seed 001 demands of a document.
type fate struct {
	name    string
	input   string // default a.txt
	content string // default: some
	act     providertest.Act
	stream  bool
	class   failure.Class
	reason  string
	// calls is how often the model is asked: 4 where the failure is retriable
	// and stays, 1 where it is fatal, 0 where the document itself is.
	calls int
	raw   bool // the answer is kept
}

var fates = []fate{
	// Retriable: 4 attempts, then failed.
	{name: "timeout", act: providertest.Act{Fault: providertest.Hang}, class: failure.HeaderTimeout, calls: 4},
	{name: "stalled answer", act: providertest.Act{Fault: providertest.Stall}, class: failure.BodyTimeout, calls: 4},
	{name: "stalled stream", act: providertest.Act{Fault: providertest.Stall, Text: strings.Repeat("x", 64)}, stream: true, class: failure.BodyTimeout, reason: model.ReasonStalled, calls: 4},
	{name: "slow stream", act: providertest.Act{Pause: 50 * time.Second, Text: strings.Repeat("x", 64)}, stream: true, class: failure.BodyTimeout, calls: 4},
	{name: "reset", act: providertest.Act{Fault: providertest.Reset}, class: failure.Reset, calls: 4},
	{name: "cut off", act: providertest.Act{Fault: providertest.CutOff}, class: failure.ShortBody, calls: 4},
	{name: "429", act: providertest.Act{Status: 429}, class: failure.Throttled, reason: model.ReasonRateLimit, calls: 4},
	{name: "500", act: providertest.Act{Status: 500}, class: failure.Server, reason: model.ReasonProvider, calls: 4},
	{name: "503", act: providertest.Act{Status: 503}, class: failure.Server, reason: model.ReasonProvider, calls: 4},
	{name: "529", act: providertest.Act{Status: 529}, class: failure.Server, reason: model.ReasonOverloaded, calls: 4},
	{name: "a gateway's page", act: providertest.Act{Fault: providertest.Page}, class: failure.SoftError, reason: model.ReasonEnvelope, calls: 4},
	// Fatal: failed at once.
	{name: "schema violation", act: providertest.Act{Text: `{"total": "seven"}`}, class: failure.InvalidOutput, reason: document.ReasonSchema, calls: 1, raw: true},
	{name: "unparseable", act: providertest.Act{Text: `{"total": `}, class: failure.InvalidOutput, reason: document.ReasonUnparseable, calls: 1, raw: true},
	{name: "refusal in words", act: providertest.Act{Text: "I cannot."}, class: failure.InvalidOutput, reason: document.ReasonUnparseable, calls: 1, raw: true},
	{name: "truncated", act: providertest.Act{Text: `{"tot`, Stop: "length"}, class: failure.InvalidOutput, reason: model.ReasonTruncated, calls: 1, raw: true},
	{name: "refused", act: providertest.Act{Text: `no`, Stop: "refusal"}, class: failure.InvalidOutput, reason: model.ReasonRefused, calls: 1, raw: true},
	{name: "400", act: providertest.Act{Status: 400}, class: failure.Rejected, reason: model.ReasonBadRequest, calls: 1},
	{name: "401", act: providertest.Act{Status: 401}, class: failure.Rejected, reason: model.ReasonBadKey, calls: 1},
	{name: "403", act: providertest.Act{Status: 403}, class: failure.Rejected, reason: model.ReasonBadKey, calls: 1},
	{name: "404", act: providertest.Act{Status: 404}, class: failure.Rejected, reason: model.ReasonUnknownModel, calls: 1},
	{name: "408", act: providertest.Act{Status: 408}, class: failure.RequestTimeout, reason: model.ReasonBadRequest, calls: 1},
	{name: "410", act: providertest.Act{Status: 410}, class: failure.Gone, reason: model.ReasonBadRequest, calls: 1},
	{name: "422", act: providertest.Act{Status: 422}, class: failure.Rejected, reason: model.ReasonBadRequest, calls: 1},
	{name: "425", act: providertest.Act{Status: 425}, class: failure.TooEarly, reason: model.ReasonBadRequest, calls: 1},
	{name: "missing object", input: "gone.txt", class: failure.InvalidInput, reason: document.ReasonMissing},
	{name: "corrupt input", input: "broken.pdf", content: "no pdf", class: failure.InvalidInput, reason: document.ReasonCorrupt},
	{name: "no text", content: "  ", class: failure.InvalidInput, reason: document.ReasonNoText},
	{name: "too large", content: strings.Repeat("x", 3000), class: failure.TooLarge, reason: "input_too_large"},
}

// TestTaxonomy: every failure of seed 001 has the end that the table demands,
// on a fake clock, with the preset exactly: 4 attempts after 30, 120 and 480 s,
// each ±20 %; a fatal one causes no retry.
func TestTaxonomy(t *testing.T) {
	for _, c := range fates {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.test(t) })
		})
	}
}

func (c *fate) test(t *testing.T) {
	r := newRig(t, setup{
		piped: true, script: func(providertest.Call) providertest.Act { return c.act },
		settings: document.Settings{Providers: map[string]document.Provider{"test": {Stream: c.stream}}},
	})
	if c.input == "" {
		c.input = "a.txt"
	}
	if c.content == "" {
		c.content = "Invoice"
	}
	if c.reason != document.ReasonMissing {
		r.put(c.input, c.content)
	}
	in := submission(c.input)
	in.Limits.MaxBytes = 2000
	d := r.ended(r.submit(in))[0]
	attempts := 1
	if c.calls == 4 {
		attempts = 4
	}
	if d.State != job.Failed || d.Attempts != attempts || d.Class != c.class.String() {
		t.Errorf("%s %s after %d attempts: %s", d.State, d.Class, d.Attempts, d.Error)
	}
	if calls := len(r.provider.Calls()); calls != c.calls {
		t.Errorf("the model was asked %d times, want %d", calls, c.calls)
	}
	checkSchedule(t, r, d.Job, attempts, c)
	raw, err := r.service.Raw(t.Context(), d.ID)
	if (err == nil) != c.raw || c.raw && (raw.Reason != c.reason || raw.Text != c.act.Text || d.Raw != len(c.act.Text)) {
		t.Errorf("raw: %+v, %v", raw, err)
	}
}

// checkSchedule holds the attempts' instants against the seed.
func checkSchedule(t *testing.T, r *rig, id string, attempts int, c *fate) {
	t.Helper()
	ledger, err := r.ops.Attempts(t.Context(), id)
	if err != nil || len(ledger) != attempts {
		t.Fatalf("%d rows in the ledger, want %d: %v", len(ledger), attempts, err)
	}
	nominal := []time.Duration{30 * time.Second, 120 * time.Second, 480 * time.Second}
	for i, a := range ledger {
		if a.Class != c.class.String() || a.Reason != c.reason || a.Counted != "attempt" {
			t.Errorf("attempt %d: %s %q counted %s: %s", i+1, a.Class, a.Reason, a.Counted, a.Error)
		}
		if i == 0 {
			continue
		}
		waited, want := a.StartedAt.Sub(ledger[i-1].EndedAt), nominal[i-1]
		drawn := time.Duration(ledger[i-1].Delay * float64(time.Second))
		if (waited-drawn).Abs() > time.Microsecond || // instants are kept in microseconds
			waited < want*8/10 || waited > want*12/10 || waited == want {
			t.Errorf("attempt %d began %s after the one before, drawn %s; want %s ± 20 %%", i+1, waited, drawn, want)
		}
	}
}

// TestRecovers: a retriable failure that passes ends well, after one retry.
func TestRecovers(t *testing.T) {
	for _, sick := range []providertest.Act{
		{Status: 429, Header: http.Header{"Retry-After": {"77"}}}, {Status: 500}, {Fault: providertest.Reset}, {Fault: providertest.CutOff}, {Fault: providertest.Hang},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, setup{piped: true, script: func(c providertest.Call) providertest.Act {
				if c.N == 1 {
					return sick
				}
				return providertest.Act{Text: `{"total": 1}`}
			}})
			r.put("a.txt", "A")
			d := r.ended(r.submit(submission("a.txt")))[0]
			ledger, err := r.ops.Attempts(t.Context(), d.Job)
			if err != nil || d.State != job.Succeeded || len(ledger) != 2 {
				t.Fatalf("%+v: %s, %d attempts, %v", sick, d.State, len(ledger), err)
			}
			if waited := ledger[1].StartedAt.Sub(ledger[0].EndedAt); sick.Status == 429 && waited < 77*time.Second {
				t.Errorf("asked again after %s; the provider wanted 77 s", waited)
			}
		})
	}
}

// TestParking: the documented rule parks what a person must mend, and costs no
// attempt.
func TestParking(t *testing.T) {
	p := policy.MustPreset("processing")
	p.Classes = append([]policy.Rule{{
		Match:  policy.Match{Reason: []string{model.ReasonBadKey, model.ReasonUnknownModel}},
		Action: policy.Park, Counts: policy.CountsFree, Max: 1,
	}}, p.Classes...)
	p, err := policy.Seal(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []int{401, 404} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, setup{piped: true, policies: []policy.Policy{p}, script: func(providertest.Call) providertest.Act { return providertest.Act{Status: status} }})
			r.put("a.txt", "A")
			if d := r.ended(r.submit(submission("a.txt")))[0]; d.State != job.Parked || d.Attempts != 0 {
				t.Errorf("%d: %s after %d attempts", status, d.State, d.Attempts)
			}
		})
	}
}

// failing is a bucket whose first writes fail.
type failing struct {
	driver.Bucket // what no test calls

	bad     error
	left    atomic.Int32
	mu      sync.Mutex
	objects map[string][]byte
}

func (b *failing) ErrorCode(error) gcerrors.ErrorCode { return gcerrors.Unknown }
func (b *failing) ErrorAs(error, any) bool            { return false }
func (b *failing) Close() error                       { return nil }

func (b *failing) NewRangeReader(context.Context, string, int64, int64, *driver.ReaderOptions) (driver.Reader, error) {
	return nil, errors.New("nothing to read")
}

func (b *failing) NewTypedWriter(_ context.Context, key, _ string, _ *driver.WriterOptions) (driver.Writer, error) {
	return &failingWriter{bucket: b, key: key}, nil
}

type failingWriter struct {
	bytes.Buffer
	bucket *failing
	key    string
}

func (w *failingWriter) Close() error {
	if w.bucket.left.Add(-1) >= 0 {
		return w.bucket.bad
	}
	w.bucket.mu.Lock()
	defer w.bucket.mu.Unlock()
	w.bucket.objects[w.key] = w.Bytes()
	return nil
}

// TestWriteFails: a retry after a failed write does not pay for the model
// again, and the provider is not blamed for it.
func TestWriteFails(t *testing.T) {
	for name, bad := range map[string]error{
		"network": syscall.ECONNRESET, "timeout": context.DeadlineExceeded, "unknown": errors.New("out of luck"),
	} {
		synctest.Test(t, func(t *testing.T) {
			docs, out := memblob.OpenBucket(nil), &failing{bad: bad, objects: map[string][]byte{}}
			out.left.Store(2)
			r := newRig(t, setup{piped: true, open: func(_ context.Context, at string) (*blob.Bucket, error) {
				if at == "s3://out" {
					return blob.NewBucket(out), nil
				}
				return docs, nil
			}})
			if err := docs.WriteAll(t.Context(), "a.txt", []byte("A"), nil); err != nil {
				t.Fatal(err)
			}
			in := submission("a.txt")
			in.Output = "s3://out"
			d := r.ended(r.submit(in))[0]
			ledger, err := r.ops.Attempts(t.Context(), d.Job)
			if err != nil || d.State != job.Succeeded || d.Calls != 1 || len(r.provider.Calls()) != 1 || len(ledger) != 3 {
				t.Fatalf("%s: %s %s, %d calls, %d attempts, %v", name, d.State, d.Error, len(r.provider.Calls()), len(ledger), err)
			}
			if got := string(out.objects["a.txt.json"]); got != "{\"total\": 7}\n" {
				t.Errorf("%s: %q", name, got)
			}
			for _, e := range r.settled {
				if e.Failure.Blame == failure.BlameTarget {
					t.Errorf("%s: the provider is blamed: %s %v", name, e.Failure.Class, e.Failure.Err)
				}
			}
		})
	}
}
