package webhook

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
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

const (
	maxTypes   = 500
	maxHeaders = 50
	maxOwner   = 256
)

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
	for name, value := range headers {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return invalid("endpoint: header %q: is no name of a header", name)
		case !httpguts.ValidHeaderFieldValue(value):
			return invalid("endpoint: header %s: its value has characters that no header may have", name)
		case reserved[canonical] || strings.HasPrefix(canonical, "Webhook-"):
			return invalid("endpoint: header %s: is the sender's own; leave it out", canonical)
		}
	}
	return nil
}
