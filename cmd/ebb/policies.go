package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

// loadFile reads a policy file; "-" is standard input.
func (a *app) loadFile(path string) (*file.File, error) {
	var f *file.File
	var err error
	if path == "-" {
		src, readErr := io.ReadAll(io.LimitReader(a.stdin, file.MaxSize+1))
		if readErr != nil {
			return nil, usage(fmt.Errorf("policy: standard input: %w", readErr), "")
		}
		f, err = file.Parse("-", src)
	} else {
		f, err = file.Load(path)
	}
	if err != nil {
		return nil, usage(fmt.Errorf("policy: %w", err), tryFor(err, path))
	}
	return f, nil
}

func tryFor(err error, path string) string {
	switch {
	case errors.Is(err, fs.ErrNotExist) && policy.IsPreset(path):
		return "ebb policy show " + path + " (a preset, not a file)"
	case errors.Is(err, fs.ErrNotExist):
		return "ebb policy list for the presets, docs/policy-reference.md for how a file is written"
	case errors.As(err, new(*fs.PathError)):
		return "a policy file that this user can read"
	}
	return "ebb policy schema, or docs/policy-reference.md"
}

// policyFiles returns the files named, or the one that the configuration names.
func (a *app) policyFiles(args []string) ([]string, error) {
	if len(args) > 0 {
		return args, nil
	}
	s, err := a.settings()
	if err != nil {
		return nil, err
	}
	if s.Policies == "" {
		return nil, usage(errors.New("policy: no file named, and no ebb.yaml here names one"), "ebb policy … FILE, or an ebb.yaml with `policies: FILE`")
	}
	return []string{s.Policies}, nil
}

// entry finds one policy: FILE#NAME, FILE with a single policy, or a NAME of
// the configured file or of a preset.
func (a *app) entry(ref string) (file.Entry, error) {
	path, name, hasName := strings.Cut(ref, "#")
	if !hasName && !a.isFile(ref) {
		return a.named(ref)
	}
	f, err := a.loadFile(path)
	if err != nil {
		return file.Entry{}, err
	}
	if !hasName {
		if len(f.Entries) == 1 {
			return f.Entries[0], nil
		}
		return file.Entry{}, usage(fmt.Errorf("policy: %s holds %d policies: which one?", path, len(f.Entries)), path+"#"+f.Entries[0].Policy.Name)
	}
	e, ok := f.Entry(name)
	if !ok {
		return file.Entry{}, &failed{code: exitNo, err: fmt.Errorf("policy: %s has no policy %q; it has: %s", path, name, strings.Join(names(f), ", ")), try: "ebb policy list"}
	}
	return e, nil
}

// named finds a policy by name in the configured file, then in the presets.
func (a *app) named(name string) (file.Entry, error) {
	s, err := a.settings()
	if err != nil {
		return file.Entry{}, err
	}
	if s.Policies != "" {
		f, err := a.loadFile(s.Policies)
		if err != nil {
			return file.Entry{}, err
		}
		if e, ok := f.Entry(name); ok {
			return e, nil
		}
	}
	e, err := file.Preset(name)
	if err != nil {
		return e, &failed{code: exitNo, err: err, try: "ebb policy list, or FILE#NAME for a policy of a file"}
	}
	return e, nil
}

// effective applies the environment, as an engine does at its start.
func (a *app) effective(e file.Entry) (file.Entry, error) {
	e, err := file.ApplyEnv(e, a.lookup)
	if err != nil {
		return e, usage(fmt.Errorf("policy: %w", err), "unset the variable, or the flag of serve that stands for it, or give it a value that fits")
	}
	return e, nil
}

func looksLikeFile(ref string) bool { return ref == "-" || strings.ContainsAny(ref, "./\\") }

// isFile reports whether a reference without # is a file: by its looks, or
// because no preset has that name and a file has.
func (a *app) isFile(ref string) bool {
	if looksLikeFile(ref) || policy.IsPreset(ref) {
		return looksLikeFile(ref)
	}
	info, err := os.Stat(ref)
	return err == nil && info.Mode().IsRegular()
}

func names(f *file.File) []string {
	var list []string
	for _, e := range f.Entries {
		list = append(list, e.Policy.Name)
	}
	return list
}

// today is the date that waivers are judged by.
func (a *app) today() time.Time { return a.now().UTC() }

// lintEntry lints a policy and fills in where each finding stands.
func (a *app) lintEntry(e *file.Entry) []policy.Finding {
	findings := policy.Lint(e.Policy, a.today())
	for i := range findings {
		place(e, &findings[i])
	}
	return findings
}

func place(e *file.Entry, f *policy.Finding) {
	if at := e.Pos(f.Field); !at.IsZero() {
		f.Position = &policy.Position{File: at.File, Line: at.Line, Column: at.Column}
	}
}
