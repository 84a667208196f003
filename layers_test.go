package ebb_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/ebbhq/ebb"

// layer is one row of the tree. "x/*" stands for the directories below x,
// each with all that is in it: such peers never import each other.
type layer struct {
	dir string
	// pure rows reach the world through their arguments alone: no file, no
	// network, no process, no log, and no module but those of modules.
	pure bool
	// std lists packages of the standard library that this pure row may
	// import although others may not: for their types (failure), or because
	// reading files is its question (policy/file).
	std []string
	// modules lists the foreign modules that a pure row may import.
	modules []string
	// support marks packages made for tests: any test may import them.
	support bool
}

// order is the tree of docs/architecture.md, top to bottom: a package imports
// only packages of rows above its own.
var order = []layer{
	{dir: "clock", pure: true},
	{dir: "failure", pure: true, std: []string{"net", "net/http", "os"}},
	{dir: "policy", pure: true},
	{dir: "policy/file", pure: true, std: []string{"os"}, modules: []string{"github.com/goccy/go-yaml"}},
	{dir: "policy/plot", pure: true},
	{dir: "gate", pure: true},
	{dir: "retry", pure: true},
	{dir: "policy/audit", pure: true},
	{dir: "wave", pure: true},
	{dir: "job", pure: true},
	{dir: "dispatch", pure: true},
	{dir: "simulate", pure: true},
	{dir: "simulate/file", pure: true, std: []string{"os"}, modules: []string{"github.com/goccy/go-yaml"}},
	{dir: "simulate/scenario", pure: true},
	{dir: "simulate/report", pure: true},
	{dir: "disktest", support: true},
	{dir: "store"},
	{dir: "store/storetest", support: true},
	{dir: "store/pgtest", support: true},
	{dir: "store/*"},
	{dir: "worker"},
	{dir: "engine"},
	{dir: "engine/enginetest", support: true},
	{dir: "internal/oneshot"},
	{dir: "internal/oneshot/oneshottest", support: true},
	{dir: "warc"},
	{dir: "work/*"},
	{dir: "telemetry"},
	{dir: "telemetry/otlp"},
	{dir: "access"},
	{dir: "api"},
	{dir: "client"},
	{dir: "console"},
	{dir: "."},
	{dir: "ebbtest", support: true},
	{dir: "crashtest", support: true},
	{dir: "demo"},
	{dir: "cmd/*"},
	{dir: "scripts"},
	{dir: "scripts/*"},
}

// worldly are the packages by which a program reaches beyond its arguments.
var worldly = []string{
	"database/sql", "database/sql/driver", "log", "log/slog", "net", "net/http", "os", "os/exec", "os/signal", "plugin",
}

func TestLayers(t *testing.T) {
	tree := readTree(t, os.DirFS("."))
	if len(tree) < 3 {
		t.Fatalf("read only %d packages: %v", len(tree), tree)
	}
	for _, c := range checkLayers(tree) {
		t.Error(c)
	}
}

func TestPackageComments(t *testing.T) {
	for _, c := range checkComments(readTree(t, os.DirFS("."))) {
		t.Error(c)
	}
}

// pkg is what the files of one directory import.
type pkg struct {
	name     string
	comment  string   // of the package clause
	imports  []string // of files that ship
	forTests []string // of _test.go files
}

