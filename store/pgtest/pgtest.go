// Package pgtest starts throw-away PostgreSQL servers for tests: real ones,
// on a unix socket in a temporary directory, gone when the test binary ends.
//
// A test asks for a database with Database. The first one starts the server
// that all tests of the binary share; a TestMain that calls Run stops it:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }
//
// A test that stops, restarts or tunes its server calls Start.
package pgtest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// shared is the server of this test binary.
var shared struct {
	sync.Mutex
	config    Config
	server    *Server
	err       error
	templates map[string]*template
}

// template is a prepared database that others are copied from.
type template struct {
	once sync.Once
	err  error
}

// numbered makes names of databases unique within their server.
var numbered atomic.Int64

// Run runs the tests and stops the shared server. It returns the exit code.
func Run(m *testing.M) int { return RunWith(m, Config{}) }

// RunWith is Run with a shared server of that config.
func RunWith(m *testing.M, c Config) int {
	shared.Lock()
	shared.config = c
	shared.Unlock()
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		return code
	}
	if err := shared.server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Database returns the URL of an empty database on the shared server. It is
// dropped when the test ends.
func Database(tb testing.TB) string {
	tb.Helper()
	return Shared(tb).Database(tb, "template0")
}

// Prepared returns the URL of a copy of a database that prepare has filled.
// prepare runs once a binary and name.
func Prepared(tb testing.TB, name string, prepare func(ctx context.Context, url string) error) string {
	tb.Helper()
	server := Shared(tb)
	shared.Lock()
	t := shared.templates[name]
	if t == nil {
		t = &template{}
		shared.templates[name] = t
	}
	shared.Unlock()
	t.once.Do(func() { t.err = server.prepare(tb.Context(), name, prepare) })
	if t.err != nil {
		tb.Fatalf("pgtest: template %s: %v", name, t.err)
	}
	return server.Database(tb, name)
}

// Shared returns the server of this test binary. It syncs to disk, as a real
// one does, unless RunWith said otherwise.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = launch(shared.config)
		shared.templates = map[string]*template{}
	}
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.server
}

// Start returns a server of the test's own. It is stopped when the test ends.
func Start(tb testing.TB, c Config) *Server {
	tb.Helper()
	s, err := launch(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Database creates a database from the template and returns its URL. It is
// dropped when the test ends, whoever is still connected.
func (s *Server) Database(tb testing.TB, from string) string {
	tb.Helper()
	name := fmt.Sprintf("ebb_%d_%d", os.Getpid(), numbered.Add(1))
	if err := s.execute(tb.Context(), "CREATE DATABASE "+name+" TEMPLATE "+from); err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
	tb.Cleanup(func() {
		if !s.Running() {
			return
		}
		if err := s.execute(context.Background(), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("pgtest: %v", err)
		}
	})
	return s.URL(name)
}

func (s *Server) prepare(ctx context.Context, name string, prepare func(ctx context.Context, url string) error) error {
	if strings.ContainsFunc(name, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
		return fmt.Errorf("name %q: want lower-case letters and underscores", name)
	}
	if err := s.execute(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return err
	}
	return prepare(ctx, s.URL(name))
}

// execute runs one statement in the server's own database.
func (s *Server) execute(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // the statement's error is the one to tell
	_, err = conn.Exec(ctx, statement)
	return err
}
