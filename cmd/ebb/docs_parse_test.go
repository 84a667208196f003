package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	inline  = regexp.MustCompile("`((?:ebb|make|go test|go run) [^`]+)`")
	setting = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	// placeholder are errors of a mention whose value is left out, or a word in
	// capitals.
	placeholder = regexp.MustCompile(`^flag needs an argument|^invalid argument "[A-Z]+"`)
	target      = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
)

// TestCommandsInDocs: every command of every page, in a block or inside of a
// sentence, is one: ebb has it and takes these flags and arguments, make has
// the target, the package is there. What it does is tried by TestTranscripts.
func TestCommandsInDocs(t *testing.T) {
	targets := makeTargets(t)
	seen := 0
	known := map[string]error{} // the same command stands on many pages
	understood := func(words []string, whole bool) error {
		key := fmt.Sprint(whole, words)
		err, ok := known[key]
		if !ok {
			err = understood(words, targets, whole)
			known[key] = err
		}
		return err
	}
	for page, text := range sources(t, ".md") {
		if strings.Contains(page, "testdata") {
			continue
		}
		found, prose := blocks(page, text)
		for i := range found {
			if !found[i].shell() {
				continue
			}
			for _, c := range found[i].commands() {
				for _, words := range simple(c.text) {
					seen++
					if err := understood(words, true); err != nil {
						t.Errorf("%s:%d: %s: %v", page, found[i].from+1, strings.Join(words, " "), err)
					}
				}
			}
		}
		for _, m := range inline.FindAllStringSubmatch(prose, -1) {
			for _, words := range simple(strings.NewReplacer("[", "", "]", "").Replace(m[1])) {
				seen++
				if err := understood(words, false); err != nil {
					t.Errorf("%s: `%s`: %v", page, m[1], err)
				}
			}
		}
	}
	if seen < 300 {
		t.Errorf("%d commands: the search is broken", seen)
	}
}

func makeTargets(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, name := range []string{"Makefile", "bench/bench.mk"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range target.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// understood tells what is wrong with a command. whole: it can be typed as it
// stands, with all its arguments; otherwise it may be the mention of one.
func understood(words, targets []string, whole bool) error {
	for len(words) > 0 && setting.MatchString(words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return nil
	}
	switch words[0] {
	case "ebb", "bin/ebb":
		if !whole && len(words) > 1 && strings.HasSuffix(words[1], ":") {
			return nil // what ebb says of a thing, not what is typed
		}
		return parses(words[1:], whole)
	case "make":
		for _, w := range words[1:] {
			if !setting.MatchString(w) && !slices.Contains(targets, w) {
				return fmt.Errorf("make has no target %s", w)
			}
		}
	case "go":
		for _, w := range words[1:] {
			dir, ok := strings.CutPrefix(strings.TrimSuffix(w, "/..."), "./")
			if !ok {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
				return err
			}
		}
	}
	return nil
}

// parses reads a command line as ebb would, and runs nothing.
func parses(args []string, whole bool) error {
	args = slices.DeleteFunc(slices.Clone(args), func(w string) bool { return w == "…" })
	commands := (&app{lookup: noEnv}).root()
	commands.InitDefaultCompletionCmd(args...)
	c, rest, err := commands.Find(args)
	if err != nil {
		return err
	}
	if err := c.ParseFlags(rest); err != nil && err.Error() != "pflag: help requested" && (whole || !placeholder.MatchString(err.Error())) {
		return err
	}
	left := c.Flags().Args()
	if c.HasSubCommands() && c.Args == nil && len(left) > 0 {
		return fmt.Errorf("%s has no command %s", c.CommandPath(), left[0])
	}
	if len(left) > 0 || whole {
		if err := c.ValidateArgs(left); err != nil {
			return err
		}
	}
	if whole {
		return errors.Join(c.ValidateRequiredFlags(), c.ValidateFlagGroups())
	}
	return nil
}

// What users type wrong is found here too: the check would otherwise pass
// whatever the pages say.
func TestCommandsAreUnderstood(t *testing.T) {
	targets := makeTargets(t)
	for line, want := range map[string]string{
		"ebb job why 000000000001a":            "",
		"ebb job why":                          "ebb job why",
		"ebb job wy ID":                        "has no command wy",
		"ebb jobs list":                        `unknown command "jobs"`,
		"ebb fetch --policie scrape":           "unknown flag: --policie",
		"ebb supervise -- wget --level=inf u":  "",
		"WEBHOOK_TIMEOUT_SECONDS=20 ebb serve": "",
		"ebb --help":                           "",
		"make test-crush":                      "no target test-crush",
		"make unit PKG=./policy/...":           "",
		"go test ./nowhere -run X":             "no such file",
	} {
		err := understood(simple(line)[0], targets, true)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

var (
	remark = regexp.MustCompile(`(?m)\s+//.*$`)
	space  = regexp.MustCompile(`\s+`)
)

// bare is Go without remarks and layout, and whether a variable is new.
func bare(text string) string {
	return space.ReplaceAllString(strings.ReplaceAll(remark.ReplaceAllString(text, ""), ":=", "="), " ")
}

// TestGoInDocs: every block of Go on the pages stands in a function of
// docs_go_test.go, where the compiler reads it. `…` is what the page leaves out.
func TestGoInDocs(t *testing.T) {
	own, err := os.ReadFile("docs_go_test.go")
	if err != nil {
		t.Fatal(err)
	}
	compiled := bare(string(own))
	seen := 0
	for page, text := range sources(t, ".md") {
		found, _ := blocks(page, text)
		for i := range found {
			if found[i].lang != "go" {
				continue
			}
			seen++
			rest := compiled
			for _, piece := range strings.Split(bare(found[i].text()), "…") {
				_, after, ok := strings.Cut(rest, strings.TrimSpace(piece))
				if !ok {
					t.Errorf("%s:%d: this Go is not compiled; write it into a function of cmd/ebb/docs_go_test.go as it stands there:\n%s", page, found[i].from+1, piece)
					break
				}
				rest = after
			}
		}
	}
	if seen < 9 {
		t.Errorf("%d blocks of Go: the search is broken", seen)
	}
}
