package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/warc"
	"github.com/ebbhq/ebb/work/supervise"
	"github.com/ebbhq/ebb/work/supervise/campaign"
)

// threeSites is a site of three sources of ten pages each. It remembers which
// sources were asked for, in their order, and whether two were at a time.
type threeSites struct {
	mu    sync.Mutex
	order []string
}

func (s *threeSites) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var page int
	if _, err := fmt.Sscanf(parts[len(parts)-1], "p%d.html", &page); len(parts) != 2 || err != nil || page > 9 {
		http.NotFound(w, r)
		return
	}
	s.mu.Lock()
	if n := len(s.order); n == 0 || s.order[n-1] != parts[0] {
		s.order = append(s.order, parts[0])
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<html><head><title>%s %d</title></head><body><p>page %d of %s</p>", parts[0], page, page, parts[0])
	for _, next := range []int{2*page + 1, 2*page + 2} {
		if next <= 9 {
			fmt.Fprintf(w, `<a href="/%s/p%d.html">on</a> `, parts[0], next)
		}
	}
	// Out of scope: the first page of another source.
	fmt.Fprint(w, `<a href="/cihr/p0.html">elsewhere</a></body></html>`)
}

// crawled runs a campaign of hc, phac and cihr to its end and returns its
// report and its directory.
func crawled(t *testing.T, command, artifact string) (report campaign.Report, order []string, dir string) {
	t.Helper()
	s := &threeSites{}
	site := httptest.NewServer(s)
	t.Cleanup(site.Close)
	dir = t.TempDir()
	db, file, config := "sqlite:"+filepath.Join(dir, "ebb.db"), filepath.Join(dir, "annual.yaml"), filepath.Join(dir, "ebb.yaml")
	text := "version: 1\nenv: {LC_ALL: C}\ncommand: " + command + "\nsuccess: {artifacts: [{glob: '" + artifact + "', warc: true}]}\nsources:\n"
	for _, name := range []string{"hc", "phac", "cihr"} {
		text += fmt.Sprintf("  - {name: %s, seeds: ['%s/%s/p0.html'], scope: {include: ['/%s/']}}\n", name, site.URL, name, name)
	}
	for path, text := range map[string]string{file: text, config: "{}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ebb := func(args ...string) []byte {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "ebb", append(args, "--db", db, "--config", config)...).Output()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != exitIncomplete) {
			t.Fatalf("ebb %v: %v: %s", args, err, out)
		}
		return out
	}
	ebb("campaign", "schedule", file, "--year", "2026", "--apply")
	ebb("campaign", "schedule", file, "--year", "2026", "--apply")
	server := startServer(t, db, config)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(2 * time.Minute); !report.Complete; <-tick.C {
		report = campaign.Report{}
		if err := json.Unmarshal(ebb("campaign", "report", "annual", "--json"), &report); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(until) || report.Failed > 0 || report.Parked > 0 {
			t.Fatalf("%+v", report)
		}
	}
	server.stop(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	return report, s.order, dir
}

