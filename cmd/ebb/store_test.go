package main

import (
	"path/filepath"
	"testing"
	"time"
)

func TestDataDir(t *testing.T) {
	for _, c := range []struct {
		system string
		env    map[string]string
		want   string // empty = refused
	}{
		{"linux", map[string]string{"HOME": "/home/maya"}, "/home/maya/.local/share"},
		{"linux", map[string]string{"HOME": "/home/maya", "XDG_DATA_HOME": "/data"}, "/data"},
		{"linux", map[string]string{"HOME": "/home/maya", "XDG_DATA_HOME": "relative"}, "/home/maya/.local/share"},
		{"linux", nil, ""},
		{"darwin", map[string]string{"HOME": "/Users/maya"}, "/Users/maya/Library/Application Support"},
		{"windows", map[string]string{"LocalAppData": "/users/maya/local"}, "/users/maya/local"},
		{"windows", map[string]string{"HOME": "/home/maya"}, ""},
	} {
		got, err := dataDir(c.system, func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
		if filepath.ToSlash(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s with %v: got %q, %v; want %q", c.system, c.env, got, err, c.want)
		}
	}
}

func TestTimesOfFlags(t *testing.T) {
	now := time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		text         string
		future, past time.Time // zero = refused
	}{
		{"2026-03-01T10:00:00+02:00", time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC), time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)},
		{"+90s", now.Add(90 * time.Second), time.Time{}},
		{"2h", time.Time{}, now.Add(-2 * time.Hour)},
		{"-2h", time.Time{}, now.Add(-2 * time.Hour)},
		{"+-5m", time.Time{}, time.Time{}},
		{"--5m", time.Time{}, time.Time{}},
		{"+5", time.Time{}, time.Time{}},
		{"2026-03-01", time.Time{}, time.Time{}},
	} {
		got, err := future(now, c.text)
		if !got.Equal(c.future) || (err == nil) != !c.future.IsZero() {
			t.Errorf("future %q: got %s, %v; want %s", c.text, got, err, c.future)
		}
		got, err = past(now, c.text)
		if !got.Equal(c.past) || (err == nil) != !c.past.IsZero() {
			t.Errorf("past %q: got %s, %v; want %s", c.text, got, err, c.past)
		}
	}
}
