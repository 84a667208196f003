package main

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// placed is a value of the configuration file and where it stands.
type placed struct {
	key  string // such as webhook.timeout
	text string
	line int
}

// decodeStrict reads YAML into a struct: every key must be one of its fields.
// Errors begin with NAME:LINE:COLUMN.
func decodeStrict(name string, src []byte, into any) ([]placed, error) {
	tree, err := parser.ParseBytes(src, 0)
	if err != nil {
		return nil, at(name, err)
	}
	w := &configWalk{name: name}
	for _, doc := range tree.Docs {
		if doc.Body != nil {
			w.node(doc.Body, "", reflect.TypeOf(into).Elem())
		}
	}
	if w.err != nil {
		return nil, w.err
	}
	if err := yaml.UnmarshalWithOptions(src, into, yaml.Strict()); err != nil {
		return nil, at(name, err)
	}
	return w.values, nil
}

// at gives an error of the parser its place.
func at(name string, err error) error {
	var spot interface {
		error
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &spot) && spot.GetToken() != nil {
		p := spot.GetToken().Position
		return fmt.Errorf("%s:%d:%d: %s", name, p.Line, p.Column, spot.GetMessage())
	}
	return fmt.Errorf("%s: %w", name, err)
}

// configWalk compares the file with the fields that there are.
type configWalk struct {
	name   string
	values []placed
	err    error // the first
}

func (w *configWalk) node(n ast.Node, key string, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	}
	switch {
	case w.err != nil:
	case pairs == nil || !isRecord(t):
		w.values = append(w.values, placed{key: key, text: strings.TrimSpace(n.String()), line: n.GetToken().Position.Line})
	default:
		for _, p := range pairs {
			w.pair(p, key, t)
		}
	}
}

func (w *configWalk) pair(p *ast.MappingValueNode, within string, t reflect.Type) {
	name := p.Key.GetToken().Value
	full := strings.TrimPrefix(within+"."+name, ".")
	field, ok := fieldOf(t, name)
	if !ok && w.err == nil {
		pos := p.Key.GetToken().Position
		where := "here"
		if within != "" {
			where = "in " + within
		}
		w.err = fmt.Errorf("%s:%d:%d: no such key %q; %s are: %s", w.name, pos.Line, pos.Column, full, where, strings.Join(keysOf(t), ", "))
	}
	if ok {
		w.node(p.Value, full, field)
	}
}

// isRecord reports whether a type is read field by field.
func isRecord(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for _, own := range []reflect.Type{reflect.TypeFor[yaml.BytesUnmarshaler](), reflect.TypeFor[yaml.InterfaceUnmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()} {
		if reflect.PointerTo(t).Implements(own) {
			return false
		}
	}
	return true
}

// fieldOf finds the field that a key is read into.
func fieldOf(t reflect.Type, key string) (reflect.Type, bool) {
	for f := range fieldsOf(t) {
		if keyOf(f) == key {
			return f.Type, true
		}
	}
	return nil, false
}

// keysOf lists the keys of a struct, in the order of its fields.
func keysOf(t reflect.Type) []string {
	var list []string
	for f := range fieldsOf(t) {
		list = append(list, keyOf(f))
	}
	return list
}

// fieldsOf yields the fields that have a key; those of an inlined struct are
// its holder's.
func fieldsOf(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			if _, options, _ := strings.Cut(f.Tag.Get("yaml"), ","); options == "inline" {
				for inner := range fieldsOf(f.Type) {
					if !yield(inner) {
						return
					}
				}
				continue
			}
			if key := keyOf(f); key != "" && key != "-" && !yield(f) {
				return
			}
		}
	}
}

func keyOf(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if key == "" && f.IsExported() {
		key = strings.ToLower(f.Name)
	}
	return key
}
