package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/ebbhq/ebb/policy"
)

// Spec says what a run is: the command and what finishing it means. It is the
// file of `ebb supervise -f`; the zero value of every part but Command is a
// default.
type Spec struct {
	Version int    `json:"version,omitempty" yaml:"version"` // of the format: 1
	Name    string `json:"name,omitempty" yaml:"name"`       // letters, digits, "-", "_" and "."; unique in a store
	// Policy by which restarts are judged. Default annual-crawl.
	Policy  string `json:"policy,omitempty" yaml:"policy"`
	Options `yaml:",inline"`
	// Crawler names the preset of progress, exit rules and output flags, such
	// as wget or wget@1. Default: by the command's name, else generic.
	Crawler string  `json:"crawler,omitempty" yaml:"crawler"`
	Command Command `json:"command" yaml:"command"`
	// Container is where the command runs; nil = as a process of this machine.
	Container *Container `json:"container,omitempty" yaml:"container"`
	// Dir is the run's own directory: attempts, logs, the state file.
	Dir string `json:"dir,omitempty" yaml:"dir"`
	// Cwd is where the command works. Default Dir.
	Cwd string            `json:"cwd,omitempty" yaml:"cwd"`
	Env map[string]string `json:"env,omitempty" yaml:"env"`

	Workers  Workers  `json:"workers,omitzero" yaml:"workers"`
	Progress Progress `json:"progress,omitzero" yaml:"progress"`
	// Errors are patterns that count as timeout, http or other.
	Errors []Pattern `json:"errors,omitempty" yaml:"errors"`
	// Exit rules come before the preset's; the first match wins.
	Exit    []ExitRule `json:"exit,omitempty" yaml:"exit"`
	Success Success    `json:"success,omitzero" yaml:"success"`
	Resume  Resume     `json:"resume,omitzero" yaml:"resume"`
	Ready   Ready      `json:"ready,omitzero" yaml:"ready"`
	Stop    Stop       `json:"stop,omitzero" yaml:"stop"`
	// Textfile is the directory of node_exporter's text files; empty = none.
	Textfile string `json:"textfile,omitempty" yaml:"textfile"`
}

// Workers is how parallel the command works: the template variable {workers}.
type Workers struct {
	Initial int `json:"initial,omitempty" yaml:"initial"` // default 1
	Min     int `json:"min,omitempty" yaml:"min"`         // default 1
}

// Progress is the contract by which the run is known to get on.
type Progress struct {
	// Counter is the one whose rise is progress. Default: the preset's.
	Counter string   `json:"counter,omitempty" yaml:"counter"`
	Sources []Source `json:"sources,omitempty" yaml:"sources"`
	// Counts says what the counter of a new attempt starts from: total (the
	// whole work again, the default) or new (only what was not done before).
	Counts string `json:"counts,omitempty" yaml:"counts"`
	// NoSignal is the longest time without any output or growth; 0 = for ever.
	NoSignal Duration `json:"no_signal,omitempty" yaml:"no_signal"`
	// NoProgress is the longest time without a rise of the counter.
	NoProgress Duration `json:"no_progress,omitempty" yaml:"no_progress"`
	// Slow is the least rate.
	Slow Slow `json:"slow,omitzero" yaml:"slow"`
}

// Slow is fewer than Units in Per.
type Slow struct {
	Units int64    `json:"units,omitempty" yaml:"units"`
	Per   Duration `json:"per,omitempty" yaml:"per"`
}

// Source is where a counter comes from.
//
//	lines   every line of From that matches Pattern adds 1, or sets the
//	        counter to the group named n
//	json    the field of JSON lines, such as details.crawled, sets it
//	growth  bytes of the files that Path matches
//	warc    WARC records in the files that Path matches
//	probe   Command prints a number, every Every
type Source struct {
	Kind    string   `json:"kind" yaml:"kind"`
	Count   string   `json:"count" yaml:"count"`
	From    string   `json:"from,omitempty" yaml:"from"` // stdout, stderr or a file's path; empty = both streams
	Pattern string   `json:"pattern,omitempty" yaml:"pattern"`
	Field   string   `json:"field,omitempty" yaml:"field"`
	Path    string   `json:"path,omitempty" yaml:"path"`
	Command []string `json:"command,omitempty" yaml:"command"`
	Every   Duration `json:"every,omitempty" yaml:"every"`
}

// Pattern counts lines.
type Pattern struct {
	Pattern string `json:"pattern" yaml:"pattern"`
	Count   string `json:"count" yaml:"count"`
	From    string `json:"from,omitempty" yaml:"from"`
}

// Success is what must be proven before a run has succeeded.
type Success struct {
	Artifacts []Artifact `json:"artifacts,omitempty" yaml:"artifacts"`
	Units     int64      `json:"units,omitempty" yaml:"units"` // least value of the counter
	// Coverage is the least share of the units of the last run that succeeded.
	Coverage float64 `json:"coverage,omitempty" yaml:"coverage"`
	// Against names the run to compare with. Default: this one's last success.
	Against string `json:"against,omitempty" yaml:"against"`
}

