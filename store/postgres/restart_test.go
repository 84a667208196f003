package postgres_test

import (
	"testing"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/postgres"
)

// TestARestartOfTheServer: what was acknowledged is there, leases hold, calls
// fail while the server is down and work again by themselves, and so do wakes.
func TestARestartOfTheServer(t *testing.T) {
	server := pgtest.Start(t, pgtest.Config{})
	url := server.Database(t, "template0")
	s, other := open(t, url, postgres.Options{Poll: 20 * time.Millisecond}), open(t, url, postgres.Options{})
	p := register(t, s)
	wakes, err := s.Wakes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seqs := mail(t, s, 1000)
	leased := claim(t, s, p, 400)
	if err := server.Stop(); err != nil { // as a crash does
		t.Fatal(err)
	}
	_, err = s.Turn(t.Context(), store.Turn{Process: p, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 1}}})
	if err == nil {
		t.Fatal("a turn without a server succeeded")
	}
	if f := failure.Classify(err); f.Class != failure.Unavailable && f.Class.Group() != failure.Connection {
		t.Errorf("without a server: %v is of class %s, want one that is tried again", err, f.Class)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	var settles []store.Settle
	for i := range leased {
		settles = append(settles, outcome(&leased[i], leased[i].LeasedAt, false))
	}
	answer, err := s.Turn(t.Context(), store.Turn{
		Process: p, Settles: settles, Claims: []store.Claim{{Queue: job.DefaultQueue, Kinds: []string{"mail"}, Limit: 1000}},
	})
	if err != nil {
		t.Fatalf("the first turn after the restart: %v", err)
	}
	for i, ok := range answer.Settled {
		if !ok {
			t.Fatalf("the lease of %d did not outlive the restart", settles[i].Seq)
		}
	}
	if len(answer.Claimed) != len(seqs)-len(leased) {
		t.Errorf("claimed %d, want the other %d", len(answer.Claimed), len(seqs)-len(leased))
	}
	for len(wakes) > 0 {
		<-wakes
	}
	mail(t, other, 1)
	<-wakes
}
