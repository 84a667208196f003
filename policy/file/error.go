package file

import (
	"fmt"
	"strings"
)

// Pos is a place in a policy file, counted from 1, columns in characters.
// The zero Pos is nowhere: a preset's own values have no place.
type Pos struct {
	File         string
	Line, Column int
}

// IsZero reports whether the place is nowhere.
func (p Pos) IsZero() bool { return p.Line == 0 }

func (p Pos) String() string {
	if p.IsZero() {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Error is one fault of a policy file: where, which field, and what would be
// right.
type Error struct {
	File         string
	Line, Column int
	Path         string // such as "policies.webhook.backoff.base"; empty for the file as a whole
	Msg          string
}

func (e Error) Error() string {
	text := Pos{e.File, e.Line, e.Column}.String() + ": "
	if e.Path != "" {
		text += e.Path + ": "
	}
	return text + e.Msg
}

// Errors is every fault found in a file, in the order of the file; it prints
// one a line, the first maxPrinted of them.
type Errors []Error

const maxPrinted = 20

func (e Errors) Error() string {
	var texts []string
	for _, one := range e[:min(len(e), maxPrinted)] {
		texts = append(texts, one.Error())
	}
	if more := len(e) - maxPrinted; more > 0 {
		texts = append(texts, fmt.Sprintf("… and %d more", more))
	}
	return strings.Join(texts, "\n")
}

// Unwrap lets errors.As find a single Error.
func (e Errors) Unwrap() []error {
	list := make([]error, len(e))
	for i, one := range e {
		list[i] = one
	}
	return list
}

// suggest returns the known name that was probably meant, or "".
func suggest(name string, known []string) string {
	best, least := "", len(name)/3+2
	for _, k := range known {
		if len(k)-len(name) >= least || len(name)-len(k) >= least {
			continue
		}
		if d := distance(name, k); d < least {
			best, least = k, d
		}
	}
	if best != "" {
		return best
	}
	for _, k := range known {
		if len(k) >= 4 && len(name) >= 4 && (strings.Contains(name, k) || strings.Contains(k, name)) {
			return k
		}
	}
	return ""
}

// distance is the number of letters to insert, delete, replace or swap with
// their neighbour to turn a into b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
