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

// Limits of a file, as those of the policy file: they keep the YAML parser
// far from trouble.
const (
	MaxSize   = 1 << 20 // bytes
	maxTokens = 100_000
	maxDepth  = 32  // of brackets
	maxColumn = 200 // of a key or dash
)

// parseYAML returns the root of the file's only document, nil when the file
// says nothing or has faults.
func (r *reader) parseYAML(src []byte) ast.Node {
	if !r.checkText(src) {
		return nil
	}
	tokens := lexer.Tokenize(string(src))
	if !r.checkTokens(tokens) {
		return nil
	}
	tree, err := parseTokens(tokens)
	if err != nil {
		at, msg := Pos{File: r.name, Line: 1, Column: 1}, err.Error()
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
	r.fail(Pos{File: r.name, Line: 1, Column: 1}, "", "the file is empty; write version: 1, callers and downstreams")
	return nil
}

// normalised drops the byte order mark and the carriage returns.
func normalised(src []byte) []byte {
	return bytes.ReplaceAll(bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")), []byte("\r\n"), []byte("\n"))
}

// parseTokens turns a panic of the YAML parser into an error.
func parseTokens(tokens token.Tokens) (tree *ast.File, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the YAML parser gave up: %v", v)
		}
	}()
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

func (r *reader) checkText(src []byte) bool {
	if len(src) > MaxSize {
		r.fail(Pos{File: r.name, Line: 1, Column: 1}, "", "the file is larger than 1 MiB; put long lists into CSV files")
		return false
	}
	for i, line := range bytes.Split(src, []byte("\n")) {
		indent := len(line) - len(bytes.TrimLeft(line, " \t"))
		if rest := line[indent:]; len(rest) > 0 && rest[0] != '#' {
			if tab := bytes.IndexByte(line[:indent], '\t'); tab >= 0 {
				r.fail(Pos{File: r.name, Line: i + 1, Column: tab + 1}, "", "a tab in the indentation; indent with spaces")
			}
		}
		if !utf8.Valid(line) {
			r.fail(Pos{File: r.name, Line: i + 1, Column: 1}, "", "not UTF-8 text; save the file as UTF-8")
		} else if at := bytes.IndexFunc(line, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }); at >= 0 {
			r.fail(Pos{File: r.name, Line: i + 1, Column: utf8.RuneCount(line[:at]) + 1}, "", "a control character; remove it")
		}
	}
	return len(r.errs) == 0
}

// refused are the parts of YAML that a scenario does without, as a policy.
var refused = map[token.Type]string{
	token.AnchorType:     "anchors are not supported; write the values out",
	token.AliasType:      "aliases are not supported; write the values out",
	token.MergeKeyType:   "merge keys are not supported; write the values out",
	token.TagType:        "tags are not supported; remove it",
	token.DirectiveType:  "directives are not supported; remove the line",
	token.MappingKeyType: "complex keys are not supported; write key: value",
}

func (r *reader) checkTokens(tokens token.Tokens) bool {
	if len(tokens) > maxTokens {
		r.fail(Pos{File: r.name, Line: 1, Column: 1}, "", "the file has more than %d keys and values; put long lists into CSV files", maxTokens/3)
		return false
	}
	begun, depth := false, 0
	for _, t := range tokens {
		if msg := refused[t.Type]; msg != "" {
			r.fail(r.tokenPos(t), "", "%s", msg)
			return false
		}
		switch t.Type {
		case token.CommentType:
			continue
		case token.DocumentHeaderType, token.DocumentEndType:
			if begun {
				r.fail(r.tokenPos(t), "", "a second document; a scenario file is one document")
				return false
			}
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType, token.MappingValueType:
			if t.Position.Column > maxColumn && depth == 0 {
				r.fail(r.tokenPos(t), "", "indented deeper than %d columns", maxColumn)
				return false
			}
		}
		if depth > maxDepth {
			r.fail(r.tokenPos(t), "", "nested deeper than %d brackets", maxDepth)
			return false
		}
		begun = true
	}
	return true
}

func (r *reader) tokenPos(t *token.Token) Pos {
	return Pos{File: r.name, Line: t.Position.Line, Column: max(t.Position.Column, 1)}
}
