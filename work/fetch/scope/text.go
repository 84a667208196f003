package scope

import "strings"

const space = " \t\r\n\f"

// srcset returns the URLs of a srcset attribute. A URL may hold commas; one at
// its end separates.
func srcset(s string) []string {
	var urls []string
	for {
		s = strings.TrimLeft(s, space+",")
		if s == "" {
			return urls
		}
		end := strings.IndexAny(s, space)
		if end < 0 {
			end = len(s)
		}
		url := strings.TrimRight(s[:end], ",")
		urls = append(urls, url)
		s = s[end:]
		if len(url) == end { // descriptors follow, up to a comma outside of parentheses
			s = s[descriptors(s):]
		}
	}
}

func descriptors(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth <= 0 {
				return i
			}
		}
	}
	return len(s)
}

// refresh returns the URL of "5; url=…", as browsers read it.
func refresh(content string) string {
	content = strings.TrimLeft(content, space)
	content = strings.TrimLeft(content, "0123456789.")
	content = strings.TrimLeft(content, space)
	if content == "" || content[0] != ';' && content[0] != ',' {
		return ""
	}
	content = strings.TrimLeft(content[1:], space)
	if len(content) >= 3 && strings.EqualFold(content[:3], "url") {
		if rest := strings.TrimLeft(content[3:], space); strings.HasPrefix(rest, "=") {
			content = strings.TrimLeft(rest[1:], space)
		}
	}
	if content != "" && (content[0] == '"' || content[0] == '\'') {
		quoted, _, _ := strings.Cut(content[1:], content[:1])
		return quoted
	}
	return strings.TrimSpace(content)
}

// css finds url(…) and @import "…" in a style.
func (c *collector) css(text string) {
	for i := 0; i < len(text); {
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return
			}
			i += end + 4
		case rest[0] == '"' || rest[0] == '\'':
			_, n := cssString(rest)
			i += n
		case rest[0] == '@' && hasFold(rest, "@import"):
			i += len("@import")
			trimmed := strings.TrimLeft(text[i:], space)
			if trimmed != "" && (trimmed[0] == '"' || trimmed[0] == '\'') {
				i = len(text) - len(trimmed)
				url, n := cssString(trimmed)
				c.add(url, "css import", true)
				i += n
			}
		case (rest[0] == 'u' || rest[0] == 'U') && hasFold(rest, "url("):
			url, n := cssURL(rest[4:])
			c.add(url, "css url", true)
			i += 4 + n
		default:
			i++
		}
	}
}

func hasFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// cssURL reads what follows "url(" and returns how long it is.
func cssURL(s string) (url string, n int) {
	trimmed := strings.TrimLeft(s, space)
	n = len(s) - len(trimmed)
	if trimmed != "" && (trimmed[0] == '"' || trimmed[0] == '\'') {
		url, m := cssString(trimmed)
		return url, n + m
	}
	end := 0
	for end < len(trimmed) && trimmed[end] != ')' {
		if trimmed[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(trimmed))
	return strings.TrimRight(cssUnescape(trimmed[:end]), space), n + end
}

// cssString reads a quoted string and returns how long it is with its quotes.
func cssString(s string) (text string, n int) {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return cssUnescape(s[1:i]), i + 1
		case '\n':
			return "", i // a string ends with its line: this one is broken
		}
	}
	return "", len(s)
}

func cssUnescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		code, n := rune(0), 0
		for n < 6 && i+n < len(s) {
			d, ok := hexDigit(s[i+n])
			if !ok {
				break
			}
			code, n = code<<4|rune(d), n+1
		}
		switch {
		case n > 0:
			b.WriteRune(code)
			i += n - 1
			if i+1 < len(s) && strings.IndexByte(space, s[i+1]) >= 0 {
				i++
			}
		case s[i] == '\n': // a line goes on
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
