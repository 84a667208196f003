package file

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

// Reference returns the manual of the scenario file's keys in Markdown, made
// from the table of elements.
func Reference() string {
	var b strings.Builder
	b.WriteString("## The file\n\n")
	rows(&b, fileFields, func(f field) string { return fileTypes[f.key] })
	for i := range elements {
		e := &elements[i]
		section(&b, e.name, e.about, e.forms)
		rows(&b, e.fields, func(f field) string { return typeName(f.in(reflect.New(e.typ).Elem()).Type(), f) })
	}
	section(&b, "function of time", curveAbout, curveForms)
	rows(&b, curveFields, func(f field) string { return curveTypes[f.key] })
	section(&b, "variant", "The scenario with some of it replaced: its own keys, and any key of the scenario. Callers and downstreams are matched by name, and only what is written changes.", nil)
	rows(&b, variantFields, func(field) string { return "text" })
	return b.String()
}

var (
	fileTypes  = map[string]string{"version": "whole number", "policies": "mapping of policies", "seeds": "whole number", "variants": "list of variant", "compare": "mapping"}
	curveTypes = map[string]string{"steps": "mapping", "ramps": "mapping", "base": "number or rate", "spikes": "list", "points": "list of point", "period": "duration"}
)

func section(b *strings.Builder, name, about string, forms []string) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n", strings.ReplaceAll(name, "_", " "), about)
	if len(forms) > 0 {
		fmt.Fprintf(b, "In one line: %s.\n\n", strings.Join(forms, "; "))
	}
}

func rows(b *strings.Builder, fields []field, kind func(field) string) {
	b.WriteString("| key | type | needed | meaning |\n|---|---|---|---|\n")
	for _, f := range fields {
		needed := "no"
		if f.required {
			needed = "yes"
		}
		doc := strings.ReplaceAll(f.doc, "|", `\|`)
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.key, kind(f), needed, doc)
	}
}

// typeName says in the reference what a field takes.
func typeName(t reflect.Type, f field) string {
	switch t {
	case typeOf[time.Duration]():
		return "duration"
	case typeOf[time.Time]():
		return "instant"
	case typeOf[policy.Policy]():
		return "policy"
	case typeOf[failure.Class]():
		return "class of failure"
	case typeOf[simulate.Curve]():
		return "function of time"
	case typeOf[simulate.LoadCurve]():
		return "list of load point"
	}
	if e := elementOf(t); e != nil {
		return strings.ReplaceAll(e.name, "_", " ")
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem(), f)
	case reflect.Slice:
		return "list of " + typeName(t.Elem(), f)
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		if f.rate {
			return "rate"
		}
		return "number"
	case reflect.String:
		if f.words == nil {
			return "text"
		}
		return "`" + strings.Join(f.words, "`, `") + "`"
	}
	return "whole number"
}
