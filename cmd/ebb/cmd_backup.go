package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/store/sqlite"
)

// copied is what backup and restore print for programs.
type copied struct {
	Path     string `json:"path"`
	Bytes    int64  `json:"bytes"`
	Jobs     int64  `json:"jobs"`
	Replaced string `json:"replaced,omitempty"`
	// KeyFile is never part of a copy.
	KeyFile string `json:"key_file,omitempty"`
}

func (a *app) backupCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "backup OUT",
		Short: "Copy the database to a file while it is used",
		Long: `Copy the SQLite database of --db to the file OUT while servers and workers use it.
The copy is as the database was at one instant: every job that was acknowledged
before is in it. It is checked page by page before it gets its name, and only its
owner can read it. A file that is there is replaced with --force alone.

The key file that encrypts secrets is not in it: keep a copy of it elsewhere.

PostgreSQL has its own tools for that: pg_dump, or a base backup with archived
logs. Exit codes: 0 done; 1 it could not be done; 2 wrong usage.`,
		Example: `  ebb backup /backups/ebb-$(date +%F).db
  ebb backup ebb.bak --force --db sqlite:ebb.db`,
		Args: exactly("OUT"),
		RunE: func(c *cobra.Command, args []string) error { return a.backup(c, args[0], force) },
	}
	c.Flags().BoolVar(&force, "force", false, "replace the file that is there")
	return c
}

func (a *app) restoreCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "restore IN",
		Short: "Make a backup the database",
		Long: `Make the backup IN the SQLite database of --db. It is checked first. A database
that is there is replaced with --force alone, never while a process has it open,
and is kept beside it under a name with the time in it.

What happened after the backup is not known to it: jobs that have ended since run
again, and jobs that were enqueued since are not there. New jobs get numbers far
beyond, so that no id means two jobs. Bring the key file of the database along.

PostgreSQL has its own tools for that: pg_restore. Exit codes: 0 done; 1 it could
not be done; 2 wrong usage, or IN cannot be read.`,
		Example: `  ebb restore /backups/ebb-2026-02-21.db
  ebb restore ebb.bak --force --db sqlite:ebb.db`,
		Args: exactly("IN"),
		RunE: func(c *cobra.Command, args []string) error { return a.restore(c, args[0], force) },
	}
	c.Flags().BoolVar(&force, "force", false, "replace the database that is there; it is kept under another name")
	return c
}

// ownDatabase is the database that a command works on, which no server can do
// for it.
func (a *app) ownDatabase(c *cobra.Command) (database, error) {
	if at, ok := a.server(); ok {
		return database{}, usage(fmt.Errorf("%s: works on the database itself, and EBB_URL names a server: %s", c.CommandPath(), at), c.CommandPath()+" --db URL, with the server's own database")
	}
	return a.database()
}

// fileDatabase is the SQLite database that a command copies by itself.
func (a *app) fileDatabase(c *cobra.Command, tool string) (database, error) {
	db, err := a.ownDatabase(c)
	if err != nil {
		return database{}, err
	}
	if db.path == "" {
		return database{}, &failed{code: exitNo, err: fmt.Errorf("%s: %s: PostgreSQL is backed up by its own tools", c.CommandPath(), db.shown), try: fmt.Sprintf(tool, db.shown)}
	}
	return db, nil
}

func (a *app) backup(c *cobra.Command, to string, force bool) error {
	db, err := a.fileDatabase(c, "pg_dump --format=custom --file=ebb.dump '%s'")
	if err != nil {
		return err
	}
	if db.missing() {
		return db.absent()
	}
	made, err := sqlite.Backup(c.Context(), db.path, to, force)
	switch {
	case errors.Is(err, sqlite.ErrOccupied):
		return &failed{code: exitNo, err: fmt.Errorf("backup: %s: there is such a file already", to), try: "another name, or --force to replace it"}
	case err != nil:
		return interrupted(c.Context(), &failed{code: exitNo, err: err, try: "is there room, and may this user write there? Nothing was changed"})
	}
	told := copied{Path: made.Path, Bytes: made.Bytes, Jobs: made.Jobs}
	if told.KeyFile, err = a.keyThere(&db); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(told)
	}
	a.remarkOut("%s: %s, %d bytes, checked", told.Path, count(int(told.Jobs), "job"), told.Bytes)
	if told.KeyFile != "" {
		a.remarkErr("note: the key of its secrets, %s, is not in it; keep a copy elsewhere", told.KeyFile)
	}
	return nil
}

// keyThere is the database's key file, if there is one.
func (a *app) keyThere(db *database) (string, error) {
	path, _, err := a.keyPath(db)
	if err != nil || path == "" {
		return "", err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return path, nil
}

func (a *app) restore(c *cobra.Command, from string, force bool) error {
	db, err := a.fileDatabase(c, "pg_restore --clean --if-exists --dbname='%s' ebb.dump")
	if err != nil {
		return err
	}
	if at, err := os.Stat(from); err != nil {
		return usage(fmt.Errorf("restore: %w", err), "a file that ebb backup made")
	} else if at.IsDir() {
		return usage(fmt.Errorf("restore: %s: is a directory", from), "a file that ebb backup made")
	}
	made, err := sqlite.Restore(c.Context(), from, db.path, force, a.now())
	switch {
	case errors.Is(err, sqlite.ErrOccupied):
		return &failed{code: exitNo, err: fmt.Errorf("restore: %s: there is a database already", db.shown), try: "stop what uses it, then --force; it is kept under another name"}
	case errors.Is(err, sqlite.ErrInUse):
		return &failed{code: exitNo, err: fmt.Errorf("restore: %s: a process has it open; nothing was changed", db.shown), try: "stop every server and worker that uses it, then the same again"}
	case err != nil:
		return interrupted(c.Context(), &failed{code: exitNo, err: err, try: "a file that ebb backup made"})
	}
	told := copied{Path: made.Path, Bytes: made.Bytes, Jobs: made.Jobs, Replaced: made.Replaced}
	if told.KeyFile, err = a.keyThere(&db); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(told)
	}
	a.remarkOut("%s: %s, %d bytes, checked", told.Path, count(int(told.Jobs), "job"), told.Bytes)
	if told.Replaced != "" {
		a.remarkErr("note: what was there is now %s", told.Replaced)
	}
	if told.KeyFile == "" {
		a.remarkErr("note: there is no key file here; if the backup holds secrets, bring its own before ebb serve")
	}
	return nil
}
