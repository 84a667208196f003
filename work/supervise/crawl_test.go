package supervise

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/warc"
)

// site is a website of pages that link to each other as a tree does. misbehave
// answers a request itself and returns true, or lets it through.
type site struct {
	*httptest.Server
	pages     int
	mu        sync.Mutex
	visits    int // crawls begun: requests for the first page
	served    int // pages of this visit
	misbehave func(s *site, w http.ResponseWriter, r *http.Request, page int) bool
}

func newSite(t *testing.T, pages int, misbehave func(*site, http.ResponseWriter, *http.Request, int) bool) *site {
	t.Helper()
	s := &site{pages: pages, misbehave: misbehave}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var page int
	if _, err := fmt.Sscanf(r.URL.Path, "/p%d.html", &page); err != nil || page >= s.pages {
		http.NotFound(w, r)
		return
	}
	s.mu.Lock()
	if page == 0 {
		s.visits++
		s.served = 0
	}
	s.served++
	s.mu.Unlock()
	if s.misbehave != nil && s.misbehave(s, w, r, page) {
		return
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<html><body>page %d", page)
	for _, next := range []int{2*page + 1, 2*page + 2} {
		if next < s.pages {
			fmt.Fprintf(w, ` <a href="/p%d.html">%d</a>`, next, next)
		}
	}
	fmt.Fprintln(w, "</body></html>")
}

func (s *site) visit() (visits, served int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.visits, s.served
}

// wget is a crawl of the site.
func (k *kit) wget(s *site, more ...string) Spec {
	argv := append([]string{"wget", "--recursive", "--level=inf", "--warc-file=site", "--tries=1", "--no-proxy"}, more...)
	return Spec{
		Version: 1, Name: "crawl", Dir: k.dir, Command: Words(append(argv, s.URL+"/p0.html")...), Env: map[string]string{"LC_ALL": "C"},
		Success: Success{Artifacts: []Artifact{{Glob: "site-{attempt}.warc.gz", WARC: true}}},
		Stop:    Stop{Grace: Duration(5 * time.Second)},
	}
}

// archived lists the pages that any of the WARC files holds. Torn tails are
// what killed crawlers leave.
func archived(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no WARC files: %v", err)
	}
	pages := map[string]bool{}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = warc.Walk(f, func(r *warc.Record) error {
			head := make([]byte, 15)
			if n, _ := io.ReadFull(r.Block, head); r.Type == warc.Response && string(head[:n]) == "HTTP/1.1 200 OK" && strings.Contains(r.TargetURI(), "/p") {
				pages[r.TargetURI()] = true
			}
			return nil
		})
		if err != nil {
			t.Logf("%s: %v", path, err)
		}
		_ = f.Close()
	}
	return pages
}

func (r *Run) reasons() []string {
	var list []string
	for _, s := range r.Restarts {
		list = append(list, s.Reason)
	}
	return list
}

