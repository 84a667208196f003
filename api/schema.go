package api

import (
	"encoding/json"
	"path"
	"reflect"
	"strings"
	"time"
)

// schemas gathers the JSON Schemas of Go types, as encoding/json writes them.
type schemas map[string]any

type object = map[string]any

// of returns the schema of a type; structs with a name are referred to.
func (s schemas) of(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return object{"description": "any JSON value"}
	case reflect.TypeFor[[]byte]():
		return object{"type": "string", "contentEncoding": "base64"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int32:
		return object{"type": "integer"}
	case reflect.Int64, reflect.Uint64:
		return object{"type": "integer", "format": "int64"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Struct:
		return s.ref(t)
	}
	if text, ok := reflect.TypeAssert[interface{ MarshalText() ([]byte, error) }](reflect.Zero(t)); ok && text != nil {
		return object{"type": "string"} // a word, such as a breaker's phase
	}
	panic("api: no schema for " + t.String())
}

// ref describes a struct once, by the name of its type.
func (s schemas) ref(t reflect.Type) object {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if _, work, ok := strings.Cut(t.PkgPath(), "/work/"); ok { // a workload's own Attempt is another than a job's
		work = path.Base(work)
		name = strings.ToUpper(work[:1]) + work[1:] + name
	}
	if strings.Contains(t.PkgPath(), "/simulate") { // a simulation's Result is not a job's
		name = "Simulation" + strings.TrimPrefix(name, "Told")
	}
	to := object{"$ref": "#/components/schemas/" + name}
	if _, ok := s[name]; ok {
		return to
	}
	properties, required := object{}, []string{}
	described := object{"type": "object", "properties": properties}
	s[name] = described
	for _, f := range fieldsOf(t) {
		schema := s.of(f.Type)
		if doc := f.Tag.Get("doc"); doc != "" {
			schema["description"] = doc
		}
		properties[f.json] = schema
		if !f.optional {
			required = append(required, f.json)
		}
	}
	if len(required) > 0 {
		described["required"] = required
	}
	return to
}

type field struct {
	reflect.StructField
	json     string
	optional bool
}

// fieldsOf lists the JSON fields of a struct, those of embedded ones too.
func fieldsOf(t reflect.Type) []field {
	var list []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			list = append(list, fieldsOf(f.Type)...)
		case f.IsExported() && name != "" && name != "-":
			list = append(list, field{f, name, strings.Contains(options, "omit")})
		}
	}
	return list
}
