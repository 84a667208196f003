package policy

import (
	"strings"
	"testing"
	"time"
)

func TestAGuardThatCouldLoseWorkIsRefused(t *testing.T) {
	tests := []struct {
		name   string
		preset string
		edit   func(*Policy)
		want   string
	}{
		{"parked", "webhook", func(*Policy) {}, ""},
		{"failed with tries left", "webhook", func(p *Policy) { p.OnHoldEnd = HoldFail }, "error hold on_hold_end fail after 31m"},
		{"the window is longer than the hold", "webhook", func(p *Policy) {
			p.OnHoldEnd, p.Window, p.MaxHold = HoldFail, time.Hour, 59*time.Minute
		}, "error hold on_hold_end fail after 59m"},
		{"its window has passed", "webhook", func(p *Policy) {
			p.OnHoldEnd, p.Window, p.MaxHold = HoldFail, time.Hour, time.Hour
		}, ""},
		{"nothing holds it", "scrape", func(p *Policy) { p.OnHoldEnd = HoldFail }, ""},
		{"probed too seldom", "webhook", func(p *Policy) { p.Breaker.Cap = 61 * time.Second }, "error hold breaker.cap 1m1s"},
		{"probed ever more seldom", "webhook", func(p *Policy) { p.Breaker.Cap = 0 }, "error hold breaker.cap none"},
		{"probed late from the start", "webhook", func(p *Policy) { p.Breaker.Open, p.Breaker.Cap = 2*time.Minute, 2*time.Minute }, "error hold breaker.open 2m"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for line := range strings.Lines(brief(Lint(seal(t, tt.preset, tt.edit), today))) {
				if strings.Contains(line, " hold ") {
					got = append(got, strings.TrimSpace(line))
				}
			}
			if text := strings.Join(got, ", "); text != tt.want {
				t.Errorf("found %q, want %q", text, tt.want)
			}
		})
	}
}

// Whatever a policy says, only a retry whose window has passed may fail for
// having been held.
func TestFailsHeldOnlyAfterThePromise(t *testing.T) {
	for _, c := range []struct {
		end          HoldEnd
		window, hold time.Duration
		first, retry bool
	}{
		{HoldPark, time.Hour, time.Hour, false, false},
		{HoldFail, 0, time.Hour, false, false},
		{HoldFail, time.Hour, 30 * time.Minute, false, false},
		{HoldFail, time.Hour, time.Hour, false, true},
	} {
		p := Policy{OnHoldEnd: c.end, Window: c.window, MaxHold: c.hold}
		if p.FailsHeld(false) != c.first || p.FailsHeld(true) != c.retry {
			t.Errorf("%s, window %s, hold %s: first %t, retry %t; want %t, %t",
				c.end, c.window, c.hold, p.FailsHeld(false), p.FailsHeld(true), c.first, c.retry)
		}
	}
}
