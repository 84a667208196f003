package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
)

// File is a pipeline file: what `ebb document submit -f` reads. Paths in it are
// relative to it.
type File struct {
	Version  int    `yaml:"version"` // of the format: 1
	Name     string `yaml:"name"`
	Model    string `yaml:"model"`
	System   string `yaml:"system"`
	Prompt   string `yaml:"prompt"`      // the template itself
	PromptAt string `yaml:"prompt_file"` // or the file that holds it
	// Schema is JSON Schema written as YAML; SchemaAt the file that holds it
	// as JSON.
	Schema      map[string]any `yaml:"schema"`
	SchemaAt    string         `yaml:"schema_file"`
	Input       []string       `yaml:"input"`  // URLs, paths, patterns
	Output      string         `yaml:"output"` // URL or directory
	Policy      string         `yaml:"policy"`
	Limits      Limits         `yaml:"limits"`
	Temperature *float64       `yaml:"temperature"`
}

// ReadFile reads a pipeline file. Errors name the line and column.
func ReadFile(path string) (Submission, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return Submission{}, fmt.Errorf("pipeline: %w", err)
	}
	var f File
	if !utf8.Valid(src) || bytes.IndexByte(src, 0) >= 0 {
		return Submission{}, invalidf("pipeline: %s: this is no text in UTF-8", path)
	}
	if err := yaml.UnmarshalWithOptions(src, &f, yaml.Strict()); err != nil {
		return Submission{}, invalidf("pipeline: %s: %s", path, strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	s, err := f.submission(filepath.Dir(path))
	if err != nil {
		return Submission{}, fmt.Errorf("pipeline: %s: %w", path, err)
	}
	return s, nil
}

func (f *File) submission(dir string) (Submission, error) {
	if f.Version != 1 {
		return Submission{}, invalidf("version %d: write `version: 1`", f.Version)
	}
	s := Submission{Pipeline: Pipeline{
		Name: f.Name, Model: f.Model, System: f.System, Prompt: f.Prompt, Policy: f.Policy, Limits: f.Limits, Temperature: f.Temperature,
	}}
	if (f.Prompt == "") == (f.PromptAt == "") {
		return s, invalidf("one of prompt and prompt_file is wanted")
	}
	if (f.Schema == nil) == (f.SchemaAt == "") {
		return s, invalidf("one of schema and schema_file is wanted")
	}
	if f.PromptAt != "" {
		b, err := os.ReadFile(within(dir, f.PromptAt))
		if err != nil {
			return s, err
		}
		s.Prompt = string(b)
	}
	var err error
	if f.SchemaAt != "" {
		s.Schema, err = os.ReadFile(within(dir, f.SchemaAt))
	} else {
		s.Schema, err = json.Marshal(f.Schema)
	}
	if err != nil {
		return s, err
	}
	for _, in := range f.Input {
		at, err := LocalURL(dir, in)
		if err != nil {
			return s, err
		}
		s.Inputs = append(s.Inputs, at)
	}
	if f.Output != "" {
		if s.Output, err = LocalURL(dir, f.Output); err != nil {
			return s, err
		}
	}
	err = Check(&s)
	return s, err
}

func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// LocalURL returns a URL as it is and a path, relative to dir, as a file URL.
func LocalURL(dir, at string) (string, error) {
	if strings.Contains(at, "://") {
		return at, nil
	}
	full, err := filepath.Abs(within(dir, at))
	if err != nil {
		return "", err
	}
	full = filepath.ToSlash(full)
	if !strings.HasPrefix(full, "/") {
		full = "/" + full // a drive of Windows
	}
	return "file://" + strings.ReplaceAll(full, "%", "%25"), nil
}
