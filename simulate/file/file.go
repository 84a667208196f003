// Package file is the YAML form of scenarios: a strict reader whose errors
// carry line, column and what would be right, the canonical print, the JSON
// Schema and the reference.
//
// A file holds one scenario, the policies it names, and variants of it: each
// variant is the scenario with some fields replaced, so that policies and
// outages can be compared with all else equal. Every key is declared once, in
// the table of elements.
package file

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/ebbhq/ebb/policy"
	policyfile "github.com/ebbhq/ebb/policy/file"
	"github.com/ebbhq/ebb/simulate"
)

// FormatVersion is the only version of the file's format.
const FormatVersion = 1

// maxVariants keeps a file from a thousand runs.
const maxVariants = 100

// File is a scenario file that was read.
type File struct {
	Name     string
	Scenario simulate.Scenario
	// Seeds is how many seeds the scenario asks for; 0 = one.
	Seeds    int
	Variants []Variant
	Compare  Compare
}

// Variant is the scenario with some of it replaced.
type Variant struct {
	Name, About string
	Scenario    simulate.Scenario
}

// Compare names two variants: what was, and what came instead. The others
// are told as steps from one to the other. Empty = nothing is compared.
type Compare struct{ From, To string }

// Variant returns the variant of that name.
func (f *File) Variant(name string) (Variant, bool) {
	for _, v := range f.Variants {
		if v.Name == name {
			return v, true
		}
	}
	return Variant{}, false
}

// Open reads a file that a scenario names: a policy file, a CSV of times.
type Open func(path string) ([]byte, error)

// Load reads the scenario file at a path. Files that it names are looked for
// beside it.
func Load(path string) (*File, error) {
	src, err := readAtMost(path, MaxSize+1)
	if err != nil {
		return nil, fmt.Errorf("scenario file: %w", err)
	}
	return Parse(path, src, Beside(filepath.Dir(path)))
}

// Beside opens files by paths relative to a directory.
func Beside(dir string) Open {
	return func(path string) ([]byte, error) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return readAtMost(path, maxCSV+1)
	}
}

func readAtMost(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	return io.ReadAll(io.LimitReader(f, most))
}

// Parse reads a scenario. name is how errors call the file; open reads files
// that it names, nil = none may be named. The error is Errors, every fault
// that could be found.
func Parse(name string, src []byte, open Open) (*File, error) {
	if open == nil {
		open = func(string) ([]byte, error) { return nil, errors.New("files cannot be named here") }
	}
	r := &reader{name: name, open: open, places: map[string]Pos{}, failed: map[string]bool{}, files: map[string]*policyfile.File{}}
	f := &File{Name: name}
	src = normalised(src)
	if root := r.parseYAML(src); root != nil {
		r.root(f, root, src)
	}
	if len(r.errs) == 0 {
		return f, nil
	}
	slices.SortStableFunc(r.errs, func(a, b Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return nil, r.errs
}

// fileFields are the keys that the file has beside the scenario's.
var fileFields = []field{
	{key: "version", required: true, doc: "of the format: 1"},
	{key: "policies", doc: "policies by name, as in a policy file: a preset's name starts from that preset, any other from default"},
	{key: "seeds", doc: "how many seeds are run, for confidence intervals; default 1"},
	{key: "variants", doc: "the scenario with some of it replaced, run one after the other"},
	{key: "compare", doc: "the variants {from: NAME, to: NAME} that the charts show; the others are told as steps from one to the other"},
}

func fileKeys() []string {
	var keys []string
	for _, f := range fileFields {
		keys = append(keys, f.key)
	}
	return append(keys, elementOf(typeOf[simulate.Scenario]()).keys()...)
}

func (r *reader) root(f *File, n ast.Node, src []byte) {
	top := spot{node: n, at: r.pos(n)}
	list, ok := r.pairs(top, "a mapping with version, callers and downstreams")
	if !ok {
		return
	}
	r.version(top, list)
	r.inline(list, src)
	scenario := elementOf(typeOf[simulate.Scenario]())
	var rest []pair
	for _, p := range list {
		switch _, isField := scenario.field(p.key); {
		case isField:
			rest = append(rest, p)
		case p.key == "seeds":
			r.whole(p.spot, 1, 1_000_000, func(n int64) { f.Seeds = int(n) })
		case p.key == "compare":
			r.compare(f, p)
		case !hasField(fileFields, p.key):
			r.unknown(p, fileKeys())
		}
	}
	r.fields(top, scenario, rest, valueOf(&f.Scenario), true)
	if f.Scenario.Name == "" {
		f.Scenario.Name = strings.TrimSuffix(filepath.Base(r.name), filepath.Ext(r.name))
	}
	r.check(&f.Scenario, "")
	for _, p := range list {
		if p.key == "variants" {
			r.variants(f, p)
		}
	}
	r.checkCompare(f)
}

func hasField(fields []field, key string) bool {
	return slices.ContainsFunc(fields, func(f field) bool { return f.key == key })
}

func (r *reader) version(top spot, list []pair) {
	for _, p := range list {
		if p.key == "version" {
			if v, ok := scalarOf(p.node); !ok || v.quoted || v.text != fmt.Sprint(FormatVersion) {
				r.fail(p.at, p.path, "%s is not a known version of the format; write version: %d", describe(p.node), FormatVersion)
			}
			return
		}
	}
	r.fail(top.at, "version", "is missing; write version: %d", FormatVersion)
}

// check reports what of a scenario cannot be where it is written: in the
// variant at the prefix, or in the scenario itself.
func (r *reader) check(s *simulate.Scenario, prefix string) {
	err := simulate.Check(s)
	var faults policy.FieldErrors
	if err == nil || !errors.As(err, &faults) {
		return
	}
	for _, fault := range faults {
		path := fault.Path
		if r.known(path) {
			continue
		}
		if prefix != "" {
			path = join(prefix, fault.Path)
			if r.known(path) || r.known(prefix) {
				continue
			}
		}
		r.fail(r.place(path), path, "%s", fault.Msg)
	}
}

func (r *reader) compare(f *File, p pair) {
	list, ok := r.pairs(p.spot, "a mapping with from and to")
	if !ok {
		return
	}
	for _, q := range list {
		text, _ := r.text(q.spot, "a variant's name")
		switch q.key {
		case "from":
			f.Compare.From = text
		case "to":
			f.Compare.To = text
		default:
			r.unknown(q, []string{"from", "to"})
		}
	}
}

func (r *reader) checkCompare(f *File) {
	if f.Compare == (Compare{}) {
		return
	}
	names := make([]string, len(f.Variants))
	for i, v := range f.Variants {
		names[i] = v.Name
	}
	for key, name := range map[string]string{"from": f.Compare.From, "to": f.Compare.To} {
		if !slices.Contains(names, name) {
			path := "compare." + key
			r.fail(r.place(path), path, "%q is no variant; one of: %s", name, strings.Join(names, ", "))
		}
	}
}
