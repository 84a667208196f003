package main

import (
	"path/filepath"
	"testing"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store/sqlite"
)

// The world has jobs of every state, and all that its pages name.
func TestWorld(t *testing.T) {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ebb.db"), sqlite.Options{Relaxed: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := &world{store: s}
	if err := w.load(t.Context(), 20_000); err != nil {
		t.Fatal(err)
	}
	counts := map[job.State]int64{}
	all, err := s.Queues(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, q := range all {
		for state, n := range q.Counts {
			counts[state] += n
			sum += n
		}
	}
	if len(all) != queues || sum != 20_000 || counts[job.Succeeded] < 12_000 || counts[job.Failed] < 1000 || counts[job.Running] == 0 {
		t.Errorf("%d queues, %d jobs: %v", len(all), sum, counts)
	}
	seen := map[string]bool{}
	for _, p := range w.pages() {
		if seen[p] {
			t.Errorf("%s is asked for twice", p)
		}
		seen[p] = true
	}
}
