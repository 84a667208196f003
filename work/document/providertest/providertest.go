// Package providertest is a provider of language models for tests: an HTTP
// server that speaks the real protocols (OpenAI's chat completions and
// responses, Anthropic's messages, whole and streamed) and answers, or fails,
// as a script says. It remembers every call.
package providertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// Call is one request as the provider understood it.
type Call struct {
	Path   string
	Key    string // the credential that came with it
	Model  string
	Prompt string // all messages, a line each
	Stream bool
	Schema bool // structured output was asked for
	N      int  // of calls with this prompt, 1 and up
}

// Fault is a way to fail below the protocol.
type Fault string

const (
	Hang     Fault = "hang"     // no answer begins
	Reset    Fault = "reset"    // the connection is reset before an answer
	CutOff   Fault = "cut_off"  // the connection ends amid the answer
	Page     Fault = "page"     // 200 with a page of HTML
	Stall    Fault = "stall"    // the answer begins and does not go on
	MidError Fault = "midpoint" // a stream breaks with an error of the protocol
)

// Act is what the provider does. The zero Act answers {}.
type Act struct {
	Status int // 0 = 200
	Header http.Header
	// Kind and Message are of an error's body.
	Kind, Message string
	Text          string        // of the answer
	Stop          string        // "length" or "refusal"; empty = it is whole
	Delay         time.Duration // before the answer begins
	Pause         time.Duration // between the pieces of a stream
	Fault         Fault
}

// Server is a scripted provider.
type Server struct {
	*httptest.Server
	script func(Call) Act

	mu    sync.Mutex
	calls []Call
	count map[string]int
	stop  chan struct{}
}

// New starts a provider that acts by the script, which is called from several
// goroutines. Close it.
func New(script func(Call) Act) *Server {
	s := newServer(script)
	s.Server = httptest.NewServer(s)
	return s
}

func newServer(script func(Call) Act) *Server {
	return &Server{script: script, count: map[string]int{}, stop: make(chan struct{})}
}

// Close ends the server and what hangs in it.
func (s *Server) Close() {
	close(s.stop)
	s.CloseClientConnections()
	s.Server.Close()
}

// Base is the address that the protocols' paths are appended to.
func (s *Server) Base() string { return s.URL + "/v1" }

// Calls returns all calls so far.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

// asked is what the protocols' requests have in common.
type asked struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Content string `json:"content"`
	} `json:"messages"`
	Input []struct {
		Content string `json:"content"`
	} `json:"input"`
	Format json.RawMessage `json:"response_format"`
	Text   json.RawMessage `json:"text"`
	Tools  json.RawMessage `json:"tools"`
}

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, ok := protocols[strings.TrimPrefix(r.URL.Path, "/v1")]
	if !ok || r.Method != http.MethodPost {
		http.Error(w, "no such path: "+r.Method+" "+r.URL.Path, http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var q asked
	if err := json.Unmarshal(body, &q); err != nil || q.Model == "" {
		refuse(w, Act{Status: http.StatusBadRequest, Kind: "invalid_request_error", Message: fmt.Sprintf("the body: %v", err)})
		return
	}
	call := s.note(r, &q)
	act := s.script(call)
	if !s.wait(r, act.Delay) {
		return
	}
	switch {
	case act.Fault == Hang:
		s.wait(r, time.Hour)
	case act.Fault == Reset:
		reset(w)
	case act.Fault == Page:
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>The gateway is tired.</html>")
	case act.Status != 0 && act.Status != http.StatusOK:
		refuse(w, act)
	case q.Stream:
		s.stream(w, r, p, &call, &act)
	default:
		s.whole(w, r, p, &call, &act)
	}
}

func (s *Server) note(r *http.Request, q *asked) Call {
	var lines []string
	for _, m := range append(q.Messages, q.Input...) {
		lines = append(lines, m.Content)
	}
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if key == "" {
		key = r.Header.Get("X-Api-Key")
	}
	c := Call{
		Path: r.URL.Path, Key: key, Model: q.Model, Prompt: strings.Join(lines, "\n"), Stream: q.Stream,
		Schema: len(q.Format)+len(q.Text)+len(q.Tools) > 0,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[c.Prompt]++
	c.N = s.count[c.Prompt]
	s.calls = append(s.calls, c)
	return c
}

// wait is false if the caller or the server went before.
func (s *Server) wait(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
	case <-s.stop:
	}
	return false
}

// reset ends the connection without an answer or a goodbye.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func refuse(w http.ResponseWriter, act Act) {
	for name, values := range act.Header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", "req_refused")
	w.WriteHeader(act.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]any{"type": act.Kind, "code": act.Kind, "message": act.Message}})
}

func (s *Server) whole(w http.ResponseWriter, r *http.Request, p protocol, c *Call, act *Act) {
	body, err := json.Marshal(p.whole(c, act))
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", "req_whole")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	switch act.Fault {
	case CutOff, MidError:
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case Stall:
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		s.wait(r, time.Hour)
		return
	}
	_, _ = w.Write(body)
}

// pieceSize is how many bytes of an answer one event of a stream has.
const pieceSize = 16

func (s *Server) stream(w http.ResponseWriter, r *http.Request, p protocol, c *Call, act *Act) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Request-Id", "req_stream")
	events := p.stream(c, act)
	control := http.NewResponseController(w)
	for i, e := range events {
		if i == len(events)/2 {
			switch act.Fault {
			case CutOff:
				panic(http.ErrAbortHandler)
			case Stall:
				s.wait(r, time.Hour)
				return
			case MidError:
				_, _ = fmt.Fprintf(w, "event: error\ndata: %s\n\n", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
				return
			}
		}
		_, _ = io.WriteString(w, ": still here\n\n"+e)
		_ = control.Flush()
		if !s.wait(r, act.Pause) {
			return
		}
	}
}
