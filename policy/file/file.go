// Package file is the YAML form of policies: a strict reader whose errors
// carry line, column and what would be right, the canonical print, the JSON
// Schema, the reference and the lock of accepted policies.
//
// Reading a print gives the same policies back, version included.
//
// Every field comes from policy.Fields; nothing here repeats the table. A
// policy with a preset's name starts from that preset field by field, any
// other from default. Where each value came from is kept as its Origin.
package file

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/ebbhq/ebb/policy"
)

// FormatVersion is the only version of the file's format.
const FormatVersion = 1

// MaxName is the longest name of a policy, in letters.
const MaxName = 64

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// File is a policy file that was read.
type File struct {
	Name    string
	Entries []Entry // in the order of the file
}

// Entry returns the policy of that name.
func (f *File) Entry(name string) (Entry, bool) {
	for _, e := range f.Entries {
		if e.Policy.Name == name {
			return e, true
		}
	}
	return Entry{}, false
}

// Policies returns the sealed policies in the order of the file.
func (f *File) Policies() []policy.Policy {
	list := make([]policy.Policy, len(f.Entries))
	for i, e := range f.Entries {
		list[i] = e.Policy
	}
	return list
}

// Load reads the policy file at a path.
func Load(path string) (*File, error) {
	src, err := readAtMost(path, MaxSize+1)
	if err != nil {
		return nil, fmt.Errorf("policy file: %w", err)
	}
	return Parse(path, src)
}

func readAtMost(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	return io.ReadAll(io.LimitReader(f, most))
}

// Parse reads a policy file. name is how errors and origins call it. The
// error is Errors, every fault that could be found.
func Parse(name string, src []byte) (*File, error) {
	f, _, errs := parse(name, src, false)
	if len(errs) > 0 {
		return nil, errs
	}
	return f, nil
}

