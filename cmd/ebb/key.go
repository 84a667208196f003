package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/store"
)

// keyFlag lets a command that seals or opens secrets be told with which key.
func (a *app) keyFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.key, "key-file", "", "file of the key that encrypts secrets in the database (default for SQLite PATH.key, made where it does not exist; EBB_KEY_FILE)")
}

// keyPath is the key file that --key-file, EBB_KEY_FILE, the configuration or,
// last, the place of an SQLite file names, and who named it; empty = none.
func (a *app) keyPath(db *database) (path, from string, err error) {
	if a.key != "" {
		return a.key, "--key-file", nil
	}
	if env, _ := a.lookup("EBB_KEY_FILE"); env != "" {
		return env, "EBB_KEY_FILE", nil
	}
	s, err := a.settings()
	switch {
	case err != nil:
		return "", "", err
	case s.KeyFile != "":
		return s.KeyFile, "key_file of the configuration", nil
	case db.path != "":
		return db.path + ".key", "beside the database", nil
	}
	return "", "", nil
}

// keeper keeps access and secrets in the store, with the key of the database.
// Without one, sealing is refused in words. A command that keeps or reads
// secrets itself gets it inside askStore, and has keyFlag.
func (a *app) keeper(ctx context.Context, s store.Store, db *database) (*access.Keeper, error) {
	k, err := access.New(s, nil, nil)
	if err != nil {
		return nil, err
	}
	path, from, err := a.keyPath(db)
	if err != nil || path == "" {
		return k, err
	}
	if err := k.UseKey(ctx, path); err != nil {
		return nil, &failed{code: exitNo, err: err, try: fmt.Sprintf("--key-file FILE; this one is named by %s", from)}
	}
	return k, nil
}
