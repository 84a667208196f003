package queue

import (
	"context"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
)

// New returns the system of a name, nil if there is none.
func New(name string) Queue {
	switch name {
	case "ebb-sqlite":
		return &Ebb{Open: func(ctx context.Context, path string) (store.Store, error) {
			return sqlite.Open(ctx, path, sqlite.Options{})
		}}
	case "lean":
		return &Lean{}
	case "lean-sqlite":
		return &LeanSQLite{}
	case "river":
		return &River{}
	}
	return nil
}

// Names lists what New knows.
func Names() []string { return []string{"ebb-sqlite", "lean", "lean-sqlite", "river"} }
