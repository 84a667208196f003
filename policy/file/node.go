package file

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// reader reads one file and gathers its faults.
type reader struct {
	name   string
	errs   Errors
	failed map[string]bool // paths with a fault
}

func (r *reader) fail(at Pos, path, format string, args ...any) {
	r.errs = append(r.errs, Error{
		File: r.name, Line: at.Line, Column: at.Column,
		Path: path, Msg: fmt.Sprintf(format, args...),
	})
	r.failed[path] = true
}

// pair is one key of a mapping with its value.
type pair struct {
	key     string
	path    string
	keyAt   Pos
	valueAt Pos
	value   ast.Node
}

// pairs returns the keys of a mapping in file order; a key that is written
// twice counts once. ok is false when n is no mapping, which is reported.
func (r *reader) pairs(n ast.Node, at Pos, path, want string) (list []pair, ok bool) {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		r.fail(at, path, "%s where %s is expected", describe(n), want)
		return nil, false
	}
	first := make(map[string]Pos, len(values))
	for _, v := range values {
		p := pair{keyAt: r.pos(v.Key), value: v.Value}
		text, isScalar := scalarOf(v.Key)
		if !isScalar {
			r.fail(p.keyAt, path, "%s as a key; a key is one word", describe(v.Key))
			continue
		}
		p.key, p.path = text.text, join(path, shownKey(text.text))
		if at, twice := first[p.key]; twice {
			r.fail(p.keyAt, p.path, "written twice, first in line %d; keep one", at.Line)
			continue
		}
		first[p.key] = p.keyAt
		p.valueAt = p.keyAt
		if !isNull(v.Value) {
			p.valueAt = r.pos(v.Value)
		}
		list = append(list, p)
	}
	return list, true
}

// present reports a key without a value.
func (r *reader) present(p pair) bool {
	if isNull(p.value) {
		r.fail(p.keyAt, p.path, "has no value; write one or remove the key")
		return false
	}
	return true
}

// items returns the elements of a list; one scalar or mapping stands for a
// list of one when single allows it.
func items(n ast.Node, single bool) ([]ast.Node, bool) {
	if s, ok := n.(*ast.SequenceNode); ok {
		return s.Values, true
	}
	return []ast.Node{n}, single
}

// unknown reports a key that the mapping does not have. candidates are what
// it has, elsewhere what it might have been meant for in other places.
func (r *reader) unknown(p pair, candidates, elsewhere []string) {
	for _, path := range elsewhere {
		if lastKey(path) == p.key {
			r.fail(p.keyAt, p.path, "unknown key here; did you mean %s?", path)
			return
		}
	}
	if meant := suggest(p.key, candidates); meant != "" {
		r.fail(p.keyAt, p.path, "unknown key; did you mean %s?", meant)
		return
	}
	r.fail(p.keyAt, p.path, "unknown key; one of: %s", strings.Join(candidates, ", "))
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
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		t := n.GetToken()
		return scalar{text: t.Value, quoted: t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType}, true
	}
	return scalar{}, false
}

// plainNumber is a number that every YAML and JSON reader understands alike.
var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

func (s scalar) isNumber() bool { return !s.quoted && plainNumber.MatchString(s.text) }

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

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// shownKey is a key as paths show it: odd ones quoted, long ones cut.
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
