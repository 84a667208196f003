package supervise

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
)

func TestFileErrorsNameTheirPlace(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"version: 1\ncommand: [wget]\npages: 5\n", `[3:1] unknown field "pages"`},
		{"version: 1\ncommand: [wget]\nprogress:\n  no_signal: soon\n", `"soon" is no duration`},
		{"version: 1\ncommand: [wget]\nready:\n  memory: lots\n", `"lots" is no size`},
		{"version: 2\ncommand: [wget]\n", "version: 2 is not known"},
		{"command: [wget]\n", "version: 0 is not known"},
		{"version: 1\n", "command: nothing to run"},
		{"version: 1\ncommand: [wget, '{page}']\n", "command[1]: {page} is no variable"},
		{"version: 1\ncommand: [wget]\ncrawler: heritrix\n", `crawler: "heritrix" is not known`},
		{"version: 1\ncommand: [wget]\ncrawler: wget@9\n", `crawler: "wget@9" is not known`},
		{"version: 1\ncommand: [wget]\nexit: [{outcome: again}]\n", `exit[0]: outcome: "again" is not known`},
		{"version: 1\ncommand: [x]\nprogress: {sources: [{kind: lines, pattern: '(', count: a}]}\n", "progress.sources[0].pattern"},
		{"version: 1\ncommand: [x]\nprogress: {counter: b, sources: [{kind: probe, command: [y], count: a}]}\n", `progress.counter: "b": no source counts it`},
		{"version: 1\ncommand: [x]\nmax_container_restarts: -1\n", "max_container_restarts: -1 is negative"},
		{"version: 1\ncommand: [x]\nready: {disk: [{free: 5GB, again: 1GB}]}\n", "ready.disk[0]"},
		{"version: 1\nname: a/b\ncommand: [x]\n", `name: "a/b"`},
	} {
		_, err := Parse("crawl.yaml", []byte(c.src), "/srv")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "crawl.yaml: ") {
			t.Errorf("%q: %v, want %q", c.src, err, c.want)
		}
	}
}

func TestSealTwiceAndThroughJSONChangesNothing(t *testing.T) {
	s, err := Parse("hc.yaml", []byte("version: 1\ncommand: [wget, [-i, '{remaining}'], u]\ndir: out\nstop: {grace: 5s}\nready: {memory: 2MiB}\nmax_container_restarts: 25\n"), "/srv")
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "hc" || s.Dir != "/srv/out" || s.Cwd != "/srv/out" || s.Crawler != "wget@1" || s.Ready.Memory != 2<<20 || s.Policy != "annual-crawl" {
		t.Errorf("%+v", s)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back Spec
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if back, err = Seal(back); err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("%v\n%+v\n%+v", err, back, s)
	}
}

func TestOptionsAreRaisedUnderAnnualCrawlAlone(t *testing.T) {
	o := Options{MaxContainerRestarts: 5, ErrorThresholdTimeout: 10, ErrorThresholdHTTP: 10, BackoffDelayMinutes: 2.5}
	p, err := o.Apply(policy.MustPreset("annual-crawl"))
	if err != nil || p.Restarts.Max != 20 || p.Attempts != 21 || p.Thresholds != fifty || p.Backoff.Base != 150*time.Second {
		t.Errorf("%+v %v", p, err)
	}
	own := policy.MustPreset("annual-crawl")
	own.Name = "monthly"
	p, err = o.Apply(own)
	if err != nil || p.Restarts.Max != 5 || p.Attempts != 6 || p.Thresholds != (policy.Thresholds{Timeout: 10, HTTP: 10}) {
		t.Errorf("%+v %v", p, err)
	}
	annual := policy.MustPreset("annual-crawl")
	if got := o.Raised(&annual); got != (Options{20, 50, 50, 2.5}) {
		t.Errorf("%+v", got)
	}
	if got := (Options{}).Raised(&annual); got != (Options{}) {
		t.Errorf("%+v", got)
	}
}

