package file

import (
	"fmt"
	"strings"

	"github.com/ebbhq/ebb/policy"
)

// Reference returns the manual of the policy file's fields in Markdown, made
// from the field table.
func Reference() string {
	var b strings.Builder
	standard := policy.MustPreset(policy.DefaultName)
	table(&b, "field", "type", "default", "meaning")
	for _, f := range policy.Fields() {
		row(&b, code(f.Path), kindName(f), code(f.Text(&standard)), f.Doc)
	}
	row(&b, code(classesKey), "list of rules", code("[]"), classesDoc)
	row(&b, code(waiversKey), "list of waivers", code("[]"), waiversDoc)

	section(&b, "Rules in `classes`")
	recordRows(&b, "", ruleRecords)
	recordRows(&b, "match.", matchRecords)

	section(&b, "Waivers")
	recordRows(&b, "", waiverRecords)

	b.WriteString("\n## Words for whole mappings\n\n")
	table(&b, "field", "word", "stands for")
	for _, path := range []string{"backoff.jitter", "budget", "breaker", "waves"} {
		short := shorthands[path]
		var sets []string
		for _, s := range short.sets {
			text := s.text
			if text == "" {
				text = "the word"
			}
			sets = append(sets, code(s.path+": "+text))
		}
		row(&b, code(path), codes(short.words), strings.Join(sets, ", "))
	}

	b.WriteString("\n## Other names\n\n")
	table(&b, "key", "field", "meaning")
	for _, a := range aliases {
		row(&b, code(a.key), code(a.path), a.doc)
	}

	fmt.Fprintf(&b, "\n## Environment of the policy `%s`\n\n", EnvPolicy)
	table(&b, "variable", "field", "meaning")
	for _, v := range Variables() {
		row(&b, code(v.Name), code(v.Path), v.Doc)
	}
	return b.String()
}

func section(b *strings.Builder, title string) {
	fmt.Fprintf(b, "\n## %s\n\n", title)
	table(b, "key", "type", "needed", "meaning")
}

func recordRows(b *strings.Builder, prefix string, records []record) {
	for _, r := range records {
		needed := "no"
		if r.required {
			needed = "yes"
		}
		row(b, code(prefix+r.key), r.kind, needed, r.doc)
	}
}

func table(b *strings.Builder, heads ...string) {
	row(b, heads...)
	b.WriteString(strings.Repeat("|---", len(heads)) + "|\n")
}

func row(b *strings.Builder, cells ...string) {
	for _, cell := range cells {
		b.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
	}
	b.WriteString("|\n")
}

func code(text string) string { return "`" + text + "`" }

func codes(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = code(w)
	}
	return strings.Join(quoted, ", ")
}

func kindName(f policy.Field) string {
	switch f.Kind {
	case policy.KindDuration:
		return "duration"
	case policy.KindInt:
		return "whole number"
	case policy.KindFloat:
		return "number"
	case policy.KindBool:
		return "true or false"
	case policy.KindSwitch:
		return "on or off"
	case policy.KindDurations:
		return "list of durations"
	case policy.KindClasses:
		return "list of classes"
	}
	return codes(f.Enum)
}
