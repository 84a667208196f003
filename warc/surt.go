package warc

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

var (
	www = regexp.MustCompile(`^www\d*\.`)
	// Session ids, which make one page look like many.
	pathSession  = regexp.MustCompile(`^(.*?)(?:;jsessionid=[0-9a-z]{32}|/\([0-9a-z]{24}\)|/\((?:[a-z]\([0-9a-z]{24}\))+\))(/.*|)$`)
	querySession = regexp.MustCompile(`^(?:jsessionid=[0-9a-z]{32}|phpsessid=[0-9a-z]{32}|sid=[0-9a-z]{32}|aspsessionid[a-z]{8}=[a-z]{24})$`)
	cfSession    = regexp.MustCompile(`(?:^|&)cfid=[^&]+&cftoken=[^&]+`)
)

// SURT returns the key under which replay tools look a URL up: the host's
// parts from the last, then the path, all in lower case, without "www.",
// default port, session ids or a slash at the end, the query's parts sorted.
func SURT(raw string) string {
	lower := strings.ToLower(strings.TrimSpace(raw))
	u, err := url.Parse(lower)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return strings.ReplaceAll(lower, " ", "%20")
	}
	host := www.ReplaceAllString(u.Hostname(), "")
	if !strings.Contains(host, ":") { // an IPv6 address has no parts
		parts := strings.Split(strings.Trim(host, "."), ".")
		slices.Reverse(parts)
		host = strings.Join(parts, ",")
	}
	if port := u.Port(); port != "" && (u.Scheme != "http" || port != "80") && (u.Scheme != "https" || port != "443") {
		host += ":" + port
	}
	path := u.EscapedPath()
	if m := pathSession.FindStringSubmatch(path); m != nil {
		path = m[1] + m[2]
	}
	if path = strings.TrimSuffix(path, "/"); path == "" {
		path = "/"
	}
	key := host + ")" + strings.ToLower(path)
	if query := surtQuery(u.RawQuery); query != "" {
		key += "?" + query
	}
	return strings.ReplaceAll(key, " ", "%20")
}

func surtQuery(query string) string {
	query = strings.Trim(cfSession.ReplaceAllString(query, ""), "&")
	if query == "" {
		return ""
	}
	parts := slices.DeleteFunc(strings.Split(query, "&"), querySession.MatchString)
	slices.SortStableFunc(parts, func(a, b string) int {
		ka, _, _ := strings.Cut(a, "=")
		kb, _, _ := strings.Cut(b, "=")
		if c := strings.Compare(ka, kb); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	return strings.Join(parts, "&")
}
