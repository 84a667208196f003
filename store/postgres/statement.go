package postgres

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebbhq/ebb/store"
)

//go:embed sql/*.sql
var statementFiles embed.FS

// Columns that a job has wherever it stands. kept are those that a settle
// leaves alone.
const (
	keptColumns    = "seq, due_at, enqueued_at, deadline_at, epoch, priority, queue, kind, policy, args, target, key, key_rule, unique_key, batch, trace, progress"
	historyColumns = "first_start_at, last_delay, starts, attempts, waits, idle, crashes, free, held"
	lastColumns    = "last_class, last_error, fingerprint, version"
	movedColumns   = keptColumns + ", " + historyColumns + ", " + lastColumns
	partColumns    = "queue_number, priority, retrying, lane, kind" // of a lane, see ebb_look
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
		"kept": keptColumns, "j.kept": ofJob(keptColumns),
		"moved": movedColumns, "j.moved": ofJob(movedColumns),
		"history_columns": historyColumns, "last_columns": lastColumns, "j.last_columns": ofJob(lastColumns),
		"part": partColumns, "j.part": ofJob(partColumns),
		"never":     "'" + store.Never.Format(time.RFC3339) + "'::timestamptz",
		"rest":      fmt.Sprintf("interval '%d microseconds'", store.LaneRest.Microseconds()),
		"after_due": strings.TrimPrefix(movedColumns, "seq, due_at, "),
	}
	for name, text := range settleFragments() {
		fragments[name] = text
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

// chosen are settle statements with the parameters that each of them uses: all
// are offered the same, but an unused one would have no type.
var chosen = map[string]choice{
	"succeed": choose("succeed"), "fail": choose("fail"), "park": choose("park"), "requeue": choose("requeue"), "keep": choose("keep"),
}

// choice is a statement whose parameters were renumbered.
type choice struct {
	text string
	used []int // the places, from 0, of its parameters among those offered
}

var parameter = regexp.MustCompile(`\$(\d+)`)

func choose(name string) choice {
	var c choice
	text := statement(name)
	for _, m := range parameter.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			panic(err) // digits
		}
		if !slices.Contains(c.used, n-1) {
			c.used = append(c.used, n-1)
		}
	}
	slices.Sort(c.used)
	c.text = parameter.ReplaceAllStringFunc(text, func(p string) string {
		n, err := strconv.Atoi(p[1:])
		if err != nil {
			panic(err)
		}
		return "$" + strconv.Itoa(slices.Index(c.used, n-1)+1)
	})
	return c
}

// of returns the parameters that the statement uses.
func (c choice) of(offered []any) []any {
	args := make([]any, len(c.used))
	for i, n := range c.used {
		args[i] = offered[n]
	}
	return args
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

// ofJob writes j. before each column.
func ofJob(columns string) string { return "j." + strings.ReplaceAll(columns, ", ", ", j.") }