func TestArgvOfAnAttempt(t *testing.T) {
	v := Vars{Attempt: 7, Workers: 2, Out: "/r/attempts/0007/out", Dir: "/r", Name: "hc"}
	resumed := v
	resumed.Resume, resumed.Remaining = "/r/state.yaml", "/r/rest.txt"
	for _, c := range []struct {
		command Command
		vars    Vars
		want    string
	}{
		{Words("wget", "-r", "--warc-file=site", "u"), v, "wget --directory-prefix=/r/attempts/0007/out -r --warc-file=site-0007 u"},
		{Words("wget", "-r", "--warc-file", "site", "-P", "pages", "u"), v, "wget -r --warc-file site-0007 -P pages/attempt-0007 u"},
		{Words("wget", "--warc-file=s-{attempt}", "u"), v, "wget --warc-file=s-0007 u"},
		{Words("wget", "-nvr", "-olog", "u"), v, "wget --directory-prefix=/r/attempts/0007/out -nvr -olog-0007 u"},
		{Words("wget", "-O", "page.html", "u"), v, "wget -O page-0007.html u"},
		{Words("wget", "-O", "-", "u"), v, "wget -O - u"},
		{Words("wget", "-c", "-O", "page", "u"), v, "wget -c -O page u"},
		{Words("curl", "-fo", "all.zip", "-oC.zip", "u"), v, "curl -fo all-0007.zip -oC-0007.zip u"},
		{Words("curl", "--output=all.zip", "-C", "-", "u"), v, "curl --output=all.zip -C - u"},
		{Words("curl", "-fLO", "u"), v, "curl --output-dir=/r/attempts/0007/out -fLO u"},
		{Words("curl", "--output-dir", "x", "-O", "u"), v, "curl --output-dir x/attempt-0007 -O u"},
		{Words("curl", "u", "-o", "/dev/null"), v, "curl u -o /dev/null"},
		{Words("crawl", "--workers", "8", "--collection=hc"), v, "crawl --workers 2 --collection=hc-0007"},
		{Words("zimit", "-w8", "--output={out}"), v, "zimit -w2 --output=/r/attempts/0007/out"},
		{Words("ebb", "fetch", "--concurrency=5", "-o", "site", "u"), v, "ebb fetch --concurrency=2 -o site u"},
		{Command{{"wget"}, {"-i", "{remaining}"}, {"{mode}"}}, v, "wget new"},
		{Command{{"wget"}, {"-i", "{remaining}"}, {"{mode}"}}, resumed, "wget -i /r/rest.txt resume"},
		{Command{{"zimit"}, {"--config", "{resume}"}, {"--output"}, {"zim"}, {"--workers"}, {"{workers}"}}, v, "zimit --output zim/attempt-0007 --workers 2"},
		{Command{{"zimit"}, {"--config", "{resume}"}, {"--output={out}"}}, resumed, "zimit --config /r/state.yaml --output=/r/attempts/0007/out"},
		{Words("sh", "-c", "echo ${HOME} {X} {name}"), v, "sh -c echo ${HOME} {X} hc"},
	} {
		s := sealed(t, Spec{Command: c.command})
		if got := strings.Join(s.Argv(c.vars), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.command, got, c.want)
		}
	}
}

// Every attempt of a known crawler writes under names of its own.
func TestNoTwoAttemptsShareAnOutput(t *testing.T) {
	s := sealed(t, Spec{Command: Words("wget", "-r", "--warc-file=site", "--output-file=log", "u")})
	seen := map[string]bool{}
	for n := 1; n <= 50; n++ {
		argv := s.Argv(Vars{Attempt: n, Workers: 1, Out: attemptDir("/r", n)})
		for _, flag := range []string{"--warc-file", "--output-file", "--directory-prefix"} {
			if name := valueOf(argv, []string{flag}); name == "" || seen[flag+name] {
				t.Fatalf("attempt %d: %s %q", n, flag, name)
			} else {
				seen[flag+name] = true
			}
		}
	}
}

