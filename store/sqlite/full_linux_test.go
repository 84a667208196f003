package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/disktest"
	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
)

func TestFullDisk(t *testing.T) { disktest.Run(t, 1<<20, fullDisk) }

func fullDisk(t *testing.T, dir string) {
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 300<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "ebb.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	batch := []job.New{{Kind: "k", Args: bytes.Repeat([]byte("x"), 2000)}, {Kind: "k", Args: bytes.Repeat([]byte("y"), 2000)}}
	var acknowledged []int64
	enqueue := func() error {
		added, err := s.Enqueue(t.Context(), t0, batch)
		for _, a := range added {
			acknowledged = append(acknowledged, a.Seq)
		}
		return err
	}
	for err = enqueue(); err == nil; err = enqueue() {
	}
	if got := failure.Classify(err).Class; got != failure.DiskFull || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("got %v of class %s, want %s", err, got, failure.DiskFull)
	}
	if len(acknowledged) < 10 {
		t.Errorf("only %d jobs fitted", len(acknowledged))
	}
	everything := func() {
		t.Helper()
		for _, seq := range acknowledged {
			if _, err := s.Job(t.Context(), seq); err != nil {
				t.Fatalf("job %d was acknowledged: %v", seq, err)
			}
		}
		queues, err := s.Queues(t.Context())
		if err != nil || queues[0].Counts[job.Queued] != int64(len(acknowledged)) {
			t.Fatalf("%+v, %v: want %d queued", queues, err, len(acknowledged))
		}
	}
	everything()
	if err := enqueue(); failure.Classify(err).Class != failure.DiskFull {
		t.Errorf("still full: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := enqueue(); err != nil {
			t.Fatalf("after space was freed: %v", err)
		}
	}
	everything()
	p, err := s.Register(t.Context(), t0, store.Process{Kinds: []string{"k"}})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.Turn(t.Context(), store.Turn{Process: p.ID, Now: t0, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"k"}, Limit: 5}}})
	if err != nil || len(answer.Claimed) != 5 {
		t.Errorf("claimed %d, %v", len(answer.Claimed), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	sound(t, path)
}
