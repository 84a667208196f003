package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestTranscripts types every command of the pages, each page in an empty
// directory of its own with what its stage sets up. A command without a
// prompt must do what it says: exit with 0, or with what the stage expects.
// After a $ the page shows the answer, which must be what came: `…` stands for
// whatever differs from run to run, and a line of it alone for any number of
// lines. After a meant change: go test ./cmd/ebb -run Transcripts -update,
// then put the … back where answers differ.
func TestTranscripts(t *testing.T) {
	for _, page := range slices.Sorted(maps.Keys(stages)) {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(root, page)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := newTheatre(t, page, string(text)).play()
			if got == string(text) {
				return
			}
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s shows other answers than the commands give:\n%s", page, changed(string(text), got))
		})
	}
}

// theatre is where one page is played.
type theatre struct {
	*testing.T
	stage
	page, text string
	dir        string
	real       [][2]string // what the page says, and what it is here
	exports    []string    // lines of the page that set variables for the rest
	said       chan string // lines of what runs in the background
}

func newTheatre(t *testing.T, page, text string) *theatre {
	t.Helper()
	th := &theatre{T: t, stage: stages[page], page: page, text: text, dir: t.TempDir(), said: make(chan string, 1000)}
	for i := 0; i < len(th.swap); i += 2 {
		th.stand(th.swap[i], strings.ReplaceAll(th.swap[i+1], "DIR", th.dir))
	}
	own := len(th.real)
	for _, address := range loopback.FindAllString(text+th.before+strings.Join(th.swap, " ")+" 127.0.0.1:7070", -1) {
		if !slices.ContainsFunc(th.real[own:], func(r [2]string) bool { return r[0] == address }) {
			th.stand(address, "127.0.0.1:"+strconv.Itoa(freePort()))
		}
	}
	return th
}

var loopback = regexp.MustCompile(`127\.0\.0\.1:[0-9]{4}\b`)

var ports = struct {
	sync.Mutex
	given map[int]bool
	draw  *rand.Rand
}{given: map[int]bool{}, draw: rand.New(rand.NewPCG(uint64(os.Getpid()), 0))}

// freePort returns a port of four digits, as the pages show, that nobody
// listens on. They are below those that the kernel gives to calls.
func freePort() int {
	ports.Lock()
	defer ports.Unlock()
	for {
		port := 2000 + ports.draw.IntN(8000)
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil || ports.given[port] {
			continue
		}
		l.Close()
		ports.given[port] = true
		return port
	}
}

var (
	fileBefore = regexp.MustCompile("(?m)^`([a-zA-Z0-9./-]+)`:\n\n```[a-z]*\n((?s:.*?))```")
	fileWithin = regexp.MustCompile("(?m)^```[a-z]*\n(# ([a-zA-Z0-9./-]+\\.(?:yaml|json|txt|md))\n(?s:.*?))```")
	serving    = regexp.MustCompile(`^ebb serve\b`)
	caps       = regexp.MustCompile(`^[A-Z]+$`)
)

// play types the page's commands and returns it with the answers that came,
// where they differ from those it shows.
func (th *theatre) play() string {
	for _, m := range fileBefore.FindAllStringSubmatch(th.text, -1) {
		th.file(m[1], m[2])
	}
	for _, m := range fileWithin.FindAllStringSubmatch(th.text, -1) {
		th.file(m[2], m[1])
	}
	for name, content := range th.files { // a stage knows better than the page
		th.file(name, content)
	}
	if th.host != nil {
		th.host(th)
	}
	th.must(th.before)
	lines := strings.Split(th.text, "\n")
	found, _ := blocks(th.page, th.text)
	moved := 0
	for i := range found {
		if !found[i].shell() {
			continue
		}
		for _, c := range found[i].commands() {
			answer := th.perform(&c)
			if slices.Equal(answer, c.answer) {
				continue
			}
			shown := make([]string, len(answer))
			for j, l := range answer {
				shown[j] = found[i].indent + l
			}
			lines = slices.Replace(lines, c.from+moved, c.from+moved+len(c.answer), shown...)
			moved += len(answer) - len(c.answer)
		}
	}
	return strings.Join(lines, "\n")
}

