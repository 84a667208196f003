package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// sources returns the module's files of that ending, by their paths from the
// root, without what git or tools keep there.
func sources(t *testing.T, ending string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") && name != ".github" || name == "node_modules" || name == "bin" || name == "dist" || name == "bench") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ending) {
			return nil
		}
		text, err := os.ReadFile(path)
		from, _ := filepath.Rel(root, path)
		files[filepath.ToSlash(from)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var link = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)

// Relative links of the documents lead somewhere: the file is there, and has a
// heading of that name.
func TestDocsHaveNoDeadLinks(t *testing.T) {
	docs := sources(t, ".md")
	names := map[string][]string{}
	for name, text := range docs {
		names[name] = headings(text)
	}
	links, anchors := 0, 0
	for name, text := range docs {
		_, prose := blocks(name, text)
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			to := name
			if m[1] != "" {
				to = filepath.ToSlash(filepath.Join(filepath.Dir(name), m[1]))
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: link to %s: %v", name, m[1], err)
			}
			if m[2] == "" {
				continue
			}
			anchors++
			if !slices.Contains(names[to], m[2][1:]) {
				t.Errorf("%s: link to %s%s: %s has no such heading", name, m[1], m[2], to)
			}
		}
	}
	if links < 150 || anchors < 20 {
		t.Errorf("found %d relative links, %d of them to headings: the search is broken", links, anchors)
	}
}

var (
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	linked  = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	unnamed = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// headings returns the names under which GitHub links to a page's headings.
func headings(text string) []string {
	_, prose := blocks("", text)
	var names []string
	for _, m := range heading.FindAllStringSubmatch(prose, -1) {
		title := strings.ToLower(strings.TrimSpace(linked.ReplaceAllString(m[1], "$1")))
		names = append(names, strings.ReplaceAll(unnamed.ReplaceAllString(title, ""), " ", "-"))
	}
	return names
}

// The index of decision records has a row for each of them.
func TestDecisionRecordsAreIndexed(t *testing.T) {
	docs := sources(t, ".md")
	index := docs["docs/adr/README.md"]
	for name := range docs {
		dir, file := filepath.Split(name)
		if dir == "docs/adr/" && file != "README.md" && strings.Count(index, "\n| ["+file[:4]+"]("+file+") |") != 1 {
			t.Errorf("docs/adr/README.md has no row for %s, or several", file)
		}
	}
}

// decisions.md and the other documents cite tests that exist.
func TestDocsCiteTestsThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, text := range sources(t, "_test.go") {
		for line := range strings.Lines(text) {
			if name, ok := strings.CutPrefix(line, "func "); ok {
				name, _, _ = strings.Cut(name, "(")
				known[name] = true
			}
		}
	}
	cited := regexp.MustCompile(`\b(?:Test|Fuzz|Example)[A-Z]\w+`)
	found := 0
	for name, text := range sources(t, ".md") {
		for _, test := range cited.FindAllString(text, -1) {
			found++
			if !known[test] {
				t.Errorf("%s cites %s, which does not exist", name, test)
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d cited tests: the search is broken", found)
	}
}
