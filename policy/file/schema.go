package file

import (
	"encoding/json"
	"fmt"

	"github.com/ebbhq/ebb/policy"
)

// durationPattern is what policy.ParseDuration reads: "90s", "1h30m", "2d".
const durationPattern = `^(0|[0-9]{1,5}d|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*)$`

// Schema returns the JSON Schema (2020-12) of the policy file, made from the
// field table. It knows every key, type, unit and word; what depends on other
// fields or on a preset only Parse can tell.
func Schema() []byte {
	root := object(map[string]any{
		"version": map[string]any{"const": FormatVersion, "description": "version of the format"},
		"policies": map[string]any{
			"type":                 "object",
			"description":          "policies by name; a preset's name starts from that preset, any other from default",
			"minProperties":        1,
			"maxProperties":        maxKeys,
			"propertyNames":        map[string]any{"pattern": namePattern.String(), "maxLength": MaxName},
			"additionalProperties": map[string]any{"$ref": "#/$defs/policy"},
		},
	}, "version", "policies")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Ebb retry policies"
	root["$defs"] = map[string]any{
		"policy":      policySchema(),
		"duration":    map[string]any{"anyOf": []any{map[string]any{"type": "string", "pattern": durationPattern}, map[string]any{"const": 0}}},
		"class":       map[string]any{"enum": policy.ClassNames()},
		"switch":      map[string]any{"enum": []any{true, false, "on", "off"}},
		"ruleBackoff": branchSchema(backoffBranch),
	}
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("policy file: schema: %v", err)) // maps of plain values always marshal
	}
	return append(text, '\n')
}

func object(properties map[string]any, required ...string) map[string]any {
	o := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

func policySchema() map[string]any {
	s := branchSchema(trunk)
	properties := s["properties"].(map[string]any)
	properties[classesKey] = described(map[string]any{"type": "array", "items": recordSchema(ruleRecords)}, classesDoc)
	properties[waiversKey] = described(map[string]any{"type": "array", "items": recordSchema(waiverRecords)}, waiversDoc)
	for _, a := range aliases {
		kind := "integer"
		if a.unit != "" {
			kind = "number"
		}
		properties[a.key] = described(map[string]any{"type": kind, "minimum": 0, "maximum": policy.MaxWhole}, a.doc)
	}
	return s
}

func branchSchema(b *branch) map[string]any {
	if b.field != nil {
		return described(fieldSchema(*b.field), b.field.Doc)
	}
	properties := map[string]any{}
	for _, kid := range b.kids {
		properties[kid.key] = branchSchema(kid)
	}
	s := object(properties)
	if b.path == "backoff" {
		s["dependentSchemas"] = map[string]any{"steps": map[string]any{
			"properties": map[string]any{"base": false, "factor": false, "cap": false},
		}}
	}
	short, ok := shorthands[b.path]
	if !ok {
		return s
	}
	words := []any{}
	for _, w := range short.words {
		words = append(words, w)
		if w == "off" {
			words = append(words, false)
		}
	}
	return map[string]any{"anyOf": []any{map[string]any{"enum": words}, s}}
}

func described(schema map[string]any, doc string) map[string]any {
	schema["description"] = doc
	return schema
}

func fieldSchema(f policy.Field) map[string]any {
	switch f.Kind {
	case policy.KindDuration:
		return durationSchema()
	case policy.KindInt:
		return wholeSchema(0, policy.MaxWhole)()
	case policy.KindFloat:
		return map[string]any{"type": "number"}
	case policy.KindBool, policy.KindSwitch:
		return map[string]any{"$ref": "#/$defs/switch"}
	case policy.KindEnum:
		return enumSchema(f.Enum...)()
	case policy.KindDurations:
		return listSchema(durationSchema)()
	case policy.KindClasses:
		return map[string]any{"anyOf": []any{classSchema(), map[string]any{"type": "array", "items": classSchema()}}}
	}
	panic("policy file: field " + f.Path + " has no schema")
}

func recordSchema(records []record) map[string]any {
	properties := map[string]any{}
	var required []string
	for _, r := range records {
		properties[r.key] = described(r.schema(), r.doc)
		if r.required {
			required = append(required, r.key)
		}
	}
	return object(properties, required...)
}

func durationSchema() map[string]any    { return map[string]any{"$ref": "#/$defs/duration"} }
func classSchema() map[string]any       { return map[string]any{"$ref": "#/$defs/class"} }
func ruleBackoffSchema() map[string]any { return map[string]any{"$ref": "#/$defs/ruleBackoff"} }
func textSchema() map[string]any        { return map[string]any{"type": "string"} }
func matchSchema() map[string]any       { return recordSchema(matchRecords) }

func dateSchema() map[string]any {
	return map[string]any{"type": "string", "format": "date", "pattern": `^[0-9]{4}-[0-9]{2}-[0-9]{2}$`}
}

func enumSchema(words ...string) func() map[string]any {
	return func() map[string]any { return map[string]any{"enum": words} }
}

func wholeSchema(least, most int) func() map[string]any {
	return func() map[string]any { return map[string]any{"type": "integer", "minimum": least, "maximum": most} }
}

// listSchema is a list of at least one element, or the element alone.
func listSchema(element func() map[string]any) func() map[string]any {
	return func() map[string]any {
		return map[string]any{"anyOf": []any{element(), map[string]any{"type": "array", "minItems": 1, "items": element()}}}
	}
}
