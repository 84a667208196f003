package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// The fragile site breaks down at a request. It recovers when nobody has asked
// for a while, or when somebody restarts it. All times are the machine's, for
// everybody.
const (
	breakAt   = 300
	quietFor  = 20 * time.Second
	restartIn = 2 * time.Minute
)

// touchy is the fragile site.
type touchy struct {
	mu   sync.Mutex
	seen int
	out  time.Time // since when it is down; zero = it is not
	last time.Time
	log  siteLog
}

// siteLog is what a site saw.
type siteLog struct {
	Requests int `json:"requests"`
	Into     int `json:"into"`
}

func (s *touchy) down() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.out.IsZero() && (now.Sub(s.last) >= quietFor || now.Sub(s.out) >= restartIn) {
		s.out = time.Time{}
	}
	s.last = now
	s.log.Requests++
	if s.seen++; s.seen == breakAt {
		s.out = now
	}
	if s.out.IsZero() {
		return false
	}
	s.log.Into++
	return true
}

// serveSite is a site until its standard input ends.
func serveSite(kind string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	body := []byte("<html><title>a page</title>" + strings.Repeat("0123456789", 1000))
	broken := &touchy{}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:errcheck // it ends with the process
		switch {
		case r.URL.Path == "/log":
			broken.mu.Lock()
			defer broken.mu.Unlock()
			json.NewEncoder(w).Encode(broken.log)
			return
		case r.URL.Path == "/robots.txt":
			w.WriteHeader(http.StatusNotFound)
			return
		case kind == "fragile" && broken.down():
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		w.Write(body)
	}))
	fmt.Println(l.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// child is a site in a process of its own.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	base  string
}

func startSite(kind string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self, "-serve", kind)}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	c.stdin, c.base = in, "http://"+strings.TrimSpace(line)
	return c, err
}

func (c *child) stop() error {
	c.stdin.Close()
	return c.cmd.Wait()
}

func (c *child) log() (siteLog, error) {
	var l siteLog
	resp, err := http.Get(c.base + "/log")
	if err != nil {
		return l, err
	}
	defer resp.Body.Close()
	return l, json.NewDecoder(resp.Body).Decode(&l)
}

// writeList writes the URLs as a list, and as curl's configuration.
func writeList(path, base string, pages int) error {
	list, err := os.Create(path)
	if err != nil {
		return err
	}
	curl, err := os.Create(path + ".curl")
	if err != nil {
		return err
	}
	a, b := bufio.NewWriter(list), bufio.NewWriter(curl)
	for i := range pages {
		fmt.Fprintf(a, "%s/p/%d.html\n", base, i)
		fmt.Fprintf(b, "url = %s/p/%d.html\noutput = p/%d.html\nfail\n", base, i, i)
	}
	for _, err := range []error{a.Flush(), b.Flush(), list.Close(), curl.Close()} {
		if err != nil {
			return err
		}
	}
	return nil
}
