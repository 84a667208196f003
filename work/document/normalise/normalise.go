// Package normalise answers "is there JSON in this answer?". Models wrap JSON
// in code fences, put words around it and leave commas behind. Each step that
// was needed to get at it is named, so that what a model tends to do can be
// counted; nothing else is repaired, and nothing inside a string is touched.
package normalise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Step is one thing that was done to an answer.
type Step string

const (
	Mark          Step = "byte_order_mark" // one was taken off
	Fence         Step = "fence"           // a code fence was taken off
	Prefix        Step = "prefix"          // words before the JSON were dropped
	Suffix        Step = "suffix"          // words after the JSON were dropped
	TrailingComma Step = "trailing_comma"  // commas before a closing bracket were dropped
)

// Steps lists every step, in the order in which they are tried.
func Steps() []Step { return []Step{Mark, Fence, Prefix, Suffix, TrailingComma} }

// ErrUnparseable is of an answer in which no JSON object or array was found.
var ErrUnparseable = errors.New("unparseable")

// JSON returns the one JSON object or array that the answer holds, as the
// model wrote it but for the steps that it returns. Where the answer as a
// whole is JSON, whatever its kind, it is returned as it is.
func JSON(answer string) (json.RawMessage, []Step, error) {
	var steps []Step
	text, had := strings.CutPrefix(answer, "\ufeff")
	if had {
		steps = append(steps, Mark)
	}
	text = strings.TrimSpace(text)
	if valid(text) {
		return json.RawMessage(text), steps, nil
	}
	if found, did, ok := parse(text); ok {
		return found, append(steps, did...), nil
	}
	for _, inner := range fences(text) {
		if found, did, ok := parse(inner); ok {
			return found, append(append(steps, Fence), did...), nil
		}
	}
	tries := maxTries
	if found, did, ok := within(text, &tries); ok {
		return found, append(steps, did...), nil
	}
	return nil, nil, fmt.Errorf("%w: %s", ErrUnparseable, why(text))
}

// parse accepts JSON, perhaps with trailing commas.
func parse(text string) (json.RawMessage, []Step, bool) {
	if valid(text) {
		return json.RawMessage(text), nil, true
	}
	if mended, n := dropCommas(text); n > 0 && valid(mended) {
		return json.RawMessage(mended), []Step{TrailingComma}, true
	}
	return nil, nil, false
}

// valid wants one JSON value and no name twice: which of two would be meant?
func valid(text string) bool {
	return json.Valid([]byte(text)) && !doubled(text)
}

// doubled reports whether an object names a field twice.
func doubled(text string) bool {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	type frame struct {
		names map[string]bool // nil = an array
		value bool            // the next token of an object is a value
	}
	var stack []frame
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		top := len(stack) - 1
		if delim, ok := token.(json.Delim); ok {
			switch delim {
			case '{', '[':
				if top >= 0 {
					stack[top].value = false
				}
				f := frame{}
				if delim == '{' {
					f.names = map[string]bool{}
				}
				stack = append(stack, f)
			default:
				stack = stack[:top]
			}
			continue
		}
		if top < 0 || stack[top].names == nil {
			continue
		}
		if stack[top].value {
			stack[top].value = false
			continue
		}
		name, _ := token.(string)
		if stack[top].names[name] {
			return true
		}
		stack[top].names[name], stack[top].value = true, true
	}
}

// fences returns what stands between code fences, each trimmed; a last fence
// that nothing closes counts too.
func fences(text string) []string {
	var all []string
	for {
		_, rest, ok := strings.Cut(text, "```")
		if !ok {
			return all
		}
		if word, after, ok := strings.Cut(rest, "\n"); ok && !strings.ContainsAny(word, "{[\"`") {
			rest = after // the word after the fence names the language
		}
		inner, after, closed := strings.Cut(rest, "```")
		all = append(all, strings.TrimSpace(inner))
		if !closed {
			return all
		}
		text = after
	}
}

// maxTries bounds how many brackets are taken for the beginning: each costs a
// look at the rest.
const maxTries = 64

// within looks for the first object or array among other words. Only words
// that are no JSON may stand around it: of two values neither is chosen.
func within(text string, tries *int) (json.RawMessage, []Step, bool) {
	from := strings.IndexAny(text, "{[")
	for from >= 0 && *tries > 0 {
		*tries--
		to := closing(text[from:])
		if to > 0 {
			if found, did, ok := parse(text[from : from+to]); ok {
				before, after := strings.TrimSpace(text[:from]), strings.TrimSpace(text[from+to:])
				if strings.ContainsAny(after, "{[") {
					if _, _, again := within(after, tries); again {
						return nil, nil, false
					}
				}
				var steps []Step
				if before != "" {
					steps = append(steps, Prefix)
				}
				if after != "" {
					steps = append(steps, Suffix)
				}
				return found, append(steps, did...), true
			}
		}
		next := strings.IndexAny(text[from+1:], "{[")
		if next < 0 {
			break
		}
		from += 1 + next
	}
	return nil, nil, false
}

// closing returns where the bracket that text begins with is closed, 0 if it
// is not.
func closing(text string) int {
	depth := 0
	end := 0
	scan(text, func(i int, c byte) bool {
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				end = i + 1
				return false
			}
		}
		return true
	})
	return end
}

// scan calls see for every byte outside of strings.
func scan(text string, see func(i int, c byte) bool) {
	inside := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inside && c == '\\':
			i++
		case c == '"':
			inside = !inside
		case !inside && !see(i, c):
			return
		}
	}
}

// dropCommas takes out commas that a closing bracket follows.
func dropCommas(text string) (string, int) {
	var out bytes.Buffer
	last, comma, n := 0, -1, 0
	scan(text, func(i int, c byte) bool {
		switch c {
		case ',':
			comma = i
		case ' ', '\t', '\r', '\n':
		case '}', ']':
			if comma >= 0 && strings.TrimSpace(text[comma+1:i]) == "" {
				out.WriteString(text[last:comma])
				last = comma + 1
				n++
			}
			comma = -1
		default:
			comma = -1
		}
		return true
	})
	out.WriteString(text[last:])
	return out.String(), n
}

// why says what is wrong with the text as JSON.
func why(text string) string {
	if text == "" {
		return "the answer is empty"
	}
	from := strings.IndexAny(text, "{[")
	if from < 0 {
		return "the answer holds no JSON object"
	}
	var any json.RawMessage
	err := json.NewDecoder(strings.NewReader(text[from:])).Decode(&any)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the JSON breaks off"
	case err != nil:
		return err.Error()
	case doubled(text[from:]):
		return "an object names a field twice"
	}
	return "the answer holds more than one JSON value"
}
