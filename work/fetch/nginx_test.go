package fetch

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/clock"
)

// nginxConf is a site with everything wrong that an nginx in front of a dying
// application does wrong. @DIR@ is its directory.
const nginxConf = `
daemon off; master_process off; worker_processes 1;
pid @DIR@/pid; error_log @DIR@/error.log;
events { worker_connections 256; }
http {
  access_log @DIR@/access.log;
  client_body_temp_path @DIR@/t1; proxy_temp_path @DIR@/t2; fastcgi_temp_path @DIR@/t3; uwsgi_temp_path @DIR@/t4; scgi_temp_path @DIR@/t5;
  large_client_header_buffers 2 1k;
  limit_req_zone $uri zone=slowly:1m rate=1r/m;
  server {
    listen unix:@DIR@/http.sock;
    root @DIR@/www;
    location /dead { proxy_pass http://unix:@DIR@/nobody.sock; }
    location /hung { proxy_pass http://unix:@DIR@/silent.sock; proxy_read_timeout 100ms; }
    location /slow { proxy_pass http://unix:@DIR@/silent.sock; proxy_read_timeout 1h; }
    location /torn { proxy_pass http://unix:@DIR@/torn.sock; proxy_buffering off; }
    location /limited { limit_req zone=slowly; limit_req_status 429; }
    location /trickle { limit_rate 4k; }
    location /bomb { gzip_static always; gunzip off; }
    location /drop { return 444; }
    location /payload { return 413; }
    location /loop { rewrite ^ /loop permanent; }
    location /private { auth_basic "members"; auth_basic_user_file @DIR@/none; }
    location /closed { deny all; }
    location /down { error_page 503 @later; return 503; }
    location @later { internal; add_header Retry-After 7 always; return 503 "back soon"; }
  }
}
`

// nginx runs a real one on a socket and returns a transport that calls it
// whatever the host.
func nginx(t *testing.T) (dir string, to http.RoundTripper) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ngx") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	write := func(name string, text []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("nginx.conf", []byte(strings.ReplaceAll(nginxConf, "@DIR@", dir)))
	write("www/page.html", []byte("<title>a page</title>"))
	write("www/empty.html", nil)
	write("www/limited.html", []byte("once a minute"))
	write("www/trickle.bin", make([]byte, 100_000))
	write("www/big.bin", make([]byte, 100_000))
	write("www/bomb.html.gz", gzipped(t, make([]byte, 4<<20)))
	upstream(t, filepath.Join(dir, "silent.sock"), func(net.Conn) {})
	upstream(t, filepath.Join(dir, "torn.sock"), func(c net.Conn) {
		fmt.Fprint(c, "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000\r\n\r\n<title>the beginning")
		c.Close()
	})
	exe, err := exec.LookPath("nginx")
	if err != nil {
		exe = "/usr/sbin/nginx" // where Debian has it, off the path of users
	}
	cmd := exec.Command(exe, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", filepath.Join(dir, "error.log"))
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; scripts/need nginx", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	socket := filepath.Join(dir, "http.sock")
	for range 1000 {
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			break
		}
		pause(t)
	}
	return dir, &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
}

// upstream is an application behind nginx: it reads a request and does what it
// does with the connection.
func upstream(t *testing.T, socket string, do func(net.Conn)) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go func() {
				_, _ = c.Read(make([]byte, 4096))
				do(c)
			}()
		}
	}()
}

// logged waits until nginx has written a line: it notes a client that went
// away when it notices.
func logged(t *testing.T, path, line string) {
	t.Helper()
	for range 5000 {
		if log, err := os.ReadFile(path); err == nil && strings.Contains(string(log), line) {
			return
		}
		pause(t)
	}
	t.Errorf("nginx saw no %s", line)
}

// A real nginx before a dying application: each failure has its class.
func TestNginxFailuresHaveTheirClass(t *testing.T) {
	dir, to := nginx(t)
	const site = "http://old.test"
	want := map[string]string{
		"/page.html":                   "",
		"/dead":                        "server", // 502
		"/hung":                        "server", // 504
		"/down":                        "server", // 503 with Retry-After
		"/slow":                        "header_timeout",
		"/trickle.bin":                 "body_timeout",
		"/torn":                        "short_body",
		"/drop":                        "reset",
		"/limited.html":                "throttled",
		"/bomb.html":                   "too_large",
		"/big.bin":                     "too_large",
		"/empty.html":                  "empty",
		"/payload":                     "rejected", // 413
		"/page.html?" + longText(4000): "rejected", // 414
		"/private":                     "rejected", // 401
		"/closed":                      "rejected", // 403
		"/nowhere":                     "rejected", // 404
		"/loop":                        "redirect",
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, site+"/limited.html", nil)
	if err != nil {
		t.Fatal(err)
	}
	first, err := to.RoundTrip(req) // the one that a minute allows
	if err != nil {
		t.Fatal(err)
	}
	first.Body.Close()
	var list []string
	for path := range want {
		list = append(list, site+path)
	}
	got := firstEvents(t, Options{Name: "nginx", Transport: to, Clock: clock.Scaled{Start: time.Now(), Factor: 20}}, list)
	for path, class := range want {
		if first := got[site+path].Class; first != class {
			t.Errorf("%.40s: %q, want %q", path, first, class)
		}
	}
	if waits := got[site+"/down"].Delay; waits < 7*time.Second {
		t.Errorf("/down is tried again after %s, want 7s and more: its Retry-After", waits)
	}
	for _, line := range []string{`"GET /dead HTTP/1.1" 502`, `"GET /hung HTTP/1.1" 504`, `"GET /limited.html HTTP/1.1" 429`, `"GET /drop HTTP/1.1" 444`, `"GET /slow HTTP/1.1" 499`, `"GET /torn HTTP/1.1" 200`, `" 414 `} {
		logged(t, filepath.Join(dir, "access.log"), line)
	}
}
