package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/postgres"
	"github.com/ebbhq/ebb/store/sqlite"
)

// database is where jobs are kept: what `--db` names.
type database struct {
	shown string // for people, without a password
	path  string // of SQLite; empty for others
	open  func(ctx context.Context) (store.Store, error)
	// migrate moves the schema and returns where every step then stands.
	migrate func(ctx context.Context, way direction) ([]schemaStep, error)
	// script is the schema as SQL.
	script func() string
}

// direction is which way a schema goes.
type direction string

const (
	up     direction = "up"
	down   direction = "down"
	status direction = "status"
)

// schemaStep is one step of a schema.
type schemaStep struct {
	Version   int       `json:"version"`
	Name      string    `json:"name"`
	AppliedAt time.Time `json:"applied_at,omitzero"`
	keeps     bool      // down loses nothing
}

// database returns what --db, EBB_DB, the configuration or, last, the default
// names.
func (a *app) database() (database, error) {
	at, from, err := a.databaseURL()
	if err != nil {
		return database{}, err
	}
	return a.parseDB(at, from)
}

// databaseURL is the database's URL and who named it.
func (a *app) databaseURL() (at, from string, err error) {
	if a.db != "" {
		return a.db, "--db", nil
	}
	if env, _ := a.lookup("EBB_DB"); env != "" {
		return env, "EBB_DB", nil
	}
	s, err := a.settings()
	if err != nil || s.DB != "" {
		return s.DB, "db of the configuration", err
	}
	return "sqlite:", "default", nil
}

