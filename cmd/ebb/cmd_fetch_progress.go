package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ebbhq/ebb/work/fetch"
)

// fetchShow tells people or programs how a fetch gets on.
type fetchShow struct {
	a        *app
	terminal bool

	mu    sync.Mutex
	of    *fetch.Runner
	drawn bool // a bar stands on the terminal's last line
}

func (a *app) newFetchShow() *fetchShow {
	return &fetchShow{a: a, terminal: isTerminal(a.stderr)}
}

func (s *fetchShow) runner(r *fetch.Runner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of = r
}

// event prints what happened: all of it as JSON, the turning points for people.
func (s *fetchShow) event(e fetch.Event) {
	if e.At.IsZero() {
		e.At = s.a.now().UTC()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.a.json {
		s.line(e)
		return
	}
	if s.a.quiet {
		return
	}
	switch e.Type {
	case fetch.EventPass:
		if e.Wave > 0 {
			s.say("wave %d: %s to try again", e.Wave, count(int(e.Count), "page"))
		} else {
			s.say("%s to fetch", count(int(e.Count), "page"))
		}
	case fetch.EventCooling:
		s.say("wave %d: %s failed; it starts at %s, to let the server recover", e.Wave, count(int(e.Count), "page"), e.Until.Local().Format("15:04:05"))
	case fetch.EventGate:
		s.say("%s: %s", e.Host, e.Text)
	}
}

// line prints one JSON object a line.
func (s *fetchShow) line(e fetch.Event) {
	text, err := json.Marshal(e)
	if err != nil { // plain values
		panic(err)
	}
	fmt.Fprintf(s.a.stdout, "%s\n", text)
}

// say prints a line above the bar.
func (s *fetchShow) say(format string, args ...any) {
	s.wipe()
	fmt.Fprintf(s.a.stderr, format+"\n", args...)
}

func (s *fetchShow) wipe() {
	if s.drawn {
		fmt.Fprint(s.a.stderr, "\r\x1b[K")
		s.drawn = false
	}
}

const (
	barEvery  = 200 * time.Millisecond
	jsonEvery = time.Second
	lineEvery = 10 * time.Second
)

// start shows progress until it is told to stop.
func (s *fetchShow) start() (stop func()) {
	every := lineEvery
	switch {
	case s.a.json:
		every = jsonEvery
	case s.a.quiet:
		return func() {}
	case s.terminal:
		every = barEvery
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				s.progress()
			}
		}
	}()
	return func() {
		close(end)
		<-ended
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wipe()
		if s.a.json {
			p := s.of.Progress()
			s.line(fetch.Event{Type: fetch.EventProgress, At: s.a.now().UTC(), Progress: &p})
		}
	}
}

func (s *fetchShow) progress() {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of.Progress()
	switch {
	case s.a.json:
		s.line(fetch.Event{Type: fetch.EventProgress, At: s.a.now().UTC(), Progress: &p})
	case s.terminal:
		s.wipe()
		fmt.Fprint(s.a.stderr, "\r"+bar(p, 24))
		s.drawn = true
	default:
		fmt.Fprintln(s.a.stderr, bar(p, 0))
	}
}

// bar is one line of progress; width 0 leaves the bar itself out.
func bar(p fetch.Progress, width int) string {
	var b strings.Builder
	if all := p.Done + p.Failed + p.Left; width > 0 && all > 0 {
		full := int(int64(width) * (p.Done + p.Failed) / all)
		fmt.Fprintf(&b, "[%s%s] ", strings.Repeat("=", full), strings.Repeat(" ", width-full))
	}
	if p.Wave > 0 {
		fmt.Fprintf(&b, "wave %d: ", p.Wave)
	}
	fmt.Fprintf(&b, "%d done, %d failed, %d left", p.Done, p.Failed, p.Left)
	if p.Rate > 0 {
		fmt.Fprintf(&b, ", %.1f/s", p.Rate)
	}
	if p.ETA > 0 {
		fmt.Fprintf(&b, ", %s to go", time.Duration(p.ETA*float64(time.Second)).Round(time.Second))
	}
	if p.Cooling > 0 {
		fmt.Fprintf(&b, ", cooling down for %s", time.Duration(p.Cooling*float64(time.Second)).Round(time.Second))
	}
	var hosts []string
	for host := range p.Gates {
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	const most = 2
	for i, host := range hosts {
		if i == most {
			fmt.Fprintf(&b, ", and %d more hosts held", len(hosts)-most)
			break
		}
		fmt.Fprintf(&b, ", %s: %s", host, p.Gates[host])
	}
	return b.String()
}
