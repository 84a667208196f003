package storetest

import (
	"os"
	"strconv"
	"testing"
)

// PlanRows is how many jobs a database's plans are judged with:
// EBB_PLAN_ROWS=10000000 for the long variant.
func PlanRows(t *testing.T) int {
	t.Helper()
	text := os.Getenv("EBB_PLAN_ROWS")
	if text == "" {
		return 10_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
