package pg

import (
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	const stat = "42 (a) b) S 1 42 42 0 -1 4194560 100 200 0 0 150 50 30 20 20 0 1 0 100 1000 10\n"
	own, reaped, err := parseStat(stat)
	if own != 2 || reaped != 0.5 || err != nil {
		t.Errorf("parseStat = %g, %g, %v; want 2, 0.5", own, reaped, err)
	}
	if _, _, err := parseStat("42 (x) S 1"); err == nil {
		t.Error("a short line was read")
	}
}

func TestSecondsOfThisProcess(t *testing.T) {
	if _, err := Seconds(os.Getpid()); err != nil {
		t.Error(err)
	}
	if _, err := treeSeconds(os.Getpid()); err != nil {
		t.Error(err)
	}
}
