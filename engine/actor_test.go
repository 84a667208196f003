package engine_test

import (
	"testing"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store/memory"
)

// TestActorOfContext: one engine serves many people, and the audit tells them
// apart.
func TestActorOfContext(t *testing.T) {
	s := memory.New(memory.Config{})
	defer s.Close()
	e := engine.New(s, nil, engine.Config{Actor: "server"})
	for _, order := range []func() error{
		func() error { _, err := e.PauseQueue(t.Context(), "a"); return err },
		func() error { _, err := e.PauseQueue(engine.WithActor(t.Context(), "maya"), "b"); return err },
		func() error { _, err := e.PauseKind(engine.WithActor(t.Context(), "noor"), "c"); return err },
	} {
		if err := order(); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := s.Audit(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range rows {
		got[r.What] = r.Actor
	}
	if got["a"] != "server" || got["b"] != "maya" || got["c"] != "noor" {
		t.Fatalf("the audit names %v", got)
	}
}
