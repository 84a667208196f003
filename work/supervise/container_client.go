package supervise

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// daemon is a thin client of the Docker-compatible API over its socket: the
// few calls that a run needs. docs/adr says why it is our own.
type daemon struct {
	socket string
	http   *http.Client
}

// apiVersion is old enough for every daemon that is still cared for, Podman's
// too.
const apiVersion = "v1.40"

func dial(socket string) *daemon {
	if socket == "" {
		socket = strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	}
	if socket == "" {
		socket = "/var/run/docker.sock"
	}
	d := &daemon{socket: socket}
	d.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	return d
}

// refused is an answer of the daemon that is no success.
type refusedError struct {
	status int
	text   string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("the daemon answered %d: %s", e.status, e.text)
}

// statusOf is the status of an answer that was no success; 0 = there was no
// answer.
func statusOf(err error) int {
	var r *refusedError
	if errors.As(err, &r) {
		return r.status
	}
	return 0
}

// call sends a request; the answer's body is the caller's.
func (d *daemon) call(ctx context.Context, method, path string, query url.Values, body any) (io.ReadCloser, error) {
	var send io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		send = bytes.NewReader(text)
	}
	at := "http://daemon/" + apiVersion + path
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, at, send)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	answer, err := d.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("container: %s: %w", d.socket, err)
	}
	if answer.StatusCode < 300 || answer.StatusCode == http.StatusNotModified {
		return answer.Body, nil
	}
	defer func() { _ = answer.Body.Close() }()
	var told struct{ Message string }
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // what there is of it
	if json.Unmarshal(text, &told) != nil {
		told.Message = string(text)
	}
	return nil, &refusedError{answer.StatusCode, strings.TrimSpace(told.Message)}
}

// ask sends a request and reads the answer into out, where there is one.
func (d *daemon) ask(ctx context.Context, method, path string, query url.Values, body, out any) error {
	answer, err := d.call(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	if out == nil {
		_, err = io.Copy(io.Discard, answer)
		return err
	}
	return json.NewDecoder(answer).Decode(out)
}

// containerState is what inspect tells.
type containerState struct {
	ID    string `json:"Id"`
	State struct {
		Running   bool
		OOMKilled bool
		ExitCode  int
		Error     string
	}
}

const labelKey = "ebb.run"

// find lists the containers of a run, running or not.
func (d *daemon) find(ctx context.Context, key string) ([]containerState, error) {
	filters, err := json.Marshal(map[string][]string{"label": {labelKey + "=" + key}})
	if err != nil {
		return nil, err
	}
	var list []struct {
		ID string `json:"Id"`
	}
	if err := d.ask(ctx, http.MethodGet, "/containers/json", url.Values{"all": {"1"}, "filters": {string(filters)}}, nil, &list); err != nil {
		return nil, err
	}
	var states []containerState
	for _, c := range list {
		st, err := d.inspect(ctx, c.ID)
		if statusOf(err) == http.StatusNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		states = append(states, st)
	}
	return states, nil
}

func (d *daemon) inspect(ctx context.Context, id string) (containerState, error) {
	var st containerState
	err := d.ask(ctx, http.MethodGet, "/containers/"+id+"/json", nil, nil, &st)
	return st, err
}

// create makes a container that is not started yet.
func (d *daemon) create(ctx context.Context, c *containment) (string, error) {
	body := map[string]any{
		"Image": c.Image, "Cmd": c.Argv, "Env": c.Env, "WorkingDir": c.Cwd, "User": c.User,
		"Labels": map[string]string{labelKey: c.Key, "ebb.name": c.Run},
		"HostConfig": map[string]any{
			"Binds": append([]string{c.Dir + ":" + c.Dir}, c.Mounts...), "NetworkMode": c.Network,
			// Swap would only put the end off.
			"Memory": int64(c.Memory), "MemorySwap": int64(c.Memory), "NanoCpus": int64(c.CPUs * 1e9), "Init": false,
		},
	}
	var made struct {
		ID string `json:"Id"`
	}
	err := d.ask(ctx, http.MethodPost, "/containers/create", url.Values{"name": {c.Name}}, body, &made)
	return made.ID, err
}

func (d *daemon) start(ctx context.Context, id string) error {
	return d.ask(ctx, http.MethodPost, "/containers/"+id+"/start", nil, nil, nil)
}

// signal sends one to the container's first process. One that has ended, or
// is gone, is none to send to.
func (d *daemon) signal(ctx context.Context, id, name string) error {
	err := d.ask(ctx, http.MethodPost, "/containers/"+id+"/kill", url.Values{"signal": {"SIG" + name}}, nil, nil)
	if s := statusOf(err); s == http.StatusConflict || s == http.StatusNotFound {
		return nil
	}
	return err
}

func (d *daemon) remove(ctx context.Context, id string) error {
	err := d.ask(ctx, http.MethodDelete, "/containers/"+id, url.Values{"force": {"1"}, "v": {"1"}}, nil, nil)
	if s := statusOf(err); s == http.StatusNotFound || s == http.StatusConflict { // gone, or going
		return nil
	}
	return err
}

// logs copies what the container prints until it ends, leaving out what has
// been copied before. It may be called again where the daemon went away.
func (d *daemon) logs(ctx context.Context, id string, out [2]io.Writer, copied *[2]int64) error {
	answer, err := d.call(ctx, http.MethodGet, "/containers/"+id+"/logs", url.Values{"follow": {"1"}, "stdout": {"1"}, "stderr": {"1"}}, nil)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	seen := [2]int64{}
	for {
		var head [8]byte // stream, three zeros, length
		if _, err := io.ReadFull(answer, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		stream, n := 0, int64(binary.BigEndian.Uint32(head[4:]))
		if head[0] == 2 {
			stream = 1
		}
		old := min(n, max(0, copied[stream]-seen[stream]))
		if _, err := io.CopyN(io.Discard, answer, old); err != nil {
			return err
		}
		wrote, err := io.CopyN(out[stream], answer, n-old)
		seen[stream] += n
		copied[stream] = max(copied[stream], seen[stream]-(n-old)+wrote)
		if err != nil {
			return err
		}
	}
}

// daemonPatience is how long a daemon may be away while a container runs.
const daemonPatience = 10 * time.Minute
