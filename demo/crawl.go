package demo

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/work/supervise"
)

// Seed 003's kind of trouble: a crawl of a noisy but progressing site, which
// stalls once.
const (
	crawlPages = 40
	noisyAt    = 10
	noisyTimes = 14 // timeouts in a row: more than the old threshold of 10, fewer than 50
	stallsAt   = 35
)

// crawl lets a real wget crawl the site under supervision.
func crawl(ctx context.Context, w *world) (result, error) {
	wget, err := exec.LookPath("wget")
	if err != nil || w.runs == nil {
		return result{asked: "nothing: wget is not installed (apt install wget)", failed: "nothing", said: "not shown"}, nil
	}
	s, err := newNoisy(ctx)
	if err != nil {
		return result{}, err
	}
	defer s.close()
	p := "annual-crawl"
	if w.foil {
		p = "old-crawl"
	}
	now, err := w.store.Now(ctx)
	if err != nil {
		return result{}, err
	}
	_, err = w.runs.Submit(ctx, now, supervise.Submission{Actor: "demo", Spec: supervise.Spec{
		Name: "crawl", Policy: p, Dir: filepath.Join(w.dir, "crawl"),
		Command: supervise.Words(wget, "--recursive", "--level=inf", "--timeout=0.3", "--tries=20", "--waitretry=0.1", "--warc-file=crawl-{{.Attempt}}", s.base+"/"),
		Progress: supervise.Progress{
			NoProgress: supervise.Duration(10 * time.Minute),
		},
		Success: supervise.Success{Units: crawlPages},
	}})
	if err != nil {
		return result{}, err
	}
	var run supervise.Run
	err = until(ctx, func() (bool, error) {
		var err error
		run, err = w.runs.Show(ctx, "crawl")
		return run.State == job.Succeeded || run.State == job.Failed || run.State == job.Parked, err
	})
	if err != nil {
		return result{}, err
	}
	why := "none"
	for i, r := range run.Restarts {
		if i == 0 {
			why = ""
		} else {
			why += ", "
		}
		why += r.Reason
	}
	lost := 0
	if run.State != job.Succeeded {
		lost = crawlPages - int(run.Units)
	}
	return result{
		asked:  fmt.Sprintf("a wget crawl of %d pages; one times out %d times in a row, and the site stalls once at page %d", crawlPages, noisyTimes, stallsAt),
		failed: restarts(run.RestartsUsed) + ": " + why,
		lost:   max(0, lost),
		said:   fmt.Sprintf("the run %s", ending(&run)),
	}, nil
}

func restarts(n int) string {
	if n == 1 {
		return "1 restart"
	}
	return fmt.Sprintf("%d restarts", n)
}

func ending(r *supervise.Run) string {
	if r.State == job.Succeeded {
		return fmt.Sprintf("succeeded with %d pages proven by its archive", r.Units)
	}
	return fmt.Sprintf("is %s (%s) after %s: %s", r.State, r.Cause, restarts(r.RestartsUsed), r.Reason)
}

// drip answers a byte at a time and never ends: to a client it looks alive.
func drip(w http.ResponseWriter, r *http.Request) {
	for clock.Sleep(r.Context(), clock.System{}, 100*time.Millisecond) == nil {
		_, _ = w.Write([]byte(" "))
		_ = http.NewResponseController(w).Flush()
	}
}

// noisy is a site of pages. In each visit, which begins at /, one of them times
// out many times before it comes; another stalls, once.
type noisy struct {
	*server
	mu      sync.Mutex
	asked   int // for the noisy page, in this visit
	stalled bool
}

func newNoisy(ctx context.Context) (*noisy, error) {
	s := &noisy{}
	var err error
	s.server, err = listen(ctx, s.serve)
	return s, err
}

func (s *noisy) serve(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	var n int
	switch path {
	case "/":
		s.mu.Lock()
		s.asked = 0
		s.mu.Unlock()
	case "/robots.txt":
		http.NotFound(w, r)
		return
	default:
		if _, err := fmt.Sscanf(path, "/page/%d", &n); err != nil || n >= crawlPages {
			http.NotFound(w, r)
			return
		}
	}
	s.mu.Lock()
	hang := false
	if n == noisyAt {
		s.asked++
		hang = s.asked <= noisyTimes
	}
	if n == stallsAt && !s.stalled {
		s.stalled = true
		s.mu.Unlock()
		drip(w, r)
		return
	}
	s.mu.Unlock()
	if hang {
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<title>%d</title>", n)
	if n == 0 {
		for i := 1; i < crawlPages; i++ {
			fmt.Fprintf(w, `<a href="/page/%d">%d</a> `, i, i)
		}
	}
}