func TestHysteresis(t *testing.T) {
	disk := func(have int64) []Reading {
		return []Reading{{Name: "disk:/srv", Have: have, Need: 100, Again: 150, Class: failure.DiskFull}}
	}
	var h Hold
	for i, c := range []struct {
		have int64
		held bool
	}{{120, false}, {100, false}, {99, true}, {100, true}, {149, true}, {150, false}, {100, false}, {99, true}} {
		var first *Reading
		h, first = h.Judge(disk(c.have), t0.Add(time.Duration(i)*time.Minute))
		if (first != nil) != c.held {
			t.Errorf("step %d: %d bytes: held %v", i, c.have, first != nil)
		}
	}
	h, _ = Hold{"mount:/a": t0}.Judge([]Reading{{Name: "mount:/a"}, {Name: "mount:/b"}}, t0.Add(time.Hour))
	if !h["mount:/a"].Equal(t0) || !h["mount:/b"].Equal(t0.Add(time.Hour)) {
		t.Errorf("%v", h)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{"5": 5, "500MB": 5e8, "2GiB": 2 << 30, "1.5kB": 1500, "0": 0, "7B": 7} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%s: %d %v, want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "MB", "5XB", "-5MB"} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %d", text, s)
		}
	}
}

func TestResumeFileThatGetsNowhereIsSetAside(t *testing.T) {
	k := newKit(t)
	spec := k.shell("")
	spec.Progress.Sources = []Source{{Kind: "lines", Pattern: "^page", Count: "pages"}}
	spec.Command = Command{{"sh"}, {"-c"}, {`mode=$0; echo "$mode" >> seen; echo bad > state.yaml; if test $mode = new && test {attempt} -gt 1; then echo page; else exit 1; fi`}, {"{mode}"}}
	spec.Resume.File = "state.yaml"
	r := k.do(spec)
	if got := strings.Fields(k.file("seen")); !slices.Equal(got, []string{"new", "resume", "resume", "new"}) || r.RestartsUsed != 3 {
		t.Errorf("%v %+v", got, r)
	}
}

// Counters of growth, of WARC records and of a probe.
func TestFilesAndProbesCount(t *testing.T) {
	for _, c := range []struct {
		source Source
		units  int64
	}{
		{Source{Kind: "growth", Path: "out-*", Count: "bytes"}, 6},
		{Source{Kind: "probe", Command: []string{"cat", "count"}, Count: "probed"}, 42},
		{Source{Kind: "lines", From: "{dir}/own-{attempt}.log", Pattern: "^ok", Count: "oks"}, 2},
	} {
		k := newKit(t)
		spec := k.shell(`printf abc > out-1; printf def > out-2; echo 42 > count; printf 'ok\nno\nok' > own-{attempt}.log`)
		spec.Progress.Sources = []Source{c.source}
		if r := k.do(spec); r.Units != c.units || r.State != "succeeded" {
			t.Errorf("%s: %+v", c.source.Kind, r)
		}
	}
}

// A success that cannot be proven is tried again, and a limit that was hit is
// partial: never a success.
func TestSuccessMustBeProven(t *testing.T) {
	k := newKit(t)
	spec := k.shell(`test {attempt} = 0001 || echo whole > artifact; echo page`)
	spec.Success.Artifacts = []Artifact{{Glob: "artifact", Bytes: 6}}
	r := k.do(spec)
	if r.State != "succeeded" || r.RestartsUsed != 1 || r.Restarts[0].Reason != "unproven" || r.Restarts[0].Class != "soft_error" {
		t.Errorf("%+v", r)
	}
	k = newKit(t)
	program := filepath.Join(k.dir, "crawl")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexit 14\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	spec = k.shell("")
	spec.Command = Words(program, "--collection", "hc")
	if r = k.do(spec); r.State != "failed" || r.Cause != "fatal" || r.Reason != "partial" || r.RestartsUsed != 0 {
		t.Errorf("%+v", r)
	}
}

