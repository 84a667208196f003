// Command elsewhere type-checks packages as other systems would compile them:
//
//	elsewhere windows/amd64 darwin/arm64 ./cmd/ebb
//
// It reads everything from source and generates no code, so that it takes
// seconds where a build of a platform takes minutes. `make dist` builds them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	platforms, patterns := arguments(os.Args[1:])
	if len(platforms) == 0 || len(patterns) == 0 {
		fmt.Fprintln(os.Stderr, "usage: elsewhere OS/ARCH… PACKAGE…")
		os.Exit(2)
	}
	for _, p := range platforms {
		n, err := check(context.Background(), p, patterns)
		if err != nil {
			fmt.Fprintf(os.Stderr, "elsewhere: %s:\n%v\n", p, err)
			os.Exit(1)
		}
		fmt.Fprintf(os.Stdout, "%s: %d packages of ours compile\n", p, n)
	}
}

// arguments parts OS/ARCH from packages, which begin with a dot.
func arguments(args []string) (platforms, patterns []string) {
	for _, a := range args {
		if strings.HasPrefix(a, ".") {
			patterns = append(patterns, a)
		} else {
			platforms = append(platforms, a)
		}
	}
	return platforms, patterns
}

// listed is what `go list` tells of a package.
type listed struct {
	Dir        string
	ImportPath string
	GoFiles    []string
	ImportMap  map[string]string
	Module     *struct{ Main bool }
	Error      *struct{ Err string }
}

// check type-checks the packages and all that they import, and returns how
// many of them are of this module.
func check(ctx context.Context, platform string, patterns []string) (ours int, err error) {
	system, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return 0, errors.New("want OS/ARCH, such as windows/amd64")
	}
	packages, err := list(ctx, system, arch, patterns)
	if err != nil {
		return 0, err
	}
	c := checker{files: token.NewFileSet(), known: map[string]*types.Package{"unsafe": types.Unsafe}, sizes: types.SizesFor("gc", arch)}
	var found []error
	for _, p := range packages { // those that are imported come first
		if p.ImportPath == "unsafe" {
			continue
		}
		main := p.Module != nil && p.Module.Main
		if main {
			ours++
		}
		found = append(found, c.check(&p, main)...)
	}
	return ours, errors.Join(found...)
}

func list(ctx context.Context, system, arch string, patterns []string) ([]listed, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-e", "-deps", "-json=Dir,ImportPath,GoFiles,ImportMap,Module,Error"}, patterns...)...)
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := d.Decode(&p)
		switch {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return nil, fmt.Errorf("go list: %w", err)
		case p.Error != nil:
			return nil, fmt.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
		packages = append(packages, p)
	}
}

type checker struct {
	files *token.FileSet
	known map[string]*types.Package
	sizes types.Sizes
}

// check reads one package. Bodies of functions are looked at in ours alone.
func (c *checker) check(p *listed, bodies bool) []error {
	var found []error
	mode := parser.SkipObjectResolution
	files := make([]*ast.File, 0, len(p.GoFiles))
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.files, filepath.Join(p.Dir, name), nil, mode)
		if err != nil {
			return []error{err}
		}
		if !bodies {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					fn.Body = nil // nobody needs it, and it is most of the memory
				}
			}
		}
		files = append(files, f)
	}
	config := types.Config{
		IgnoreFuncBodies: !bodies,
		Sizes:            c.sizes,
		Importer:         imports{c.known, p.ImportMap},
		Error: func(err error) {
			if bodies {
				found = append(found, err)
			}
		},
	}
	pkg, _ := config.Check(p.ImportPath, c.files, files, nil) // errors were noted
	c.known[p.ImportPath] = pkg
	return found
}

type imports struct {
	known   map[string]*types.Package
	renamed map[string]string
}

func (i imports) Import(path string) (*types.Package, error) {
	if to, ok := i.renamed[path]; ok {
		path = to
	}
	if p, ok := i.known[path]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("%s: not among what go list named", path)
}
