package file

import (
	"fmt"
	"strings"

	"github.com/ebbhq/ebb/policy"
)

// Source is the kind of place that a value came from.
type Source uint8

const (
	FromDefault Source = iota + 1 // the default policy, under another name
	FromPreset                    // the preset of the policy's name
	FromFile                      // written in the file
	FromEnv                       // an environment variable
	Derived                       // follows from other fields
)

// Origin is where a value came from. The zero Origin is that of no field.
type Origin struct {
	Source Source
	Name   string // of the preset or the variable
	At     Pos    // of a written value; for a derived one, of what it replaced
	Note   string // how a derived value came about
}

func (o Origin) String() string {
	switch o.Source {
	case FromDefault:
		return "default"
	case FromPreset:
		return "preset " + o.Name
	case FromFile:
		return o.At.String()
	case FromEnv:
		return "env " + o.Name
	case Derived:
		text := "derived: " + o.Note
		if !o.At.IsZero() {
			text += " (" + o.At.String() + ")"
		}
		return text
	}
	return "unknown"
}

// Entry is one policy with the origin of each of its values.
type Entry struct {
	// Policy is sealed.
	Policy policy.Policy

	draft   policy.Policy // as asked for, before sealing: what is derived can follow a change
	at      Pos           // of the name
	places  map[string]Pos
	origins map[string]Origin // of what is written
}

// Preset returns a preset as an entry.
func Preset(name string) (Entry, error) {
	p, err := policy.Preset(name)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Policy: p, draft: policy.Base(name)}, nil
}

// Pos returns where the field stands in the file; for a field that is not
// written the place of the mapping around it, or of the policy's name; for a
// preset nowhere. The path may lead into lists: "classes[0].max".
func (e *Entry) Pos(path string) Pos {
	for path != "" {
		if at, ok := e.places[path]; ok {
			return at
		}
		path = outer(path)
	}
	return e.at
}

// outer returns the path of the mapping or list around a path, "" at the top.
func outer(path string) string { return path[:max(strings.LastIndexAny(path, ".["), 0)] }

// Origin returns where the value of a field, of classes or of waivers came
// from.
func (e *Entry) Origin(path string) Origin {
	list, _, _ := strings.Cut(path, "[")
	written, isWritten := e.origins[path]
	if !isWritten {
		written, isWritten = e.origins[list]
	}
	f, isField := policy.FieldAt(list)
	switch {
	case isField && e.isDerived(f, isWritten):
		return Origin{Source: Derived, Name: written.Name, At: written.At, Note: e.note(f)}
	case isWritten:
		return written
	case !isField && !isList(list):
		return Origin{}
	case policy.IsPreset(e.Policy.Name):
		return Origin{Source: FromPreset, Name: e.Policy.Name}
	}
	return Origin{Source: FromDefault}
}

func isList(path string) bool {
	key, _, _ := strings.Cut(path, ".")
	return key == classesKey || key == waiversKey
}

// isDerived reports whether sealing changed what was asked for, or a written
// field what would have been inherited.
func (e *Entry) isDerived(f policy.Field, isWritten bool) bool {
	if f.Text(&e.draft) != f.Text(&e.Policy) {
		return true
	}
	base := policy.Base(e.Policy.Name)
	return !isWritten && f.Text(&base) != f.Text(&e.Policy)
}

// note says how a derived value came about.
func (e *Entry) note(f policy.Field) string {
	switch f.Path {
	case "max_hold":
		return "the schedule's length"
	case "attempts":
		return "restarts.max + 1"
	case "restarts.max":
		return fmt.Sprintf("raised from %s to %s", f.Text(&e.draft), f.Text(&e.Policy))
	}
	return unused(f.Path, &e.Policy)
}

// with returns the entry with a field set from elsewhere, not yet sealed.
func (e *Entry) with(f policy.Field, text string, from Origin) (Entry, error) {
	next := *e
	if err := f.Set(&next.draft, text); err != nil {
		return *e, err
	}
	next.origins = map[string]Origin{f.Path: from}
	for path, o := range e.origins {
		if path != f.Path {
			next.origins[path] = o
		}
	}
	return next, nil
}
