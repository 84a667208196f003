package store

import "time"

// Instant cuts t to what every store keeps: microseconds, in UTC.
func Instant(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// Due returns when a job that waits for delay from now on may start, rounded
// up to the microsecond: never before its time.
func Due(now time.Time, delay time.Duration) time.Time {
	at := now.UTC().Add(delay)
	if cut := at.Truncate(time.Microsecond); cut.Before(at) {
		return cut.Add(time.Microsecond)
	}
	return at
}