// A site that throws 5xx, hangs after 30 pages and comes back: every page is
// in the union of the WARC files, and every restart has its reason.
func TestCrawlOfASiteThatFailsHangsAndComesBack(t *testing.T) {
	k, pages := newKit(t), 45
	if os.Getenv("EBB_SUPERVISE") == "full" {
		pages = 2000
	}
	s := newSite(t, pages, func(s *site, w http.ResponseWriter, r *http.Request, page int) bool {
		visits, served := s.visit()
		switch {
		case visits == 1 && served > 30:
			<-r.Context().Done() // the crawler gives up, or is told to
			return true
		case visits <= 2 && (page == 7 || page == 20):
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	spec := k.wget(s, "--read-timeout=900")
	spec.Progress.NoSignal = Duration(10 * time.Minute)
	r := k.do(spec)
	if r.State != job.Succeeded || r.RestartsUsed != len(r.Restarts) {
		t.Fatalf("%+v", r)
	}
	got := r.reasons()
	if got[0] != "no_signal" || got[len(got)-1] != "pages_lost" || r.Restarts[0].Delay != 120 {
		t.Errorf("restarts %+v", r.Restarts)
	}
	if got := archived(t, k.dir); len(got) != pages {
		t.Errorf("%d of %d pages archived", len(got), pages)
	}
	if state := k.file(StateFile); !strings.Contains(state, fmt.Sprintf(`"container_restarts_done":%d,`, r.RestartsUsed)) {
		t.Errorf("state file %s", state)
	}
	if files, _ := filepath.Glob(filepath.Join(k.dir, "site-*.warc.gz")); len(files) != r.Attempt {
		t.Errorf("%d archives of %d attempts: %v", len(files), r.Attempt, files)
	}
}

// The counter can be the records of the archive itself.
func TestWARCRecordsCount(t *testing.T) {
	k := newKit(t)
	spec := k.wget(newSite(t, 7, nil))
	spec.Progress.Sources = []Source{{Kind: "warc", Path: "site-{attempt}.warc.gz", Count: "records"}}
	r := k.do(spec)
	n, err := CountWARC(filepath.Join(k.dir, "site-0001.warc.gz"))
	if err != nil || r.State != job.Succeeded || r.Counter != "records" || r.Units != n || n < 2*7 {
		t.Fatalf("%d records, %v: %+v", n, err, r)
	}
}

// Exit code 8 alone says nothing: broken links are no reason to crawl again.
func TestExitCode8IsJudgedByTheLog(t *testing.T) {
	k := newKit(t)
	s := newSite(t, 7, func(_ *site, w http.ResponseWriter, r *http.Request, page int) bool {
		if page == 5 {
			http.NotFound(w, r)
		}
		return page == 5
	})
	r := k.do(k.wget(s))
	if r.State != job.Succeeded || r.RestartsUsed != 0 || r.Verdict.Rule != "wget.links_broken" || r.Units != 6 {
		t.Fatalf("%+v %+v", r, r.Verdict)
	}
}

func TestWrongFlagOfWgetParksWithoutARestart(t *testing.T) {
	k := newKit(t)
	spec := k.wget(newSite(t, 1, nil), "--page-limit=5")
	r := k.do(spec)
	if r.State != job.Parked || r.Reason != ReasonConfig || r.RestartsUsed != 0 || r.Attempt != 1 || !strings.Contains(r.Error, "--page-limit") {
		t.Fatalf("%+v", r)
	}
	if _, err := k.service.Change(t.Context(), k.clock.Now(), "maya", r.Spec); err == nil {
		t.Error("the same command was taken again")
	}
	if _, err := k.service.Change(t.Context(), k.clock.Now(), "maya", k.wget(newSite(t, 3, nil))); err != nil {
		t.Fatal(err)
	}
	if r = k.work(over); r.State != job.Succeeded || r.Units != 3 {
		t.Fatalf("%+v", r)
	}
}

// More than 10 timeouts in a row, fewer than 50, between pages: no restart.
func TestNoisyButProgressingSiteIsLeftAlone(t *testing.T) {
	k := newKit(t)
	script := `for page in 1 2 3 4 5 6; do
		for i in $(seq 49); do echo "timeout"; echo "HTTP 503"; done; echo "saved page $page"; sleep 0.05
	done`
	spec := k.shell(script)
	spec.Progress.Sources = []Source{{Kind: "lines", Pattern: "^saved page", Count: "pages"}}
	spec.Errors = []Pattern{{Pattern: "^timeout", Count: "timeout"}, {Pattern: "^HTTP 503", Count: "http"}}
	spec.Success.Units = 6
	r := k.do(spec)
	if r.State != job.Succeeded || r.Starts != 1 || r.RestartsUsed != 0 || k.count(Stopping) != 0 || r.Units != 6 {
		t.Fatalf("%+v", r)
	}
}

// A site that times out 12 times in a row on some pages and answers 503 as
// often on others, before it gives them out: wget tries on, and is left alone.
func TestNoisyCrawlIsLeftAlone(t *testing.T) {
	k := newKit(t)
	var mu sync.Mutex
	asked := map[int]int{}
	s := newSite(t, 15, func(_ *site, w http.ResponseWriter, r *http.Request, page int) bool {
		mu.Lock()
		asked[page]++
		n := asked[page]
		mu.Unlock()
		switch {
		case n > 12 || page%4 != 3 && page%4 != 2:
			return false
		case page == 3:
			<-r.Context().Done()
		case page%4 == 2:
			http.Error(w, "not now", http.StatusServiceUnavailable)
		default:
			return false
		}
		return true
	})
	spec := k.wget(s, "--tries=20", "--waitretry=0", "--read-timeout=0.1", "--retry-on-http-error=503")
	r := k.do(spec)
	if r.State != job.Succeeded || r.Starts != 1 || r.RestartsUsed != 0 || r.Units != 15 || k.count(Stopping) != 0 {
		t.Fatalf("%+v", r)
	}
	mu.Lock()
	defer mu.Unlock()
	if asked[3] < 13 || asked[2] < 13 {
		t.Errorf("asked %v", asked)
	}
}

// The fiftieth error without progress stops it: fewer workers, then again.
func TestThresholdAdaptsThenRestarts(t *testing.T) {
	k := newKit(t)
	spec := k.shell(`echo workers {workers} >> workers; echo saved page; for i in $(seq {workers}0); do echo timeout; done; test {workers} -lt 5 || exec sleep 600`)
	spec.Progress.Sources = []Source{{Kind: "lines", Pattern: "^saved page", Count: "pages"}}
	spec.Errors = []Pattern{{Pattern: "^timeout", Count: "timeout"}}
	spec.Workers = Workers{Initial: 12, Min: 2}
	r := k.do(spec)
	if r.State != job.Succeeded || r.RestartsUsed != 2 || r.Workers != 3 {
		t.Fatalf("%+v", r)
	}
	if got := k.file("workers"); got != "workers 12\nworkers 6\nworkers 3\n" {
		t.Errorf("workers %q", got)
	}
	if got := r.reasons(); !slices.Equal(got, []string{"error_threshold_timeout", "error_threshold_timeout"}) {
		t.Errorf("reasons %v", got)
	}
	if state := k.file(StateFile); !strings.Contains(state, `"current_workers":3,"initial_workers":12,`) || !strings.Contains(state, `"worker_reductions_done":2,"container_restarts_done":2,`) {
		t.Errorf("state file %s", state)
	}
}