// perform does one command and returns its answer: the one that the page shows
// if that is true.
func (th *theatre) perform(c *command) []string {
	for begin, reason := range th.parsed {
		if strings.HasPrefix(c.text, begin) && reason != "" {
			return c.answer
		}
	}
	if strings.HasPrefix(c.text, "make ") { // TestCommandsInDocs knows the targets
		return c.answer
	}
	if strings.HasPrefix(c.text, "export ") {
		th.exports = append(th.exports, th.here(c.text))
		return c.answer
	}
	want := 0
	for begin, script := range th.first {
		if strings.HasPrefix(c.text, begin) {
			th.must(script)
		}
	}
	for begin, code := range th.exit {
		if strings.HasPrefix(c.text, begin) {
			want = code
		}
	}
	if foreground, ok := strings.CutSuffix(c.text, "&"); ok || serving.MatchString(c.text) {
		return th.shown(c, th.start(foreground))
	}
	out, code := th.execute(th.here(c.text))
	if code < 0 { // it was killed: what was it waiting for?
		jobs, _ := th.execute("ebb job list; ebb dead groups")
		th.Fatalf("%s: %s: not done in time\n%s%s", th.page, c.text, out, jobs)
	}
	if !c.asked && code != want {
		th.Fatalf("%s: %s: exit %d, want %d\n%s", th.page, c.text, code, want, out)
	}
	return th.shown(c, out)
}

// shown compares an answer with the page's, and waits for what the programs in
// the background have to say to it.
func (th *theatre) shown(c *command, out string) []string {
	if !c.asked {
		return c.answer
	}
	var answer []string
	if out = strings.TrimRight(th.there(out), "\n"); out != "" {
		answer = strings.Split(out, "\n")
	}
	patience := time.After(30 * time.Second)
	for !matches(c.answer, answer) {
		if len(answer) >= len(c.answer) || !matches(c.answer[:len(answer)], answer) {
			return answer
		}
		select {
		case line := <-th.said:
			if line = th.there(line); like(c.answer[len(answer)], line) {
				answer = append(answer, line)
			}
		case <-patience:
			return answer
		}
	}
	return c.answer
}

// here puts what there is in a test in the place of what the page says.
func (th *theatre) here(text string) string {
	if serving.MatchString(text) && !strings.Contains(text, "--listen") {
		text = strings.Replace(text, "ebb serve", "ebb serve --listen 127.0.0.1:7070", 1)
	}
	for _, r := range th.real {
		if caps.MatchString(r[0]) {
			text = regexp.MustCompile(`\b`+r[0]+`\b`).ReplaceAllLiteralString(text, r[1])
			continue
		}
		text = strings.ReplaceAll(text, r[0], r[1])
	}
	return text
}

func (th *theatre) there(text string) string {
	for _, r := range slices.Backward(th.real) {
		switch {
		case strings.HasPrefix(r[1], "$"): // it was asked for, not named
		case loopback.MatchString(r[1]): // and no longer port that begins alike
			text = regexp.MustCompile(regexp.QuoteMeta(r[1])+`\b`).ReplaceAllLiteralString(text, r[0])
		default:
			text = strings.ReplaceAll(text, r[1], r[0])
		}
	}
	return strings.ReplaceAll(text, th.dir, "~")
}

func (th *theatre) file(name, content string) {
	th.Helper()
	path := filepath.Join(th.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		th.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		th.Fatal(err)
	}
}

// must runs what a stage has to do unseen.
func (th *theatre) must(script string) {
	th.Helper()
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if background, ok := strings.CutSuffix(line, "&"); ok {
			th.start(background)
		} else if out, code := th.execute(th.here(line)); code != 0 {
			th.Fatalf("%s: stage: %s: exit %d\n%s", th.page, line, code, out)
		}
	}
}

