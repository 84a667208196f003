package campaign

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/ebbhq/ebb/work/supervise"
)

// Finding is something wrong with a file, and where.
type Finding struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Rule   string `json:"rule"`
	Text   string `json:"text"`
}

func (f Finding) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", f.File, f.Line, f.Column, f.Rule, f.Text)
}

// LintErrors are all that is wrong with a file.
type LintErrors []Finding

func (l LintErrors) Error() string {
	lines := make([]string, len(l))
	for i := range l {
		lines[i] = l[i].String()
	}
	return strings.Join(lines, "\n")
}

// Parse reads a campaign's file: unknown keys, caps and unbounded crawls are
// LintErrors. Relative directories are relative to base, the file's directory.
func Parse(name string, src []byte, base string) (Campaign, error) {
	d := &document{name: name}
	err := guarded(func() (err error) {
		d.tree, err = parser.ParseBytes(src, 0)
		return err
	})
	if err != nil {
		return Campaign{}, d.unreadable(err)
	}
	d.capKeys()
	if len(d.found) > 0 {
		return Campaign{}, d.found
	}
	if n := len(d.tree.Docs); n > 1 {
		at := d.tree.Docs[1].Start
		f := Finding{File: name, Line: 1, Column: 1, Rule: "syntax", Text: fmt.Sprintf("%d documents; a file has one campaign: drop what follows ---", n)}
		if at != nil {
			f.Line, f.Column = at.Position.Line, at.Position.Column
		}
		return Campaign{}, LintErrors{f}
	}
	var c Campaign
	if err := guarded(func() error { return yaml.UnmarshalWithOptions(src, &c, yaml.Strict()) }); err != nil {
		return Campaign{}, d.unreadable(err)
	}
	c.file = name // an empty file leaves nothing of what was there before
	c.fill(base)
	d.check(&c)
	if len(d.found) > 0 {
		return Campaign{}, d.found
	}
	return c, nil
}

// document is a file on its way to a Campaign.
type document struct {
	name  string
	tree  *ast.File
	found LintErrors
}

func (d *document) unreadable(err error) LintErrors {
	f := Finding{File: d.name, Line: 1, Column: 1, Rule: "syntax", Text: err.Error()}
	var spot interface {
		error
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &spot) && spot.GetToken() != nil {
		p := spot.GetToken().Position
		f.Line, f.Column, f.Text = p.Line, p.Column, spot.GetMessage()
	}
	return LintErrors{f}
}

// guarded turns a panic of the YAML reader into an error: a file must never
// take the program down.
func guarded(read func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the YAML reader gave up: %v; is there a tag, such as !x, where none is needed?", v)
		}
	}()
	return read()
}

// wrong notes a finding at a path such as $.sources[0].command[2], or at the
// nearest place above it that the file has.
func (d *document) wrong(path, rule, format string, args ...any) {
	f := Finding{File: d.name, Line: 1, Column: 1, Rule: rule, Text: fmt.Sprintf(format, args...)}
	for path != "" && path != "$" {
		if p, err := yaml.PathString(path); err == nil {
			if node, err := p.FilterFile(d.tree); err == nil && node != nil && node.GetToken() != nil {
				f.Line, f.Column = node.GetToken().Position.Line, node.GetToken().Position.Column
				break
			}
		}
		path = path[:max(strings.LastIndexByte(path, '.'), strings.LastIndexByte(path, '['))]
	}
	d.found = append(d.found, f)
}

// fill puts defaults in.
func (c *Campaign) fill(base string) {
	if c.Name == "" {
		c.Name = strings.TrimSuffix(filepath.Base(c.file), filepath.Ext(c.file))
	}
	if c.Queue == "" {
		c.Queue = DefaultQueue
	}
	if c.Stagger == 0 {
		c.Stagger = supervise.Duration(defaultStagger)
	}
	if c.Recover.PerDay == 0 {
		c.Recover.PerDay = defaultPerDay
	}
	if c.Recover.Breaker == 0 {
		c.Recover.Breaker = defaultBreaker
	}
	if !filepath.IsAbs(c.Dir) {
		c.Dir = filepath.Join(base, c.Dir)
	}
	for i := range c.Sources {
		s := &c.Sources[i]
		for _, path := range []*string{&s.Dir, &s.Cwd} {
			if *path != "" && !filepath.IsAbs(*path) {
				*path = filepath.Join(base, *path)
			}
		}
	}
}

