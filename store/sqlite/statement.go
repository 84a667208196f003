package sqlite

import (
	"embed"
	"fmt"
	"slices"
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
	forSources(texts)
	forRows(texts)
	return texts
}

// forSources writes the filter into the texts that ask for one, once a source.
func forSources(texts map[string]string) {
	filter := texts["filter"]
	delete(texts, "filter")
	for name, text := range texts {
		texts[name] = strings.ReplaceAll(text, "/*filter*/", filter)
		if !strings.Contains(text, "/*from*/") {
			continue
		}
		for _, source := range []string{everywhere, live, running, done, dead, parked} {
			texts[name+"@"+source] = strings.ReplaceAll(texts[name], "/*from*/", source)
		}
		delete(texts, name)
	}
}

// Statements about rows given by their sequence numbers come in four forms: for
// the run ?1 to ?2, for the numbers from ?2 on that the map ?1 has a 1 for, for
// the JSON array ?1 in any order, and for the numbers that were noted. /*n*/ is
// the place of a row among them; in a map the gaps have places, too.
const (
	asRun   = "@run"
	asMap   = "@map"
	asList  = "@list"
	asNoted = "@noted"
)

var rowForms = map[string]*strings.Replacer{
	asRun: strings.NewReplacer(
		"/*seqs*/", "seq BETWEEN ?1 AND ?2",
		"/*rows*/", "ebb_job AS j WHERE j.seq BETWEEN ?1 AND ?2",
		"/*where*/", "WHERE j.seq BETWEEN ?1 AND ?2",
		"/*n*/", "(j.seq - ?1)",
	),
	asMap: strings.NewReplacer(
		"/*seqs*/", "seq BETWEEN ?2 AND ?2 + length(?1) - 1 AND substr(?1, seq - ?2 + 1, 1) = x'01'",
		"/*rows*/", "ebb_job AS j WHERE j.seq BETWEEN ?2 AND ?2 + length(?1) - 1 AND substr(?1, j.seq - ?2 + 1, 1) = x'01'",
		"/*where*/", "WHERE j.seq BETWEEN ?2 AND ?2 + length(?1) - 1 AND substr(?1, j.seq - ?2 + 1, 1) = x'01'",
		"/*n*/", "(j.seq - ?2)",
	),
	asList: strings.NewReplacer(
		"/*seqs*/", "seq IN (SELECT value FROM json_each(?1))",
		"/*rows*/", "json_each(?1) AS r CROSS JOIN ebb_job AS j ON j.seq = r.value",
		"/*where*/", "FROM json_each(?1) AS r WHERE j.seq = r.value",
		"/*n*/", "r.key",
	),
	asNoted: strings.NewReplacer(
		"/*seqs*/", "seq IN (SELECT seq FROM temp.ebb_noted)",
		"/*rows*/", "temp.ebb_noted AS noted CROSS JOIN ebb_job AS j ON j.seq = noted.seq",
		"/*where*/", "FROM temp.ebb_noted AS noted WHERE j.seq = +noted.seq",
		"/*n*/", "noted.n",
	),
}

func forRows(texts map[string]string) {
	for name, text := range texts {
		both := false
		for form, with := range rowForms {
			if expanded := with.Replace(text); expanded != text {
				both = true
				texts[name+form] = expanded
			}
		}
		if both {
			delete(texts, name)
		}
	}
}

// forSeqs returns the form of the statement for these rows, and its first two
// arguments. A run is told in the order of its numbers, a list in its own.
func forSeqs(name string, seqs []int64) (form string, args []any) {
	switch first := slices.Min(seqs); {
	case isRun(seqs):
		return name + asRun, []any{first, slices.Max(seqs)}
	case isDense(seqs):
		return name + asMap, []any{mapOf(seqs), first}
	}
	return name + asList, []any{jsonList(seqs), nil}
}

// isRun reports whether numbers, each there once, leave no gap.
func isRun(seqs []int64) bool { return slices.Max(seqs)-slices.Min(seqs) == int64(len(seqs)-1) }

