// Package soft answers "is this really the page?": an error page that comes
// with status 200 is told from the page by the user's rules, by what the host
// answers to paths that cannot exist, and by one body standing on many URLs. A
// page that is sound but has nothing in it is a verdict of its own.
package soft

import (
	"fmt"
	"strings"
)

// Kind is the outcome of a judgement.
type Kind string

const (
	Sound Kind = ""      // take it
	Error Kind = "soft"  // an error that pretends to be a page: quarantine it
	Empty Kind = "empty" // the page, healthy, with nothing in it
)

// Verdict tells what an answer is, and why.
type Verdict struct {
	Kind   Kind
	Rule   string // the rule as the user wrote it, or "empty body", "probe", "same body"
	Reason string // in words, with the figures that decided
}

func (v Verdict) String() string {
	switch v.Kind {
	case Error:
		return "soft error by rule " + v.Rule + ": " + v.Reason
	case Empty:
		return "healthy but empty by rule " + v.Rule + ": " + v.Reason
	}
	return "sound"
}

// MaxBody is how much of a body the rules look at.
const MaxBody = 1 << 20

// Answer is a response that claims success.
type Answer struct {
	URL         string // in normal form
	ContentType string
	Size        int64  // of the whole body, decompressed
	Body        []byte // its beginning, up to MaxBody
	Title       string // of HTML
	Digest      string // of the whole body; equal for equal bodies
}

// Options says what a Judge looks at beside the rules.
type Options struct {
	// SameBody is the number of URLs from which on one HTML body is taken for an
	// error page; 0 = never.
	SameBody int
	// KeepEmpty takes bodies of 0 bytes for sound.
	KeepEmpty bool
}

// Judge holds the rules of a fetch and what it learnt of hosts and bodies. Its
// methods may be called from several goroutines.
type Judge struct {
	rules  []checked
	opt    Options
	probes probes
	bodies *Bodies
}

// New checks the rules.
func New(rules []Rule, opt Options) (*Judge, error) {
	j := &Judge{opt: opt}
	if opt.SameBody < 0 || opt.SameBody == 1 {
		return nil, fmt.Errorf("soft: same body on %d URLs: want 2 or more, or 0 for never", opt.SameBody)
	}
	if opt.SameBody > 0 {
		j.bodies = NewBodies(opt.SameBody)
	}
	for _, r := range rules {
		c, err := r.check()
		if err != nil {
			return nil, err
		}
		j.rules = append(j.rules, c)
	}
	return j, nil
}

// Ask judges an answer: the first rule that finds fault decides; then an empty
// body, the host's probe, and other URLs with the same body.
//
// A body is known to stand on too many URLs only when one too many came: the
// URLs before were judged sound, and Over names their bodies, so that they can
// be quarantined too.
func (j *Judge) Ask(a Answer) Verdict {
	for _, c := range j.rules {
		if v, found := c.ask(&a); found {
			return v
		}
	}
	if a.Size == 0 && !j.opt.KeepEmpty {
		return Verdict{Empty, "empty body", "a body of 0 bytes"}
	}
	if v, found := j.probes.ask(&a); found {
		return v
	}
	if j.bodies == nil || !isHTML(a.ContentType) || a.Digest == "" {
		return Verdict{}
	}
	if n := j.bodies.Add(a.Digest, a.URL); n >= j.opt.SameBody {
		return Verdict{Error, "same body", fmt.Sprintf("the same body stands on %d URLs, from %d on it is taken for an error page", n, j.opt.SameBody)}
	}
	return Verdict{}
}

// Over returns the digests of bodies that stand on too many URLs, sorted.
func (j *Judge) Over() []string {
	if j.bodies == nil {
		return nil
	}
	return j.bodies.Over()
}

// Known tells of bodies that an earlier process found on too many URLs.
func (j *Judge) Known(digests []string) {
	if j.bodies != nil {
		j.bodies.known(digests)
	}
}

func isHTML(contentType string) bool {
	media := mediaType(contentType)
	return media == "text/html" || media == "application/xhtml+xml"
}

func mediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}