// Artifact is what the last attempt must have left.
type Artifact struct {
	Glob  string `json:"glob" yaml:"glob"`
	Count int    `json:"count,omitempty" yaml:"count"` // default 1
	Bytes int64  `json:"bytes,omitempty" yaml:"bytes"` // all together
	WARC  bool   `json:"warc,omitempty" yaml:"warc"`   // each must be whole
}

// Resume says how a restart goes on where the last attempt ended.
type Resume struct {
	// File is a glob; its newest match is {resume}.
	File string `json:"file,omitempty" yaml:"file"`
	// Poison is after how many lives without progress from the same file it
	// is set aside. Default 2.
	Poison int `json:"poison,omitempty" yaml:"poison"`
}

// Stop is how the command is told to end: INT, Grace, TERM, Grace, KILL.
type Stop struct {
	Grace Duration `json:"grace,omitempty" yaml:"grace"` // default 30s, machine time
}

// Duration is a time.Duration that files write as 2m30s.
type Duration time.Duration

// UnmarshalText reads it.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v < 0 {
		return fmt.Errorf("%q is no duration; such as 30s, 10m, 2h", text)
	}
	*d = Duration(v)
	return nil
}

// MarshalText writes it.
func (d Duration) MarshalText() ([]byte, error) {
	return []byte(policy.FormatDuration(time.Duration(d))), nil
}

// Command is an argument vector; an argument in a list of its own is a group,
// left out whole when one of its variables is empty.
type Command []Group

// Group is one argument, or several that belong together.
type Group []string

// Words makes a command of plain arguments.
func Words(argv ...string) Command {
	c := make(Command, len(argv))
	for i, a := range argv {
		c[i] = Group{a}
	}
	return c
}

// MarshalJSON writes a group of one as a string.
func (g Group) MarshalJSON() ([]byte, error) {
	if len(g) == 1 {
		return json.Marshal(g[0])
	}
	return json.Marshal([]string(g))
}

// UnmarshalJSON reads a string or a list of strings.
func (g *Group) UnmarshalJSON(text []byte) error {
	return g.read(func(v any) error { return json.Unmarshal(text, v) })
}

// UnmarshalYAML reads a string or a list of strings.
func (g *Group) UnmarshalYAML(decode func(any) error) error { return g.read(decode) }

func (g *Group) read(decode func(any) error) error {
	var one string
	if decode(&one) == nil {
		*g = Group{one}
		return nil
	}
	var many []string
	if err := decode(&many); err != nil || len(many) == 0 {
		return errors.New("an argument is a text, or a list of texts that belong together")
	}
	*g = many
	return nil
}

func (c Command) String() string {
	var words []string
	for _, g := range c {
		words = append(words, g...)
	}
	return strings.Join(words, " ")
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// fill puts defaults in, the preset's too.
func (s *Spec) fill() error {
	if s.Policy == "" {
		s.Policy = "annual-crawl"
	}
	if s.Crawler == "" {
		s.Crawler = detect(s.Command)
	}
	p, err := presetOf(s.Crawler)
	if err != nil {
		return err
	}
	s.Crawler = p.id()
	if s.Workers.Initial == 0 {
		s.Workers.Initial = max(1, s.Workers.Min, s.Command.workersOf(p.workers))
	}
	if s.Workers.Min == 0 {
		s.Workers.Min = 1
	}
	if s.Progress.Counter == "" && len(s.Progress.Sources) > 0 {
		s.Progress.Counter = s.Progress.Sources[0].Count
	}
	if s.Progress.Counts == "" {
		s.Progress.Counts = "total"
	}
	if s.Resume.Poison == 0 {
		s.Resume.Poison = 2
	}
	if s.Stop.Grace == 0 {
		s.Stop.Grace = Duration(30 * time.Second)
	}
	if s.Cwd == "" {
		s.Cwd = s.Dir
	}
	return nil
}

// sources are those of the spec, or the preset's where it has none.
func (s *Spec) sources() (counter string, list []Source) {
	if len(s.Progress.Sources) > 0 {
		return s.Progress.Counter, s.Progress.Sources
	}
	p, _ := presetOf(s.Crawler) // checked by fill
	if s.Progress.Counter != "" {
		return s.Progress.Counter, p.sources
	}
	return p.counter, p.sources
}

// errorPatterns are the spec's, then the preset's.
func (s *Spec) errorPatterns() []Pattern {
	p, _ := presetOf(s.Crawler)
	return append(append([]Pattern(nil), s.Errors...), p.errors...)
}

// exitRules are the spec's, the preset's, then those of every command.
func (s *Spec) exitRules() []ExitRule {
	p, _ := presetOf(s.Crawler)
	rules := append([]ExitRule(nil), s.Exit...)
	rules = append(rules, p.exit...)
	return append(rules, generic.exit...)
}
