package main

import (
	"testing"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/postgres"
)

// What holds work back is told and steered alike on both databases.
func TestFlowScriptsOnSQLite(t *testing.T) {
	onStore(t, "testdata/flow", func() string { return "sqlite:ebb.db" })
}

func TestFlowScriptsOnPostgreSQL(t *testing.T) {
	if _, ok := any((*postgres.Store)(nil)).(store.Flow); !ok {
		return // it keeps no gates yet
	}
	onStore(t, "testdata/flow", func() string { return pgtest.Database(t) })
}
