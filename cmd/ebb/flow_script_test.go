package main

import "testing"

// What holds work back is told and steered alike on both databases.
func TestFlowScriptsOnSQLite(t *testing.T) {
	onStore(t, "testdata/flow", onSQLite)
}

func TestFlowScriptsOnPostgreSQL(t *testing.T) {
	onStore(t, "testdata/flow", onPostgreSQL)
}
