package webhook

import (
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/idna"
)

const maxURL = 2048

func (s *Service) checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return invalid("endpoint: url: %v", err)
	case len(text) > maxURL:
		return invalid("endpoint: url: has %d bytes; at most %d", len(text), maxURL)
	case u.Scheme == "http" && s.config.HTTPSOnly:
		return invalid("endpoint: url %q: must be https", text)
	case u.Scheme != "http" && u.Scheme != "https":
		return invalid("endpoint: url %q: must begin with https://", text)
	case u.Hostname() == "":
		return invalid("endpoint: url %q: has no host", text)
	case numeric(u.Hostname()):
		return invalid("endpoint: url %q: host %q: write an address as four numbers with dots, such as 192.0.2.1, or in brackets", text, u.Hostname())
	case u.User != nil:
		return invalid("endpoint: url: has a user in it; give a header Authorization instead, which is kept sealed")
	case u.Fragment != "":
		return invalid("endpoint: url %q: has a fragment, which is never sent", text)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return invalid("endpoint: url %q: port %q: must be 1 to 65535", text, port)
		}
	}
	return nil
}

// numeric reports whether a host is an address in a form that some resolvers
// and proxies understand (2130706433, 0x7f.1, 127.1, 127.0.0.1.) and that is
// none to us: what cannot be judged is not called.
func numeric(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	if plain, err := idna.Lookup.ToASCII(host); err == nil {
		host = plain // as it is looked up
	}
	host = strings.TrimSuffix(host, ".")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

const (
	maxTypes       = 500
	maxHeaders     = 50
	maxHeaderBytes = 16 << 10 // of all names and values
	maxOwner       = 256
	maxText        = 2048 // of a description or a reason
)

func checkText(name, text string) error {
	if len(text) > maxText || strings.ContainsRune(text, 0) || strings.ToValidUTF8(text, "") != text {
		return invalid("endpoint: %s: must be UTF-8 without zero bytes, %d bytes at most", name, maxText)
	}
	return nil
}

func checkTypes(types []string) error {
	if len(types) > maxTypes {
		return invalid("endpoint: %d types; at most %d", len(types), maxTypes)
	}
	for _, t := range types {
		start, wild := strings.CutSuffix(t, "*")
		if wild && (start == "" || strings.HasSuffix(start, ".") && checkType(strings.TrimSuffix(start, ".")) == nil) {
			continue
		}
		if err := checkType(t); err != nil {
			return err
		}
	}
	return nil
}

const maxType = 128

// checkType checks the name of an event's type.
func checkType(t string) error {
	if t == "" || len(t) > maxType {
		return invalid("type %q: must have 1 to %d characters", t, maxType)
	}
	for part := range strings.SplitSeq(t, ".") {
		if part == "" || strings.ContainsFunc(part, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
		}) {
			return invalid("type %q: want words of letters, digits, _ and - with dots between, such as invoice.paid", t)
		}
	}
	return nil
}

func checkOwner(owner string) error {
	if len(owner) > maxOwner || strings.ContainsRune(owner, 0) || strings.ToValidUTF8(owner, "") != owner {
		return invalid("owner: must be UTF-8 without zero bytes, %d bytes at most", maxOwner)
	}
	return nil
}

// reserved are headers that an endpoint may not set: they are the sender's or
// the connection's.
var reserved = map[string]bool{
	"Content-Length": true, "Content-Encoding": true, "Transfer-Encoding": true, "Connection": true, "Host": true, "Te": true,
	"Trailer": true, "Upgrade": true, "Keep-Alive": true, "Proxy-Connection": true, "Expect": true, "Accept-Encoding": true,
	"Proxy-Authorization": true,
}

func checkHeaders(headers map[string]string) error {
	if len(headers) > maxHeaders {
		return invalid("endpoint: %d headers; at most %d", len(headers), maxHeaders)
	}
	size, seen := 0, map[string]string{}
	for name, value := range headers {
		canonical := http.CanonicalHeaderKey(name)
		other, twice := seen[canonical]
		seen[canonical] = name
		size += len(name) + len(value)
		switch {
		case twice:
			return invalid("endpoint: headers %s and %s: are the same; give one", min(name, other), max(name, other))
		case !httpguts.ValidHeaderFieldName(name):
			return invalid("endpoint: header %q: is no name of a header", name)
		case !httpguts.ValidHeaderFieldValue(value):
			return invalid("endpoint: header %s: its value has characters that no header may have", name)
		case reserved[canonical] || strings.HasPrefix(canonical, "Webhook-"):
			return invalid("endpoint: header %s: is the sender's own; leave it out", canonical)
		}
	}
	if size > maxHeaderBytes {
		return invalid("endpoint: headers: have %d bytes; at most %d in all", size, maxHeaderBytes)
	}
	return nil
}
