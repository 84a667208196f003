package file

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// Every word that package simulate knows can be written: its constants are
// the words of the table.
func TestWordsAreThoseOfTheModel(t *testing.T) {
	known := map[string][]string{
		"Mode": modeWords, "Pick": pickWords, "GateScope": gateWords, "End": endWords, "ArrivalKind": arrivalWords, "Order": orderWords,
		"Abandoned": abandonedWords, "FaultKind": faultWords, "Negative": negativeWords, "DistKind": distWords,
	}
	found := map[string][]string{}
	paths, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			typ, isName := spec.Type.(*ast.Ident)
			value, isText := spec.Values[0].(*ast.BasicLit)
			if isName && isText && value.Kind == token.STRING && known[typ.Name] != nil {
				text, _ := strconv.Unquote(value.Value)
				found[typ.Name] = append(found[typ.Name], text)
			}
			return true
		})
	}
	for typ, words := range known {
		want, got := slices.Clone(found[typ]), slices.Clone(words)
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the file knows %v, the model %v", typ, got, want)
		}
	}
}