// sourceForm leaves room for the year behind it.
var sourceForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$`)

// queueForm is what a queue of runs may be called.
var queueForm = regexp.MustCompile(`^[[:graph:]]{1,255}$`)

// check looks at everything that the form of the file allows.
func (d *document) check(c *Campaign) {
	if c.Version != 1 {
		d.wrong("$.version", "version", "%d is not known; write version: 1", c.Version)
	}
	if !sourceForm.MatchString(c.Name) {
		d.wrong("$.name", "name", "%q: letters, digits, '-', '_' and '.', at most 80", c.Name)
	}
	if !queueForm.MatchString(c.Queue) {
		d.wrong("$.queue", "queue", "%.80q: printable characters without spaces, at most 255", c.Queue)
	}
	if c.stagger() > maxStagger {
		d.wrong("$.stagger", "stagger", "%s: at most %s; it only makes the order total", c.stagger(), maxStagger)
	}
	if c.Recover.PerDay < 0 || c.Recover.Breaker < 0 {
		d.wrong("$.recover", "recover", "per_day %d, breaker %d: neither may be negative", c.Recover.PerDay, c.Recover.Breaker)
	}
	if len(c.Sources) == 0 {
		d.wrong("$.sources", "sources", "nothing to crawl; such as [{name: hc, seeds: [https://…]}]")
	}
	d.regexps("$.scope", c.Scope)
	if len(c.Command) > 0 {
		d.capFlags("$.command", c.Command)
	}
	seen := map[string]bool{}
	for i := range c.Sources {
		s, at := &c.Sources[i], fmt.Sprintf("$.sources[%d]", i)
		switch {
		case !sourceForm.MatchString(s.Name):
			d.wrong(at+".name", "name", "%q: letters, digits, '-', '_' and '.', at most 80", s.Name)
		case seen[s.Name]:
			d.wrong(at+".name", "name", "%q is there twice", s.Name)
		default:
			d.source(c, s, at)
		}
		seen[s.Name] = true
	}
}

// source checks one source by making its run, for a year like any other.
func (d *document) source(c *Campaign, s *Source, at string) {
	d.regexps(at+".scope", s.Scope)
	if len(s.Command) > 0 {
		d.capFlags(at+".command", s.Command)
	}
	if len(s.Command) == 0 && len(c.Command) == 0 {
		d.wrong(at, "command", "nothing to run; a command here, or one for all sources")
		return
	}
	for i, seed := range s.Seeds {
		if seed == "" || strings.HasPrefix(seed, "-") || strings.ContainsAny(seed, "\x00\n ") {
			d.wrong(fmt.Sprintf("%s.seeds[%d]", at, i), "seed", "%q: a URL is needed, such as https://example.org/; flags belong to the command", seed)
		}
	}
	spec, err := c.runSpec(s, 2000)
	if err != nil {
		d.wrong(at, "run", "%v", err)
		return
	}
	if strings.ContainsRune(spec.Command.String(), 0) {
		d.wrong(at, "command", "%q: a zero byte; no program can be given one", spec.Command.String())
	}
	if len(d.found) == 0 && crosses(spec.Command) && !c.bounded(s) {
		d.wrong(at, "unbounded", "the crawl crosses hosts and no scope rule bounds it; write scope: {include: [REGEXP]}")
	}
}

func (d *document) regexps(at string, s Scope) {
	for key, list := range map[string][]string{"include": s.Include, "exclude": s.Exclude} {
		for i, text := range list {
			if _, err := regexp.Compile(text); err != nil || text == "" {
				d.wrong(fmt.Sprintf("%s.%s[%d]", at, key, i), "scope", "%q: a regular expression over URLs is needed: %v", text, err)
			}
		}
	}
}

func (c *Campaign) bounded(s *Source) bool { return len(c.Scope.Include)+len(s.Scope.Include) > 0 }

// RunOf names the run of a source in a year.
func RunOf(source string, year int) string { return fmt.Sprintf("%s-%d", source, year) }

// Source finds a source by name.
func (c *Campaign) Source(name string) (*Source, bool) {
	for i := range c.Sources {
		if c.Sources[i].Name == name {
			return &c.Sources[i], true
		}
	}
	return nil, false
}

// RunSpec makes the run of a source in a year, sealed.
func (c *Campaign) RunSpec(source string, year int) (supervise.Spec, error) {
	s, ok := c.Source(source)
	if !ok {
		return supervise.Spec{}, fmt.Errorf("campaign %s: no source %q", c.Name, source)
	}
	return c.runSpec(s, year)
}

func (c *Campaign) runSpec(s *Source, year int) (supervise.Spec, error) {
	spec := s.Spec
	inherit(reflect.ValueOf(&spec).Elem(), reflect.ValueOf(&c.Spec).Elem())
	spec.Version, spec.Name = 1, RunOf(s.Name, year)
	if s.Dir == "" {
		spec.Dir = filepath.Join(c.Dir, spec.Name)
	}
	if s.Cwd == "" && c.Cwd == "" {
		spec.Cwd = ""
	}
	if spec.Success.Against == "" {
		spec.Success.Against = RunOf(s.Name, year-1)
	}
	if err := c.compose(&spec, s, year); err != nil {
		return spec, err
	}
	return supervise.Seal(spec)
}

// inherit fills what is not set from the defaults, field by field.
func inherit(to, from reflect.Value) {
	for i := range to.NumField() {
		field := to.Field(i)
		if to.Type().Field(i).Anonymous {
			inherit(field, from.Field(i))
		} else if field.IsZero() {
			field.Set(from.Field(i))
		}
	}
}

func (c *Campaign) stagger() time.Duration { return time.Duration(c.Stagger) }
