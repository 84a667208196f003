// Package robots answers "may we fetch this?" as robots.txt says, by RFC 9309:
// groups merged by product token, the longest rule wins, allow wins a tie. It
// reads no network and no clock: bodies and instants are arguments.
//
// It is ours because the library that Go programs commonly use fails the RFC's
// cases of product tokens, ties, percent-encoding and stray rules, all of which
// are in testdata/cases.txt.
package robots

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxBytes is how much of a robots.txt is read; the RFC demands no less.
const MaxBytes = 500 << 10

// maxDelay is the longest Crawl-delay that is believed: what is longer is a
// mistake of units, and would stop the fetch.
const maxDelay = 5 * time.Minute

// File is a robots.txt. The zero value allows everything.
type File struct {
	groups   map[string]*group // by product token in lower case; "*" for all others
	sitemaps []string
}

type group struct {
	rules []rule
	delay time.Duration
}

type rule struct {
	allow   bool
	pattern pattern
	text    string
	line    int
}

// Verdict is the answer for one URL, with the rule that gave it.
type Verdict struct {
	Allowed bool
	Rule    string // as written, such as "disallow: /x"; "" when no rule matched
	Line    int
}

func (v Verdict) String() string {
	switch {
	case v.Rule == "":
		return "allowed: no rule of robots.txt matches"
	case v.Allowed:
		return fmt.Sprintf("allowed by line %d of robots.txt: %s", v.Line, v.Rule)
	}
	return fmt.Sprintf("forbidden by line %d of robots.txt: %s", v.Line, v.Rule)
}

// Parse reads a robots.txt. Nothing in it is an error: what is not understood
// is passed over. Of a longer text the first MaxBytes count, up to a whole line.
func Parse(body []byte) *File {
	if len(body) > MaxBytes {
		body = body[:MaxBytes]
		if i := bytes.LastIndexAny(body, "\r\n"); i >= 0 {
			body = body[:i]
		}
	}
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	p := parser{file: &File{groups: make(map[string]*group)}}
	number := 0
	for len(body) > 0 {
		number++
		var line []byte
		line, body = cutLine(body)
		p.line(number, string(line))
	}
	return p.file
}

// cutLine takes a line that ends with CR, LF or both.
func cutLine(body []byte) (line, rest []byte) {
	i := bytes.IndexAny(body, "\r\n")
	if i < 0 {
		return body, nil
	}
	line, rest = body[:i], body[i+1:]
	if body[i] == '\r' && len(rest) > 0 && rest[0] == '\n' {
		rest = rest[1:]
	}
	return line, rest
}

type parser struct {
	file    *File
	current []*group // of the user-agent lines above
	rules   bool     // a rule followed them: the next user-agent line begins a new group
}

func (p *parser) line(number int, line string) {
	line, _, _ = strings.Cut(line, "#")
	key, value, found := strings.Cut(line, ":")
	if !found { // a forgotten colon
		key, value, found = strings.Cut(strings.TrimSpace(strings.ReplaceAll(line, "\t", " ")), " ")
		if !found || strings.Contains(strings.TrimSpace(value), " ") {
			return
		}
	}
	key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
	switch key {
	case "user-agent", "useragent", "user agent":
		p.agent(value)
	case "allow":
		p.rule(rule{allow: true, line: number}, value)
	case "disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw":
		p.rule(rule{line: number}, value)
	case "crawl-delay", "crawldelay":
		p.delay(value)
	case "sitemap", "site-map":
		if value != "" {
			p.file.sitemaps = append(p.file.sitemaps, value)
		}
	}
}

func (p *parser) agent(value string) {
	if p.rules {
		p.current, p.rules = nil, false
	}
	token := strings.ToLower(Token(value))
	if value == "*" || strings.HasPrefix(value, "* ") {
		token = "*"
	}
	if p.file.groups[token] == nil {
		p.file.groups[token] = &group{}
	}
	p.current = append(p.current, p.file.groups[token])
}

func (p *parser) rule(r rule, value string) {
	p.rules = true
	if value == "" {
		return // it forbids, or allows, nothing
	}
	name := "disallow: "
	if r.allow {
		name = "allow: "
	}
	r.text, r.pattern = name+value, newPattern(value)
	for _, g := range p.current {
		g.rules = append(g.rules, r)
	}
}

// delay reads the extension that the RFC does not know. Like every unknown
// line it ends no group.
func (p *parser) delay(value string) {
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil || !(seconds > 0) {
		return
	}
	d := maxDelay
	if seconds < maxDelay.Seconds() {
		d = time.Duration(seconds * float64(time.Second))
	}
	for _, g := range p.current {
		g.delay = max(g.delay, d)
	}
}

// Token is the product token that a user agent obeys rules by: the letters,
// hyphens and underscores that it begins with, "Ebb" of "Ebb/1.0 (+https://…)".
func Token(agent string) string {
	rest := strings.TrimLeft(agent, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_")
	return agent[:len(agent)-len(rest)]
}

// group returns the rules for an agent: those of its own groups, or those for
// all others.
func (f *File) group(agent string) *group {
	if g := f.groups[strings.ToLower(Token(agent))]; g != nil && Token(agent) != "" {
		return g
	}
	return f.groups["*"]
}

// Ask tells whether the agent may fetch the URL. robots.txt itself is always
// allowed.
func (f *File) Ask(agent, url string) Verdict {
	path := pathOf(url)
	g := f.group(agent)
	if g == nil || path == "/robots.txt" {
		return Verdict{Allowed: true}
	}
	var best *rule
	for i := range g.rules {
		r := &g.rules[i]
		if best != nil && (r.pattern.length < best.pattern.length || r.pattern.length == best.pattern.length && (best.allow || !r.allow)) {
			continue // it could not win
		}
		if r.pattern.matches(path) {
			best = r
		}
	}
	if best == nil {
		return Verdict{Allowed: true}
	}
	return Verdict{Allowed: best.allow, Rule: best.text, Line: best.line}
}

// Delay is the pause between two requests that the file asks the agent for,
// 0 if it asks for none; 5 minutes at most.
func (f *File) Delay(agent string) time.Duration {
	if g := f.group(agent); g != nil {
		return g.delay
	}
	return 0
}

// Sitemaps returns the sitemaps that the file names, as written.
func (f *File) Sitemaps() []string { return f.sitemaps }