// parseDB reads a URL of a database.
func (a *app) parseDB(at, from string) (database, error) {
	scheme, rest, ok := strings.Cut(at, ":")
	switch {
	case ok && scheme == "sqlite":
		if rest == "" {
			dir, err := dataDir(runtime.GOOS, a.lookup)
			if err != nil {
				return database{}, usage(err, "--db sqlite:PATH")
			}
			rest = filepath.Join(dir, "ebb", "ebb.db")
		}
		if strings.HasPrefix(rest, "//") && !strings.HasPrefix(rest, "///") {
			return database{}, usage(fmt.Errorf("%s: %q: two slashes name a host; SQLite wants a path", from, at), "--db sqlite:"+strings.TrimPrefix(rest, "//"))
		}
		return sqliteDatabase(strings.TrimPrefix(rest, "//")), nil
	case ok && (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//"):
		parsed, err := url.Parse(at)
		if err != nil {
			var parse *url.Error
			errors.As(err, &parse) // its own text would repeat the password
			return database{}, usage(fmt.Errorf("%s: not a URL: %w", from, parse.Err), "--db postgres://USER@HOST/DATABASE")
		}
		return postgresDatabase(parsed), nil
	}
	try := "--db sqlite:" + at
	if ok { // what follows the scheme may hold a password
		at, try = scheme+":…", "--db sqlite:ebb.db, or --db postgres://USER@HOST/DATABASE"
	}
	return database{}, usage(fmt.Errorf("%s: %q: want sqlite:PATH or postgres://…", from, at), try)
}

func sqliteDatabase(path string) database {
	return database{
		shown: "sqlite:" + path, path: path, script: sqlite.SQL,
		open: func(ctx context.Context) (store.Store, error) { return sqlite.Open(ctx, path, sqlite.Options{}) },
		migrate: func(ctx context.Context, way direction) ([]schemaStep, error) {
			steps, err := sqlite.Migrate(ctx, path, string(way))
			var list []schemaStep
			for _, s := range steps {
				list = append(list, schemaStep{s.Version, s.Name, s.AppliedAt, s.Keeps})
			}
			return list, err
		},
	}
}

// connectTimeout is how long a command waits for a server, unless the URL
// says otherwise.
const connectTimeout = "10" // seconds

func postgresDatabase(at *url.URL) database {
	query := at.Query()
	if !query.Has("connect_timeout") {
		query.Set("connect_timeout", connectTimeout)
	}
	plain := *at
	at.RawQuery = query.Encode()
	target := at.String()
	shown := plain.Query()
	for _, secret := range []string{"password", "ebb_listen"} { // the latter is a URL with one
		if shown.Has(secret) {
			shown.Set(secret, "xxxxx")
			plain.RawQuery = shown.Encode()
		}
	}
	return database{
		shown: plain.Redacted(), script: postgres.SQL,
		open: func(ctx context.Context) (store.Store, error) {
			return postgres.Open(ctx, target, postgres.Options{Name: "ebb-cli"})
		},
		migrate: func(ctx context.Context, way direction) ([]schemaStep, error) {
			steps, err := postgres.Migrate(ctx, target, string(way))
			var list []schemaStep
			for _, s := range steps {
				list = append(list, schemaStep{s.Version, s.Name, s.AppliedAt, s.Keeps})
			}
			return list, err
		},
	}
}

// dataDir is where the user's programs keep their data on that system.
func dataDir(system string, lookup func(string) (string, bool)) (string, error) {
	under := func(variable string, parts ...string) (string, bool) {
		dir, ok := lookup(variable)
		return filepath.Join(append([]string{dir}, parts...)...), ok && filepath.IsAbs(dir)
	}
	places := [][]string{{"XDG_DATA_HOME"}, {"HOME", ".local", "share"}}
	switch system {
	case "darwin":
		places = [][]string{{"HOME", "Library", "Application Support"}}
	case "windows":
		places = [][]string{{"LocalAppData"}}
	}
	for _, p := range places {
		if dir, ok := under(p[0], p[1:]...); ok {
			return dir, nil
		}
	}
	return "", fmt.Errorf("db: no place for the default database: %s is not set", places[len(places)-1][0])
}

// missing reports whether the database is a file that does not exist.
func (d *database) missing() bool {
	if d.path == "" {
		return false
	}
	_, err := os.Stat(d.path)
	return errors.Is(err, fs.ErrNotExist)
}

var errAbsent = errors.New("no such database yet")

// absent is the error of a database that only an enqueue or `migrate up`
// makes: a question must not leave files behind.
func (d *database) absent() error {
	return &failed{code: exitNo, err: fmt.Errorf("%s: %w", d.shown, errAbsent), try: "ebb job enqueue --kind KIND, or ebb migrate up, with the same --db"}
}

// unreachable is the error of a database that could not be opened.
func (d *database) unreachable(err error) error {
	try := "is --db right? It is " + d.shown
	switch {
	case errors.Is(err, store.ErrNewerSchema):
		try = "the newer ebb; its \"ebb migrate down\" takes a step back for this one"
	case errors.Is(err, store.ErrSchema) && d.path != "": // SQLite is moved when it is opened
		try = "another file with --db"
	case errors.Is(err, store.ErrSchema):
		try = "ebb migrate up"
	case d.path == "":
		try = "is the server running, and --db right? It is " + d.shown
	}
	return &failed{code: exitNo, err: errors.New(inOneLine(err)), try: try}
}

// inOneLine writes an error without its line breaks. A driver that tried an
// address with encryption and without says the same of both: once is enough.
func inOneLine(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.Join(strings.Fields(line), " "); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

// ask opens the database, or connects to the server that EBB_URL names, and
// puts a question or an order to it.
func (a *app) ask(c *cobra.Command, create bool, do func(ctx context.Context, ops engine.Ops) error) error {
	if at, ok := a.server(); ok {
		return a.askServer(c, at, do)
	}
	policies, err := a.knownPolicies()
	if err != nil {
		return err
	}
	return a.askStore(c, create, func(ctx context.Context, s store.Store, _ *database) error {
		return do(ctx, engine.New(s, policies, engine.Config{Actor: a.actor()}))
	})
}

// askStore opens the database itself, whatever EBB_URL says.
func (a *app) askStore(c *cobra.Command, create bool, do func(ctx context.Context, s store.Store, db *database) error) error {
	ctx := c.Context()
	db, err := a.database()
	if err != nil {
		return err
	}
	if !create && db.missing() {
		return db.absent()
	}
	s, err := db.open(ctx)
	if err != nil {
		return interrupted(ctx, db.unreachable(err))
	}
	err = do(ctx, s, &db)
	return interrupted(ctx, answer(c, errors.Join(err, closed(s, err))))
}

// closed closes the store; after an error its own error says nothing new.
func closed(s store.Store, err error) error {
	if e := s.Close(); err == nil {
		return e
	}
	return nil
}

// interrupted lets the end of the context have the last word.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// answer gives an error of the engine its exit code and its hint.
func answer(c *cobra.Command, err error) error {
	var f *failed
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.Is(err, engine.ErrInvalid):
		return usage(named(c, err), c.CommandPath()+" --help")
	case errors.Is(err, engine.ErrNotFound):
		return &failed{code: exitNo, err: err, try: c.Parent().CommandPath() + " list"}
	case errors.Is(err, engine.ErrTaken):
		return &failed{code: exitNo, err: named(c, err), try: "--on-conflict keep, or replace"}
	case errors.Is(err, engine.ErrState):
		try := "ebb job why " + strings.Join(c.Flags().Args(), " ")
		var hint interface{ Hint() string }
		if errors.As(err, &hint) && strings.HasPrefix(hint.Hint(), "ebb ") {
			try = hint.Hint()
		}
		return &failed{code: exitNo, err: named(c, err), try: try}
	}
	return &failed{code: exitNo, err: err, try: "the same again; if it stays, look at the database"}
}

// named puts the command before an error that may already name one of its
// words.
func named(c *cobra.Command, err error) error {
	text := strings.TrimPrefix(err.Error(), c.Name()+": ")
	text = strings.TrimPrefix(text, c.Parent().Name()+": ")
	return fmt.Errorf("%s: %s", c.CommandPath(), text)
}

// knownPolicies are the policies as a worker of this configuration has them.
func (a *app) knownPolicies() ([]policy.Policy, error) {
	entries, err := a.allPolicies()
	if err != nil {
		return nil, err
	}
	list := make([]policy.Policy, 0, len(entries))
	for _, e := range entries {
		if e, err = a.effective(e); err != nil {
			return nil, err
		}
		list = append(list, e.Policy)
	}
	s, err := a.settings()
	if err != nil {
		return nil, err
	}
	limited, err := s.Document.Policies(list)
	if err != nil {
		return nil, usage(err, "the key document.providers of the configuration")
	}
	return append(list, limited...), nil
}

// actor is who the audit names.
func (a *app) actor() string {
	who := "unknown"
	for _, variable := range []string{"SUDO_USER", "USER", "LOGNAME", "USERNAME"} {
		if v, ok := a.lookup(variable); ok && v != "" {
			who = v
			break
		}
	}
	if u, err := user.Current(); who == "unknown" && err == nil {
		who = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		who += "@" + host
	}
	return who
}

// remarkErr writes a line for people to standard error unless told to be
// quiet.
func (a *app) remarkErr(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}
