package main

import (
	"testing"

	"github.com/ebbhq/ebb/store/pgtest"
)

// What holds work back is told and steered alike on both databases.
func TestFlowScriptsOnSQLite(t *testing.T) {
	onStore(t, "testdata/flow", func() string { return "sqlite:ebb.db" })
}

func TestFlowScriptsOnPostgreSQL(t *testing.T) {
	onStore(t, "testdata/flow", func() string { return pgtest.Database(t) })
}