// readTree parses every Go file of the module, whatever its build tags.
// Directories with a go.mod of their own (bench/) are other modules.
func readTree(t *testing.T, fsys fs.FS) map[string]*pkg {
	t.Helper()
	tree := make(map[string]*pkg)
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return skipDir(fsys, name)
		case strings.HasSuffix(name, ".go"):
			return readGo(fsys, name, tree)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func skipDir(fsys fs.FS, name string) error {
	if name == "." {
		return nil
	}
	base := path.Base(name)
	if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "node_modules" {
		return fs.SkipDir
	}
	if _, err := fs.Stat(fsys, path.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func readGo(fsys fs.FS, name string, tree map[string]*pkg) error {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	dir := path.Dir(name)
	p := tree[dir]
	if p == nil {
		p = &pkg{}
		tree[dir] = p
	}
	isTest := strings.HasSuffix(name, "_test.go")
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if isTest {
			p.forTests = append(p.forTests, imported)
		} else {
			p.imports = append(p.imports, imported)
		}
	}
	if !isTest {
		p.name = file.Name.Name
		if text := file.Doc.Text(); text != "" {
			p.comment = text
		}
	}
	return nil
}

// checkLayers returns one complaint for each broken rule, sorted.
//
// Test files keep the same order, so that no test ties a package to one below
// it, but may import any foreign module and the packages made for tests.
func checkLayers(tree map[string]*pkg) []string {
	var complaints []string
	for dir, p := range tree {
		at := place(dir)
		if at < 0 {
			complaints = append(complaints, fmt.Sprintf("%s has no place in the order: add a row to layers_test.go and to docs/architecture.md", dir))
			continue
		}
		for _, imported := range p.imports {
			if why := forbidden(dir, imported); why != "" {
				complaints = append(complaints, fmt.Sprintf("%s imports %s: %s", dir, imported, why))
			}
		}
		for _, imported := range p.forTests {
			if why := forbiddenInTest(dir, imported); why != "" {
				complaints = append(complaints, fmt.Sprintf("%s imports %s in a test: %s", dir, imported, why))
			}
		}
	}
	for _, chain := range workloadsBehind(tree, ".") {
		complaints = append(complaints, "the root reaches a workload: "+chain+": library users would compile it")
	}
	slices.Sort(complaints)
	return slices.Compact(complaints)
}

// forbidden says why the package in dir may not import the path, or "".
func forbidden(dir, imported string) string {
	to, ours := local(imported)
	at := place(dir)
	if !ours {
		return foreign(order[at], imported)
	}
	below := place(to)
	switch {
	case below < 0:
		return "that package has no place in the order"
	case below < at:
		return ""
	case below > at:
		return "it stands below"
	case peer(dir) != peer(to):
		return "peers never import each other"
	}
	return "" // inside one peer
}

func forbiddenInTest(dir, imported string) string {
	to, ours := local(imported)
	if !ours || to == dir {
		return "" // a foreign module, or an external test of the package itself
	}
	if at := place(to); at >= 0 && order[at].support {
		return ""
	}
	return forbidden(dir, imported)
}

// foreign judges the import of another module or of the standard library.
func foreign(row layer, imported string) string {
	if !row.pure {
		return ""
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		if slices.Contains(worldly, imported) && !slices.Contains(row.std, imported) {
			return "a pure package does not reach the world"
		}
		return ""
	}
	for _, m := range row.modules {
		if imported == m || strings.HasPrefix(imported, m+"/") {
			return ""
		}
	}
	return "a pure package imports no driver, SDK or other foreign module"
}

// local turns an import path into a directory of this module.
func local(imported string) (dir string, ours bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// place returns the row of a directory, -1 for none. A row of its own comes
// before a row of peers.
func place(dir string) int {
	own := slices.IndexFunc(order, func(l layer) bool { return l.dir == dir })
	if own >= 0 {
		return own
	}
	return slices.IndexFunc(order, func(l layer) bool {
		parent, wild := strings.CutSuffix(l.dir, "/*")
		return wild && strings.HasPrefix(dir, parent+"/")
	})
}

// peer names the subtree of a directory that stands in a row of peers:
// work/supervise for work/supervise/campaign.
func peer(dir string) string {
	row := order[place(dir)].dir
	parent, wild := strings.CutSuffix(row, "/*")
	if !wild {
		return row
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(dir, parent+"/"), "/")
	return parent + "/" + first
}

// workloadsBehind returns how dir reaches packages below work/, by any chain.
func workloadsBehind(tree map[string]*pkg, dir string) []string {
	var chains []string
	seen := map[string]bool{dir: true}
	var follow func(dir, chain string)
	follow = func(dir, chain string) {
		if tree[dir] == nil {
			return
		}
		for _, imported := range tree[dir].imports {
			to, ours := local(imported)
			if !ours || seen[to] {
				continue
			}
			seen[to] = true
			next := chain + " → " + to
			if strings.HasPrefix(to, "work/") {
				chains = append(chains, next)
				continue
			}
			follow(to, next)
		}
	}
	follow(dir, dir)
	return chains
}

// checkComments returns the packages that do not say what they are for.
func checkComments(tree map[string]*pkg) []string {
	var complaints []string
	for dir, p := range tree {
		want := "Package " + p.name + " "
		switch p.name {
		case "": // tests only
			continue
		case "main":
			want = "Command " + path.Base(dir) + " "
		}
		if !strings.HasPrefix(p.comment, want) {
			complaints = append(complaints, fmt.Sprintf("%s: its package comment must begin with %q, has %.30q", dir, want, p.comment))
		}
	}
	slices.Sort(complaints)
	return complaints
}

// TestOrderIsDocumented: the tree in docs/architecture.md has every row, in
// this order, and says truly whether it exists or is planned.
func TestOrderIsDocumented(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## The tree\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows, states []string
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| `") {
			rows = append(rows, strings.Trim(cells[1], " `"))
			states = append(states, strings.TrimSpace(cells[4]))
		}
	}
	var want []string
	for _, l := range order {
		want = append(want, l.dir)
	}
	if !slices.Equal(rows, want) {
		t.Fatalf("the tree in docs/architecture.md has the rows\n%q, want\n%q", rows, want)
	}
	exists := make(map[int]bool)
	for dir := range readTree(t, os.DirFS(".")) {
		exists[place(dir)] = true
	}
	for i, row := range rows {
		if state := map[bool]string{true: "exists", false: "planned"}[exists[i]]; state != states[i] {
			t.Errorf("docs/architecture.md: `%s` is marked %q but is %q", row, states[i], state)
		}
	}
}
