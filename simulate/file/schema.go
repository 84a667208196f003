package file

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	policyfile "github.com/ebbhq/ebb/policy/file"
	"github.com/ebbhq/ebb/simulate"
)

const (
	durationPattern = `^(0|[0-9]{1,5}d|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*)$`
	ratePattern     = `^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)? *(%|/ *(s|m|min|h|d))$`
	percentPattern  = `^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)? *%$`
)

// Schema returns the JSON Schema (2020-12) of the scenario file, made from
// the table of elements; policies are those of the policy file's schema. It
// knows every key, type and word; what depends on other fields only Parse can
// tell.
func Schema() []byte {
	root := map[string]any{}
	defs := map[string]any{
		"duration": anyOf(pattern(durationPattern), map[string]any{"const": 0}),
		"number":   anyOf(map[string]any{"type": "number"}, pattern(percentPattern)),
		"rate":     anyOf(map[string]any{"type": "number"}, pattern(ratePattern)),
		"curve":    curveSchema(),
		"variant":  variantSchema(),
		"policies": policiesSchema(),
	}
	for i := range elements {
		e := &elements[i]
		defs[e.name] = described(elementSchema(e, true), e.about)
	}
	for key, value := range defs["scenario"].(map[string]any) {
		root[key] = value
	}
	delete(defs, "scenario")
	properties := root["properties"].(map[string]any)
	properties["version"] = described(map[string]any{"const": FormatVersion}, "version of the format")
	properties["seeds"] = described(map[string]any{"type": "integer", "minimum": 1, "maximum": 1_000_000}, fileDoc("seeds"))
	properties["policies"] = described(ref("policies"), fileDoc("policies"))
	properties["variants"] = described(listOf(ref("variant")), fileDoc("variants"))
	properties["compare"] = described(object(map[string]any{"from": text(), "to": text()}, "from", "to"), fileDoc("compare"))
	root["required"] = append([]string{"version"}, root["required"].([]string)...)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Ebb scenario"
	root["$defs"] = defs
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("scenario file: schema: %v", err)) // maps of plain values always marshal
	}
	return append(out, '\n')
}

func fileDoc(key string) string {
	for _, f := range fileFields {
		if f.key == key {
			return f.doc
		}
	}
	return ""
}

// policiesSchema is the policy file's schema as a resource of its own, of
// which the property policies is taken.
func policiesSchema() map[string]any {
	var whole map[string]any
	if err := json.Unmarshal(policyfile.Schema(), &whole); err != nil {
		panic(fmt.Sprintf("scenario file: policy schema: %v", err)) // it is made by json.Marshal
	}
	policies := whole["properties"].(map[string]any)["policies"].(map[string]any)
	policies["$id"] = "policies.json"
	policies["$defs"] = whole["$defs"]
	return policies
}

// elementSchema is a mapping, or one of the one-line forms.
func elementSchema(e *element, required bool) map[string]any {
	properties := map[string]any{}
	var need []string
	for _, f := range e.fields {
		properties[f.key] = described(fieldSchema(e, f), f.doc)
		if f.required && required {
			need = append(need, f.key)
		}
	}
	o := object(properties, need...)
	switch e.typ {
	case typeOf[simulate.Length]():
		return anyOf(ref("duration"), o)
	case typeOf[simulate.Arrivals](), typeOf[simulate.Target]():
		return anyOf(text(), o)
	case typeOf[simulate.Dist]():
		return anyOf(text(), map[string]any{"const": 0}, listOf(ref("value")), o)
	case typeOf[simulate.Answer]():
		return anyOf(map[string]any{"type": "integer", "minimum": 300, "maximum": 599}, map[string]any{"enum": classWords()}, o)
	case typeOf[simulate.Value]():
		return anyOf(ref("duration"), o)
	}
	return o
}

func fieldSchema(e *element, f field) map[string]any {
	t := f.in(reflect.New(e.typ).Elem()).Type()
	return typeSchema(t, f)
}

