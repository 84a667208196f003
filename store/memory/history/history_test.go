package history

import (
	"os"
	"strconv"
	"testing"
)

// seeds is how many histories are played: 300, or what EBB_HISTORIES says.
func seeds(t *testing.T) uint64 {
	text := os.Getenv("EBB_HISTORIES")
	if text == "" {
		return 300
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("EBB_HISTORIES: %v; want a number of seeds", err)
	}
	return n
}

// The whole core keeps every promise in every history.
func TestHistories(t *testing.T) {
	for seed := range seeds(t) {
		if err := Run(seed, Ablation{}); err != nil {
			t.Fatal(err)
		}
	}
}

// A core without one of its safeguards is caught within 500 histories.
func TestAblations(t *testing.T) {
	for _, a := range Ablations() {
		t.Run(a.Name, func(t *testing.T) {
			for seed := range uint64(500) {
				if err := Run(seed, a); err != nil {
					t.Logf("caught by %v", err)
					return
				}
			}
			t.Error("not caught in 500 histories")
		})
	}
}
