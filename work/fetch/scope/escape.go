package scope

import "strings"

const upperHex = "0123456789ABCDEF"

// unreserved are the characters whose percent-encoding is never needed.
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// pathSafe and querySafe are the characters that stand for themselves there:
// those of RFC 3986, and the few that every browser sends bare.
func pathSafe(c byte) bool {
	return unreserved(c) || strings.IndexByte("!$&'()*+,;=:@/|[]", c) >= 0
}

func querySafe(c byte) bool { return pathSafe(c) || c == '?' }

// escape rewrites text so that each byte is either safe or percent-encoded in
// upper case. What is encoded without need is decoded; a percent sign that
// encodes nothing is encoded itself.
func escape(text string, safe func(byte) bool) string {
	clean := true
	for i := range len(text) {
		if !safe(text[i]) {
			clean = false
			break
		}
	}
	if clean {
		return text
	}
	out := make([]byte, 0, len(text)+16)
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' && i+2 < len(text) {
			if b, ok := hexByte(text[i+1], text[i+2]); ok {
				if unreserved(b) {
					out = append(out, b)
				} else {
					out = append(out, '%', upperHex[b>>4], upperHex[b&15])
				}
				i += 2
				continue
			}
		}
		if safe(c) {
			out = append(out, c)
		} else {
			out = append(out, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(out)
}

func unescape(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if b, ok := hexByte(text[i+1], text[i+2]); ok {
				out = append(out, b)
				i += 2
				continue
			}
		}
		out = append(out, text[i])
	}
	return string(out)
}

func hexByte(a, b byte) (byte, bool) {
	high, ok1 := hexDigit(a)
	low, ok2 := hexDigit(b)
	return high<<4 | low, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// removeDots is RFC 3986, 5.2.4, for a path that is empty or begins with "/".
func removeDots(path string) string {
	if !strings.Contains(path, "/.") {
		return path
	}
	parts := strings.Split(path, "/")
	out := parts[:1]
	for i, part := range parts[1:] {
		last := i == len(parts)-2
		switch part {
		case ".":
		case "..":
			if len(out) > 1 {
				out = out[:len(out)-1]
			}
		default:
			out = append(out, part)
			continue
		}
		if last {
			out = append(out, "")
		}
	}
	return strings.Join(out, "/")
}
