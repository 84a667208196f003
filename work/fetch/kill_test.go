package fetch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/sqlite"
)

// With these the test binary is a process that fetches, to be killed.
const (
	childDir  = "EBB_FETCH_CHILD_DIR"
	childBase = "EBB_FETCH_CHILD_BASE"
)

const killPages = 500

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir, os.Getenv(childBase)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(pgtest.Run(m))
}

// child fetches all pages of the site into the directory.
func child(dir, base string) error {
	ctx := context.Background()
	d, err := OpenDir(dir, DirOptions{})
	if err != nil {
		return err
	}
	s, err := sqlite.Open(ctx, Ledger(dir), sqlite.Options{})
	if err != nil {
		return err
	}
	p, err := hasty()
	if err != nil {
		return err
	}
	last, found, err := latest(ctx, s, "kill")
	if err != nil || found && last.Phase == Ended {
		return err
	}
	r, err := Open(ctx, Options{Store: s, Name: "kill", Policy: p, Sink: d, Exclusive: true, Waiver: "a test on loopback"})
	if err != nil {
		return err
	}
	if err := r.Load(ctx, urls(pagesOf(base, killPages)...)); err != nil {
		return err
	}
	if err := r.Run(ctx); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	return d.Close()
}

// kills is how often TestKill kills: 10 in make test, 200 in make test-fetch.
func kills(t *testing.T) int {
	text := os.Getenv("EBB_FETCH_KILLS")
	if text == "" {
		return 10
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// killed is the judge: it knows what the site was asked, and when.
type killed struct {
	mu       sync.Mutex
	requests map[string][]int // by path: the runs that asked for it
	run      int
	allow    int // answers that this run still gets; then the site is silent
	asked    chan struct{}
}

func (k *killed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	k.requests[r.URL.Path] = append(k.requests[r.URL.Path], k.run)
	k.allow--
	silent := k.allow < 0
	k.mu.Unlock()
	select {
	case k.asked <- struct{}{}:
	default:
	}
	if silent {
		<-r.Context().Done()
		return
	}
	fmt.Fprintf(w, "this is %s\n%s", r.URL.Path, strings.Repeat("x", 3000))
}

// kill -9 at random moments: nothing finished is fetched again, nothing is
// lost.
func TestKill(t *testing.T) {
	judge := &killed{requests: map[string][]int{}, asked: make(chan struct{}, 1)}
	s := newSite(t, judge.ServeHTTP)
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	finished := map[string]int{} // path: the run that finished it
	n := kills(t)
	for run := 1; run <= n+1; run++ {
		judge.mu.Lock()
		judge.run, judge.allow = run, rng.IntN(2*killPages/n)
		if run > n {
			judge.allow = 2 * killPages
		}
		judge.mu.Unlock()
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), childDir+"="+dir, childBase+"="+s.URL)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if run <= n {
			judge.killSoon(cmd, rng)
			_ = cmd.Wait() // it was killed, or had ended
		} else if err := cmd.Wait(); err != nil {
			t.Fatalf("the last run: %v", err)
		}
		noteFinished(t, dir, s.URL, run, finished)
	}
	for path, runs := range judge.requests {
		done, ok := finished[path]
		if last := runs[len(runs)-1]; !ok || last > done {
			t.Errorf("%s was finished in run %d and asked for in run %d", path, done, last)
		}
	}
	judgeKilled(t, dir, s.URL, len(finished))
	again := 0
	for _, runs := range judge.requests {
		again += len(runs) - 1
	}
	t.Logf("%d kills, %d pages, %d requests that a kill made vain", n, len(finished), again)
}

// killSoon kills the process at some moment of its life: while it starts, or
// after some requests.
func (k *killed) killSoon(cmd *exec.Cmd, rng *rand.Rand) {
	wait := time.NewTimer(time.Duration(rng.IntN(150)) * time.Millisecond)
	defer wait.Stop()
	for range rng.IntN(4) {
		select {
		case <-k.asked:
		case <-wait.C:
		}
	}
	late := time.NewTimer(time.Duration(rng.IntN(5000)) * time.Microsecond)
	defer late.Stop()
	<-late.C
	_ = cmd.Process.Kill() // SIGKILL; it may have ended by itself
}

// noteFinished reads the index as the killed process left it.
func noteFinished(t *testing.T, dir, base string, run int, finished map[string]int) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, indexName))
	if os.IsNotExist(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := map[string]int{}
	err = eachLine(f, func(l Line) error {
		path := strings.TrimPrefix(l.URL, base)
		seen[path]++
		if _, known := finished[path]; !known {
			finished[path] = run
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, n := range seen {
		if n != 1 {
			t.Errorf("%s is in the index %d times", path, n)
		}
	}
}

// judgeKilled holds that ledger and files are complete.
func judgeKilled(t *testing.T, dir, base string, finished int) {
	t.Helper()
	if finished != killPages {
		t.Errorf("%d pages are finished, want %d", finished, killPages)
	}
	s, err := sqlite.Open(t.Context(), Ledger(dir), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := List(t.Context(), s, "kill", "", 10)
	if err != nil || len(list) == 0 {
		t.Fatalf("%d fetches, %v", len(list), err)
	}
	first := list[len(list)-1]
	if want := (Tally{Input: killPages, OK: killPages}); first.Tally == nil || *first.Tally != want {
		t.Errorf("tally %+v", first.Tally)
	}
	for i := range killPages {
		path := fmt.Sprintf("/page/%d", i)
		text, err := os.ReadFile(filepath.Join(dir, pagesDir, filepath.FromSlash(pathOf(base+path))))
		if err != nil || !strings.HasPrefix(string(text), "this is "+path+"\n") || len(text) < 3000 {
			t.Errorf("%s: %d bytes, %v", path, len(text), err)
		}
	}
}
