package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ebbhq/ebb/job"
)

// filters are what lists are asked by: common, rare, absent, combined.
var filters = []string{
	"", "state=queued", "state=running", "state=succeeded", "state=failed", "state=parked", "state=cancelled",
	"kind=kind-3", "kind=rare", "kind=nobody", "queue=queue-4", "queue=nobody", "target=TARGET", "target=nobody",
	"class=server", "class=dns", "class=timeout", "key=order-123", "key=nobody", "batch=batch-3", "batch=nobody",
	"state=queued&kind=rare", "state=succeeded&queue=queue-4&kind=nobody", "state=failed&class=timeout", "fingerprint=f000017",
}

// pages are all lists and pages.
func (w *world) pages() (all []string) {
	target := url.QueryEscape(w.target)
	for _, f := range filters {
		f = strings.ReplaceAll(f, "TARGET", target)
		all = append(all, "/jobs?"+f, "/v1/jobs?"+f)
	}
	for _, f := range []string{"cursor=" + w.middle, "kind=rare&cursor=" + w.middle} {
		all = append(all, "/jobs?"+f, "/v1/jobs?"+f)
	}
	all = append(all, "/v1/jobs?limit=1000", "/v1/jobs?limit=1000&state=succeeded&queue=queue-4", "/v1/jobs?since="+url.QueryEscape(time.Now().Add(-time.Second).UTC().Format(time.RFC3339)))
	for _, f := range []string{"", "queue=queue-4", "kind=kind-3", "fingerprint=f000017", "target=" + target, "class=dns", "key=order-1", "batch=batch-3"} {
		all = append(all, "/dead?"+f, "/v1/dead?"+f, "/v1/dead/groups?"+f)
	}
	for _, state := range job.States() {
		id := w.sample[state]
		all = append(all, "/jobs/"+id, "/v1/jobs/"+id, "/v1/jobs/"+id+"/why", "/v1/jobs/"+id+"/attempts")
	}
	return append(all, "/", "/queues", "/queue?name=queue-4", "/targets", "/target?name="+target, "/policies", "/simulate",
		"/v1/recent", "/v1/recent?queue=queue-4", "/v1/queues", "/v1/queues/queue-4", "/v1/kinds", "/v1/targets", "/v1/targets?limit=1000",
		"/v1/targets/"+url.PathEscape(w.target), "/v1/redrives", "/v1/policies", "/v1/periodics", "/v1/tokens",
		"/v1/jobs/"+w.oldest, "/openapi.json")
}

// site is a real server of API and console, and somebody who may ask
// everything.
type site struct {
	process *exec.Cmd
	client  *http.Client
	url     string
}

// login is the address that a server prints on loopback.
var login = regexp.MustCompile(`(http://[^ ]+)/login\?once=[^ \n]+`)

// serve starts the program on the database and logs in.
func serve(ctx context.Context, program, database, dir string) (*site, error) {
	c := exec.CommandContext(ctx, program, "serve", "--listen", "127.0.0.1:0", "--db", database)
	c.Dir = dir
	said, err := c.StderrPipe()
	if err != nil {
		return nil, err
	}
	c.Stdout = c.Stderr
	if err := c.Start(); err != nil {
		return nil, err
	}
	t := &site{process: c}
	once := ""
	lines := bufio.NewScanner(said)
	for once == "" && lines.Scan() {
		if m := login.FindStringSubmatch(lines.Text()); m != nil {
			once, t.url = m[0], m[1]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	if once == "" {
		return nil, errors.Join(errors.New("serve: it printed no login"), t.close())
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	t.client = &http.Client{Jar: jar, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	if _, err := t.ask(ctx, http.MethodGet, once, ""); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// close stops the server as an operator would.
func (t *site) close() error {
	if err := t.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return t.process.Wait()
}

func (t *site) ask(ctx context.Context, method, address, body string) (time.Duration, error) {
	start := time.Now()
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := t.client.Do(r)
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	took := time.Since(start)
	_ = answer.Body.Close()
	if answer.StatusCode >= 300 {
		return 0, fmt.Errorf("%s: %.300s", answer.Status, text)
	}
	return took, nil
}

// time asks for a page so often, in ms.
func (t *site) time(ctx context.Context, path string, rounds int) ([]float64, error) {
	var took []float64
	for range rounds {
		d, err := t.ask(ctx, http.MethodGet, t.url+path, "")
		if err != nil {
			return nil, err
		}
		took = append(took, float64(d.Microseconds())/1000)
	}
	return took, nil
}

// enqueue returns how many jobs a second 8 clients bring in, n a request.
func (t *site) enqueue(ctx context.Context, n int) (float64, error) {
	const clients, lasts = 8, 3 * time.Second
	path, body := "/v1/jobs", `{"kind":"k","args":{"order":17}}`
	if n > 1 {
		path, body = "/v1/jobs/batch", `{"jobs":[`+strings.Repeat(body+",", n-1)+body+`]}`
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	jobs := 0
	start := time.Now()
	for range clients {
		wg.Go(func() {
			for time.Since(start) < lasts {
				_, err := t.ask(ctx, http.MethodPost, t.url+path, body)
				mu.Lock()
				jobs += n
				if err != nil {
					failed = err
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(jobs) / time.Since(start).Seconds(), failed
}
