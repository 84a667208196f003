package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/sqlite"
)

// Two stores on one file are to each other what two processes are.
func TestWakesAcrossProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ebb.db")
	a, b := openAt(t, path, sqlite.Options{}), openAt(t, path, sqlite.Options{})
	wakes, err := b.Wakes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	enqueue := func() int64 {
		added, err := a.Enqueue(t.Context(), t0, []job.New{{Kind: "k"}})
		if err != nil {
			t.Fatal(err)
		}
		return added[0].Seq
	}
	seq := enqueue()
	<-wakes
	if err := a.PauseQueue(t.Context(), t0, "ann", job.DefaultQueue, true); err != nil {
		t.Fatal(err)
	}
	if err := a.PauseQueue(t.Context(), t0, "ann", job.DefaultQueue, false); err != nil {
		t.Fatal(err)
	}
	<-wakes // after a resume
	p, err := a.Register(t.Context(), t0, store.Process{Kinds: []string{"k"}})
	if err != nil {
		t.Fatal(err)
	}
	claim := []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"k"}, Limit: 1}}
	if _, err := a.Turn(t.Context(), store.Turn{Process: p.ID, Now: t0, Claims: claim}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Turn(t.Context(), store.Turn{Process: p.ID, Now: t0, Settles: []store.Settle{{Ref: store.Ref{Seq: seq, Epoch: 1}, To: job.Queued}}}); err != nil {
		t.Fatal(err)
	}
	<-wakes // after a job came back
	tx, err := a.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.EnqueueTx(t.Context(), tx, t0, []job.New{{Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	<-wakes // after the user's commit
}

func TestCloseEndsWakesAndRefusesCalls(t *testing.T) {
	s := open(t)
	wakes, err := s.Wakes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range wakes { // drained, then closed
	}
	if _, err := s.Enqueue(t.Context(), t0, []job.New{{Kind: "k"}}); err == nil {
		t.Error("enqueued into a closed store")
	}
	if _, err := s.Queues(t.Context()); err == nil {
		t.Error("read from a closed store")
	}
	if _, err := s.Begin(t.Context()); err == nil {
		t.Error("began in a closed store")
	}
	if _, err := s.Wakes(t.Context()); err == nil {
		t.Error("woken by a closed store")
	}
}
