package scope

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Kind says what a rule compares.
type Kind string

const (
	KindHost   Kind = "host"   // the host: example.org, .example.org with all below, *.example.org those below alone; with :port if one is meant
	KindPath   Kind = "path"   // the beginning of the path, up to a whole segment: /docs takes /docs and /docs/x, not /docsy
	KindPrefix Kind = "prefix" // the beginning of the URL
	KindGlob   Kind = "glob"   // the whole URL: * within a segment, ** over all
	KindRegexp Kind = "regexp" // anything in the URL, as Go's regexp has it
)

// Rule lets URLs in, or keeps them out.
type Rule struct {
	Exclude bool
	Kind    Kind
	Text    string
}

func (r Rule) String() string {
	word := "include "
	if r.Exclude {
		word = "exclude "
	}
	return word + string(r.Kind) + ":" + r.Text
}

// ParseRule reads KIND:TEXT. Without a kind, /… is a path, http(s)://… a
// prefix, or a glob if it holds a star, and anything else a host.
func ParseRule(text string, exclude bool) (Rule, error) {
	r := Rule{Exclude: exclude}
	kind, rest, found := strings.Cut(text, ":")
	switch Kind(kind) {
	case KindHost, KindPath, KindPrefix, KindGlob, KindRegexp:
		if found {
			r.Kind, r.Text = Kind(kind), rest
			_, err := r.compile()
			return r, err
		}
	}
	r.Text = text
	switch isURL := strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://"); {
	case strings.HasPrefix(text, "/"):
		r.Kind = KindPath
	case isURL && strings.Contains(text, "*"):
		r.Kind = KindGlob
	case isURL:
		r.Kind = KindPrefix
	default:
		r.Kind = KindHost
	}
	_, err := r.compile()
	return r, err
}

// matcher answers for URLs in normal form.
type matcher func(url string) bool

var errEmptyRule = errors.New("empty: want KIND:TEXT, such as host:example.org, path:/docs, glob:https://*/docs/**")

func (r Rule) compile() (matcher, error) {
	if r.Text == "" {
		return nil, fmt.Errorf("scope: rule %s: %w", r, errEmptyRule)
	}
	m, err := r.matcher()
	if err != nil {
		return nil, fmt.Errorf("scope: rule %s: %w", r, err)
	}
	return m, nil
}

func (r Rule) matcher() (matcher, error) {
	switch r.Kind {
	case KindHost:
		return hostMatcher(r.Text)
	case KindPath:
		if !strings.HasPrefix(r.Text, "/") {
			return nil, errors.New("want a path that begins with /")
		}
		prefix := removeDots(escape(r.Text, pathSafe))
		return func(url string) bool {
			rest, found := strings.CutPrefix(pathOf(url), prefix)
			return found && (rest == "" || rest[0] == '/' || strings.HasSuffix(prefix, "/"))
		}, nil
	case KindPrefix:
		if _, err := Normalize(r.Text); err != nil {
			return nil, err
		}
		prefix := normalPrefix(r.Text)
		return func(url string) bool { return strings.HasPrefix(url, prefix) }, nil
	case KindGlob:
		re, err := regexp.Compile(globPattern(r.Text))
		if err != nil {
			return nil, err
		}
		return re.MatchString, nil
	case KindRegexp:
		re, err := regexp.Compile(r.Text)
		if err != nil {
			return nil, err
		}
		return re.MatchString, nil
	}
	return nil, fmt.Errorf("kind %q: want host, path, prefix, glob or regexp", r.Kind)
}

// normalPrefix normalises the beginning of a URL. A path's end is kept as it
// is written: dots there may be the beginning of a name.
func normalPrefix(text string) string {
	normal, _ := Normalize(text)
	if strings.HasSuffix(normal, "/") && strings.HasSuffix(text, "/.") {
		return normal + "."
	}
	return normal
}

func hostMatcher(text string) (matcher, error) {
	name, below, self := text, false, true
	if rest, found := strings.CutPrefix(text, "*."); found {
		name, below, self = rest, true, false
	} else if rest, found := strings.CutPrefix(text, "."); found {
		name, below = rest, true
	}
	normal, err := Normalize("http://" + name + "/")
	if err != nil {
		return nil, err
	}
	if pathOf(normal) != "/" {
		return nil, errors.New("want a host's name without a path")
	}
	want := Host(normal)
	withPort := strings.LastIndexByte(name, ':') > strings.LastIndexByte(name, ']')
	return func(url string) bool {
		host := Host(url)
		if i := strings.LastIndexByte(host, ':'); !withPort && i > strings.LastIndexByte(host, ']') {
			host = host[:i]
		}
		return self && host == want || below && strings.HasSuffix(host, "."+want)
	}, nil
}

// pathOf is the path of a URL in normal form, without its query.
func pathOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest, "?")
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return "/"
}

func globPattern(glob string) string {
	var b strings.Builder
	b.WriteString("^")
	for i, part := range strings.Split(glob, "**") {
		if i > 0 {
			b.WriteString(".*")
		}
		for j, piece := range strings.Split(part, "*") {
			if j > 0 {
				b.WriteString("[^/]*")
			}
			b.WriteString(regexp.QuoteMeta(piece))
		}
	}
	b.WriteString("$")
	return b.String()
}
