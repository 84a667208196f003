package scope

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// MaxURL is the longest URL in bytes, normalised, that a fetch takes.
const MaxURL = 16 << 10

// Reasons why a text is no URL to fetch. The messages are for people.
var (
	errNoScheme = errors.New("no scheme: write https://… or http://…")
	errNoHost   = errors.New("no host after the scheme")
	errUserInfo = errors.New("a name or password in the URL would be kept in ledger and archive: send it as a header instead")
	errTooLong  = fmt.Errorf("longer than %d bytes", MaxURL)
	errRelative = errors.New("not relative to a URL with a path")
)

// hosts maps and checks names as browsers do: underscores and the like pass,
// what no resolver takes does not.
var hosts = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.StrictDomainName(false))

// Normalize returns the one spelling of an http or https URL: scheme and host
// in lower case, the host in its ASCII form, no default port, no fragment, no
// dot segments, percent-encoding in upper case and only where it is needed.
// Two URLs with one normal form name the same page; the reverse is not
// promised. Normal forms are stable: normalising one again changes nothing.
func Normalize(raw string) (string, error) {
	raw = clean(raw)
	scheme, rest := cutScheme(raw)
	switch scheme {
	case "http", "https":
	case "":
		return "", errNoScheme
	default:
		return "", fmt.Errorf("scheme %s: only http and https are fetched", scheme)
	}
	rest, found := strings.CutPrefix(slashes(rest), "//")
	if !found {
		return "", errNoHost
	}
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	host, err := normalHost(scheme, authority)
	if err != nil {
		return "", err
	}
	path, query, hasQuery := strings.Cut(path, "?")
	path = removeDots(escape(path, pathSafe))
	if path == "" {
		path = "/"
	}
	u := scheme + "://" + host + path
	if hasQuery {
		u += "?" + escape(query, querySafe)
	}
	if len(u) > MaxURL {
		return "", errTooLong
	}
	return u, nil
}

// Resolve returns the normal form of a reference found in the document at
// base, which must be in normal form itself.
func Resolve(base, ref string) (string, error) {
	ref = clean(ref)
	if scheme, _ := cutScheme(ref); scheme != "" {
		return Normalize(ref)
	}
	ref = slashes(ref)
	scheme, rest, found := strings.Cut(base, "://")
	if !found {
		return "", errRelative
	}
	site, path := rest, "/"
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		site, path = rest[:i], rest[i:]
	}
	path, _, _ = strings.Cut(path, "?")
	switch {
	case ref == "":
		return Normalize(base)
	case strings.HasPrefix(ref, "//"):
		return Normalize(scheme + ":" + ref)
	case ref[0] == '/':
		return Normalize(scheme + "://" + site + ref)
	case ref[0] == '?':
		return Normalize(scheme + "://" + site + path + ref)
	}
	return Normalize(scheme + "://" + site + path[:strings.LastIndexByte(path, '/')+1] + ref)
}

// Host returns host and port of a URL in normal form: the target of a fetch.
func Host(normal string) string {
	_, rest, _ := strings.Cut(normal, "://")
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		return rest[:i]
	}
	return rest
}

// clean drops what browsers drop: white space around, line breaks and tabs
// within, the fragment.
func clean(raw string) string {
	raw = strings.TrimFunc(raw, func(r rune) bool { return r <= ' ' })
	raw, _, _ = strings.Cut(raw, "#")
	raw = strings.TrimRight(raw, " ")
	if !strings.ContainsAny(raw, "\t\r\n") {
		return raw
	}
	return strings.NewReplacer("\t", "", "\r", "", "\n", "").Replace(raw)
}

// slashes turns backslashes before the query into slashes, as browsers do.
func slashes(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	before, query, found := strings.Cut(s, "?")
	before = strings.ReplaceAll(before, `\`, "/")
	if found {
		return before + "?" + query
	}
	return before
}

// cutScheme returns the scheme in lower case, "" if there is none, and what
// follows its colon.
func cutScheme(s string) (scheme, rest string) {
	for i := range len(s) {
		c := s[i] | 0x20
		switch {
		case 'a' <= c && c <= 'z':
		case i > 0 && ('0' <= s[i] && s[i] <= '9' || s[i] == '+' || s[i] == '-' || s[i] == '.'):
		case i > 0 && s[i] == ':':
			if host, _, ok := strings.Cut(s[i+1:], "/"); strings.Contains(s[:i], ".") && isPort(host) && ok {
				return "", s // example.org:8080/page
			}
			return strings.ToLower(s[:i]), s[i+1:]
		default:
			return "", s
		}
	}
	return "", s
}

func isPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

func normalHost(scheme, authority string) (string, error) {
	if strings.Contains(authority, "@") {
		return "", errUserInfo
	}
	host, port, hasPort := authority, "", false
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		host, port, hasPort = authority[:i], authority[i+1:], true
	}
	if host == "" {
		return "", errNoHost
	}
	host, err := normalName(host)
	if err != nil {
		return "", err
	}
	if !hasPort || port == "" {
		return host, nil
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return "", fmt.Errorf("port %q: want a number from 1 to 65535", port)
	}
	if scheme == "http" && number == 80 || scheme == "https" && number == 443 {
		return host, nil
	}
	return host + ":" + strconv.FormatUint(number, 10), nil
}

func normalName(host string) (string, error) {
	if inner, isV6 := strings.CutPrefix(host, "["); isV6 {
		inner, closed := strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !closed || err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", fmt.Errorf("host %q: no IPv6 address", host)
		}
		return "[" + addr.String() + "]", nil
	}
	name := unescape(host)
	if strings.ContainsAny(name, " \x00/?#@:[]<>\\^|%\"'`{}*") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fmt.Errorf("host %q: has characters that no host name has", host)
	}
	ascii, err := hosts.ToASCII(name)
	if err != nil {
		return "", fmt.Errorf("host %q: %w", host, err)
	}
	if again, err := hosts.ToASCII(ascii); err != nil || again != ascii {
		return "", fmt.Errorf("host %q: not a name in Unicode or ASCII", host)
	}
	if ascii == "" || ascii == "." || strings.Contains(ascii, "..") || strings.HasPrefix(ascii, ".") {
		return "", fmt.Errorf("host %q: has an empty part", host)
	}
	if len(ascii) > 253 {
		return "", fmt.Errorf("host %q: longer than 253 characters", host)
	}
	return ascii, nil
}
