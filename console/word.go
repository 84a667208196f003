package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy/plot"
)

// parse reads every page with the layout around it.
func (s *server) parse() error {
	base, err := template.New("layout.html").Funcs(s.words()).ParseFS(files, "page/layout.html", "page/part.html")
	if err != nil {
		return err
	}
	names, err := fs.Glob(files, "page/*.html")
	if err != nil {
		return err
	}
	s.pages = map[string]*template.Template{}
	for _, name := range names {
		one, err := base.Clone()
		if err == nil {
			one, err = one.ParseFS(files, name)
		}
		if err != nil {
			return err
		}
		s.pages[path.Base(name)] = one
	}
	return nil
}

// words are the functions of the pages.
func (s *server) words() template.FuncMap {
	return template.FuncMap{
		"ago":     s.ago,
		"stamp":   stamp,
		"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"count":   count,
		"seconds": seconds,
		"percent": percent,
		"rate":    rate,
		"search":  func(f engine.Filter) template.URL { return template.URL(query(f).Encode()) }, //nolint:gosec // encoded
		"says":    func(text, word string) bool { return strings.HasPrefix(text, word+":") },
		"states":  func() []string { return states },
		"state":   func(word string) job.State { return job.State(word) },
		"bare":    func(text, word string) string { return strings.TrimPrefix(text, word+": ") },
		"clock":   func(t time.Time) string { return t.UTC().Format("15:04") },
		"short":   plot.Short,
		"lag":     coarse,
		"told":    sentence,
		"text":    text,
		"entries": s.entries,
		"pick":    func(list, value any) map[string]any { return map[string]any{"list": list, "value": value} },
	}
}

// ago tells an instant from now: "3m ago", "in 20s".
func (s *server) ago(t time.Time) string {
	d := s.Now().Sub(t).Round(time.Second)
	switch {
	case d >= time.Second:
		return about(d) + " ago"
	case d <= -time.Second:
		return "in " + about(-d)
	}
	return "now"
}

// about writes a duration in one unit: who wants more points at it.
func about(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return strconv.Itoa(int(d/day)) + " d"
	case d >= 2*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	case d >= 2*time.Minute:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	}
	return strconv.Itoa(int(d/time.Second)) + " s"
}

// coarse writes a duration in at most two units.
func coarse(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return strconv.Itoa(int(d/day)) + " d"
	case d >= time.Hour:
		return strings.TrimSuffix(strconv.Itoa(int(d/time.Hour))+" h "+strconv.Itoa(int(d%time.Hour/time.Minute))+" min", " 0 min")
	case d >= time.Minute:
		return strings.TrimSuffix(strconv.Itoa(int(d/time.Minute))+" min "+strconv.Itoa(int(d%time.Minute/time.Second))+" s", " 0 s")
	}
	return strconv.Itoa(int(d/time.Second)) + " s"
}

func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if 0 < d && d < time.Second {
		return strconv.FormatInt(max(d.Milliseconds(), 1), 10) + " ms"
	}
	return coarse(d)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// count writes a whole number in groups of three, with thin spaces.
func count(n any) string {
	digits := fmt.Sprint(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteRune('\u2009')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// maxNested is how deep JSON is that is set out in lines: what is deeper would
// be mostly margin, and a small bomb of brackets a page of megabytes.
const maxNested = 12

// text shows bytes; JSON that was written in one line is set out in several.
func text(b []byte) string {
	nested, deepest := 0, 0
	for _, c := range b {
		switch c {
		case '{', '[':
			nested++
			deepest = max(deepest, nested)
		case '}', ']':
			nested--
		case '\n':
			return string(b)
		}
	}
	var out bytes.Buffer
	if deepest > maxNested || json.Indent(&out, b, "", "  ") != nil {
		return string(b)
	}
	return out.String()
}

// sentence begins with a capital and ends with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	if text[0] >= 'a' && text[0] <= 'z' {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	if strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// entry is one page of the navigation.
type entry struct{ Name, Path, Title string }

// entries are the pages of this server.
func (s *server) entries() []entry {
	list := slices.Clone(entries)
	if s.Webhooks != nil {
		list = slices.Insert(list, len(list)-3, webhookEntry)
	}
	if s.Fetches != nil {
		list = slices.Insert(list, len(list)-3, fetchEntry)
	}
	if s.Documents != nil {
		list = slices.Insert(list, len(list)-3, documentEntry)
	}
	if s.Runs != nil {
		list = slices.Insert(list, len(list)-3, runEntry)
	}
	if s.Campaigns != nil {
		list = slices.Insert(list, len(list)-3, campaignEntry)
	}
	return list
}

var entries = []entry{
	{"overview", "/", "Overview"},
	{"jobs", "/jobs", "Jobs"},
	{"dead", "/dead", "Dead letters"},
	{"queues", "/queues", "Queues"},
	{"targets", "/targets", "Targets"},
	{"policies", "/policies", "Policies"},
	{"simulate", "/simulate", "Simulate"},
	{"audit", "/audit", "Audit"},
}