// pagesOf lists the pages that a run's archives hold.
func pagesOf(t *testing.T, glob string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no archives: %v", glob, err)
	}
	pages := map[string]bool{}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = warc.Walk(f, func(r *warc.Record) error {
			head := make([]byte, 15)
			if n, _ := io.ReadFull(r.Block, head); r.Type == warc.Response && strings.HasSuffix(string(head[:n]), "200 OK") {
				pages[r.TargetURI()] = true
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		_ = f.Close()
	}
	return pages
}

func checkCampaign(t *testing.T, report campaign.Report, order []string, dir, archives string) {
	t.Helper()
	if got := strings.Join(order, " "); got != "hc phac cihr" {
		t.Errorf("the site was asked for %s", got)
	}
	for _, o := range report.Sources {
		if pages := pagesOf(t, filepath.Join(dir, o.Run, archives)); len(pages) != 10 {
			t.Errorf("%s: %d pages: %v", o.Run, len(pages), pages)
		}
		if o.Restarts != 0 || o.Attempts != 1 {
			t.Errorf("%+v", o)
		}
	}
}

// Three sources, one after the other in their order, each within its scope and
// whole, with a real wget.
func TestCampaignWithWget(t *testing.T) {
	report, order, dir := crawled(t, `[wget, --recursive, --level=inf, --no-proxy, -e, robots=off, "--warc-file={run}"]`, "{name}-{attempt}.warc.gz")
	checkCampaign(t, report, order, dir, "*.warc.gz")
}

// The same campaign with ebb fetch as the crawler.
func TestCampaignWithEbbFetch(t *testing.T) {
	report, order, dir := crawled(t, `[ebb, fetch, --recursive, --warc, --no-files, --no-robots, --waive, a test on loopback, --spacing, 1ms, --output, "{out}"]`, "attempts/{attempt}/out/warc/*.warc.gz")
	checkCampaign(t, report, order, dir, "attempts/*/out/warc/*.warc.gz")
}

// A server with --auto-recover raises an old job by itself.
func TestServeAutoRecover(t *testing.T) {
	dir := t.TempDir()
	db := "sqlite:" + filepath.Join(dir, "ebb.db")
	hold := `command: [sh, -c, "echo begun; while ! test -e ` + dir + `/go; do sleep 0.05; done"]`
	for name, text := range map[string]string{
		"hc-2026.yaml": "version: 1\nmax_container_restarts: 5\nerror_threshold_timeout: 10\nerror_threshold_http: 10\n" + hold + "\n",
		"annual.yaml":  "version: 1\n" + hold + "\nsources: [{name: hc}]\n", "ebb.yaml": "{}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ebb := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "ebb", append(args, "--db", db, "--config", filepath.Join(dir, "ebb.yaml"))...).CombinedOutput()
		if err != nil {
			t.Fatalf("ebb %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	ebb("supervise", "--queue", "campaign", "-f", filepath.Join(dir, "hc-2026.yaml"))
	ebb("campaign", "schedule", filepath.Join(dir, "annual.yaml"), "--year", "2026", "--apply")
	if out := ebb("campaign", "recover", "annual"); !strings.Contains(out, "5/10/10 → 20/50/50") {
		t.Fatal(out)
	}
	server := exec.CommandContext(context.WithoutCancel(t.Context()), "ebb", "serve", "--auto-recover", "--listen", "127.0.0.1:0", "--db", db, "--config", filepath.Join(dir, "ebb.yaml"))
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill() })
	await := func(so func() bool) {
		t.Helper()
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for until := time.Now().Add(time.Minute); !so(); <-tick.C {
			if time.Now().After(until) {
				t.Fatal("not so after a minute: " + ebb("campaign", "recover", "annual"))
			}
		}
	}
	await(func() bool { return strings.Contains(ebb("campaign", "recover", "annual"), "nothing to do") })
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	await(func() bool { return strings.Contains(ebb("campaign", "status", "annual"), "1 of 1 source done") })
	if err := errors.Join(server.Process.Signal(os.Interrupt), server.Wait()); err != nil {
		t.Error(err)
	}
}

// twoSources is a campaign of hc and phac. Their commands write down that they
// began and go on until they are released.
type twoSources struct {
	*testing.T
	dir, db, config string
}

func newTwoSources(t *testing.T) *twoSources {
	t.Helper()
	dir := t.TempDir()
	c := &twoSources{t, dir, "sqlite:" + filepath.Join(dir, "ebb.db"), filepath.Join(dir, "ebb.yaml")}
	c.write("ebb.yaml", "{}\n")
	c.write("annual.yaml", `{version: 1, sources: [{name: hc}, {name: phac}], command: [sh, -c,
		"echo begun; n=$(basename $PWD); echo $n >> ../begun; while ! test -e ../released; do sleep 0.02; done"]}`)
	t.Cleanup(c.release) // whatever has become of them
	c.ebb("campaign", "schedule", filepath.Join(dir, "annual.yaml"), "--year", "2026", "--apply")
	return c
}

func (c *twoSources) write(name, text string) {
	c.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
}

func (c *twoSources) release() { c.write("released", "") }

func (c *twoSources) ebb(args ...string) []byte {
	c.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(c.Context()), "ebb", append(args, "--db", c.db, "--config", c.config)...).Output()
	if err != nil {
		c.Fatalf("ebb %v: %v: %s", args, err, out)
	}
	return out
}

// until looks at both runs until they are as wanted.
func (c *twoSources) until(what string, so func(hc, phac *supervise.Run) bool) {
	c.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(time.Minute); ; <-tick.C {
		var runs [2]supervise.Run
		for i, name := range []string{"hc-2026", "phac-2026"} {
			if err := json.Unmarshal(c.ebb("supervise", "show", name, "--json"), &runs[i]); err != nil {
				c.Fatal(err)
			}
		}
		if so(&runs[0], &runs[1]) {
			return
		}
		if time.Now().After(late) {
			c.Fatalf("%s: not so after a minute: hc is %s, phac %s", what, runs[0].State, runs[1].State)
		}
	}
}

// A server that is killed or stopped in the middle of a source is followed by
// one that takes this source over at once. Nothing overtakes it.
func TestCampaignGoesOnWithTheNextServer(t *testing.T) {
	for name, end := range map[string]os.Signal{"killed": os.Kill, "stopped": os.Interrupt} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTwoSources(t)
			first := startServer(t, c.db, c.config)
			c.until("hc runs and phac is due", func(hc, phac *supervise.Run) bool {
				return hc.Running && hc.Units > 0 && time.Now().After(phac.DueAt)
			})
			if err := first.cmd.Process.Signal(end); err != nil {
				t.Fatal(err)
			}
			_ = first.cmd.Wait() // a killed one ends badly
			began := time.Now()
			startServer(t, c.db, c.config)
			c.until("hc is taken over", func(hc, phac *supervise.Run) bool {
				if phac.State != job.Queued {
					t.Fatalf("hc is %s and phac %s: it was overtaken", hc.State, phac.State)
				}
				return hc.State == job.Running && hc.Starts > 0
			})
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("hc was taken over after %s", took)
			}
			c.release()
			c.until("both are done", func(hc, phac *supervise.Run) bool {
				return hc.State == job.Succeeded && phac.State == job.Succeeded
			})
			text, err := os.ReadFile(filepath.Join(c.dir, "begun"))
			if err != nil || string(text) != "hc-2026\nphac-2026\n" {
				t.Errorf("%q began: %v; want hc and then phac, each once", text, err)
			}
		})
	}
}