// parse reads a policy file or, with lock, a lock, which has the key accepted
// as well: the version of every policy by its name.
func parse(name string, src []byte, lock bool) (*File, map[string]string, Errors) {
	r := &reader{name: name, failed: map[string]bool{}}
	f, accepted := &File{Name: name}, map[string]string(nil)
	root := r.parseYAML(src)
	if len(r.errs) == 0 {
		f.Entries, accepted = r.root(root, lock)
	}
	slices.SortStableFunc(r.errs, func(a, b Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return f, accepted, r.errs
}

const acceptedKey = "accepted"

func (r *reader) root(n ast.Node, lock bool) (entries []Entry, accepted map[string]string) {
	start := Pos{File: r.name, Line: 1, Column: 1}
	if isNull(n) {
		r.fail(start, "", "the file is empty; write version: 1 and policies")
		return nil, nil
	}
	list, ok := r.pairs(n, r.pos(n), "", "a mapping with version and policies")
	if !ok {
		return nil, nil
	}
	known := []string{"version", "policies"}
	if lock {
		known = append(known, acceptedKey)
	}
	for _, p := range list {
		switch {
		case !slices.Contains(known, p.key):
			r.unknown(p, known, nil)
		case !r.present(p):
		case p.key == "version":
			r.version(p)
		case p.key == "policies":
			entries = r.policies(p)
		case p.key == acceptedKey:
			accepted = r.accepted(p)
		}
	}
	for _, need := range known {
		if !hasKey(list, need) {
			r.fail(r.pos(n), need, "is missing; %s", map[string]string{
				"version": "write version: 1", "policies": "write at least one policy", acceptedKey: "accept the policies anew",
			}[need])
		}
	}
	return entries, accepted
}

func (r *reader) version(p pair) {
	v, ok := scalarOf(p.value)
	if !ok || v.quoted || v.text != fmt.Sprint(FormatVersion) {
		r.fail(p.valueAt, p.path, "%s is not a known version of the format; write version: %d", describe(p.value), FormatVersion)
	}
}

func (r *reader) accepted(p pair) map[string]string {
	list, _ := r.pairs(p.value, p.valueAt, p.path, "a mapping of names and versions")
	versions := make(map[string]string, len(list))
	for _, q := range list {
		v, _ := scalarOf(q.value)
		versions[q.key] = v.text
	}
	return versions
}

func (r *reader) policies(p pair) []Entry {
	list, ok := r.pairs(p.value, p.valueAt, p.path, "a mapping of names and policies")
	if ok && len(list) == 0 {
		r.fail(p.keyAt, p.path, "no policy in the file; write at least one")
	}
	var entries []Entry
	for _, q := range list {
		if !r.checkName(q) {
			continue
		}
		if isNull(q.value) {
			r.fail(q.keyAt, q.path, "has no body; write {} to take %s as it is", baseName(q.key))
			continue
		}
		if body, ok := r.pairs(q.value, q.valueAt, q.path, "a mapping of fields"); ok {
			entries = append(entries, r.policy(q, body))
		}
	}
	return entries
}

func baseName(name string) string {
	if policy.IsPreset(name) {
		return "the preset " + name
	}
	return "the default policy"
}

func (r *reader) checkName(p pair) bool {
	switch {
	case len(p.key) > MaxName:
		r.fail(p.keyAt, "policies", "a policy's name has %d letters; at most %d", len(p.key), MaxName)
	case !namePattern.MatchString(p.key):
		r.fail(p.keyAt, p.path, "%q is no name for a policy; lower-case letters, digits and dashes, such as order-sync", short(p.key))
	default:
		return true
	}
	return false
}

// policy reads one policy and seals it. When a fault is found the entry is
// worth nothing, but the rest of the file is still checked.
func (r *reader) policy(named pair, body []pair) Entry {
	s := &scope{reader: r, shown: named.path, set: map[string]written{}, places: map[string]Pos{}}
	draft := policy.Base(named.key)
	for _, p := range body {
		a, isAlias := aliasOf(p.key)
		switch kid := trunk.kid(p.key); {
		case p.key == classesKey:
			draft.Classes = s.rules(p)
		case p.key == waiversKey:
			draft.Waivers = s.waivers(p)
		case isAlias:
			s.alias(a, p)
		case kid != nil:
			s.key(kid, p)
		default:
			s.unknown(p, policyKeys(), fieldPaths())
		}
	}
	s.apply(&draft)
	e := Entry{draft: draft, at: named.keyAt, places: s.places, origins: map[string]Origin{}}
	for path, w := range s.set {
		e.places[path] = w.at
		e.origins[path] = Origin{Source: FromFile, At: w.at}
	}
	for _, key := range []string{classesKey, waiversKey} {
		if at, ok := s.places[key]; ok {
			e.origins[key] = Origin{Source: FromFile, At: at}
		}
	}
	s.seal(&e)
	return e
}

func fieldPaths() []string {
	var paths []string
	for _, f := range policy.Fields() {
		paths = append(paths, f.Path)
	}
	return paths
}

// seal fills e.Policy and reports what cannot be where it is written.
func (s *scope) seal(e *Entry) {
	sealed, err := policy.Seal(e.draft)
	e.Policy = sealed
	s.checkRestarts(e)
	if err == nil {
		s.checkKept(&e.draft, &sealed)
		return
	}
	var faults policy.FieldErrors
	if !errors.As(err, &faults) {
		s.fail(e.at, s.shown, "%v", err)
	}
	for _, fault := range faults {
		if !s.known(fault.Path) {
			s.fail(e.Pos(fault.Path), join(s.shown, fault.Path), "%s", fault.Msg)
		}
	}
}

// known reports whether a fault of the field, or of a mapping around it, is
// reported already; what follows from it is not worth a line.
func (s *scope) known(path string) bool {
	for path != "" {
		if s.failed[join(s.shown, path)] {
			return true
		}
		path = outer(path)
	}
	return false
}

// checkRestarts refuses attempts that say something else than restarts.max.
// Attempts that match the written restarts are right even where both are
// raised.
func (s *scope) checkRestarts(e *Entry) {
	w, ok := s.set["attempts"]
	asked, meant := e.draft.Attempts, e.Policy.Attempts
	if !ok || asked == meant || asked == e.draft.Restarts.Max+1 {
		return
	}
	s.fail(w.at, s.shownPath("attempts"), "%d conflicts with restarts.max: %d (%s), which means %d attempts; change restarts.max and leave attempts out",
		asked, e.Policy.Restarts.Max, e.Origin("restarts.max"), meant)
}

// Print writes sealed policies as a whole policy file in canonical form.
func Print(policies ...policy.Policy) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: %d\n", FormatVersion)
	printPolicies(&b, policies)
	return b.String()
}

func printPolicies(b *strings.Builder, policies []policy.Policy) {
	b.WriteString("policies:\n")
	for _, p := range policies {
		fmt.Fprintf(b, "  %s:\n", quoteName(p.Name))
		for line := range strings.Lines(policy.Canonical(p)) {
			b.WriteString("    " + line)
		}
	}
}

// quoteName quotes names that YAML readers take for something else than text.
func quoteName(name string) string {
	switch name {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return `"` + name + `"`
	}
	if name != "" && name[0] <= '9' {
		return `"` + name + `"`
	}
	return name
}
