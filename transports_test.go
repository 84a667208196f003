package ebb_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// callers are the files that make HTTP clients or transports, with the reason
// why each keeps to one request per attempt.
var callers = map[string]string{
	"client/client.go":                   "oneshot",
	"work/document/model/model.go":       "oneshot",
	"work/fetch/exchange.go":             "oneshot, in Options.fill",
	"work/webhook/transport.go":          "oneshot, in New",
	"internal/oneshot/oneshot.go":        "oneshot itself",
	"telemetry/outbound.go":              "only wraps what it is given",
	"cmd/ebb/cmd_health.go":              "no policy: one question of a person",
	"cmd/ebb/cmd_fetch_run.go":           "no policy: it reads a list of URLs before any try",
	"work/supervise/container_client.go": "a daemon on this machine; net/http repeats only reads of it",
}

// TestEveryCallerIsKnown: a new place that makes HTTP calls says here how it
// keeps the promise that an attempt is at most one request on the wire.
func TestEveryCallerIsKnown(t *testing.T) {
	found := map[string]bool{}
	root := os.DirFS(".")
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return skipDir(root, name)
		case !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"), strings.Contains(name, "test/"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		if callsHTTP(file) {
			found[name] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range found {
		if callers[name] == "" {
			t.Errorf("%s makes HTTP calls: send them through internal/oneshot where a policy counts attempts, and say so in transports_test.go", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(callers)) {
		if !found[name] {
			t.Errorf("%s makes no HTTP calls: take it out of transports_test.go", name)
		}
	}
}

// callsHTTP reports whether a file makes a client or transport of net/http, or
// uses a default one.
func callsHTTP(file *ast.File) (found bool) {
	named := func(e ast.Expr, names ...string) bool {
		s, ok := e.(*ast.SelectorExpr)
		if !ok || !slices.Contains(names, s.Sel.Name) {
			return false
		}
		p, ok := s.X.(*ast.Ident)
		return ok && p.Name == "http"
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			found = found || named(n.Type, "Client", "Transport")
		case *ast.ValueSpec:
			found = found || named(n.Type, "Client", "Transport")
		case *ast.CallExpr:
			found = found || named(n.Fun, "Get", "Head", "Post", "PostForm")
		case *ast.SelectorExpr:
			found = found || named(n, "DefaultClient", "DefaultTransport")
		}
		return true
	})
	return found
}
