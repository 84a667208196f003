package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/worker"
)

func logTo(out *strings.Builder, level slog.Level) func(worker.Event) {
	return Log(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level}))
}

// TestRecords pins a record of every event.
func TestRecords(t *testing.T) {
	var out strings.Builder
	tell := logTo(&out, slog.LevelDebug)
	for _, e := range script() {
		tell(e)
	}
	const path = "testdata/log.jsonl"
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(out.String(), "\n")); diff != "" {
		t.Errorf("differs from %s; go test ./telemetry -update writes it anew:\n%s", path, diff)
	}
}

func TestLevels(t *testing.T) {
	j := delivery(1, retry.History{})
	old := delivery(1, retry.History{Starts: 5, Attempts: 5, FirstStartAt: t0})
	for _, c := range []struct {
		e     worker.Event
		level slog.Level
		text  string
	}{
		{failedWith(j, failureOf(failure.Server, "503"), t0, 0), slog.LevelInfo, "retry after "},
		{failedWith(old, failureOf(failure.Server, "503"), t0, 0), slog.LevelWarn, "dead letter: fail (exhausted): server by rule builtin/server of policy version "},
		{failedWith(j, failureOf(failure.Config, "no key"), t0, 0), slog.LevelWarn, "parked: park (config): config by rule builtin/config"},
		{worker.Event{What: worker.Erred, Err: errCut}, slog.LevelError, "a call of the store failed"},
		{worker.Event{What: worker.Stopped}, slog.LevelInfo, "stopped"},
		{worker.Event{What: worker.Stopped, Err: worker.ErrUnsaved}, slog.LevelError, "stopped before everything was saved"},
		{worker.Event{What: "something new"}, slog.LevelInfo, "something new"},
	} {
		if level, text := levelOf(&c.e); level != c.level || !strings.HasPrefix(text, c.text) {
			t.Errorf("%s %s: %s %q, want %s %q…", c.e.What, c.e.To, level, text, c.level, c.text)
		}
	}
	for _, what := range eventKinds(t) {
		e := worker.Event{What: what}
		if _, text := levelOf(&e); text == string(what) && what != worker.Claimed && what != worker.Started && what != worker.Held && what != worker.Stopped {
			t.Errorf("%s has no words of its own", what)
		}
	}
}

// TestRepeats: of a thousand alike in a minute ten are written, and the first
// of the next minute says how many were not; others are not held up by them.
func TestRepeats(t *testing.T) {
	var out strings.Builder
	tell := logTo(&out, slog.LevelInfo)
	at := func(d time.Duration, class failure.Class) worker.Event {
		return failedWith(delivery(1, retry.History{}), failureOf(class, "no"), t0.Add(d), 0)
	}
	for i := range 1000 {
		tell(at(time.Duration(i)*time.Millisecond, failure.Server))
	}
	tell(at(2*time.Second, failure.Reset))
	tell(at(time.Minute, failure.Server))
	tell(at(time.Minute, failure.Server))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 10+1+2 {
		t.Fatalf("%d records, want 13", len(lines))
	}
	for i, line := range lines {
		var r struct{ Unsaid int }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if want := map[int]int{11: 990}[i]; r.Unsaid != want {
			t.Errorf("record %d says %d were not written, want %d", i, r.Unsaid, want)
		}
	}
}

// TestManySorts: memory is bounded, whatever targets are called.
func TestManySorts(t *testing.T) {
	s := &sampler{seen: make(map[alike]*repeats)}
	said := 0
	for i := range 5 * maxAlike {
		if _, ok := s.admit(alike{target: fmt.Sprint(i)}, t0); ok {
			said++
		}
	}
	if said != maxAlike+sampleFirst || len(s.seen) != maxAlike+1 {
		t.Errorf("%d said, %d sorts kept", said, len(s.seen))
	}
	if _, ok := s.admit(alike{target: "new"}, t0.Add(2*sampleEvery)); !ok || len(s.seen) > 2 {
		t.Errorf("after a quiet time: %v, %d sorts kept", ok, len(s.seen))
	}
}

// TestQuietHandler: a handler that wants no debug costs none.
func TestQuietHandler(t *testing.T) {
	var out strings.Builder
	tell := logTo(&out, slog.LevelError)
	for _, e := range script() {
		tell(e)
	}
	if n := strings.Count(out.String(), "\n"); n != 4 { // two calls, the loss, the stop
		t.Errorf("%d records, want 4:\n%s", n, out.String())
	}
}

type broken struct{ slog.Handler }

func (broken) Enabled(context.Context, slog.Level) bool  { return true }
func (broken) Handle(context.Context, slog.Record) error { return errors.New("disk full") }

// TestBrokenLog: a log that cannot be written stops nobody.
func TestBrokenLog(t *testing.T) {
	tel := New(Config{Log: broken{}})
	for _, e := range script() {
		tel.Observe(e)
	}
	want(t, tel, map[string]string{"ebb_process_losses_total": "1"})
}

func TestCut(t *testing.T) {
	if got := cut(strings.Repeat("ü", maxText)); len([]rune(got)) != maxText || strings.HasSuffix(got, "…") {
		t.Errorf("cut what fits to %d", len([]rune(got)))
	}
	if got := cut(strings.Repeat("ü", maxText+1)); len([]rune(got)) != maxText || !strings.HasSuffix(got, "ü…") {
		t.Errorf("cut to %d", len([]rune(got)))
	}
}
