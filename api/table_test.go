package api

import (
	"encoding/json"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store/memory"
)

// TestRoutesAreDocumented: every route of the table is in the document and in
// docs/api.md.
func TestRoutesAreDocumented(t *testing.T) {
	m := memory.New(memory.Config{})
	defer m.Close()
	keeper, err := access.New(m, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Config: Config{Ops: engine.New(m, nil, engine.Config{}), Keeper: keeper, Records: m}}
	s.routes = s.table()
	text, err := s.document()
	if err != nil {
		t.Fatal(err)
	}
	var d struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	manual, err := fs.ReadFile(os.DirFS("../docs"), "api.md")
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.routes {
		r := &s.routes[i]
		if d.Paths[r.path][strings.ToLower(r.method)] == nil {
			t.Errorf("%s %s is not in the document", r.method, r.path)
		}
		if row := "| `" + r.method + " " + r.path + "` | " + string(r.scope) + " |"; !strings.Contains(string(manual), row) {
			t.Errorf("docs/api.md has no row %s", row)
		}
	}
}
