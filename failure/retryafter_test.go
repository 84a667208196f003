package failure

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	received := time.Date(2026, 11, 8, 9, 0, 0, 0, time.UTC)
	const date = "Sun, 08 Nov 2026 08:49:37 GMT" // eleven minutes behind our clock
	for _, c := range []struct {
		name, value, date string
		wait              time.Duration
		ignored           string
	}{
		{"seconds", "120", date, 2 * time.Minute, ""},
		{"zero", "0", date, 0, ""},
		{"spaces", "  30 ", date, 30 * time.Second, ""},
		{"imf-fixdate against its own date", "Sun, 08 Nov 2026 08:50:37 GMT", date, time.Minute, ""},
		{"rfc 850", "Sunday, 08-Nov-26 08:50:37 GMT", date, time.Minute, ""},
		{"rfc 850 of another zone", "Sunday, 08-Nov-26 08:50:37 EST", date, 0, "neither seconds nor an HTTP date"},
		{"asctime", "Sun Nov  8 08:50:37 2026", date, time.Minute, ""},
		{"date without Date", "Sun, 08 Nov 2026 09:00:10 GMT", "", 10 * time.Second, ""},
		{"date with garbage Date", "Sun, 08 Nov 2026 09:00:10 GMT", "yesterday", 10 * time.Second, ""},
		{"past", "Sun, 08 Nov 2026 08:49:36 GMT", date, 0, "in the past"},
		{"now", "Sun, 08 Nov 2026 08:49:37 GMT", date, 0, "in the past"},
		{"negative", "-5", date, 0, "negative"},
		{"overflows int64", "99999999999999999999", date, 0, "overflow"},
		{"overflows a duration", "9999999999999", date, 0, "overflow"},
		{"largest", "9223372036", date, 9223372036 * time.Second, ""},
		{"a date past every duration", "Fri, 31 Dec 9999 23:59:59 GMT", date, 0, "overflow"},
		{"fraction", "1.5", date, 0, "neither seconds nor an HTTP date"},
		{"plus", "+5", date, 0, "neither"},
		{"word", "soon", date, 0, "neither"},
		{"empty", "", date, 0, "empty"},
		{"unicode digits", "١٢", date, 0, "neither"},
		{"long garbage is clipped", strings.Repeat("x", 5000), date, 0, "…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := http.Header{"Retry-After": {c.value}}
			if c.date != "" {
				h.Set("Date", c.date)
			}
			wait, ignored := RetryAfter(h, received)
			if wait != c.wait {
				t.Errorf("wait %s, want %s", wait, c.wait)
			}
			if (ignored == "") != (c.ignored == "") || !strings.Contains(ignored, c.ignored) {
				t.Errorf("ignored %q, want %q", ignored, c.ignored)
			}
			if len(ignored) > 200 {
				t.Errorf("a foreign server wrote %d bytes into our record", len(ignored))
			}
		})
	}
}

func TestRetryAfterSeveralOrNone(t *testing.T) {
	now := time.Unix(0, 0)
	if wait, ignored := RetryAfter(http.Header{}, now); wait != 0 || ignored != "" {
		t.Errorf("none: %s %q", wait, ignored)
	}
	h := http.Header{"Retry-After": {"5", "garbage", "60"}}
	if wait, ignored := RetryAfter(h, now); wait != time.Minute || !strings.Contains(ignored, "garbage") {
		t.Errorf("several: %s %q", wait, ignored)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "-1", "99999999999999999999", "Sun, 08 Nov 2026 08:49:37 GMT", "Sunday, 08-Nov-26 08:50:37 GMT", "\x00", ""} {
		f.Add(s, "Sun, 08 Nov 2026 08:49:37 GMT")
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		wait, ignored := RetryAfter(http.Header{"Retry-After": {value}, "Date": {date}}, time.Unix(1e9, 0))
		if wait < 0 {
			t.Errorf("negative wait %s", wait)
		}
		if wait > 0 && ignored != "" {
			t.Errorf("used and ignored: %s, %q", wait, ignored)
		}
		if len(ignored) > 400 {
			t.Errorf("%d bytes of reason", len(ignored))
		}
	})
}
