package main

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/store/memory"
)

// TestTally: the audit is told who enqueued how much where, in few rows,
// however many there are.
func TestTally(t *testing.T) {
	s := memory.New(memory.Config{})
	defer s.Close()
	c := newTally(engine.New(s, nil, engine.Config{}), s)
	enqueue := func(who string, jobs ...engine.NewJob) {
		t.Helper()
		if _, err := c.Enqueue(engine.WithActor(t.Context(), who), jobs...); err != nil {
			t.Fatal(err)
		}
	}
	told := func() (list []string) {
		t.Helper()
		rows, err := s.Audit(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			list = append(list, r.Actor+" "+r.Act+" "+r.What+": "+r.Detail)
		}
		slices.Sort(list)
		return list
	}
	enqueue("shop", engine.NewJob{Kind: "k", Queue: "mail"}, engine.NewJob{Kind: "k", Queue: "mail"}, engine.NewJob{Kind: "k", Queue: "bills"})
	enqueue("desk", engine.NewJob{Kind: "k", Unique: "one"})
	enqueue("desk", engine.NewJob{Kind: "k", Unique: "one"}) // it lives already
	for range 2 {                                            // the second time there is nothing new
		if err := c.tell(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"desk job.enqueue default: 1 job", "shop job.enqueue bills: 1 job", "shop job.enqueue mail: 2 jobs"}
	if got := told(); !slices.Equal(got, want) {
		t.Fatalf("the audit has %q, want %q", got, want)
	}
	for i := range maxTally + 20 {
		enqueue(fmt.Sprintf("token %d", i), engine.NewJob{Kind: "k"})
	}
	ctx, stop := context.WithCancel(t.Context())
	stop() // what was not told yet is told at the end
	if err := c.run(ctx); err != nil {
		t.Fatal(err)
	}
	got := told()
	if len(got) != len(want)+maxTally+1 || !slices.Contains(got, "others job.enqueue others: 20 jobs") {
		t.Errorf("%d rows: %q", len(got), got)
	}
}
