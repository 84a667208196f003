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
