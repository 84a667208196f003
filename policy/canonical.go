package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// Canonical prints the policy's body as YAML, one field a line in the file's
// order, without its name. A field is left out where both the policy and the
// base of its name hold the zero value, so that reading the print back gives
// the same policy, and adding a field to Ebb changes no version. Steps stand
// alone: what they replace is not printed beside them.
func Canonical(p Policy) string {
	base := Base(p.Name)
	var w writer
	for _, f := range fields {
		if f.IsZero(&p) && (f.IsZero(&base) || len(p.Backoff.Steps) > 0 && replacedBySteps(f.Path)) {
			continue
		}
		w.field(f.Path, f.Text(&p))
	}
	if len(p.Classes) > 0 || len(base.Classes) > 0 {
		list(&w, "classes", p.Classes, ruleText)
	}
	if len(p.Waivers) > 0 || len(base.Waivers) > 0 {
		list(&w, "waivers", p.Waivers, waiverText)
	}
	return w.String()
}

func replacedBySteps(path string) bool {
	return path == "backoff.base" || path == "backoff.factor" || path == "backoff.cap"
}

// versionOf is the hash of the canonical form: 12 hex digits, enough to tell
// the versions of one policy apart.
func versionOf(p Policy) string {
	sum := sha256.Sum256([]byte(Canonical(p)))
	return hex.EncodeToString(sum[:6])
}

// writer prints dotted paths as nested mappings; paths arrive grouped.
type writer struct {
	strings.Builder
	open []string
}

func (w *writer) field(path, text string) {
	parts := strings.Split(path, ".")
	depth := len(parts) - 1
	common := 0
	for common < depth && common < len(w.open) && w.open[common] == parts[common] {
		common++
	}
	for i := common; i < depth; i++ {
		w.line(i, parts[i]+":")
	}
	w.open = parts[:depth]
	w.line(depth, parts[depth]+": "+text)
}

func (w *writer) line(depth int, text string) {
	w.WriteString(strings.Repeat("  ", depth))
	w.WriteString(text)
	w.WriteByte('\n')
}

func list[T any](w *writer, key string, items []T, text func(T) string) {
	if len(items) == 0 {
		w.line(0, key+": []")
		return
	}
	w.line(0, key+":")
	for _, item := range items {
		w.line(1, "- "+text(item))
	}
}

func ruleText(r Rule) string {
	var match []string
	if r.Match.Classes != 0 {
		match = append(match, "class: ["+strings.Join(r.Match.Classes.Names(), ", ")+"]")
	}
	if len(r.Match.Status) > 0 {
		codes := make([]string, len(r.Match.Status))
		for i, code := range r.Match.Status {
			codes[i] = strconv.Itoa(code)
		}
		match = append(match, "status: ["+strings.Join(codes, ", ")+"]")
	}
	if len(r.Match.Reason) > 0 {
		reasons := make([]string, len(r.Match.Reason))
		for i, reason := range r.Match.Reason {
			reasons[i] = strconv.Quote(reason)
		}
		match = append(match, "reason: ["+strings.Join(reasons, ", ")+"]")
	}
	parts := []string{"match: {" + strings.Join(match, ", ") + "}", "action: " + string(r.Action), "counts: " + string(r.Counts)}
	if r.Max > 0 {
		parts = append(parts, "max: "+strconv.Itoa(r.Max))
	}
	if r.Window > 0 {
		parts = append(parts, "window: "+FormatDuration(r.Window))
	}
	if r.Backoff != nil {
		parts = append(parts, "backoff: {"+strings.Join(backoffText(*r.Backoff), ", ")+"}")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func backoffText(b Backoff) []string {
	holder := Policy{Backoff: b}
	var parts []string
	for _, f := range fields {
		path, ok := strings.CutPrefix(f.Path, "backoff.")
		if !ok || f.IsZero(&holder) || path == "jitter.ratio" {
			continue
		}
		if path == "jitter.kind" {
			text := "jitter: {kind: " + string(b.Jitter.Kind)
			if b.Jitter.Ratio != 0 {
				text += ", ratio: " + formatFloat(b.Jitter.Ratio)
			}
			parts = append(parts, text+"}")
			continue
		}
		parts = append(parts, path+": "+f.Text(&holder))
	}
	return parts
}

func waiverText(w Waiver) string {
	return "{rule: " + w.Rule + ", reason: " + strconv.Quote(w.Reason) + ", expires: " + w.Expires.Format("2006-01-02") + "}"
}
