package postgres

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed sql/*.sql
var statementFiles embed.FS

// Columns that a job has wherever it stands. kept are those that a settle
// leaves alone.
const (
	keptColumns    = "seq, due_at, enqueued_at, deadline_at, epoch, priority, queue, kind, policy, args, target, key, unique_key, batch, trace, progress"
	historyColumns = "first_start_at, last_delay, starts, attempts, waits, idle, crashes, free"
	lastColumns    = "last_class, last_error, fingerprint, version"
	movedColumns   = keptColumns + ", " + historyColumns + ", " + lastColumns
)

// statements are the texts of sql/*.sql by name, with their fragments filled
// in.
var statements = loadStatements()

// statement returns the text of that name. Names are constants of this
// package: one that is missing is found by every test.
func statement(name string) string {
	text := statements[name]
	if text == "" {
		panic(fmt.Sprintf("postgres: no statement is named %q", name))
	}
	return text
}

var marker = regexp.MustCompile(`(?m)^-- (name|fragment): (\w+)\n`)

func loadStatements() map[string]string {
	fragments := map[string]string{
		"kept": keptColumns, "j.kept": prefixed("j.", keptColumns),
		"moved": movedColumns, "j.moved": prefixed("j.", movedColumns),
		"history_columns": historyColumns, "last_columns": lastColumns,
		"after_due": strings.TrimPrefix(movedColumns, "seq, due_at, "),
	}
	texts := map[string]string{}
	files, err := statementFiles.ReadDir("sql")
	if err != nil {
		panic(err) // embedded: cannot be absent
	}
	for _, f := range files {
		text, err := statementFiles.ReadFile("sql/" + f.Name())
		if err != nil {
			panic(err)
		}
		places := marker.FindAllStringSubmatchIndex(string(text), -1)
		for i, at := range places {
			end := len(text)
			if i+1 < len(places) {
				end = places[i+1][0]
			}
			into := texts
			if string(text[at[2]:at[3]]) == "fragment" {
				into = fragments
			}
			into[string(text[at[4]:at[5]])] = strings.TrimSpace(string(text[at[1]:end]))
		}
	}
	for name, text := range texts {
		texts[name] = fill(text, fragments)
	}
	return texts
}

var hole = regexp.MustCompile(`/\*([\w.]+)\*/`)

// fill writes the fragments into their holes; fragments may have holes too.
func fill(text string, fragments map[string]string) string {
	return hole.ReplaceAllStringFunc(text, func(h string) string {
		fragment, ok := fragments[strings.Trim(h, "/*")]
		if !ok {
			return h // filled when the statement is built: /*from*/, /*filter*/
		}
		return fill(fragment, fragments)
	})
}

// prefixed writes the prefix before each column.
func prefixed(prefix, columns string) string {
	return prefix + strings.ReplaceAll(columns, ", ", ", "+prefix)
}