func typeSchema(t reflect.Type, f field) map[string]any {
	switch t {
	case typeOf[time.Duration]():
		return ref("duration")
	case typeOf[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case typeOf[policy.Policy]():
		return text()
	case typeOf[failure.Class]():
		return map[string]any{"enum": classWords()}
	case typeOf[simulate.Curve]():
		return ref("curve")
	case typeOf[simulate.LoadCurve]():
		return listOf(ref("load_point"))
	case typeOf[[]time.Duration](), typeOf[[]simulate.Value]():
		inner := ref("duration")
		if t == typeOf[[]simulate.Value]() {
			inner = ref("value")
		}
		return anyOf(text(), map[string]any{"type": "array", "items": inner})
	}
	if inner := elementOf(t); inner != nil {
		return ref(inner.name)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeSchema(t.Elem(), f)
	case reflect.Slice:
		return listOf(typeSchema(t.Elem(), f))
	case reflect.String:
		if f.words != nil {
			return map[string]any{"enum": f.words}
		}
		return text()
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return wholeSchema(f)
	case reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Float64:
		if f.rate {
			return ref("rate")
		}
		return ref("number")
	}
	panic("scenario file: no schema for " + t.String())
}

func wholeSchema(f field) map[string]any {
	if f.limit {
		return anyOf(map[string]any{"type": "integer", "minimum": 1, "maximum": math.MaxInt32}, map[string]any{"const": "none"})
	}
	return map[string]any{"type": "integer", "minimum": 0, "maximum": math.MaxInt32}
}

func curveSchema() map[string]any {
	instants := map[string]any{"type": "object", "propertyNames": map[string]any{"pattern": durationPattern}, "additionalProperties": ref("rate")}
	spike := object(map[string]any{"from": ref("duration"), "until": ref("duration"), "value": ref("rate")}, "from", "until", "value")
	schemas := map[string]map[string]any{
		"steps": instants, "ramps": instants, "base": ref("rate"), "spikes": listOf(spike), "points": listOf(ref("point")), "period": ref("duration"),
	}
	properties := map[string]any{}
	for _, f := range curveFields {
		one := map[string]any{}
		for k, v := range schemas[f.key] {
			one[k] = v
		}
		properties[f.key] = described(one, f.doc)
	}
	return described(anyOf(ref("rate"), map[string]any{"type": "array", "items": ref("point")}, object(properties)), curveAbout)
}

// variantSchema has the scenario's keys, none of them required but the names.
func variantSchema() map[string]any {
	properties := map[string]any{}
	scenario := elementOf(typeOf[simulate.Scenario]())
	for _, f := range scenario.fields {
		properties[f.key] = described(fieldSchema(scenario, f), f.doc)
	}
	for _, key := range []string{"callers", "downstreams"} {
		f, _ := scenario.field(key)
		inner := elementOf(f.in(reflect.New(scenario.typ).Elem()).Type().Elem())
		o := elementSchema(inner, false)
		o["required"] = []string{"name"}
		properties[key] = described(listOf(o), "those of the same name with the written fields replaced")
	}
	for _, f := range variantFields {
		properties[f.key] = described(text(), f.doc)
	}
	return object(properties, "name")
}

func object(properties map[string]any, required ...string) map[string]any {
	o := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

func described(schema map[string]any, doc string) map[string]any {
	schema["description"] = doc
	return schema
}

func anyOf(schemas ...map[string]any) map[string]any { return map[string]any{"anyOf": schemas} }
func ref(name string) map[string]any                 { return map[string]any{"$ref": "#/$defs/" + name} }
func text() map[string]any                           { return map[string]any{"type": "string"} }
func pattern(p string) map[string]any                { return map[string]any{"type": "string", "pattern": p} }

// listOf is a list, or one element that stands for a list of one.
func listOf(element map[string]any) map[string]any {
	return anyOf(map[string]any{"type": "array", "items": element}, element)
}