func (th *theatre) command(ctx context.Context, text string) *exec.Cmd {
	c := exec.CommandContext(ctx, "bash", "-c", strings.Join(append(slices.Clone(th.exports), th.words, text), "\n"))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Dir = th.dir
	const nowhere = "http://127.0.0.1:1" // nothing leaves this machine, whatever a page says
	c.Env = append(os.Environ(), "https_proxy="+nowhere, "HTTPS_PROXY="+nowhere, "http_proxy="+nowhere, "HTTP_PROXY="+nowhere,
		"no_proxy=127.0.0.1", "NO_PROXY=127.0.0.1", "HOME="+th.dir, "EBB_DB=sqlite:"+filepath.Join(th.dir, "ebb.db"), "NO_COLOR=1", "COLUMNS=100",
		"GORACE="+strings.TrimSpace("atexit_sleep_ms=0 "+os.Getenv("GORACE")))
	return c
}

// execute runs one command as a shell would and returns what it printed, on
// both outputs in their order.
func (th *theatre) execute(text string) (out string, code int) {
	th.Helper()
	ctx, cancel := context.WithTimeout(th.Context(), 5*time.Minute)
	defer cancel()
	c := th.command(ctx, text)
	var b bytes.Buffer
	c.Stdout, c.Stderr = &b, &b
	if err := c.Run(); err != nil && c.ProcessState == nil {
		th.Fatalf("%s: %v", text, err)
	}
	return b.String(), c.ProcessState.ExitCode()
}

// start runs a command until the page ends, and returns the line by which it
// says that it is there.
func (th *theatre) start(text string) string {
	th.Helper()
	c := th.command(th.Context(), "exec "+strings.TrimSpace(th.here(strings.TrimSpace(text))))
	out, in := io.Pipe()
	var errs bytes.Buffer
	c.Stdout, c.Stderr = in, &errs
	if err := c.Start(); err != nil {
		th.Fatalf("%s: %v", text, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		in.CloseWithError(c.Wait())
	}()
	th.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGTERM)
		<-done
	})
	began := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if n == 0 {
				began <- lines.Text()
				continue
			}
			select {
			case th.said <- lines.Text():
			default: // nobody asks for so much
			}
		}
		close(began)
	}()
	line, ok := <-began
	if !ok {
		<-done
		th.Fatalf("%s: %s ended: %s", th.page, text, errs.String())
	}
	return line
}

// changed shows the lines that differ, with those that came.
func changed(old, now string) string {
	was, is := strings.Split(old, "\n"), strings.Split(now, "\n")
	from := 0
	for from < len(was) && from < len(is) && was[from] == is[from] {
		from++
	}
	end := 0
	for end < len(was)-from && end < len(is)-from && was[len(was)-1-end] == is[len(is)-1-end] {
		end++
	}
	return "line " + strconv.Itoa(from+1) + " of the page:\n" + strings.Join(was[from:len(was)-end], "\n") + "\nwould be:\n" + strings.Join(is[from:len(is)-end], "\n")
}

// matches compares an answer with what is shown, where … stands for anything.
func matches(shown, answer []string) bool {
	if len(shown) == 0 {
		return len(answer) == 0
	}
	if shown[0] == "…" {
		for n := range len(answer) + 1 {
			if matches(shown[1:], answer[n:]) {
				return true
			}
		}
		return false
	}
	return len(answer) > 0 && like(shown[0], answer[0]) && matches(shown[1:], answer[1:])
}

func like(shown, line string) bool {
	parts := strings.Split(shown, "…")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(strings.TrimRight(line, " "))
}

func TestTranscriptMatching(t *testing.T) {
	for _, c := range []struct {
		shown, answer string
		want          bool
	}{
		{"a\nb", "a\nb", true},
		{"a", "a\nb", false},
		{"a\n…\nc", "a\nb\nb\nc", true},
		{"a\n…", "a", true},
		{"job … is queued", "job 0001 is queued", true},
		{"job … is queued", "job 0001 is running", false},
		{"…", "", true},
	} {
		split := func(s string) []string {
			return slices.DeleteFunc(strings.Split(s, "\n"), func(l string) bool { return l == "" })
		}
		if got := matches(split(c.shown), split(c.answer)); got != c.want {
			t.Errorf("%q against %q: %t", c.shown, c.answer, got)
		}
	}
}
