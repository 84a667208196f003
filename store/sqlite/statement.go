package sqlite

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed sql/*.sql
var statementFiles embed.FS

// statements are the texts of sql/*.sql by name. Those that ask a view by a
// filter stand here once for each source, as "list@ebb_dead_view".
var statements = loadStatements()

// Views of one shape, by where jobs stand.
const (
	everywhere = "ebb_all_view"
	live       = "ebb_live_view"
	running    = "ebb_running_view"
	done       = "ebb_done_view"
	dead       = "ebb_dead_view"
	parked     = "ebb_parked_view"
)

func loadStatements() map[string]string {
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
		_, rest, _ := strings.Cut(string(text), "-- name: ")
		for _, part := range strings.Split(rest, "-- name: ") {
			name, body, _ := strings.Cut(part, "\n")
			if texts[name] != "" {
				panic(fmt.Sprintf("sqlite: %s: statement %q is there twice", f.Name(), name))
			}
			texts[name] = strings.TrimSpace(body)
		}
	}
	expand(texts)
	return texts
}

// expand writes the filter into the texts that ask for one, once a source.
func expand(texts map[string]string) {
	filter := texts["filter"]
	for name, text := range texts {
		if !strings.Contains(text, "/*from*/") {
			continue
		}
		for _, source := range []string{everywhere, live, running, done, dead, parked} {
			texts[name+"@"+source] = strings.NewReplacer("/*from*/", source, "/*filter*/", filter).Replace(text)
		}
		delete(texts, name)
	}
	delete(texts, "filter")
}
