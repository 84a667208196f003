package store

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
)

var t0 = time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)

func TestInstants(t *testing.T) {
	micro := t0.Add(time.Microsecond)
	for _, c := range []struct {
		name      string
		got, want time.Time
	}{
		{"cut", Instant(t0.Add(1999)), micro},
		{"zero stays", Instant(time.Time{}), time.Time{}},
		{"to UTC", Instant(t0.In(time.FixedZone("east", 3600))), t0},
		{"rounded up", Due(t0, 1), micro},
		{"exact stays", Due(t0, time.Microsecond), micro},
		{"of an uneven now", Due(t0.Add(1), time.Microsecond), t0.Add(2 * time.Microsecond)},
		{"no delay", Due(t0, 0), t0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		now := t0.Add(time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "now")))
		delay := time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "delay"))
		if early := Due(now, delay).Sub(now.Add(delay)); early < 0 || early >= time.Microsecond {
			t.Fatalf("off by %s", early)
		}
	})
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{"": "", "ü": "ü", "a\x00b": "a\uFFFDb", "\xff\xfe": "\uFFFD", "\xc3(": "\uFFFD("} {
		if got := Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := Text(string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			t.Fatalf("%q cannot be stored", text)
		}
		if Text(text) != text {
			t.Fatalf("%q changes again", text)
		}
	})
}

func TestPrepareSaysWhatIsWrong(t *testing.T) {
	for part, n := range map[string]job.New{
		"kind":     {},
		"priority": {Kind: "k", Priority: 10},
		"queue":    {Kind: "k", Queue: "\xff"},
		"unique":   {Kind: "k", Unique: "\x00"},
		"trace":    {Kind: "k", Trace: "\xff"},
	} {
		if _, err := Prepare(t0, n); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%+v: %v does not name %q", n, err, part)
		}
	}
}

func TestChecks(t *testing.T) {
	good := Settle{To: job.Failed, Cause: retry.CauseFatal}
	if err := CheckSettles([]Settle{good, {To: job.Succeeded}, {To: job.Queued}}); err != nil {
		t.Error(err)
	}
	err := CheckSettles([]Settle{good, {Ref: Ref{Seq: 32}, To: job.Failed}})
	if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "0000000000010") {
		t.Errorf("%v does not name the job", err)
	}
	for _, state := range job.States() {
		want := state == job.Failed || state == job.Parked
		if err := CheckRedrive(Filter{State: state}); (err == nil) != want {
			t.Errorf("redrive of %s: %v", state, err)
		}
	}
}

// A filter's part selects by its field alone, and all parts must match.
func TestFilterMatches(t *testing.T) {
	dead := &job.Job{
		Seq: 7, New: job.New{Kind: "k", Queue: "q", Target: "t", Batch: "b"}, State: job.Failed, Cause: retry.CauseFatal,
		EnqueuedAt: t0, EndedAt: t0.Add(time.Hour), LastClass: failure.DNS, Fingerprint: "f",
	}
	parked := *dead
	parked.State, parked.EndedAt = job.Parked, time.Time{}
	hour := t0.Add(time.Hour)
	for _, c := range []struct {
		f    Filter
		j    *job.Job
		want bool
	}{
		{Filter{}, dead, true},
		{Filter{Kind: "k", Queue: "q", Target: "t", Batch: "b", State: job.Failed, Cause: "fatal", Class: failure.DNS, Fingerprint: "f", Seqs: []int64{7}}, dead, true},
		{Filter{Kind: "k", Queue: "x"}, dead, false},
		{Filter{Seqs: []int64{8}}, dead, false},
		{Filter{Class: failure.TLS}, dead, false},
		{Filter{Since: hour}, dead, true},
		{Filter{Until: hour}, dead, false},
		{Filter{Until: hour.Add(1)}, dead, true},
		{Filter{Since: hour}, &parked, false}, // a living job goes by its enqueue
		{Filter{Since: t0, Until: hour}, &parked, true},
	} {
		if got := c.f.Matches(c.j); got != c.want {
			t.Errorf("%+v selects %s job: %t", c.f, c.j.State, got)
		}
	}
}
