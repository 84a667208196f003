package ebb

import (
	"context"
	"fmt"
	"strings"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/store/postgres"
	"github.com/ebbhq/ebb/store/sqlite"
)

// openStore opens what the URL names. No error repeats a URL that may hold a
// password.
func openStore(ctx context.Context, url string) (store.Store, error) {
	scheme, rest, ok := strings.Cut(url, ":")
	if !ok {
		return nil, fmt.Errorf("ebb: open: %q: has no scheme; want memory:, sqlite:PATH or postgres://…", url)
	}
	switch scheme {
	case "sqlite":
		path, err := sqlitePath(rest)
		if err != nil {
			return nil, err
		}
		return sqlite.Open(ctx, path, sqlite.Options{})
	case "postgres", "postgresql":
		return postgres.Open(ctx, url, postgres.Options{})
	case "memory":
		if rest != "" {
			return nil, fmt.Errorf("ebb: open: %q: want memory: alone, it has no name", url)
		}
		return memory.New(memory.Config{}), nil
	}
	return nil, fmt.Errorf("ebb: open: %s:…: unknown scheme; want memory:, sqlite:PATH or postgres://…", scheme)
}

// sqlitePath reads the path of sqlite:PATH or sqlite:///PATH.
func sqlitePath(rest string) (string, error) {
	switch {
	case rest == "":
		return "", fmt.Errorf("ebb: open: sqlite:: names no file; want sqlite:PATH")
	case rest == ":memory:":
		return "", fmt.Errorf("ebb: open: sqlite::memory:: want memory: instead, every connection would have its own")
	case strings.HasPrefix(rest, "//") && !strings.HasPrefix(rest, "///"):
		return "", fmt.Errorf("ebb: open: sqlite:%s: two slashes name a host; want sqlite:%s", rest, strings.TrimPrefix(rest, "//"))
	}
	return strings.TrimPrefix(rest, "//"), nil
}
