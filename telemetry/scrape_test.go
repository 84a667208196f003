package telemetry

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a real Prometheus may take before a test fails instead
// of hanging.
const patience = time.Minute

// startPrometheus runs the binary on loopback until the test ends, and returns
// its address once it listens.
func startPrometheus(t *testing.T, config string) (address string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("prometheus", "--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("prometheus: %v; run scripts/need prometheus", err)
	}
	listening, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		at := regexp.MustCompile(`msg="Listening on" address=(\S+)`)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if m := at.FindStringSubmatch(lines.Text()); m != nil {
				listening <- m[1]
			} else if strings.Contains(lines.Text(), "level=error") {
				t.Log(lines.Text())
			}
		}
	}()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("prometheus: %v", err)
		}
	})
	select {
	case address = <-listening:
	case <-read:
		t.Fatal("prometheus ended")
	case <-time.After(patience):
		t.Fatal("prometheus does not listen")
	}
	return address
}

// query asks a Prometheus and returns how many series answered.
func query(ctx context.Context, t *testing.T, client *http.Client, address, expr string) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+address+"/api/v1/query?query="+url.QueryEscape(expr), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if answer.Status != "success" {
		return 0, fmt.Errorf("%s: %s", expr, answer.Error)
	}
	return len(answer.Data.Result), nil
}

// TestRealScrape: a Prometheus scrapes it, has our series, evaluates our rules
// and answers every query of the dashboard.
func TestRealScrape(t *testing.T) {
	server := httptest.NewServer(goldenTelemetry(t).Handler())
	defer server.Close()
	rules, err := filepath.Abs(rulesPath)
	if err != nil {
		t.Fatal(err)
	}
	address := startPrometheus(t, fmt.Sprintf(`
global: {scrape_interval: 200ms, evaluation_interval: 200ms}
rule_files: [%q]
scrape_configs:
  - job_name: ebb
    static_configs: [{targets: [%q]}]
`, rules, strings.TrimPrefix(server.URL, "http://")))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	// The last is an alert of ours: webhook is paused, default has a worker,
	// so it is the breaker that waits for its half hour.
	for _, expr := range []string{
		`ebb_queue_jobs{queue="webhook",state="queued"} == 2`,
		`ebb_dead_letters_total{cause="exhausted"} == 1`,
		`ebb_retry_interval_seconds_bucket{policy="webhook",attempt="2",le="72"}`,
		`up{job="ebb"} == 1`,
		`ALERTS{alertname="EbbBreakerOpenLong",alertstate="pending",target="shop.example"}`,
	} {
		for {
			if n, err := query(ctx, t, client, address, expr); err == nil && n > 0 {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("prometheus has no %s", expr)
			}
		}
	}
	variables := strings.NewReplacer("$__rate_interval", "1m", "$queue", ".*", "$kind", ".*", "$policy", ".*")
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			if _, err := query(ctx, t, client, address, variables.Replace(target.Expr)); err != nil {
				t.Errorf("%s: %v", p.Title, err)
			}
		}
	}
	if _, err := query(ctx, t, client, address, "sum by ("); err == nil {
		t.Error("a broken query was answered: the check above says nothing")
	}
}
