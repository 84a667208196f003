package simulate_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/simulate"
)

// TestEveryResultFieldIsDocumented: the page names each JSON field.
func TestEveryResultFieldIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/simulate-result.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	var walk func(reflect.Type)
	walk = func(v reflect.Type) {
		for v.Kind() == reflect.Slice || v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return
		}
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Field(i).Tag.Get("json"), ",")
			named++
			if !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), "`"+name+": true`") {
				t.Errorf("docs/simulate-result.md does not name %s of %s", name, v.Name())
			}
			walk(v.Field(i).Type)
		}
	}
	walk(reflect.TypeFor[simulate.Result]())
	if named < 100 {
		t.Errorf("only %d fields", named)
	}
}
