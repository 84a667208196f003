package failure

import (
	"fmt"
	"net/http"
	"time"
)

// Status returns the failure of an HTTP status. Statuses under 300 are no
// failure: the class is Unknown.
func Status(code int) Failure {
	var class Class
	switch {
	case code < 300:
		return Failure{Status: code}
	case code < 400:
		class = Redirect
	case code == http.StatusRequestTimeout:
		class = RequestTimeout
	case code == http.StatusTooEarly:
		class = TooEarly
	case code == http.StatusTooManyRequests:
		class = Throttled
	case code == http.StatusGone:
		class = Gone
	case code < 500:
		class = Rejected
	default:
		class = Server
	}
	f := Of(class)
	f.Status = code
	return f
}

// Response classifies an HTTP answer by its status, with its Retry-After read
// against the answer's own Date; receivedAt stands in where Date is missing or
// unreadable. It returns false for 1xx and 2xx.
func Response(resp *http.Response, receivedAt time.Time) (Failure, bool) {
	f := Status(resp.StatusCode)
	if f.Class == Unknown {
		return Failure{}, false
	}
	f.RetryAfter, f.RetryAfterIgnored = RetryAfter(resp.Header, receivedAt)
	f.Err = fmt.Errorf("http status %d", resp.StatusCode)
	return f, true
}
