package failure

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"
)

type sqlError string

func (e sqlError) Error() string    { return "sql: " + string(e) }
func (e sqlError) SQLState() string { return string(e) }

type liteError int

func (e liteError) Error() string {
	return fmt.Sprintf("database is locked (%d) (SQLITE_BUSY)", int(e))
}
func (e liteError) Code() int { return int(e) }

type otherCode int

func (e otherCode) Error() string { return "not a database" }
func (e otherCode) Code() int     { return int(e) }

type apiError struct {
	code   string
	status int
}

func (e apiError) Error() string       { return e.code }
func (e apiError) ErrorCode() string   { return e.code }
func (e apiError) HTTPStatusCode() int { return e.status }

type llmError int

func (e llmError) Error() string   { return "provider" }
func (e llmError) StatusCode() int { return int(e) }

func TestClassifyByInterface(t *testing.T) {
	for _, c := range []struct {
		err    error
		class  Class
		reason string
	}{
		{sqlError("08006"), Unavailable, "sqlstate_08006"},
		{sqlError("53300"), Unavailable, "sqlstate_53300"},
		{sqlError("57P03"), Unavailable, "sqlstate_57p03"},
		{sqlError("40001"), Unavailable, "sqlstate_40001"},
		{sqlError("57014"), Timeout, "sqlstate_57014"},
		{sqlError("23505"), InvalidInput, "sqlstate_23505"},
		{sqlError("42P01"), Config, "sqlstate_42p01"},
		{sqlError("28P01"), Config, "sqlstate_28p01"},
		{sqlError("3D000"), Config, "sqlstate_3d000"},
		{sqlError("XX000"), Plain, ""},
		{sqlError("?"), Plain, ""},
		{liteError(5), Unavailable, ""},
		{liteError(5 | 2<<8), Unavailable, ""},
		{liteError(13), DiskFull, ""},
		{liteError(10 | 3<<8), LocalIO, ""},
		{liteError(19), InvalidInput, ""},
		{liteError(1), Plain, ""},
		{otherCode(5), Plain, ""},
		{apiError{"SlowDown", 503}, Throttled, "SlowDown"},
		{apiError{"InternalError", 500}, Server, "InternalError"},
		{apiError{"NoSuchKey", 404}, InvalidInput, "NoSuchKey"},
		{apiError{"AccessDenied", 403}, Config, "AccessDenied"},
		{apiError{"NoSuchBucket", 404}, Config, "NoSuchBucket"},
		{apiError{"RequestTimeout", 400}, Timeout, "RequestTimeout"},
		{apiError{"SomethingNew", 503}, Server, ""},
		{apiError{"SomethingNew", 0}, Plain, ""},
		{llmError(429), Throttled, ""},
		{llmError(529), Server, ""},
		{llmError(400), Rejected, ""},
		{fmt.Errorf("load: %w", driver.ErrBadConn), Unavailable, "bad_connection"},
		{sql.ErrConnDone, Unavailable, "bad_connection"},
		{sql.ErrNoRows, Plain, ""},
		{errors.New("plain"), Plain, ""},
		{fmt.Errorf("wrapped: %w", llmError(408)), RequestTimeout, ""},
	} {
		f := Classify(c.err)
		if f.Class != c.class || f.Reason != c.reason {
			t.Errorf("%v: got %s %q, want %s %q", c.err, f.Class, f.Reason, c.class, c.reason)
		}
		if f.Blame != f.Class.Blame() {
			t.Errorf("%v: blames %s, want %s", c.err, f.Blame, f.Class.Blame())
		}
	}
}

func TestNamedFailureWins(t *testing.T) {
	err := fmt.Errorf("crawl: %w", New(Config, "infra_error_config", llmError(503)))
	f := Classify(err)
	if f.Class != Config || f.Reason != "infra_error_config" || f.Blame != BlameCaller {
		t.Errorf("got %+v", f)
	}
	if got, want := err.Error(), "crawl: config: infra_error_config: provider"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}

func TestExtraClassifierBeforeBuiltIn(t *testing.T) {
	own := func(err error) (Failure, bool) {
		if err.Error() == "provider" {
			f := Of(Unavailable)
			f.Reason = "model_loading"
			return f, true
		}
		return Failure{}, false
	}
	if f := Classify(llmError(400), own); f.Class != Unavailable || f.Reason != "model_loading" {
		t.Errorf("got %+v", f)
	}
	if f := Classify(sqlError("08000"), own); f.Class != Unavailable || f.Reason != "sqlstate_08000" {
		t.Errorf("an error it does not know: %+v", f)
	}
}

func TestOrders(t *testing.T) {
	cause := llmError(503)
	f := Classify(fmt.Errorf("outer: %w", Fatal(cause)))
	if f.Order != OrderFail || f.Class != Server || !errors.Is(f.Err, cause) {
		t.Errorf("fatal: %+v", f)
	}
	f = Classify(Park(errors.New("key revoked")))
	if f.Order != OrderPark || f.Err.Error() != "park: key revoked" {
		t.Errorf("park: %+v", f)
	}
	f = Classify(Snooze(time.Hour))
	if f.Order != OrderSnooze || f.Snooze != time.Hour {
		t.Errorf("snooze: %+v", f)
	}
	if f = Classify(Snooze(-time.Hour)); f.Snooze != 0 {
		t.Errorf("a negative snooze waits %s", f.Snooze)
	}
	if f = Classify(Fatal(nil)); f.Order != OrderFail || f.Err == nil {
		t.Errorf("fatal without a cause: %+v", f)
	}
	if f = Classify(nil); f != (Failure{}) {
		t.Errorf("nil: %+v", f)
	}
}

func TestStatus(t *testing.T) {
	for code, want := range map[int]Class{
		100: Unknown, 200: Unknown, 204: Unknown, 299: Unknown,
		301: Redirect, 304: Redirect, 400: Rejected, 401: Rejected, 404: Rejected, 408: RequestTimeout,
		410: Gone, 413: Rejected, 425: TooEarly, 429: Throttled, 499: Rejected,
		500: Server, 503: Server, 529: Server, 599: Server,
	} {
		if f := Status(code); f.Class != want || f.Status != code {
			t.Errorf("%d: got %s with status %d, want %s", code, f.Class, f.Status, want)
		}
	}
}

func TestResponse(t *testing.T) {
	now := time.Date(2026, 2, 21, 12, 0, 0, 0, time.UTC)
	if _, ok := Response(&http.Response{StatusCode: 200}, now); ok {
		t.Error("200 is a failure")
	}
	resp := &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {"120"}}}
	f, ok := Response(resp, now)
	if !ok || f.Class != Server || f.RetryAfter != 2*time.Minute || f.Err == nil {
		t.Errorf("got %+v, %v", f, ok)
	}
}

// Classify runs for every failed start: it must not feed the collector.
func BenchmarkClassifyPlain(b *testing.B) {
	err := errors.New("boom")
	b.ReportAllocs()
	for range b.N {
		if Classify(err).Class != Plain {
			b.Fatal("not plain")
		}
	}
}
