package file

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	policyfile "github.com/ebbhq/ebb/policy/file"
)

// A scenario may hold policies, and its faults are told like theirs.
type (
	// Pos is a place in a file.
	Pos = policyfile.Pos
	// Error is one fault of a file.
	Error = policyfile.Error
	// Errors is every fault found in a file.
	Errors = policyfile.Errors //nolint:errname // as in the policy file
)

// reader reads one file and gathers its faults.
type reader struct {
	name string
	open Open
	errs Errors
	// places is where each written key and list element stands, by its path.
	places map[string]Pos
	failed map[string]bool // paths with a fault

	policies *policyfile.File // the inline ones; nil = none
	files    map[string]*policyfile.File
}

func (r *reader) fail(at Pos, path, format string, args ...any) {
	r.errs = append(r.errs, Error{File: r.name, Line: at.Line, Column: at.Column, Path: path, Msg: fmt.Sprintf(format, args...)})
	r.failed[path] = true
}

// spot is one value of the file: the node, where it stands, what it is called.
type spot struct {
	node ast.Node
	at   Pos
	path string
}

// pair is one key of a mapping with its value.
type pair struct {
	key   string
	keyAt Pos
	spot
}

// pairs returns the keys of a mapping in file order. ok is false when the
// value is no mapping, which is reported.
func (r *reader) pairs(s spot, want string) (list []pair, ok bool) {
	var values []*ast.MappingValueNode
	switch m := s.node.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		r.fail(s.at, s.path, "%s where %s is expected", describe(s.node), want)
		return nil, false
	}
	first := make(map[string]Pos, len(values))
	for _, v := range values {
		keyAt := r.pos(v.Key)
		key, isScalar := scalarOf(v.Key)
		if !isScalar {
			r.fail(keyAt, s.path, "%s as a key; a key is one word", describe(v.Key))
			continue
		}
		p := pair{key: key.text, keyAt: keyAt, spot: spot{node: v.Value, at: keyAt, path: join(s.path, shownKey(key.text))}}
		if at, twice := first[p.key]; twice {
			r.fail(keyAt, p.path, "written twice, first in line %d; keep one", at.Line)
			continue
		}
		first[p.key] = keyAt
		if isNull(v.Value) {
			r.fail(keyAt, p.path, "has no value; write one or remove the key")
			continue
		}
		p.at = r.pos(v.Value)
		r.places[p.path] = p.at
		list = append(list, p)
	}
	return list, true
}

func hasKey(list []pair, key string) bool {
	for _, p := range list {
		if p.key == key {
			return true
		}
	}
	return false
}

// items returns the elements of a list; anything else stands for a list of
// one.
func (r *reader) items(s spot) []spot {
	seq, ok := s.node.(*ast.SequenceNode)
	if !ok {
		one := s
		one.path += "[0]"
		r.places[one.path] = s.at
		return []spot{one}
	}
	list := make([]spot, len(seq.Values))
	for i, n := range seq.Values {
		list[i] = spot{node: n, at: r.pos(n), path: fmt.Sprintf("%s[%d]", s.path, i)}
		r.places[list[i].path] = list[i].at
	}
	return list
}

// scalar is one value as written.
type scalar struct {
	text   string
	quoted bool
}

func scalarOf(n ast.Node) (scalar, bool) {
	switch v := n.(type) {
	case *ast.LiteralNode:
		return scalar{text: v.Value.Value, quoted: true}, true
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		t := n.GetToken()
		return scalar{text: t.Value, quoted: t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType}, true
	}
	return scalar{}, false
}

// text returns the one value of a spot, reporting anything else.
func (r *reader) text(s spot, want string) (string, bool) {
	v, ok := scalarOf(s.node)
	if !ok {
		r.fail(s.at, s.path, "%s where %s is expected", describe(s.node), want)
	}
	return strings.TrimSpace(v.text), ok
}

var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

func isNull(n ast.Node) bool {
	if n == nil {
		return true
	}
	_, null := n.(*ast.NullNode)
	return null
}

func (r *reader) pos(n ast.Node) Pos {
	switch v := n.(type) {
	case *ast.MappingNode:
		if v.IsFlowStyle || len(v.Values) == 0 {
			break
		}
		return r.pos(v.Values[0].Key)
	case *ast.MappingValueNode:
		return r.pos(v.Key)
	}
	return r.tokenPos(n.GetToken())
}

func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode, nil:
		return "nothing"
	}
	if s, ok := scalarOf(n); ok {
		return strconv.Quote(short(s.text))
	}
	return "something else"
}

// unknown reports a key that a mapping does not have.
func (r *reader) unknown(p pair, known []string) {
	if meant := suggest(p.key, known); meant != "" {
		r.fail(p.keyAt, p.path, "unknown key; did you mean %s?", meant)
		return
	}
	r.fail(p.keyAt, p.path, "unknown key; one of: %s", strings.Join(known, ", "))
}

// suggest returns the known word that was probably meant, or "".
func suggest(word string, known []string) string {
	best, least := "", len(word)/3+2
	for _, k := range known {
		if d := distance(word, k); d < least {
			best, least = k, d
		}
	}
	if best != "" {
		return best
	}
	for _, k := range known {
		if len(k) >= 3 && len(word) >= 3 && (strings.Contains(word, k) || strings.Contains(k, word)) {
			return k
		}
	}
	return ""
}

// distance is the number of letters to insert, delete or replace to turn a
// into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(row[j]+1, row[j-1]+1, cost)
		}
	}
	return row[len(b)]
}

// place finds where a path, or the nearest mapping around it, is written.
func (r *reader) place(path string) Pos {
	for path != "" {
		if at, ok := r.places[path]; ok {
			return at
		}
		path = outer(path)
	}
	return Pos{File: r.name, Line: 1, Column: 1}
}

// known reports whether a fault of the path, or of what is around it, is
// reported already.
func (r *reader) known(path string) bool {
	for ; path != ""; path = outer(path) {
		if r.failed[path] {
			return true
		}
	}
	return false
}

func outer(path string) string { return path[:max(strings.LastIndexAny(path, ".["), 0)] }

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func shownKey(key string) string {
	if plainKey.MatchString(key) {
		return short(key)
	}
	return strconv.Quote(short(key))
}

// short cuts a text to what fits into a message.
func short(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