// From minNoted rows on numbers with gaps are not told as a list. Where runs of
// minStretch rows on average are, each of them is told of by itself; where the
// numbers are no more than maxSparse times as many with those of the gaps, as a
// map; else they are noted.
const (
	minNoted   = 32
	minStretch = 64
	maxSparse  = 4
)

// isDense reports whether a map of the numbers, each there once, is worth it.
func isDense(seqs []int64) bool {
	return len(seqs) >= minNoted && slices.Max(seqs)-slices.Min(seqs) < int64(maxSparse*len(seqs))
}

// mapOf returns a byte for each number from the least to the greatest: 1 for
// those that are there.
func mapOf(seqs []int64) []byte {
	first := slices.Min(seqs)
	m := make([]byte, slices.Max(seqs)-first+1)
	for _, seq := range seqs {
		m[seq-first] = 1
	}
	return m
}

// stretches returns the runs of numbers in rising order, if they are few.
func stretches(seqs []int64) (list [][]int64) {
	first := 0
	for i := 1; i <= len(seqs); i++ {
		if i < len(seqs) && seqs[i] == seqs[i-1]+1 {
			continue
		}
		if list, first = append(list, seqs[first:i]), i; len(list)*minStretch > len(seqs) {
			return nil
		}
	}
	return list
}

// inStretches returns the parts of the rows, in rising order, that a statement
// is best run for: all of them, or each run by itself.
func (t *tx) inStretches(seqs []int64) [][]int64 {
	if t.isNoted(seqs) {
		return [][]int64{seqs}
	}
	return orStretches(seqs)
}

// isNoted reports whether these are the noted numbers.
func (t *tx) isNoted(seqs []int64) bool { return t.noted != nil && slices.Equal(t.noted, seqs) }

// orStretches returns the runs of the numbers, if they are few, or all as one.
func orStretches(seqs []int64) [][]int64 {
	if list := stretches(seqs); list != nil {
		return list
	}
	return [][]int64{seqs}
}

// note writes scattered numbers down, in rising order and each there once, if
// several statements are about them: an array is parsed and sorted by each.
func (t *tx) note(seqs []int64) error {
	if len(seqs) < minNoted || isDense(seqs) || stretches(seqs) != nil {
		return nil
	}
	for _, name := range []string{"note_table", "unnote"} { // a transaction that failed took the table with it
		if _, err := t.run(name); err != nil {
			return err
		}
	}
	if _, err := t.run("note", jsonList(seqs)); err != nil {
		return err
	}
	t.noted = seqs
	return nil
}

// forNoted is forSeqs for rows in rising order that may be the noted ones.
func (t *tx) forNoted(name string, seqs []int64) (form string, args []any) {
	if t.isNoted(seqs) {
		return name + asNoted, []any{nil, nil}
	}
	return forSeqs(name, seqs)
}

// places tells where the numbers of a statement about these rows, in rising
// order, go: each row has a place, and in a map each number of a gap.
func (t *tx) places(part []int64) (n int, at func(i int) int) {
	if len(part) > 0 && !t.isNoted(part) && isDense(part) {
		first := part[0]
		return int(part[len(part)-1]-first) + 1, func(i int) int { return int(part[i] - first) }
	}
	return len(part), func(i int) int { return i }
}

// runFor runs a statement about rows; args come after them.
func (t *tx) runFor(name string, seqs []int64, args ...any) error {
	_, err := t.runForN(name, seqs, args...)
	return err
}

// runForEach is runFor for rows in rising order, stretch by stretch.
func (t *tx) runForEach(name string, seqs []int64, args ...any) error {
	for _, part := range t.inStretches(seqs) {
		if err := t.runFor(name, part, args...); err != nil {
			return err
		}
	}
	return nil
}

// runForN is runFor that tells how many rows were changed.
func (t *tx) runForN(name string, seqs []int64, args ...any) (int64, error) {
	form, rows := t.forNoted(name, seqs)
	return t.run(form, append(rows, args...)...)
}
