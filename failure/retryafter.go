package failure

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxSeconds is the largest delay-seconds that fits a time.Duration.
const maxSeconds = int64(1<<63-1) / int64(time.Second)

// RetryAfter reads the Retry-After header: whole seconds, or one of the three
// HTTP-date forms measured from the header's own Date (receivedAt where that
// is missing). What cannot be used gives 0 and says why: past, negative,
// overflowing or unreadable values. Of several headers the longest usable wait
// wins, since it is a floor.
func RetryAfter(h http.Header, receivedAt time.Time) (wait time.Duration, ignored string) {
	values := h.Values("Retry-After")
	from := receivedAt
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		from = date
	}
	for _, value := range values {
		d, why := parseRetryAfter(strings.TrimSpace(value), from)
		if why == "" {
			wait = max(wait, d)
		} else if ignored == "" {
			ignored = why
		}
	}
	return wait, ignored
}

func parseRetryAfter(value string, from time.Time) (time.Duration, string) {
	quoted := clip(value)
	switch {
	case value == "":
		return 0, "retry-after ignored: empty"
	case digits(value):
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n > maxSeconds {
			return 0, "retry-after ignored: overflow: " + quoted
		}
		return time.Duration(n) * time.Second, ""
	case value[0] == '-' && digits(value[1:]):
		return 0, "retry-after ignored: negative: " + quoted
	}
	at, err := http.ParseTime(value)
	if err != nil || !isGMT(at) {
		return 0, "retry-after ignored: neither seconds nor an HTTP date: " + quoted
	}
	switch d := at.Sub(from); {
	case d <= 0:
		return 0, "retry-after ignored: in the past: " + quoted
	case d == math.MaxInt64: // Sub saturates
		return 0, "retry-after ignored: overflow: " + quoted
	default:
		return d, ""
	}
}

// isGMT refuses the other zones that the parser lets pass in the form of RFC
// 850: it takes their hour for that of Greenwich.
func isGMT(t time.Time) bool {
	name, offset := t.Zone()
	return offset == 0 && (name == "GMT" || name == "UTC")
}

func digits(s string) bool {
	for _, r := range s {
		if r < '0' || r > '9' {
			return false
		}
	}
	return s != ""
}

// clip bounds what a foreign server can write into our records.
func clip(value string) string {
	const most = 64
	if len(value) > most {
		value = value[:most] + "…"
	}
	return strconv.Quote(value)
}
