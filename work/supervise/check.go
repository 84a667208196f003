package supervise

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Parse reads a spec file. Unknown keys are errors, with line and column.
// Relative paths are relative to base, the file's directory.
func Parse(name string, src []byte, base string) (Spec, error) {
	var s Spec
	if err := yaml.UnmarshalWithOptions(src, &s, yaml.Strict()); err != nil {
		return Spec{}, fmt.Errorf("%s: %w", name, err)
	}
	if s.Version != 1 {
		return Spec{}, fmt.Errorf("%s: version: %d is not known; write version: 1", name, s.Version)
	}
	if s.Name == "" {
		s.Name = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	}
	for _, path := range []*string{&s.Dir, &s.Cwd} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(base, *path)
		}
	}
	if s.Dir == "" {
		s.Dir = base
	}
	s, err := Seal(s)
	if err != nil {
		return Spec{}, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// Seal fills defaults in and checks a spec. Sealing twice changes nothing.
func Seal(s Spec) (Spec, error) {
	var errs []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	must(nameForm.MatchString(s.Name), "name: %q: letters, digits, '-', '_' and '.', at most 100", s.Name)
	must(len(s.Command) > 0 && len(s.Command[0]) > 0 && s.Command[0][0] != "", "command: nothing to run; such as [wget, --recursive, URL]")
	must(filepath.IsAbs(s.Dir), "dir: %q: the run needs an absolute directory of its own", s.Dir)
	if len(errs) > 0 {
		return s, errors.Join(errs...)
	}
	if err := s.fill(); err != nil {
		return s, err
	}
	must(s.Workers.Min >= 1 && s.Workers.Initial >= s.Workers.Min, "workers: initial %d, min %d: 1 ≤ min ≤ initial", s.Workers.Initial, s.Workers.Min)
	must(slices.Contains([]string{"total", "new"}, s.Progress.Counts), "progress.counts: %q: total or new", s.Progress.Counts)
	must((s.Progress.Slow.Units > 0) == (s.Progress.Slow.Per > 0), "progress.slow: units and per go together")
	must(s.Success.Coverage >= 0 && s.Success.Coverage <= 1, "success.coverage: %g is not a share; 0 to 1", s.Success.Coverage)
	must(s.Success.Units >= 0, "success.units: %d is negative", s.Success.Units)
	errs = append(errs, s.Options.check()...)
	errs = append(errs, s.checkSources()...)
	errs = append(errs, s.checkRules()...)
	errs = append(errs, s.Ready.check()...)
	errs = append(errs, s.Container.check()...)
	for i, g := range s.Command {
		for _, word := range g {
			if v := unknownVariable(word); v != "" {
				errs = append(errs, fmt.Errorf("command[%d]: {%s} is no variable; one of: %s", i, v, strings.Join(variables, ", ")))
			}
		}
	}
	return s, errors.Join(errs...)
}

func (s *Spec) checkSources() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	counter, sources := s.sources()
	p, _ := presetOf(s.Crawler)
	named := (p.track != nil || p.files != nil) && counter == p.counter
	for i, o := range sources {
		at := fmt.Sprintf("progress.sources[%d]", i)
		named = named || o.Count == counter
		if o.Count == "" {
			bad("%s.count: name the counter", at)
		}
		switch o.Kind {
		case "lines":
			if err := patternError(o.Pattern); err != nil {
				bad("%s.pattern: %q: a regular expression is needed: %v", at, o.Pattern, err)
			}
		case "json":
			if o.Field == "" {
				bad("%s.field: name it, such as details.crawled", at)
			}
		case "growth", "warc":
			if _, err := filepath.Match(o.Path, ""); err != nil || o.Path == "" {
				bad("%s.path: %q: a glob is needed", at, o.Path)
			}
		case "probe":
			if len(o.Command) == 0 {
				bad("%s.command: a command that prints a number is needed", at)
			}
		default:
			bad("%s.kind: %q is not known; one of: lines, json, growth, warc, probe", at, o.Kind)
		}
	}
	if !named {
		bad("progress.counter: %q: no source counts it", counter)
	}
	return errs
}

func patternError(text string) error {
	if text == "" {
		return errors.New("it is empty")
	}
	_, err := regexp.Compile(text)
	return err
}

func (s *Spec) checkRules() []error {
	var errs []error
	for i, p := range s.Errors {
		if err := patternError(p.Pattern); err != nil {
			errs = append(errs, fmt.Errorf("errors[%d].pattern: %q: a regular expression is needed: %w", i, p.Pattern, err))
		}
		if p.Count == "" {
			errs = append(errs, fmt.Errorf("errors[%d].count: timeout, http, other, or a name that exit rules ask for", i))
		}
	}
	for i, r := range s.Exit {
		if err := r.check(); err != nil {
			errs = append(errs, fmt.Errorf("exit[%d]: %w", i, err))
		}
	}
	for i, a := range s.Success.Artifacts {
		if _, err := filepath.Match(a.Glob, ""); err != nil || a.Glob == "" {
			errs = append(errs, fmt.Errorf("success.artifacts[%d].glob: %q: a glob is needed", i, a.Glob))
		}
	}
	return errs
}
