package file

import (
	"reflect"
	"slices"
	"testing"
)

// Every field of a scenario can be written, and every key has a field.
func TestElementsCoverTheScenario(t *testing.T) {
	for _, e := range elements {
		var want []string
		var walk func(reflect.Type)
		walk = func(t reflect.Type) {
			for i := range t.NumField() {
				if f := t.Field(i); f.Anonymous {
					walk(f.Type)
				} else {
					want = append(want, f.Name)
				}
			}
		}
		walk(e.typ)
		var got []string
		zero := reflect.New(e.typ).Elem()
		for _, f := range e.fields {
			v := f.in(zero)
			if !v.IsValid() {
				t.Errorf("%s: the key %s has no field", e.name, f.key)
				continue
			}
			for _, field := range reflect.VisibleFields(e.typ) {
				if zero.FieldByIndex(field.Index).Addr().Pointer() == v.Addr().Pointer() && zero.FieldByIndex(field.Index).Type() == v.Type() {
					got = append(got, field.Name)
				}
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: keys for %v, fields %v", e.name, got, want)
		}
	}
}
