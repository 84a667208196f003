package supervise

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Names of the template variables of a command.
//
//	{attempt}    number of this life of the process, four digits
//	{mode}       new, or resume where {resume} or {remaining} is not empty
//	{workers}    how parallel it shall work
//	{resume}     the file to go on from; empty = none
//	{remaining}  a file that lists what failed in the last attempt; empty = nothing
//	{out}        a directory of this attempt's own
//	{dir}        the run's directory
//	{name}       of the run
var variables = []string{"attempt", "mode", "workers", "resume", "remaining", "out", "dir", "name"}

var variableForm = regexp.MustCompile(`\{([a-z_]+)\}`)

// unknownVariable returns the first name in braces that is none. Braces around
// anything but lower-case letters are text.
func unknownVariable(word string) string {
	for _, hit := range variableForm.FindAllStringSubmatch(word, -1) {
		if !slices.Contains(variables, hit[1]) {
			return hit[1]
		}
	}
	return ""
}

// Vars are the values of one attempt.
type Vars struct {
	Attempt   int
	Workers   int
	Resume    string
	Remaining string
	Out       string
	Dir       string
	Name      string
}

// Mode is new or resume.
func (v Vars) Mode() string {
	if v.Resume != "" || v.Remaining != "" {
		return "resume"
	}
	return "new"
}

func (v Vars) value(name string) (string, bool) {
	switch name {
	case "attempt":
		return attemptName(v.Attempt), true
	case "mode":
		return v.Mode(), true
	case "workers":
		return strconv.Itoa(v.Workers), true
	case "resume":
		return v.Resume, true
	case "remaining":
		return v.Remaining, true
	case "out":
		return v.Out, true
	case "dir":
		return v.Dir, true
	case "name":
		return v.Name, true
	}
	return "", false
}

// expand writes the variables into a text; empty reports whether one of them
// had no value.
func (v Vars) expand(text string) (out string, empty bool) {
	out = variableForm.ReplaceAllStringFunc(text, func(hit string) string {
		value, known := v.value(hit[1 : len(hit)-1])
		if !known {
			return hit
		}
		empty = empty || value == ""
		return value
	})
	return out, empty
}

// Argv expands the command for one attempt: a group with an empty variable is
// left out, and flags that name outputs get the attempt's number where the
// command does not place it itself.
func (s *Spec) Argv(v Vars) []string {
	var argv []string
	for _, g := range s.Command {
		var words []string
		drop := false
		for _, word := range g {
			text, empty := v.expand(word)
			drop = drop || empty
			words = append(words, text)
		}
		if !drop {
			argv = append(argv, words...)
		}
	}
	p, _ := presetOf(s.Crawler) // checked by Seal
	placed := strings.Contains(s.Command.String(), "{attempt}") || strings.Contains(s.Command.String(), "{out}")
	for _, f := range p.outputs {
		argv = f.number(argv, v, placed)
	}
	return withWorkers(argv, p.workers, v.Workers)
}

// withWorkers writes how parallel the command shall work into the flag that
// says so with a number of its own.
func withWorkers(argv, flags []string, workers int) []string {
	eachValue(argv, flags, func(value string) string {
		if _, err := strconv.Atoi(value); err != nil {
			return value
		}
		return strconv.Itoa(workers)
	})
	return argv
}

// workersOf is how parallel a command says it works; 0 = it does not say.
func (c Command) workersOf(flags []string) int {
	n := 0
	eachValue(slices.Concat(c...), flags, func(value string) string {
		n, _ = strconv.Atoi(value) // a variable is no number
		return value
	})
	return max(0, n)
}

// number makes the values of an output flag the attempt's own.
func (f *outputFlag) number(argv []string, v Vars, placed bool) []string {
	if given(argv, f.keep) {
		return argv
	}
	found := false
	out := slices.Clone(argv)
	eachValue(out, f.names, func(value string) string {
		found = true
		number := attemptName(v.Attempt)
		switch {
		case value == "-" || strings.HasPrefix(value, "/dev/"), placed && strings.Contains(value, number):
			return value
		case f.dir:
			return filepath.Join(value, "attempt-"+number)
		case f.file:
			ext := filepath.Ext(value)
			return strings.TrimSuffix(value, ext) + "-" + number + ext
		}
		return value + "-" + number
	})
	if found || f.missing == "" || has(out, f.unless) || !has(out, f.only) {
		return out
	}
	text, _ := v.expand(f.missing)
	return slices.Insert(out, 1, text)
}

// switches are short flags of the known programs that take no value: others
// may stand behind them in one word, such as -fLo.
const switches = "fLsSkgiIlnNpqRvOJZabdcxEKmHr46"

// ends reports whether a word is short flags of which the last is this one.
func ends(word, flag string) bool {
	rest, ok := strings.CutSuffix(word, flag[1:])
	return ok && len(flag) == 2 && len(rest) > 1 && rest[0] == '-' && strings.Trim(rest[1:], switches) == ""
}

// eachValue replaces the values of flags: --flag=V, --flag V, -fV, -f V, -xf V.
func eachValue(argv, names []string, of func(value string) string) {
	for i := 1; i < len(argv); i++ {
		for _, name := range names {
			if rest, ok := strings.CutPrefix(argv[i], name+"="); ok && strings.HasPrefix(name, "--") {
				argv[i] = name + "=" + of(rest)
			} else if (argv[i] == name || ends(argv[i], name)) && i+1 < len(argv) {
				argv[i+1] = of(argv[i+1])
				i++
				break
			} else if rest, ok := strings.CutPrefix(argv[i], name); ok && rest != "" && len(name) == 2 && name[1] != '-' && !strings.HasPrefix(argv[i], "--") {
				argv[i] = name + of(rest)
			}
		}
	}
}

// given reports whether one of the flags stands in a word of its own, perhaps
// with its value.
func given(argv, flags []string) bool {
	found := slices.ContainsFunc(argv, func(a string) bool { return slices.Contains(flags, a) })
	eachValue(slices.Clone(argv), flags, func(value string) string {
		found = true
		return value
	})
	return found
}

// has reports whether the command has one of the flags.
func has(argv, flags []string) bool {
	return slices.ContainsFunc(argv, func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		if slices.Contains(flags, name) {
			return true
		}
		// Short flags in one word, such as -nvr.
		return len(a) > 2 && a[0] == '-' && a[1] != '-' && slices.ContainsFunc(flags, func(f string) bool {
			return len(f) == 2 && f[0] == '-' && strings.Contains(a[1:], f[1:])
		})
	})
}

// valueOf returns the value of a flag, or "".
func valueOf(argv, names []string) string {
	first := ""
	eachValue(slices.Clone(argv), names, func(value string) string {
		if first == "" {
			first = value
		}
		return value
	})
	return first
}

func attemptName(n int) string {
	text := strconv.Itoa(n)
	return strings.Repeat("0", max(0, 4-len(text))) + text
}

// Resumed is what a run remembers of the files it went on from: lives without
// progress by the sum of the file.
type Resumed map[string]int

// poisoned reports whether lives from the file with this sum got nowhere too
// often.
func (r Resumed) poisoned(sum string, most int) bool { return sum != "" && r[sum] >= most }

// after books one life that went on from the file.
func (r Resumed) after(sum string, progressed bool) Resumed {
	if sum == "" {
		return r
	}
	next := Resumed{}
	for k, v := range r {
		next[k] = v
	}
	if progressed {
		delete(next, sum)
	} else {
		next[sum]++
	}
	return next
}

// sumOf names the content of a file; empty for an empty one.
func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer closeFile(f)
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil || n == 0 {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
