package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// message is what is sent: when, and a payload of an event's usual size.
type message struct {
	At  int64  `json:"at"` // Unix nanoseconds
	Pad string `json:"pad"`
}

// payloadAt is about 400 bytes.
func payloadAt(at time.Time) []byte {
	text, _ := json.Marshal(message{At: at.UnixNano(), Pad: strings.Repeat("x", 360)}) // numbers and letters
	return text
}

// secret signs all messages of a run, those of the bare loop too.
var secret = "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))

// slowPath begins the paths that are answered after slow: an endpoint that
// works for its answer, while others answer at once.
const (
	slowPath = "slow/"
	slow     = 10 * time.Millisecond
)

// receive is the endpoint: a process of its own, so that the sender is
// measured and not what it calls. As every receiver should, it verifies the
// signature; it notes how old each message was.
func receive() error {
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var ages []float64 // ms
	mux := http.NewServeMux()
	mux.HandleFunc("POST /in/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		var m message
		if err == nil {
			err = json.Unmarshal(body, &m)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/in/"+slowPath) {
			time.Sleep(slow)
		}
		age := float64(time.Now().UnixNano()-m.At) / 1e6
		mu.Lock()
		ages = append(ages, age)
		mu.Unlock()
	})
	mux.HandleFunc("GET /taken", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(w).Encode(ages) // the benchmark has gone
		ages = nil
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	go func() { // the benchmark's end is ours
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return http.Serve(listener, mux) //nolint:gosec // a benchmark on loopback
}

// receiver is the running endpoint.
type receiver struct {
	url  string
	cmd  *exec.Cmd
	stop io.Closer
}

func startReceiver(ctx context.Context) (*receiver, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-receive")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("receiver: %w", err), in.Close(), cmd.Wait())
	}
	return &receiver{url: strings.TrimSpace(line), cmd: cmd, stop: in}, nil
}

func (r *receiver) close() error { return errors.Join(r.stop.Close(), r.cmd.Wait()) }

// taken returns how old the messages were that came since it was asked last.
func (r *receiver) taken(ctx context.Context) (ages []float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/taken", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	return ages, json.NewDecoder(resp.Body).Decode(&ages)
}