// A policy that refills gives restarts back for a new maximum only.
func TestRefillByProgress(t *testing.T) {
	p := policy.MustPreset("annual-crawl")
	p.Name, p.Restarts = "weekly", policy.Restarts{Max: 2, Refill: true, NoProgress: 3}
	k := newKitAt(t, 1000, func(c *Config) { c.Policies = []policy.Policy{p} })
	k.policies = []policy.Policy{p}
	spec := k.shell(`for i in $(seq $(({attempt} < 6 ? 1{attempt} - 10000 : 5))); do echo page; done; exit 1`)
	spec.Policy = "weekly"
	r := k.do(spec)
	// Five attempts get further each time; the sixth and seventh do not, and
	// the budget of two is spent without a refill.
	if r.State != "failed" || r.Cause != "exhausted" || r.Attempt != 7 || r.Units != 5 {
		t.Errorf("%+v", r)
	}
}

func TestTailCutsLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	tl := &tail{name: "stderr", path: path}
	var got []string
	line := func(_, text string) { got = append(got, text) }
	write := func(text string) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		closeFile(f)
		if _, err := tl.read(0, line); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := tl.read(0, line); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	write("one\ntw")
	write("o\r10%\r20%\n\n")
	write(strings.Repeat("x", maxLine+5))
	write("\nend")
	tl.flush(line)
	if want := []string{"one", "two", "10%", "20%", strings.Repeat("x", maxLine), "end"}; !slices.Equal(got, want) {
		t.Errorf("%d lines: %.80q", len(got), got)
	}
}

// A command that prints faster than it is read does not keep its supervisor
// from deciding: one look ends where the file ended, or after so much.
func TestTailEndsWhereTheFileEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer closeFile(f)
	lines := 0
	more := func(_, _ string) {
		lines++
		if _, err := f.WriteString("again\n"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.WriteString(strings.Repeat("again\n", 100)); err != nil {
		t.Fatal(err)
	}
	tl := &tail{name: "stdout", path: path}
	if n, err := tl.read(0, more); n != 600 || err != nil || lines != 100 {
		t.Errorf("%d bytes, %d lines, %v", n, lines, err)
	}
	if n, err := tl.read(300, more); n != 300 || err != nil || lines != 150 {
		t.Errorf("%d bytes, %d lines, %v", n, lines, err)
	}
}

// What a command printed is shown without what would act on a terminal.
func TestLastLineIsFitForATerminal(t *testing.T) {
	for tail, want := range map[string]string{
		"one\ntwo\n":                           "two",
		"\x1b[31merror:\x1b[0m it broke\x07\n": "error: it broke",
		"10%\r20%\r99%":                        "99%",
		"\x1b]0;title\x07done":                 "done",
		"a\x00b\x7f\xffc":                      "ab\ufffdc",
		"\x1b[2J\x1b[H\n\n":                    "",
		"x: unknown flag: --frob\nusage:\n":    "x: unknown flag: --frob",
	} {
		if got := lastLine(strings.ToValidUTF8(tail, "\ufffd")); got != want {
			t.Errorf("%q: %q, want %q", tail, got, want)
		}
	}
}

// A flag of a known crawler that says how parallel it works is the number of
// workers to begin with.
func TestWorkersOfTheCommand(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want Workers
	}{
		{Spec{Command: Words("crawl", "--workers", "8")}, Workers{8, 1}},
		{Spec{Command: Words("zimit", "-w4")}, Workers{4, 1}},
		{Spec{Command: Words("crawl", "--workers", "{workers}")}, Workers{1, 1}},
		{Spec{Command: Words("crawl", "--workers", "8"), Workers: Workers{Initial: 2}}, Workers{2, 1}},
		{Spec{Command: Words("wget", "--workers", "8")}, Workers{1, 1}},
		{Spec{Command: Words("sh"), Workers: Workers{Min: 3}}, Workers{3, 3}},
	} {
		if s := sealed(t, c.spec); s.Workers != c.want {
			t.Errorf("%s: %+v, want %+v", c.spec.Command, s.Workers, c.want)
		}
	}
}
