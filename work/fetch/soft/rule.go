package soft

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// What is what a rule looks at.
type What string

const (
	Title   What = "title"    // an error if the title matches the regular expression
	Body    What = "body"     // an error if the body matches it
	NoBody  What = "no-body"  // an error if the body does not match it: something every page has
	Nothing What = "empty"    // empty if the body matches it: "no records found"
	MinSize What = "min-size" // an error if the body is smaller, in bytes
	MaxSize What = "max-size" // an error if it is larger
	Type    What = "type"     // an error if Content-Type is none of these, separated by commas; image/* takes all
	Magic   What = "magic"    // an error if the body does not begin so: pdf, png, jpeg, gif, webp, zip, gzip, html, xml, json, or hex:25504446
)

// Rule finds fault with answers. On limits it to URLs that match a regular
// expression; empty = all.
type Rule struct {
	What What   `json:"what" yaml:"what"`
	Want string `json:"want" yaml:"want"`
	On   string `json:"on,omitempty" yaml:"on,omitempty"`
}

func (r Rule) String() string {
	text := string(r.What) + ":" + r.Want
	if r.On != "" {
		text += " on " + r.On
	}
	return text
}

// ParseRule reads WHAT:WANT, or WHAT:WANT on REGEXP.
func ParseRule(text string) (Rule, error) {
	what, want, found := strings.Cut(text, ":")
	if !found {
		return Rule{}, fmt.Errorf("soft: rule %q: want WHAT:WANT, such as title:(?i)not found or magic:pdf on /documents/", text)
	}
	r := Rule{What: What(what), Want: want}
	if i := strings.LastIndex(want, " on "); i >= 0 {
		r.Want, r.On = want[:i], want[i+len(" on "):]
	}
	_, err := r.check()
	return r, err
}

// checked is a rule ready for use.
type checked struct {
	rule Rule
	on   *regexp.Regexp
	// fault tells what is wrong with an answer, "" for nothing.
	fault func(a *Answer) string
	kind  Kind
}

func (c *checked) ask(a *Answer) (Verdict, bool) {
	if c.on != nil && !c.on.MatchString(a.URL) {
		return Verdict{}, false
	}
	reason := c.fault(a)
	return Verdict{c.kind, c.rule.String(), reason}, reason != ""
}

var errEmptyWant = errors.New("empty")

func (r Rule) check() (checked, error) {
	c := checked{rule: r, kind: Error}
	if r.What == Nothing {
		c.kind = Empty
	}
	err := errEmptyWant
	if r.Want != "" {
		c.fault, err = r.compile()
	}
	if err == nil && r.On != "" {
		c.on, err = regexp.Compile(r.On)
	}
	if err != nil {
		return c, fmt.Errorf("soft: rule %s: %w", r, err)
	}
	return c, nil
}

func (r Rule) compile() (func(*Answer) string, error) {
	switch r.What {
	case Title, Body, NoBody, Nothing:
		return r.pattern()
	case MinSize, MaxSize:
		n, err := strconv.ParseInt(r.Want, 10, 64)
		if err != nil || n < 1 {
			return nil, errors.New("want a number of bytes, 1 or more")
		}
		return func(a *Answer) string {
			if r.What == MinSize && a.Size < n || r.What == MaxSize && a.Size > n {
				return fmt.Sprintf("a body of %d bytes", a.Size)
			}
			return ""
		}, nil
	case Type:
		return r.types()
	case Magic:
		return r.magic()
	}
	return nil, fmt.Errorf("%q is nothing a rule looks at: want title, body, no-body, empty, min-size, max-size, type or magic", r.What)
}

func (r Rule) pattern() (func(*Answer) string, error) {
	re, err := regexp.Compile(r.Want)
	if err != nil {
		return nil, err
	}
	if r.What == Title {
		return func(a *Answer) string {
			if !re.MatchString(a.Title) {
				return ""
			}
			return fmt.Sprintf("the title is %q", cut(a.Title))
		}, nil
	}
	return func(a *Answer) string {
		at := re.FindIndex(a.Body[:min(len(a.Body), MaxBody)])
		switch {
		case r.What == NoBody && at == nil:
			return "the body does not hold it"
		case r.What != NoBody && at != nil:
			return fmt.Sprintf("the body holds %q", cut(string(a.Body[at[0]:at[1]])))
		}
		return ""
	}, nil
}

func (r Rule) types() (func(*Answer) string, error) {
	var wanted []string
	for t := range strings.SplitSeq(strings.ToLower(r.Want), ",") {
		t = strings.TrimSpace(t)
		if _, err := path.Match(t, ""); err != nil || strings.Count(t, "/") != 1 {
			return nil, fmt.Errorf("type %q: want TYPE/SUBTYPE", t)
		}
		wanted = append(wanted, t)
	}
	return func(a *Answer) string {
		got := mediaType(a.ContentType)
		for _, want := range wanted {
			if ok, _ := path.Match(want, got); ok {
				return ""
			}
		}
		if got == "" {
			return "there is no Content-Type"
		}
		return "the type is " + cut(got)
	}, nil
}

// signs are how bodies of these types begin.
var signs = map[string][]string{
	"pdf": {"%PDF-"}, "png": {"\x89PNG\r\n\x1a\n"}, "jpeg": {"\xff\xd8\xff"}, "gif": {"GIF87a", "GIF89a"},
	"zip": {"PK\x03\x04", "PK\x05\x06"}, "gzip": {"\x1f\x8b"}, "webp": {"RIFF"}, "xml": {"<?xml"}, "html": {"<"}, "json": {"{", "["},
}

func (r Rule) magic() (func(*Answer) string, error) {
	want, found := signs[r.Want]
	if digits, isHex := strings.CutPrefix(r.Want, "hex:"); isHex {
		raw, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil || len(raw) == 0 {
			return nil, fmt.Errorf("%q: want pairs of hexadecimal digits", digits)
		}
		want = []string{string(raw)}
	} else if !found {
		return nil, fmt.Errorf("%q: want pdf, png, jpeg, gif, webp, zip, gzip, html, xml, json or hex:25504446", r.Want)
	}
	text := r.Want == "html" || r.Want == "xml" || r.Want == "json"
	return func(a *Answer) string {
		body := a.Body
		if text {
			body = bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), " \t\r\n")
		}
		for _, sign := range want {
			if bytes.HasPrefix(body, []byte(sign)) && (r.Want != "webp" || len(body) >= 12 && string(body[8:12]) == "WEBP") {
				return ""
			}
		}
		return fmt.Sprintf("the body begins with %q", body[:min(len(body), 16)])
	}, nil
}

// cut keeps a reason readable.
func cut(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= 80 {
		return s
	}
	return strings.ToValidUTF8(s[:77], "") + "…"
}
