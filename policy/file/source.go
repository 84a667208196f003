package file

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a file. They keep the YAML parser, which recurses by depth and by
// the width of a mapping, far from any trouble; real files do not come near.
const (
	MaxSize   = 1 << 20 // bytes
	maxTokens = 100_000
	maxDepth  = 32   // of brackets
	maxColumn = 200  // of a key or dash, and so of indentation's depth
	maxKeys   = 2000 // in one mapping
)

// parseYAML returns the root of the file's only document, nil when the file
// says nothing. What the policy file does not use of YAML is refused here.
func (r *reader) parseYAML(src []byte) ast.Node {
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	src = bytes.ReplaceAll(src, []byte("\r\n"), []byte("\n"))
	if !r.checkText(src) {
		return nil
	}
	tokens := lexer.Tokenize(string(src))
	if !r.checkTokens(tokens) {
		return nil
	}
	tree, err := parseTokens(tokens)
	if err != nil {
		at := Pos{File: r.name, Line: 1, Column: 1}
		msg := err.Error()
		if syntax := (*yaml.SyntaxError)(nil); errors.As(err, &syntax) {
			msg = syntax.Message
			if syntax.Token != nil {
				at = r.tokenPos(syntax.Token)
			}
		}
		r.fail(at, "", "not YAML: %s", msg)
		return nil
	}
	for _, doc := range tree.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType {
			return doc.Body
		}
	}
	return nil
}

// parseTokens turns a panic of the YAML parser into an error: a file must
// never take the program down.
func parseTokens(tokens token.Tokens) (tree *ast.File, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the YAML parser gave up: %v", v)
		}
	}()
	// Duplicate keys are reported by the reader, all of them, with both places.
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// checkText refuses what cannot be a policy file by its bytes alone.
func (r *reader) checkText(src []byte) bool {
	if len(src) > MaxSize {
		r.fail(Pos{File: r.name, Line: 1, Column: 1}, "", "the file is larger than 1 MiB; split it")
		return false
	}
	ok := true
	for i, line := range bytes.Split(src, []byte("\n")) {
		if column, msg := lineFault(line); msg != "" {
			r.fail(Pos{File: r.name, Line: i + 1, Column: column}, "", "%s", msg)
			ok = false
		}
	}
	return ok
}

func lineFault(line []byte) (column int, msg string) {
	indent := len(line) - len(bytes.TrimLeft(line, " \t"))
	if rest := line[indent:]; len(rest) > 0 && rest[0] != '#' {
		if tab := bytes.IndexByte(line[:indent], '\t'); tab >= 0 {
			return tab + 1, "a tab in the indentation; indent with spaces"
		}
	}
	column = 1
	for rest := line; len(rest) > 0; column++ {
		c, size := utf8.DecodeRune(rest)
		switch {
		case c == utf8.RuneError && size == 1:
			return column, "not UTF-8 text; save the file as UTF-8"
		case c < ' ' && c != '\t', c == 0x7f:
			return column, fmt.Sprintf("a control character, %U; remove it or write it as an escape in double quotes", c)
		}
		rest = rest[size:]
	}
	return 0, ""
}

// refused are the parts of YAML that a policy file does without: a reviewer
// must see every value where it counts.
var refused = map[token.Type]string{
	token.AnchorType:     "anchors are not supported; write the values out",
	token.AliasType:      "aliases are not supported; write the values out",
	token.MergeKeyType:   "merge keys are not supported; write the values out",
	token.TagType:        "tags are not supported; remove it",
	token.DirectiveType:  "directives are not supported; remove the line",
	token.MappingKeyType: "complex keys are not supported; write key: value",
}

func (r *reader) checkTokens(tokens token.Tokens) bool {
	before := len(r.errs)
	if len(tokens) > maxTokens {
		r.fail(Pos{File: r.name, Line: 1, Column: 1}, "", "the file has more than %d keys and values; split it", maxTokens/3)
		return false
	}
	var s shape
	for _, t := range tokens {
		if msg := refused[t.Type]; msg != "" {
			r.fail(r.tokenPos(t), "", "%s", msg)
			if t.Type == token.DirectiveType {
				return false // what follows is no content
			}
		}
		if msg := s.next(t); msg != "" {
			r.fail(r.tokenPos(t), "", "%s", msg)
			return false
		}
	}
	return len(r.errs) == before
}

// shape follows a file's documents, depth and width token by token.
type shape struct {
	begun, ended bool
	depth        int
	keys         [maxColumn + 1]int // keys so far of the mapping at a column
}

// next returns why the file's shape is refused at t, or "".
func (s *shape) next(t *token.Token) string {
	switch t.Type {
	case token.CommentType:
		return ""
	case token.DocumentEndType:
		s.ended = true
		return ""
	case token.DocumentHeaderType:
		if s.begun || s.ended {
			return "a second document; a policy file is one document"
		}
		s.begun = true
		return ""
	}
	if s.ended {
		return "a second document; a policy file is one document"
	}
	s.begun = true
	switch t.Type {
	case token.SequenceStartType, token.MappingStartType:
		if s.depth++; s.depth > maxDepth {
			return fmt.Sprintf("nested deeper than %d brackets", maxDepth)
		}
	case token.SequenceEndType, token.MappingEndType:
		s.depth--
	case token.SequenceEntryType:
		return s.block(t.Position.Column)
	case token.MappingValueType:
		if s.depth <= 0 && t.Prev != nil {
			return s.key(t.Prev.Position.Column)
		}
	}
	return ""
}

// block notes a dash or key at a column; what stood deeper has ended.
func (s *shape) block(column int) string {
	if column > maxColumn {
		return fmt.Sprintf("indented deeper than %d columns", maxColumn)
	}
	clear(s.keys[max(column, 0)+1:])
	return ""
}

func (s *shape) key(column int) string {
	if msg := s.block(column); msg != "" || column < 0 {
		return msg
	}
	if s.keys[column]++; s.keys[column] > maxKeys {
		return fmt.Sprintf("more than %d keys in one mapping", maxKeys)
	}
	return ""
}

func (r *reader) tokenPos(t *token.Token) Pos {
	return Pos{File: r.name, Line: t.Position.Line, Column: max(t.Position.Column, 1)}
}
