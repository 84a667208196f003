package robots

import "strings"

// pattern is the path of a rule, in canonical octets and cut at its stars.
type pattern struct {
	parts  []string
	whole  bool // it ended with $: nothing may follow
	length int  // in octets, which decides between rules
}

func newPattern(value string) pattern {
	var p pattern
	if body, found := strings.CutSuffix(value, "$"); found {
		value, p.whole = body, true
		p.length++
	}
	p.parts = strings.Split(value, "*")
	for i, part := range p.parts {
		p.parts[i] = canonical(part)
		p.length += len(p.parts[i])
	}
	p.length += len(p.parts) - 1
	return p
}

// matches looks for each part at its first place after the one before, which
// finds a match whenever there is one; the last part of a whole pattern is
// looked for at the end.
func (p *pattern) matches(path string) bool {
	rest, found := strings.CutPrefix(path, p.parts[0])
	if !found {
		return false
	}
	if len(p.parts) == 1 {
		return !p.whole || rest == ""
	}
	last := len(p.parts) - 1
	for _, part := range p.parts[1:last] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	if p.whole {
		return strings.HasSuffix(rest, p.parts[last])
	}
	return strings.Contains(rest, p.parts[last])
}

// pathOf is path and query of a URL in canonical octets.
func pathOf(url string) string {
	if _, rest, found := strings.Cut(url, "://"); found {
		url = ""
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			url = rest[i:]
		}
	}
	url, _, _ = strings.Cut(url, "#")
	if !strings.HasPrefix(url, "/") {
		url = "/" + url
	}
	return canonical(url)
}

const reserved = "!&'()+,;=:@/?[]" // but not * and $, which patterns give a meaning

// canonical writes octets in the one way that paths and patterns are compared
// in: unreserved ones bare, all that are neither reserved nor unreserved
// percent-encoded in upper case.
func canonical(s string) string {
	const hexDigits = "0123456789ABCDEF"
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c, encoded := s[i], false
		if c == '%' && i+2 < len(s) {
			if b, ok := unhex(s[i+1], s[i+2]); ok {
				c, encoded = b, true
				i += 2
			}
		}
		if unreserved(c) || !encoded && strings.IndexByte(reserved, c) >= 0 {
			out = append(out, c)
		} else {
			out = append(out, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return string(out)
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

func unhex(a, b byte) (byte, bool) {
	high, low := strings.IndexByte("0123456789abcdef", a|0x20), strings.IndexByte("0123456789abcdef", b|0x20)
	if high < 0 || low < 0 || a < '0' || b < '0' {
		return 0, false
	}
	return byte(high<<4 | low), true
}

func originOf(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return scheme + "://" + rest
}
