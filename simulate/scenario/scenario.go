// Package scenario holds the built-in scenarios: the seeds' incidents, and two
// that every retry policy should be tried in. Each is a scenario file that
// people can print and start from.
package scenario

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/ebbhq/ebb/simulate/file"
)

//go:embed *.yaml
var files embed.FS

// names are in the order they are shown.
var names = []string{"pr-247", "statehouse", "provider-brownout", "annual-crawl", "metastable", "herd"}

// Names lists the built-in scenarios in the order they are shown.
func Names() []string { return slices.Clone(names) }

// Is reports whether the name is a built-in's.
func Is(name string) bool { return slices.Contains(names, name) }

// Source returns the YAML of a built-in.
func Source(name string) (string, error) {
	if !Is(name) {
		return "", fmt.Errorf("scenario: no built-in %q; one of: %s", name, strings.Join(names, ", "))
	}
	text, err := files.ReadFile(name + ".yaml")
	return string(text), err
}

// Load reads a built-in.
func Load(name string) (*file.File, error) {
	text, err := Source(name)
	if err != nil {
		return nil, err
	}
	return file.Parse(name+".yaml", []byte(text), nil)
}

// Listed is a built-in scenario in a list.
type Listed struct {
	Name     string   `json:"name"`
	About    string   `json:"about"`
	Variants []string `json:"variants" doc:"all of them are played, unless some are named"`
}

// List tells of all, in the order of Names.
func List() ([]Listed, error) {
	var list []Listed
	for _, name := range names {
		f, err := Load(name)
		if err != nil {
			return nil, err
		}
		one := Listed{Name: name, About: f.Scenario.About, Variants: []string{}}
		for _, v := range f.Variants {
			one.Variants = append(one.Variants, v.Name)
		}
		list = append(list, one)
	}
	return list, nil
}
